"""Even shares, one sentence of section 9 at a time; numbers in brackets are its steps.

Sets are found by trying all of them. A tree is the list of levels that ``domains.counted`` returns;
nothing in it is changed.

Two things the specification leaves open. Children below the slice level hold no slices, so that a
literal reading of (4) would always take all of them away: here they are not judged. And a domain
without a name, which Kueue does not know, has no share, nor has one below it.
"""

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import combinations
from math import log2

from tests.oracle.domains import Ask, Domain, ordered


@dataclass(frozen=True)
class Shares:
    """What each domain of ``level`` gets, in the order in which they are filled."""

    level: int
    floor: int
    given: tuple[tuple[Domain, int], ...]  # domain, slices
    host: Domain | None


@dataclass(frozen=True)
class Filling:
    """What a largest-first filling needs (2)."""

    count: int
    host: Domain | None  # the last leader's domain
    last: Domain | None  # the last workers' domain


@dataclass(frozen=True)
class Group:
    """Domains of the asked level below one parent, pruned with a floor."""

    floor: int
    domains: list[Domain]
    count: int  # how many of them a filling needs


def even_shares(tree: Sequence[Sequence[Domain]], ask: Ask) -> Shares | None:
    """Return the balanced answer, or None: it is that of sections 5 and 6."""
    group = best_group(tree, ask)
    if group is None:
        return None
    pods, level, candidates = ask.need * ask.size, ask.start, group.domains
    if ask.start < ask.slice_level:  # (7)
        chosen = best_set(by_evenness(candidates), ask.need, pods, ask.guests, ask.use_affinity)
        if chosen is None:
            return None
        level, candidates = level + 1, children_of(chosen)
    chosen = best_set(by_values(candidates), ask.need, pods, ask.guests, ask.use_affinity)
    if chosen is None:
        return None
    given = spread(chosen, ask.need, ask.guests, group.floor, ask.use_affinity)
    if given is None:
        return None
    return Shares(level, group.floor, tuple(given), given[0][0] if ask.guests else None)


# --- The best group (1 to 5) --------------------------------------------------------------------


def best_group(tree: Sequence[Sequence[Domain]], ask: Ask) -> Group | None:
    """Return the group with the highest floor, then with the fewest domains (5)."""
    best: Group | None = None
    for siblings in groups(tree, ask.start):
        group = judged(siblings, ask, best.floor if best else 0)
        if group is None or group.floor == 0:
            continue
        if best is None or (-group.floor, group.count) < (-best.floor, best.count):
            best = group
    return best


def groups(tree: Sequence[Sequence[Domain]], level: int) -> Iterator[list[Domain]]:
    """Yield the domains of each parent with a name; at the coarsest level all together (1)."""
    if level == 0:
        yield list(tree[0])
    else:
        yield from (list(above.children) for above in tree[level - 1] if above.named)


def judged(siblings: Sequence[Domain], ask: Ask, least: int) -> Group | None:
    """Return a group pruned with its floor, when that is at least ``least`` (3, 4)."""
    fresh = pruned(siblings, 0, ask)
    above_slices = ask.start < ask.slice_level
    filled = children_of(fresh) if above_slices else fresh
    filling = greedy(filled, ask.need, ask.guests, ask.use_affinity)
    if filling is None or filling.count == 0:
        return None
    limits = [ask.need // filling.count]
    limits += [filling.host.slices_wl] if filling.host else []
    limits += [filling.last.slices] if filling.last else []
    floors = [min(limits)]
    if filling.host and filling.last and filling.last.slices_wl < floors[0]:
        floors.append(filling.last.slices_wl)
    for floor in floors:
        if floor > 0 and floor >= least:
            left = pruned(siblings, floor, ask)
            still = greedy(left, ask.need, ask.guests, ask.use_affinity)
            if still is not None:
                return Group(floor, left, still.count)
    return None


def greedy(
    domains: Iterable[Domain], need: int, leaders: int, use_affinity: bool
) -> Filling | None:
    """Fill the largest first, and say how many domains that takes (2)."""
    count, host, last = 0, None, None
    rest = ordered(domains, True, True, use_affinity)
    if leaders:
        if not rest or rest[0].leader == 0:
            return None
        host = rest.pop(0)
        count, need = 1, need - host.slices_wl
    for domain in ordered(rest, False, True, use_affinity):
        if need <= 0 or domain.slices == 0:
            break
        last, count, need = domain, count + 1, need - domain.slices
    return None if need > 0 else Filling(count, host, last)


def pruned(siblings: Sequence[Domain], floor: int, ask: Ask) -> list[Domain]:
    """Return copies without what is below the floor: children first, then the sums (4)."""
    copies = deepcopy(list(siblings))
    for domain in copies:
        if ask.start < ask.slice_level:
            for child in domain.children:
                _judge(child, floor, child.named and domain.named)
            _sum(domain, ask.guests)
        _judge(domain, floor, domain.named)
    return copies


def _judge(domain: Domain, floor: int, named: bool) -> None:
    if not named:
        domain.affinity = 0
    if not named or domain.slices < floor:
        domain.pods = domain.slices = 0
    if not named or domain.slices < floor or domain.slices_wl < floor:
        domain.leader = domain.pods_wl = domain.slices_wl = 0


def _sum(domain: Domain, leaders: int) -> None:
    """Count a domain from its children again (3)."""
    children = domain.children
    domain.affinity = sum(child.affinity for child in children)
    domain.leader = max(child.leader for child in children)
    domain.pods = sum(child.pods for child in children)
    domain.slices = sum(child.slices for child in children)
    able = [child for child in children if child.leader >= leaders]
    domain.pods_wl = domain.slices_wl = 0
    if able:
        domain.pods_wl = domain.pods - min(child.pods - child.pods_wl for child in able)
        domain.slices_wl = domain.slices - min(child.slices - child.slices_wl for child in able)


def children_of(domains: Iterable[Domain]) -> list[Domain]:
    """Return the children of all of them."""
    return [child for domain in domains for child in domain.children]


# --- The best set (6, 7) ------------------------------------------------------------------------


def by_values(domains: Iterable[Domain]) -> list[Domain]:
    """Return the domains in the order of their values."""
    return sorted(domains, key=lambda domain: domain.values)


def by_evenness(domains: Iterable[Domain]) -> list[Domain]:
    """Return the domains in the order of the choice at the asked level."""
    return sorted(domains, key=lambda d: (-d.leader, -d.slices_wl, -entropy(d.children), d.values))


def entropy(domains: Iterable[Domain]) -> float:
    """Return how evenly pods lie in these domains, in bits."""
    pods = sorted(domain.pods for domain in domains if domain.pods)
    return -sum(n / sum(pods) * log2(n / sum(pods)) for n in pods)


def best_set(
    domains: Sequence[Domain], need: int, pods: int, leaders: int, use_affinity: bool
) -> list[Domain] | None:
    """Return the set with the least spare pods, of as many domains as a filling needs.

    ``domains`` are in the order in which they are looked at. Of equal sets the one that is complete
    first stays, then the one whose part without its last domain was, and so on; of two parts with
    which one domain completes the set, the one that has the leader already.
    """
    filling = greedy(domains, need, leaders, use_affinity)
    if filling is None:
        return None
    found = []
    for spots in combinations(range(len(domains)), filling.count):
        chosen = [domains[spot] for spot in spots]
        for host in range(filling.count) if leaders else (-1,):
            missing = _missing(chosen, host, pods)
            if missing is not None and missing <= 0:
                path = [(spot, i == host) for i, spot in enumerate(spots)]
                found.append((-missing, path[::-1], spots))
    return [domains[spot] for spot in min(found)[2]] if found else None


def _missing(chosen: Sequence[Domain], host: int, pods: int) -> int | None:
    """Return the pods that a set leaves missing, None when it is no set to be looked at.

    Only the host may be without slices, and what holds everything already is not added to.
    """
    for i, domain in enumerate(chosen):
        if pods <= 0 and i > host:
            return None
        if i == host and domain.leader == 0:
            return None
        if i != host and domain.slices == 0:
            return None
        pods -= domain.pods_wl if i == host else domain.pods
    return pods


# --- The shares (8) -----------------------------------------------------------------------------


def spread(
    chosen: Iterable[Domain], need: int, leaders: int, floor: int, use_affinity: bool
) -> list[tuple[Domain, int]] | None:
    """Return the slices of each domain: the floor, and the extra front to back."""
    domains = ordered(chosen, True, True, use_affinity)
    extra = need - floor * len(domains)
    if extra < 0:
        return None
    given = []
    for i, domain in enumerate(domains):
        room = domain.slices_wl if i < leaders else domain.slices
        if room < floor:
            return None
        more = min(extra, room - floor)
        given.append((domain, floor + more))
        extra -= more
    return None if extra else given
