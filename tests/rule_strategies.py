"""Random problems for the rules that go beyond Kueue's: one podset, the rest of a gang, roles.

What is drawn is neutral data, as in ``strategies``, which turns it into what the product and the
oracle take.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from stowplan.placement.rules import KUEUE, STOWPLAN, Rules
from tests.oracle import asking
from tests.oracle import fit as oracle
from tests.oracle.asking import PACKING_MODES
from tests.oracle.roles import Role
from tests.strategies import (
    Drawing,
    Drawn,
    Wish,
    amounts_of,
    asked_levels,
    drawings,
    leaves_of,
    podset_of,
    request_of,
    wishes,
)


@dataclass(frozen=True)
class Problem:
    """A cluster, a request for it, and the rules to place by."""

    rules: Rules
    drawing: Drawing
    wish: Wish


@st.composite
def problems_of_ours(
    draw: st.DrawFn,
    /,
    max_nodes: int = 12,
    host: bool | None = None,
    ample: bool = False,
    **kinds: Any,
) -> Problem:
    """Draw a request with our added rules, for a cluster whose nodes may lack labels."""
    rules = draw(all_rules())
    # With our rules the host is always a level.
    drawing = draw(drawings(max_nodes, host if rules.all_labels_needed else True, ample))
    if not rules.all_labels_needed or draw(st.integers(0, 3)) == 0:
        drawing = draw(_with_labels_missing(drawing, blank=not rules.all_labels_needed))
    wish = draw(wishes(len(drawing.keys), **kinds))
    return Problem(rules, drawing, draw(ours(wish, len(drawing.keys), rules)))


def all_rules() -> st.SearchStrategy[Rules]:
    """Draw ours mostly, else Kueue's or any mixture of both."""
    mixed = st.builds(
        Rules,
        rest_is_dropped=st.booleans(),
        small_hosts_first=st.booleans(),
        unconstrained_scatters=st.booleans(),
        leader_unnamed=st.booleans(),
    )
    return st.one_of(st.just(STOWPLAN), st.just(STOWPLAN), st.just(KUEUE), mixed)


@st.composite
def _with_labels_missing(draw: st.DrawFn, drawing: Drawing, blank: bool) -> Drawing:
    """Take labels off some nodes; or empty them, which counts as lacking with our rules only."""
    nodes = list(drawing.nodes)
    levels = st.sets(st.integers(0, len(drawing.keys) - 1), max_size=2)
    for at, node in enumerate(nodes):
        if draw(st.integers(0, 3)) == 0:
            lacks = draw(levels)
            above = len(drawing.keys) - drawing.has_host
            emptied = {lv for lv in draw(levels) if lv < above} - lacks if blank else set()
            nodes[at] = replace(node, lacks=tuple(sorted(lacks)), blank=tuple(sorted(emptied)))
    return replace(drawing, nodes=tuple(nodes))


@st.composite
def ours(draw: st.DrawFn, wish: Wish, depth: int, rules: Rules) -> Wish:
    """Add what goes beyond Kueue to a request; most of what is drawn is not refused."""
    if wish.mode == "preferred" and draw(st.booleans()):
        within = draw(st.integers(0, max(wish.level - 1, 0)))
        wish = replace(wish, within=draw(st.sampled_from((within, within, within, wish.level, -1))))
    if wish.slices and wish.leader is None and draw(st.booleans()):
        wish = replace(wish, last_smaller=True)
    if wish.slices and (wish.last_smaller or not rules.rest_is_dropped) and draw(st.integers(0, 7)):
        unit = wish.slices[-1 if wish.last_smaller else 0][1]
        wish = replace(wish, count=wish.count - wish.count % unit)
    if draw(st.integers(0, 2)) == 0:
        level = draw(asked_levels(depth))
        pods, percent = draw(st.integers(1, 12)), draw(st.integers(1, 100))
        share = (level, pods, None) if draw(st.booleans()) else (level, None, percent)
        wish = replace(wish, share=share)
    return wish


def mended(wish: Wish, depth: int, rules: Rules) -> Wish:
    """Return the request with everything mended for which it would be refused."""
    request = request_of(wish, rules)
    while (refusal := asking.refusal_of(request, depth)) is not None:
        match refusal.kind:
            case "level-unknown" if wish.share is not None and wish.share[0] < 0:
                wish = replace(wish, share=None)
            case "level-unknown" | "preferred-not-finer":
                wish = replace(wish, level=max(wish.level, 0), within=None)
            case "share-not-finer":
                wish = replace(wish, share=None)
            case "slices-leave-a-rest":
                unit = wish.slices[min(len(wish.slices) - 1, wish.last_smaller)][1]
                more = wish.slices[0][1] if len(wish.slices) == 1 else unit
                wish = replace(wish, count=wish.count + more - wish.count % more)
            case _:
                wish = replace(wish, slices=(), last_smaller=False)
        request = request_of(wish, rules)
    return wish


@dataclass(frozen=True)
class Partial:
    """A gang of which some pods run; the wish's count is that of all its pods.

    The cluster has what the kept pods use taken off.
    """

    problem: Problem
    kept: tuple[tuple[str, int], ...]  # node, pods
    sane: bool = False  # the kept pods are what is left of an answer

    @property
    def missing(self) -> int:
        return self.problem.wish.count - sum(pods for _, pods in self.kept)


@st.composite
def partials(draw: st.DrawFn, /, **kinds: Any) -> Partial:
    """Draw a gang that has lost pods, has grown, or runs wherever it was bound."""
    problem = draw(problems_of_ours(8, host=True, ample=True, leader=False, most=16, **kinds))
    rules, drawing = problem.rules, problem.drawing
    wish = mended(problem.wish, len(drawing.keys), rules)
    there = [n for n in drawing.nodes if n.usable and drawing.in_tree(n, rules)]
    whole = oracle.place(
        leaves_of(drawing, wish, rules), len(drawing.keys), request_of(wish, rules)
    )
    size = wish.slices[0][1] if wish.slices else 1
    growth = draw(st.sampled_from((0, 0, 0, size, 2 * size, 1)))
    sane = isinstance(whole, oracle.Placed) and draw(st.integers(0, 7)) > 0
    if isinstance(whole, oracle.Placed) and sane:
        kept = {path[-1]: pods for path, pods in whole.workers.items()}
        losing = st.sets(st.sampled_from(sorted(kept) or [""]), min_size=growth == 0, max_size=2)
        lost = draw(losing) if kept else set()
        for name in lost:
            kept[name] -= draw(st.sampled_from((kept[name], kept[name], 1)))
        gone = lost if draw(st.booleans()) else set()
        kept = {name: pods for name, pods in kept.items() if name not in gone}
        nodes = tuple(replace(n, usable=n.usable and n.name not in gone) for n in drawing.nodes)
        drawing = replace(drawing, nodes=nodes)
    else:
        names = st.sampled_from([node.name for node in there] or [""])
        kept = draw(st.dictionaries(names, st.integers(1, 3), max_size=3)) if there else {}
        growth = max(growth, 1)
    wish = replace(wish, count=max(wish.count, sum(kept.values())) + growth)
    wish = mended(wish, len(drawing.keys), rules)
    taken = amounts_of(wish.per_pod)
    nodes = tuple(
        _with_use(node, {name: kept.get(node.name, 0) * amount for name, amount in taken})
        for node in drawing.nodes
    )
    problem = Problem(rules, replace(drawing, nodes=nodes), wish)
    found = tuple(sorted((name, pods) for name, pods in kept.items() if pods))
    return Partial(problem, found, sane)


@dataclass(frozen=True)
class Gang:
    """Podsets that are placed together."""

    rules: Rules
    drawing: Drawing
    wishes: tuple[Wish, ...]


@st.composite
def gangs(draw: st.DrawFn, /, **kinds: Any) -> Gang:
    """Draw 1 to 4 podsets that ask for 1 to 3 different things, some in a named group."""
    kinds = {"leader": False, "most": 16, **kinds}
    first = draw(problems_of_ours(8, host=True, ample=True, **kinds))
    depth = len(first.drawing.keys)
    others = [draw(wishes(depth, **kinds)) for _ in range(draw(st.integers(0, 2)))]
    asked = [first.wish, *(draw(ours(wish, depth, first.rules)) for wish in others)]
    found: list[Wish] = []
    for i, drawn in enumerate(asked):
        wish = mended(replace(drawn, profile=first.wish.profile), depth, first.rules)
        # One of the podsets of a group asks for more than another in every way, or for the same.
        members = [wish] * draw(st.sampled_from((1, 1, 1, 2, 2, 3)))
        counts = [draw(st.sampled_from((1, 1, 2, 3, wish.count))) for _ in members]
        times = [draw(st.integers(1, 2)) for _ in members]
        named = wish.mode in PACKING_MODES and not wish.slices and draw(st.booleans())
        for count, by in zip(counts, times, strict=True):
            per_pod = tuple((name, amount * by) for name, amount in wish.per_pod)
            group = f"group-{i}" if named and len(members) > 1 else None
            least = wish.slices[0][1] if wish.slices and first.rules.rest_is_dropped else 0
            one = replace(wish, count=max(count, least), per_pod=per_pod, group=group)
            found.append(mended(one, depth, first.rules))
    order = draw(st.permutations(range(len(found))))
    return Gang(first.rules, first.drawing, tuple(found[i] for i in order)[:4])


def roles_of(gang: Gang) -> list[Role]:
    """Return the podsets as the oracle reads them."""
    return [
        Role(
            request=request_of(wish, gang.rules),
            leaves=tuple(leaves_of(gang.drawing, wish, gang.rules)),
            asks=podset_of(gang.drawing, wish).request,
            empty={gang.drawing.path(node): dict(node.offers) for node in gang.drawing.nodes},
            group=wish.group,
        )
        for wish in gang.wishes
    ]


def _with_use(node: Drawn, more: Mapping[str, int]) -> Drawn:
    used = dict(node.used)
    for name, amount in more.items():
        used[name] = used.get(name, 0) + amount
    return replace(node, used=tuple(sorted(used.items())))
