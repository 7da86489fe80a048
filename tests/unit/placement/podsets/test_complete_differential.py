"""The rest of a gang: what the product places beside running pods is what the oracle places.

Rules: docs/placement.md, "Completing a gang". Compared is where pods go, or that they do not fit;
of several reasons why not the document does not say which is told.
"""

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from stowplan.placement.podsets.complete import complete
from stowplan.placement.podsets.plan import NoFit
from stowplan.placement.rules import STOWPLAN
from stowplan.placement.shapes import Shapes
from stowplan.topology.levels import HOSTNAME
from tests import strategies
from tests.oracle import completing
from tests.oracle import fit as oracle
from tests.oracle.laws import check_completion
from tests.rule_strategies import Partial, Problem, partials
from tests.strategies import EXAMPLES, Drawing, Drawn, Wish

Answer = oracle.Placed | None


def product(partial: Partial) -> Answer:
    """Return what the product answers, in the oracle's words."""
    problem = partial.problem
    state = strategies.state_of(problem.drawing, problem.rules)
    view = state.view()
    kept = [(view.leaf_of[name], pods) for name, pods in partial.kept]
    podset = strategies.podset_of(problem.drawing, problem.wish)
    profile, rules = problem.wish.profile, problem.rules
    answer = complete(state, Shapes(), podset, kept, partial.missing, profile, rules)
    return None if isinstance(answer, NoFit) else strategies.placed_of(view, answer)


def wanted(partial: Partial) -> Answer:
    """Return what the oracle answers."""
    problem = partial.problem
    leaves = strategies.leaves_of(problem.drawing, problem.wish, problem.rules)
    request = strategies.request_of(problem.wish, problem.rules)
    depth = len(problem.drawing.keys)
    answer = completing.complete(leaves, depth, request, kept_of(partial), partial.missing)
    return answer if isinstance(answer, oracle.Placed) else None


def kept_of(partial: Partial) -> dict[oracle.Path, int]:
    """Return the kept pods by path."""
    drawing = partial.problem.drawing
    path_of = {node.name: drawing.path(node) for node in drawing.nodes}
    return {path_of[name]: pods for name, pods in partial.kept}


def compare(partial: Partial) -> None:
    assume(partial.missing > 0)
    want = wanted(partial)
    event("fits not" if want is None else "placed")
    assert product(partial) == want


@given(partials(slices=False))
@settings(max_examples=EXAMPLES)
def test_missing_pods_without_slices_are_placed_as_the_oracle_places_them(
    partial: Partial,
) -> None:
    compare(partial)


@given(partials(slices=True))
@settings(max_examples=2 * EXAMPLES)
def test_broken_slices_are_mended_as_the_oracle_mends_them(partial: Partial) -> None:
    compare(partial)


# --- Laws ----------------------------------------------------------------------------------------


@given(partials())
@settings(max_examples=2 * EXAMPLES)
def test_what_is_left_of_a_gang_and_what_is_added_obey_the_laws_together(partial: Partial) -> None:
    if not partial.sane or partial.missing <= 0 or partial.problem.rules.rest_is_dropped:
        return
    answer = product(partial)
    event("fits not" if answer is None else "placed")
    if answer is None:
        return
    problem = partial.problem
    leaves = strategies.leaves_of(problem.drawing, problem.wish, problem.rules)
    request = strategies.request_of(problem.wish, problem.rules)
    assert check_completion(leaves, request, kept_of(partial), answer.workers) == []


@given(partials(), st.randoms(use_true_random=False))
@settings(max_examples=EXAMPLES // 2)
def test_the_order_of_nodes_and_of_kept_places_does_not_matter(
    partial: Partial, chance: Random
) -> None:
    assume(partial.missing > 0)
    nodes, kept = list(partial.problem.drawing.nodes), list(partial.kept)
    chance.shuffle(nodes)
    chance.shuffle(kept)
    drawing = replace(partial.problem.drawing, nodes=tuple(nodes))
    shuffled = replace(partial, problem=replace(partial.problem, drawing=drawing), kept=tuple(kept))
    assert product(shuffled) == product(partial)


# --- By hand -------------------------------------------------------------------------------------


#   zone   z1                         z2
#   rack   a           b              c
#   node   n0:4 n1:4   n2:2 n3:4      n4:8 n5:8
DRAWING = Drawing(
    ("zone", "rack", HOSTNAME),
    tuple(
        Drawn(name, values, (("pods", pods),), ())
        for name, values, pods in (
            ("n0", ("z1", "a"), 4),
            ("n1", ("z1", "a"), 4),
            ("n2", ("z1", "b"), 2),
            ("n3", ("z1", "b"), 4),
            ("n4", ("z2", "c"), 8),
            ("n5", ("z2", "c"), 8),
        )
    ),
)


@pytest.mark.parametrize(
    ("kept", "wish", "want"),
    [
        pytest.param(
            {"n0": 2},
            {"mode": "required", "level": 1, "count": 5},
            {"n1": 3},
            id="in the same rack",
        ),
        pytest.param(
            {"n0": 2}, {"mode": "required", "level": 1, "count": 9}, None, id="not in another rack"
        ),
        pytest.param(
            {"n0": 2, "n2": 1},
            {"mode": "required", "level": 1, "count": 4},
            None,
            id="pods in two of the required domains",
        ),
        pytest.param(
            {"n0": 4, "n1": 3},
            {"mode": "preferred", "level": 1, "count": 10},
            {"n3": 3},
            id="the preferred rack is full, the zone has room",
        ),
        pytest.param(
            {"n0": 3, "n2": 1},
            {"mode": "required", "level": 0, "count": 12, "slices": ((1, 4),)},
            {"n0": 1, "n1": 4, "n3": 3},
            id="broken slices are mended first, then whole ones placed",
        ),
        pytest.param(
            {"n0": 1, "n2": 1},
            {"mode": "required", "level": 0, "count": 4, "slices": ((1, 2),)},
            {"n0": 1, "n2": 1},
            id="each broken slice gets what it lacks",
        ),
        pytest.param(
            {"n0": 2},
            {"mode": "required", "level": 0, "count": 6, "share": (1, 3, None)},
            {"n0": 1, "n3": 3},
            id="a share counts the kept pods",
        ),
        pytest.param(
            {"n0": 1, "n2": 1},
            {"mode": "required", "level": 1, "count": 4, "slices": ((1, 2),)},
            None,
            id="pods in two of the required domains, whose slices could be mended",
        ),
        pytest.param({"n2": 2}, {"count": 4}, {"n3": 2}, id="no level: the tightest rack"),
    ],
)
def test_a_rest_by_hand(
    kept: dict[str, int], wish: dict[str, Any], want: dict[str, int] | None
) -> None:
    nodes = tuple(replace(node, used=(("pods", kept.get(node.name, 0)),)) for node in DRAWING.nodes)
    asked = Wish(**{"mode": "none", "level": 0, "per_pod": (), **wish})
    problem = Problem(STOWPLAN, replace(DRAWING, nodes=nodes), asked)
    partial = Partial(problem, tuple(sorted(kept.items())))
    answer = product(partial)
    assert answer == wanted(partial)
    got = None if answer is None else {path[-1]: n for path, n in answer.workers.items()}
    assert got == want


def test_pods_in_a_nameless_domain_are_no_broken_slice() -> None:
    #   zone z: n1 without a rack, rack a with n2
    nodes = tuple(
        Drawn(name, ("z", "a"), (("pods", 4),), (("pods", used),), lacks=lacks)
        for name, used, lacks in (("n1", 1, (1,)), ("n2", 0, ()))
    )
    wish = Wish("required", 0, 4, (), slices=((1, 2),), last_smaller=True)
    problem = Problem(STOWPLAN, Drawing(("zone", "rack", HOSTNAME), nodes), wish)
    partial = Partial(problem, (("n1", 1),))
    answer = product(partial)
    assert answer == wanted(partial)
    assert answer is not None
    assert answer.workers == {("z", "a", "n2"): 3}
