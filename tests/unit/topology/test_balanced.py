"""Even shares: the kernels and the slow oracle agree, and every answer is even, whole and in place.

Counts of the trees here are the oracle's own, so that a difference is one of section 9.
"""

from dataclasses import dataclass, replace
from random import Random

import numpy as np
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from stowplan.topology.assign import Workspace, descend
from stowplan.topology.balanced import (
    Shares,
    best_set,
    by_evenness,
    even_shares,
    greedy,
    spread,
)
from stowplan.topology.choose import FOUND, Order, Search, Style
from stowplan.topology.fit import Counts, Slicing
from stowplan.topology.levels import Levels
from stowplan.topology.tree import DomainTree, Index, Path
from tests.oracle import balanced as oracle
from tests.oracle import domains as counting
from tests.oracle.asking import Ask, Leaf, Placed, Request, ask_of
from tests.oracle.domains import Domain
from tests.oracle.laws import check_places
from tests.strategies import EXAMPLES

small = st.integers(0, 4)
flags = st.booleans()


# --- Domains without a tree ----------------------------------------------------------------------


@st.composite
def fillings(draw: st.DrawFn) -> tuple[list[Domain], int, int]:
    """Draw domains in the order of their values, and how many slices and leaders to place there."""
    size = draw(st.sampled_from((1, 1, 2, 3)))
    rows = draw(st.lists(st.tuples(small, st.integers(0, 2), flags, flags), max_size=7))
    domains = [
        Domain(
            values=(f"{i}",),
            affinity=int(liked),
            leader=int(leads),
            pods=left + loss,
            pods_wl=left,
            slices=(left + loss) // size,
            slices_wl=left // size,
        )
        for i, (left, loss, leads, liked) in enumerate(rows)
    ]
    slices = sum(domain.slices for domain in domains)
    return domains, draw(st.integers(1, max(slices, 1))), draw(st.integers(0, 1))


def counts_of(domains: list[Domain]) -> Counts:
    columns = ([getattr(domain, name) for domain in domains] for name in Counts._fields)
    return Counts(*(np.array(column, dtype=np.int64) for column in columns))


def numbers(size: int, chance: Random) -> Index:
    found = list(range(size))
    chance.shuffle(found)
    return np.array(found, dtype=np.int32)


def order_of(use_affinity: bool) -> Order:
    return Order(packing=True, use_affinity=use_affinity)


chances = st.randoms(use_true_random=False)


@given(fillings(), flags, chances)
@settings(max_examples=2 * EXAMPLES)
def test_the_largest_first_filling_is_that_of_the_oracle_in_whichever_order_domains_come(
    filling: tuple[list[Domain], int, int], affinity: bool, chance: Random
) -> None:
    found, need, leads = filling
    pool = numbers(len(found), chance)
    got = greedy(pool, pool.size, need, leads, order_of(affinity), counts_of(found))
    want = oracle.greedy(found, need, leads, affinity)
    if want is None:
        assert got[0] == 0
    else:
        at = [-1 if d is None else found.index(d) for d in (want.host, want.last)]
        assert list(got) == [want.count, *at]


@given(fillings(), st.integers(1, 3), flags, chances)
@settings(max_examples=3 * EXAMPLES)
def test_the_best_set_is_the_one_that_trying_all_sets_finds(
    filling: tuple[list[Domain], int, int], size: int, affinity: bool, chance: Random
) -> None:
    found, need, leads = filling
    candidates = numbers(len(found), chance)
    got = best_set(candidates, need, leads, size, order_of(affinity), counts_of(found))
    visited = [found[d] for d in candidates]
    want = oracle.best_set(visited, need, need * size, leads, affinity)
    event("none" if want is None else f"set of {min(len(want), 3)}")
    assert (None if got is None else [found[d] for d in got]) == want


@given(fillings(), chances)
@settings(max_examples=EXAMPLES)
def test_a_search_that_remembers_little_still_finds_only_sets_that_hold_everything(
    filling: tuple[list[Domain], int, int], chance: Random
) -> None:
    found, need, leads = filling
    counts, candidates = counts_of(found), numbers(len(found), chance)
    got = best_set(candidates, need, leads, 1, order_of(False), counts, most_states=2)
    assume(got is not None)
    assert got is not None
    fewest = oracle.greedy(found, need, leads, False)
    assert fewest is not None
    assert got.size == np.unique(got).size == fewest.count
    loss = min((counts.pods - counts.pods_wl)[d] for d in got if counts.leader[d]) if leads else 0
    assert counts.pods[got].sum() - loss >= need


def test_many_domains_of_many_sizes_are_searched_in_time() -> None:
    """Every state meets every kind of domain once, however many domains there are of a kind."""
    chance = Random(7)
    pods = np.array([chance.randint(0, 8) for _ in range(400)], dtype=np.int64)
    none = np.zeros_like(pods)
    counts = Counts(pods, pods, pods, pods, none, none)
    candidates = np.arange(pods.size, dtype=np.int32)
    got = best_set(candidates, 1000, 0, 1, order_of(False), counts)
    assert got is not None
    assert counts.pods[got].sum() == 1000
    assert got.size == 1 + np.searchsorted(np.cumsum(np.sort(pods)[::-1]), 1000)


@given(fillings(), st.integers(0, 4), flags, chances)
@settings(max_examples=2 * EXAMPLES)
def test_shares_are_those_of_the_oracle_in_whichever_order_domains_come(
    filling: tuple[list[Domain], int, int], floor: int, affinity: bool, chance: Random
) -> None:
    found, need, leads = filling
    pool = numbers(len(found), chance)
    given = spread(pool, need, leads, floor, order_of(affinity), counts_of(found))
    want = oracle.spread(found, need, leads, floor, affinity)
    got = None if given is None else [(found[d], n) for d, n in zip(*given, strict=True)]
    assert got == want


def test_of_equal_sets_the_one_that_had_its_leader_before_the_last_domain_stays() -> None:
    """Domain 1 as host beside 2, or 2 as host beside 0: both spare nothing."""
    leader, pods, left = (0, 1, 1), (5, 4, 4), (0, 3, 2)
    columns = (pods, pods, left, left, leader, (0, 0, 0))
    counts = Counts(*(np.array(column, dtype=np.int64) for column in columns))
    got = best_set(np.arange(3, dtype=np.int32), 7, 1, 1, order_of(False), counts)
    assert got is not None
    assert got.tolist() == [1, 2]


def test_domains_that_differ_only_beside_the_leader_are_not_of_one_kind() -> None:
    pods, left = (3, 3), (0, 2)
    columns = (pods, pods, left, left, (1, 1), (0, 0))
    counts = Counts(*(np.array(column, dtype=np.int64) for column in columns))
    got = best_set(np.arange(2, dtype=np.int32), 2, 1, 1, order_of(False), counts)
    assert got is not None
    assert got.tolist() == [1]


# --- Trees ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """Leaves and a preferred request for them."""

    leaves: tuple[Leaf, ...]
    request: Request

    @property
    def depth(self) -> int:
        return len(self.leaves[0].values)

    @property
    def ask(self) -> Ask:
        return ask_of(self.request, self.depth)

    @property
    def domains(self) -> list[list[Domain]]:
        leaves = counting.merged_leaves(self.leaves)
        return counting.counted(leaves, self.depth, self.request, self.ask)

    @property
    def tree(self) -> DomainTree:
        levels = Levels(tuple(f"level-{i}" for i in range(self.depth)))
        return DomainTree.of(levels, [(leaf.values, leaf.values[-1]) for leaf in self.leaves])

    @property
    def counts(self) -> Counts:
        return counts_of([domain for level in self.domains for domain in level])

    @property
    def slicing(self) -> Slicing:
        ask = self.ask
        unit_at = np.array([ask.inner.get(level, 1) for level in range(self.depth)], dtype=np.int64)
        return Slicing(ask.slice_level, ask.size, unit_at, ask.rest)

    @property
    def search(self) -> Search:
        ask = self.ask
        low, high = self.tree.range_of(ask.start)
        return Search(ask.start, low, high, 0, False, ask.need, ask.guests)


@st.composite
def problems(draw: st.DrawFn, /, nameless: bool = True, led: bool | None = None) -> Problem:
    """Draw small trees, with leaves that mostly have room, and a count that they may well hold."""
    depth = draw(st.integers(1, 4))
    above = st.tuples(*[st.sampled_from(("a", "ab", "b"))] * (depth - 1))
    paths = draw(st.lists(above, min_size=1, max_size=8))
    leaves = []
    for i, path in enumerate(paths):
        known = draw(st.integers(1, 9)) if nameless and depth > 1 else depth
        full = (*path[:known], *("" for _ in path[known:]), f"n{i}")
        room = {"pods": draw(st.sampled_from((0, 1, 2, 3, 4, 4, 6, 8))), "gpu": draw(small)}
        leaves.append(Leaf(full, room, affinity=draw(st.sampled_from((0, 0, 5)))))
    level = draw(st.integers(0, depth - 1))
    slices = draw(_layers(level, depth)) if draw(flags) else ()
    leads = draw(flags) if led is None else led
    size = slices[0][1] if slices else 1
    count = draw(st.integers(size, max(size, sum(leaf.room["pods"] for leaf in leaves))))
    rests = bool(slices) and not leads and draw(flags)
    inner = slices[-1][1] if rests and slices else size
    request = Request(
        mode="preferred",
        level=level,
        count=count - count % inner,
        per_pod={"pods": 1},
        slices=slices,
        leader_per_pod={"gpu": draw(small), "pods": draw(st.integers(1, 2))} if leads else None,
        use_affinity=draw(st.integers(0, 3)) == 0,
        last_smaller=rests,
        rest_is_dropped=not rests,
    )
    return Problem(tuple(leaves), request)


@st.composite
def _layers(draw: st.DrawFn, level: int, depth: int) -> tuple[tuple[int, int], ...]:
    outer, size = draw(st.integers(level, depth - 1)), draw(st.sampled_from((1, 2, 2, 4)))
    layers = [(outer, size)]
    if outer + 1 < depth and draw(flags):
        layers.append((draw(st.integers(outer + 1, depth - 1)), size if size < 4 else 2))
    return tuple(layers)


def product(problem: Problem, counts: Counts | None = None) -> Shares | None:
    counts = problem.counts if counts is None else counts
    affinity = problem.request.use_affinity
    return even_shares(problem.tree.arrays, problem.search, problem.slicing, affinity, counts)


def paths_of(problem: Problem, shares: Shares | None) -> tuple[object, ...] | None:
    """Return shares by the paths of domains."""
    if shares is None:
        return None
    paths = problem.tree.paths
    given = tuple(
        (paths[d], n) for d, n in zip(shares.domains.tolist(), shares.slices.tolist(), strict=True)
    )
    return shares.level, shares.floor, given, None if shares.host < 0 else paths[shares.host]


def wanted(problem: Problem) -> tuple[object, ...] | None:
    shares = oracle.even_shares(problem.domains, problem.ask)
    if shares is None:
        return None
    given = tuple((domain.values, n) for domain, n in shares.given)
    return shares.level, shares.floor, given, shares.host and shares.host.values


@given(problems())
@settings(max_examples=5 * EXAMPLES)
def test_even_shares_are_those_of_the_oracle(problem: Problem) -> None:
    want = wanted(problem)
    event("none" if want is None else "shares")
    assert paths_of(problem, product(problem)) == want


@given(problems())
@settings(max_examples=3 * EXAMPLES)
def test_an_answer_is_even_whole_and_below_one_parent(problem: Problem) -> None:
    shares = product(problem)
    assume(shares is not None)
    assert shares is not None
    tree, counts, ask = problem.tree, problem.counts, problem.ask
    domains = shares.domains.tolist()
    assert shares.floor >= 1
    assert shares.slices.min() >= shares.floor
    assert shares.slices.sum() == ask.need
    assert len({*domains}) == len(domains)
    assert {tree.level_of(d) for d in domains} == {shares.level}
    assert len({tree.paths[d][: ask.start] for d in domains}) == 1
    assert all("" not in tree.paths[d][:-1] and tree.paths[d][-1] for d in domains)
    assert (shares.slices <= counts.slices[domains]).all()
    if ask.guests:
        assert counts.leader[shares.host] == 1
        assert shares.slices[domains.index(shares.host)] <= counts.slices_wl[shares.host]
    else:
        assert shares.host == -1


@given(problems(), st.booleans())
@settings(max_examples=3 * EXAMPLES)
def test_the_descent_goes_on_from_the_counts_as_they_were(problem: Problem, roomy: bool) -> None:
    counts = problem.counts
    shares = product(problem, counts)
    assert all((a == b).all() for a, b in zip(counts, problem.counts, strict=True))
    assume(shares is not None)
    assert shares is not None
    placed = descended(problem, shares, counts, roomy)
    assert check_places(problem.leaves, problem.request, placed) == []
    ask, tree = problem.ask, problem.tree
    for d, slices in zip(shares.domains.tolist(), shares.slices.tolist(), strict=True):
        path = tree.paths[d]
        pods = sum(n for at, n in placed.workers.items() if at[: len(path)] == path)
        assert pods == slices * ask.size + ask.rest * (d == shares.host)
        if ask.leaders and d == shares.host:
            assert placed.leader is not None
            assert placed.leader[: len(path)] == path


def descended(problem: Problem, shares: Shares, counts: Counts, roomy: bool) -> Placed:
    """Go down from the shares: each domain hands out to its own children only."""
    tree, work = problem.tree, Workspace.of(problem.tree)
    used = shares.domains.size
    work.chosen[:used] = shares.domains
    work.given[shares.domains] = shares.slices
    work.report[0] = FOUND
    apart = problem.slicing._replace(share_level=shares.level)
    style = Style(problem.depth, problem.request.use_affinity, roomy)
    leaves = descend(
        tree.arrays, shares.level, used, shares.host, problem.search, apart, style, counts, work
    )
    assert work.report[0] == FOUND
    pairs = work.result[1 : 1 + 2 * leaves].tolist()
    places = zip(pairs[::2], pairs[1::2], strict=True)
    host = int(work.report[5])
    return Placed(
        workers={tree.paths[tree.first_leaf + leaf]: pods for leaf, pods in places},
        leader=tree.paths[host] if problem.ask.leaders else None,
    )


@given(problems(), chances)
@settings(max_examples=EXAMPLES)
def test_the_order_in_which_leaves_come_does_not_matter(problem: Problem, chance: Random) -> None:
    leaves = list(problem.leaves)
    chance.shuffle(leaves)
    shuffled = replace(problem, leaves=tuple(leaves))
    assert paths_of(shuffled, product(shuffled)) == paths_of(problem, product(problem))


@given(problems(nameless=False, led=False))
@settings(max_examples=EXAMPLES)
def test_plain_counts_give_the_shares_that_full_ones_give(problem: Problem) -> None:
    """The counts of a plain request have no leader and no affinity at all."""
    request = replace(problem.request, slices=(), use_affinity=False, last_smaller=False)
    problem = replace(problem, request=request)
    plain = Counts.plain(problem.counts.pods)
    assert paths_of(problem, product(problem, plain)) == paths_of(problem, product(problem))


@given(problems())
@settings(max_examples=EXAMPLES)
def test_siblings_are_visited_in_the_order_of_the_oracle(problem: Problem) -> None:
    assume(problem.depth > 1)
    low, high = problem.tree.range_of(0)
    counts = problem.counts
    got = by_evenness(problem.tree.arrays, low, high, counts)
    want = oracle.by_evenness(problem.domains[0])
    assert [problem.tree.paths[d] for d in got] == [domain.values for domain in want]


# --- By hand -------------------------------------------------------------------------------------


def racks_of(rooms: dict[str, int], count: int, level: int = 0, **kinds: object) -> Problem:
    """Return a preferred request for hosts that are named by their path: ``b/r/h``."""
    leaves = tuple(Leaf(_path(name), {"pods": pods}) for name, pods in rooms.items())
    request = Request(mode="preferred", level=level, count=count, per_pod={"pods": 1})
    return Problem(leaves, replace(request, **kinds))  # type: ignore[arg-type]


def _path(name: str) -> Path:
    return tuple(name.split("/"))


#   rack   r1             r2
#   host   a (6)  b (6)   c (6)  d (2)
def test_shares_are_even_over_hosts_of_the_fewest_racks() -> None:
    problem = racks_of({"r1/a": 6, "r1/b": 6, "r2/c": 6, "r2/d": 2}, count=8)
    assert paths_of(problem, product(problem)) == (
        1,
        4,
        ((("r1", "a"), 4), (("r1", "b"), 4)),
        None,
    )


def test_of_equal_floors_the_fewest_domains_of_the_asked_level_decide() -> None:
    problem = racks_of({"a/r1/x": 1, "a/r2/y": 1, "b/r3/z": 1, "b/r3/w": 1}, count=2, level=1)
    assert paths_of(problem, product(problem)) == (
        2,
        1,
        ((("b", "r3", "w"), 1), (("b", "r3", "z"), 1)),
        None,
    )


def test_of_equal_sets_of_hosts_the_one_first_by_values_stays() -> None:
    """Not the one first in the larger rack, although that rack was looked at first."""
    problem = racks_of({"r1/a": 3, "r1/b": 2, "r2/c": 3, "r2/d": 2, "r2/e": 2}, count=8)
    assert paths_of(problem, product(problem)) == (
        1,
        2,
        ((("r1", "a"), 3), (("r2", "c"), 3), (("r1", "b"), 2)),
        None,
    )


#   block         b1               b2
#   rack          h (5)   i (4)    j (8)   k (6)      workers that fit
#   with leader     5       -        5       1
def test_a_second_floor_leaves_room_for_the_leader_in_the_last_domain() -> None:
    """With floor 5 rack i is lost, and the leader goes to j, where it costs 3: one too few fit."""
    leaves = (
        Leaf(("b1", "h"), {"pods": 5, "cpu": 99}),
        Leaf(("b1", "i"), {"pods": 4, "cpu": 49}),
        Leaf(("b2", "j"), {"pods": 8, "cpu": 55}),
        Leaf(("b2", "k"), {"pods": 6, "cpu": 51}),
    )
    worker, leader = {"pods": 1, "cpu": 1}, {"cpu": 50}
    request = Request("preferred", 0, 19, worker, leader_per_pod=leader)
    problem = Problem(leaves, request)
    assert paths_of(problem, product(problem)) == (
        1,
        1,
        ((("b1", "h"), 5), (("b2", "j"), 8), (("b2", "k"), 6)),
        ("b1", "h"),
    )


def test_what_does_not_fit_below_one_parent_has_no_balanced_answer() -> None:
    problem = racks_of({"b1/r1/a": 4, "b2/r2/b": 4}, count=6, level=1)
    assert product(problem) is None
    assert product(replace(problem, request=replace(problem.request, level=0))) is not None


def test_a_podset_without_slices_to_place_has_no_balanced_answer() -> None:
    problem = racks_of({"r1/a": 4, "r1/b": 4}, count=3, slices=((1, 4),))
    assert product(problem) is None


def test_an_asked_level_that_holds_the_slices_has_even_shares_itself() -> None:
    """Its hosts hold no slices: they are not judged by the floor, and the racks keep their pods."""
    rooms = {"b1/r1/a": 3, "b1/r1/b": 3, "b1/r2/c": 5, "b1/r2/d": 1, "b1/r3/e": 2}
    problem = racks_of(rooms, count=8, level=1, slices=((1, 2),))
    assert paths_of(problem, product(problem)) == (
        1,
        2,
        ((("b1", "r1"), 2), (("b1", "r2"), 2)),
        None,
    )


#   rack   ""             r2
#   host   a (4)  b (4)   c (2)  d (2)
@pytest.mark.parametrize("level", [0, 1])
def test_hosts_whose_rack_nobody_knows_have_no_share(level: int) -> None:
    problem = racks_of({"x//a": 4, "x//b": 4, "x/r2/c": 2, "x/r2/d": 2}, count=4, level=1 + level)
    shares = product(problem)
    assert shares is not None
    tree = problem.tree
    assert {tree.paths[d][:2] for d in shares.domains} == {("x", "r2")}


def test_a_limit_per_rack_leaves_no_balanced_answer_over_their_hosts() -> None:
    """Hosts of several racks would be filled as if the limit were none."""
    problem = racks_of({"r1/a": 4, "r1/b": 4, "r2/c": 4}, count=6)
    limit = np.array([3, 3], dtype=np.int64)
    tree, counts = problem.tree.arrays, problem.counts
    limited = problem.slicing._replace(share_level=0, limit=limit)
    assert even_shares(tree, problem.search, problem.slicing, False, counts) is not None
    assert even_shares(tree, problem.search, limited, False, counts) is None


#   rack   r1                  r2
#   host   (3, 5, 7, 11, 13)   (13, 7, 3, 11, 5)
def test_children_in_another_order_are_as_even() -> None:
    """Sums of the same parts in another order may differ in their last bit."""
    rooms = {f"r1/a{i}": pods for i, pods in enumerate((3, 5, 7, 11, 13))}
    rooms |= {f"r2/b{i}": pods for i, pods in enumerate((13, 7, 3, 11, 5))}
    problem = racks_of(rooms, count=1)
    assert by_evenness(problem.tree.arrays, 0, 2, problem.counts).tolist() == [0, 1]
