"""Podsets with their own levels: the product places a gang as the oracle does.

Rules: docs/placement.md, "Roles of one gang". Left out, since no document settles it:

- which of several collected domains hosts a leader, or the smaller slice, and so what is left for
  the others.
"""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from stowplan.placement.podsets.plan import NoFit
from stowplan.placement.podsets.roles import place_roles
from stowplan.placement.rules import KUEUE, STOWPLAN
from stowplan.placement.shapes import Shapes
from stowplan.topology.levels import HOSTNAME
from tests import strategies
from tests.oracle import fit as oracle
from tests.oracle import roles
from tests.oracle.asking import required_level
from tests.rule_strategies import Gang, gangs, roles_of
from tests.strategies import EXAMPLES, Drawing, Drawn, Wish

Answer = list[oracle.Placed] | None


def product(gang: Gang) -> Answer:
    """Return what the product answers, in the oracle's words."""
    state = strategies.state_of(gang.drawing, gang.rules)
    podsets = [strategies.podset_of(gang.drawing, wish) for wish in gang.wishes]
    answer = place_roles(state, Shapes(), podsets, gang.wishes[0].profile, gang.rules)
    if isinstance(answer, NoFit):
        return None
    placed = [strategies.placed_of(state.view(), one) for one in answer]
    # The workers' answer names the leader too, which has an answer of its own.
    return [oracle.Placed(one.workers, None) for one in placed]


def wanted(gang: Gang) -> Answer:
    """Return what the oracle answers."""
    return roles.place_roles(roles_of(gang), len(gang.drawing.keys))


def is_open(gang: Gang, *answers: Answer) -> bool:
    """Whether no document settles the answer; see the module."""
    for group in roles.grouped(roles_of(gang)):
        if any(may_be_collected(unit, answer) for unit in group.units for answer in answers):
            return True
    return False


def may_be_collected(unit: roles.Unit, answer: Answer) -> bool:
    """Whether a podset with a guest lies in several domains, or might do so on the way."""
    request = unit.request
    smaller = request.last_smaller and not request.rest_is_dropped and bool(request.slices)
    rest = request.count % request.slices[0][1] if smaller else 0
    guests = unit.leader_index is not None or rest
    if not guests or required_level(request) is not None:
        return False
    indexes = [unit.index, *([] if unit.leader_index is None else [unit.leader_index])]
    return answer is None or len({p[0] for i in indexes for p in answer[i].workers}) > 1


def compare(gang: Gang) -> None:
    want, got = wanted(gang), product(gang)
    assume(not is_open(gang, want, got))
    event("fits not" if want is None else "placed")
    assert got == want


@given(gangs(slices=False))
@settings(max_examples=EXAMPLES)
def test_roles_without_slices_are_placed_as_the_oracle_places_them(gang: Gang) -> None:
    compare(gang)


@given(gangs())
@settings(max_examples=2 * EXAMPLES)
def test_a_gang_of_roles_is_placed_as_the_oracle_places_it(gang: Gang) -> None:
    compare(gang)


# --- Laws ----------------------------------------------------------------------------------------


@given(gangs())
@settings(max_examples=EXAMPLES)
def test_no_gang_breaks_a_law(gang: Gang) -> None:
    answer = product(gang)
    assume(answer is not None)
    assert answer is not None
    asked = roles_of(gang)
    assert roles.check_gang(asked, len(gang.drawing.keys), answer) == []


@given(gangs(), st.randoms(use_true_random=False))
@settings(max_examples=EXAMPLES // 2)
def test_the_order_in_which_nodes_come_does_not_matter(gang: Gang, chance: Random) -> None:
    nodes = list(gang.drawing.nodes)
    chance.shuffle(nodes)
    shuffled = replace(gang, drawing=replace(gang.drawing, nodes=tuple(nodes)))
    assert product(shuffled) == product(gang)


@given(gangs())
@settings(max_examples=EXAMPLES // 2)
def test_asking_leaves_the_state_as_it_was(gang: Gang) -> None:
    state, shapes = strategies.state_of(gang.drawing, gang.rules), Shapes()
    podsets = [strategies.podset_of(gang.drawing, wish) for wish in gang.wishes]
    profile = gang.wishes[0].profile
    free = state.view().leaves.free.copy()
    first = place_roles(state, shapes, podsets, profile, gang.rules)
    assert (state.view().leaves.free == free).all()
    assert place_roles(state, shapes, podsets, profile, gang.rules) == first


# --- By hand -------------------------------------------------------------------------------------


#   zone   z1                        z2
#   rack   a:4 4       b:4 2         c:4 4      d:4 4
DRAWING = Drawing(
    ("zone", "rack", HOSTNAME),
    tuple(
        Drawn(name, values, (("gpu", gpus), ("pods", 9)), ())
        for name, values, gpus in (
            ("n0", ("z1", "a"), 4),
            ("n1", ("z1", "a"), 4),
            ("n2", ("z1", "b"), 4),
            ("n3", ("z1", "b"), 2),
            ("n4", ("z2", "c"), 4),
            ("n5", ("z2", "c"), 4),
            ("n6", ("z2", "d"), 4),
            ("n7", ("z2", "d"), 4),
        )
    ),
)


def asked(mode: str, level: int, count: int, gpus: int = 1, **more: object) -> Wish:
    return Wish(mode, level, count, (("gpu", gpus),), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wishes", "want"),
    [
        pytest.param(
            (asked("required", 1, 6), asked("required", 2, 2)),
            [{"n0": 2, "n1": 4}, {"n0": 2}],
            id="a rack that holds each alone but not both is given up",
        ),
        pytest.param(
            (asked("required", 1, 8), asked("required", 1, 7)),
            None,
            id="podsets that ask for the same share one domain",
        ),
        pytest.param(
            (asked("required", 0, 8), asked("required", 1, 8)),
            [{"n6": 4, "n7": 4}, {"n4": 4, "n5": 4}],
            id="the finer level chooses first, in the zone that holds both",
        ),
        pytest.param(
            (asked("required", 1, 9), asked("required", 2, 1)), None, id="no rack is large enough"
        ),
    ],
)
def test_a_gang_by_hand(wishes: tuple[Wish, ...], want: list[dict[str, int]] | None) -> None:
    gang = Gang(STOWPLAN, DRAWING, wishes)
    answer = product(gang)
    assert answer == wanted(gang)
    if want is None:
        assert answer is None
    else:
        assert answer is not None
        assert [{path[-1]: n for path, n in one.workers.items()} for one in answer] == want


def test_by_kueues_rules_a_rest_is_dropped_inside_a_domain_finer_than_the_slices_too() -> None:
    wishes = (asked("required", 2, 1), asked("required", 0, 3, slices=((0, 2),)))
    gang = Gang(KUEUE, DRAWING, wishes)
    answer = product(gang)
    assert answer is not None
    assert [sum(one.workers.values()) for one in answer] == [1, 2]
    assert answer == wanted(gang)


def test_of_one_group_the_pod_that_may_use_fewest_nodes_goes_first() -> None:
    nodes = tuple(
        Drawn(name, ("a",), (("pods", 3),), (), tainted=tainted)
        for name, tainted in (("n1", False), ("n2", True))
    )
    anywhere = Wish("unconstrained", 0, 1, (), tolerates=True)
    gang = Gang(
        STOWPLAN,
        Drawing(("rack", HOSTNAME), nodes),
        (anywhere, replace(anywhere, count=3, tolerates=False)),
    )
    answer = product(gang)
    assert answer == wanted(gang)
    assert answer is not None
    assert [one.workers for one in answer] == [{("a", "n2"): 1}, {("a", "n1"): 3}]


def test_what_a_group_prefers_it_still_prefers_in_a_coarser_domain() -> None:
    #   zone z: rack r with n1, and n2 without a rack
    nodes = tuple(
        Drawn(name, ("z", "r"), (("pods", 3),), (), lacks=lacks)
        for name, lacks in (("n1", ()), ("n2", (1,)))
    )
    one = Wish("preferred", 1, 1, (), share=(1, None, 1))
    drawing = Drawing(("zone", "rack", HOSTNAME), nodes)
    gang = Gang(STOWPLAN, drawing, (one, replace(one, count=2)))
    answer = product(gang)
    assert answer == wanted(gang)
    assert answer is not None
    # The two may not share the rack, so the group gets the zone; the single pod takes the rack.
    assert [{path[-1]: n for path, n in a.workers.items()} for a in answer] == [
        {"n1": 1},
        {"n1": 1, "n2": 1},
    ]


def test_a_domain_inside_a_slice_is_filled_as_without_the_slice() -> None:
    #   zone z: rack r with n1 and n2
    nodes = tuple(Drawn(n, ("z", "r"), (("pods", 3),), ()) for n in ("n1", "n2"))
    wishes = (Wish("required", 1, 1, ()), Wish("required", 0, 4, (), slices=((0, 4),)))
    gang = Gang(KUEUE, Drawing(("zone", "rack", HOSTNAME), nodes), wishes)
    answer = product(gang)
    assert answer == wanted(gang)
    assert answer is not None
    # By Kueue's rules alone the slice would begin with the host that has less room.
    assert [{path[-1]: n for path, n in a.workers.items()} for a in answer] == [
        {"n1": 1},
        {"n1": 1, "n2": 3},
    ]


def test_a_region_in_a_nameless_domain_holds_no_slice_of_that_domains_level() -> None:
    #   zone z: n1 without a block, block b with n2, which has more room
    nodes = tuple(
        Drawn(name, ("z", "b"), (("pods", pods),), (), lacks=lacks)
        for name, pods, lacks in (("n1", 3, (1,)), ("n2", 4, ()))
    )
    wishes = (Wish("required", 0, 1, (), slices=((1, 1),)), Wish("required", 2, 1, ()))
    gang = Gang(STOWPLAN, Drawing(("zone", "block", HOSTNAME), nodes), wishes)
    answer = product(gang)
    assert answer == wanted(gang)
    assert answer is not None
    assert [one.workers for one in answer] == [{("z", "b", "n2"): 1}] * 2
