"""Laws that every answer obeys (20), ours among them; none of them names an algorithm.

Each function returns the laws that an answer breaks, as sentences. ``check_laws`` judges one podset
that was placed at once, ``check_completion`` the pods that were added to some that run already, and
``roles.check_gang`` podsets that were placed together.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tests.oracle.asking import Ask, Leaf, Path, Placed, Request, ask_of, refusal_of, required_level
from tests.oracle.domains import NAMELESS, counted, holds, merged_leaves


def check_laws(leaves: Sequence[Leaf], request: Request, placed: Placed) -> list[str]:
    """Return the laws that this answer breaks, as sentences; none of them names an algorithm."""
    if request.count == 0:
        return [] if placed == Placed({}, None) else ["a podset without pods has no assignment"]
    merged = merged_leaves(leaves)
    level_count = len(merged[0].values) if merged else 0
    if (refusal := refusal_of(request, level_count)) is not None:
        return [f"a request that is refused ({refusal.kind}) has no answer"]
    ask = ask_of(request, level_count)
    return [
        *check_places(leaves, request, placed),
        *_broken_levels(merged, level_count, request, placed, ask),
        *_broken_packing(merged, level_count, request, placed, ask),
    ]


def check_places(leaves: Sequence[Leaf], request: Request, placed: Placed) -> list[str]:
    """Return the laws that these places break, wherever else there might have been room."""
    merged = merged_leaves(leaves)
    level_count = len(merged[0].values) if merged else 0
    ask = ask_of(request, level_count)
    return [
        *_broken_sums(request, placed, ask),
        *_broken_slices(request, placed.workers, ask.rest),
        *_broken_rooms(merged, request, placed),
        *_broken_shares(request, placed.workers),
        *_broken_required(request, placed),
    ]


def check_completion(
    leaves: Sequence[Leaf], request: Request, kept: Mapping[Path, int], new: Mapping[Path, int]
) -> list[str]:
    """Return the laws that new pods break beside kept ones; ``request.count`` is that of all pods.

    ``leaves`` have the room that is left beside the kept pods. The kept pods alone must obey the
    laws, but for slices that are not whole.
    """
    if not leaves:
        return ["pods go only to leaves that exist"] if new else []
    level_count = len(leaves[0].values)
    missing = request.count - sum(kept.values())
    if (got := sum(new.values())) != missing:
        return [f"exactly the missing pods get a place: {missing}, got {got}"]
    together = {path: kept.get(path, 0) + new.get(path, 0) for path in {*kept, *new}}
    rest = ask_of(request, level_count).rest
    return [
        *_broken_slices(request, together, rest),
        *_broken_rooms(merged_leaves(leaves), request, Placed(dict(new), None)),
        *_broken_shares(replace(request, kept={}), together),
        *_broken_required(request, Placed(together, None)),
    ]


def _broken_sums(request: Request, placed: Placed, ask: Ask) -> Iterable[str]:
    if (got := sum(placed.workers.values())) != (want := ask.need * ask.size + ask.rest):
        dropped = " rounded down to whole slices" if request.rest_is_dropped else ""
        yield f"the sum is the count{dropped}: {want}, got {got}"
    if any(pods <= 0 for pods in placed.workers.values()):
        yield "every leaf in an answer holds at least one pod"
    if (placed.leader is None) != (request.leader_per_pod is None):
        yield "a leader is placed if and only if one is asked for"


def _broken_slices(request: Request, workers: Mapping[Path, int], rest: int) -> Iterable[str]:
    """Slices are whole, but for one of ``rest`` pods in the outermost layer."""
    for layer, (level, size) in enumerate(request.slices):
        broken = {path: n for path, n in _held(workers, level).items() if n % size}
        if layer == 0 and rest:
            if len(broken) > 1:
                yield f"at most one slice is smaller: {sorted(broken)} hold broken ones"
            if any(pods % size != rest for pods in broken.values()):
                yield f"the smaller slice has {rest} pods: {broken}"
        else:
            for path, pods in sorted(broken.items()):
                yield f"slices of {size} are whole in level {level}: {path} holds {pods}"
        for path in sorted(_held(workers, level)):
            if path[-1] == NAMELESS:
                yield f"a slice is in a domain that has a name in level {level}, not in {path}"


def _broken_rooms(merged: Sequence[Leaf], request: Request, placed: Placed) -> Iterable[str]:
    leaf_of = {leaf.values: leaf for leaf in merged}
    for values in sorted({*placed.workers, *([placed.leader] if placed.leader else [])}):
        leaf = leaf_of.get(values)
        if leaf is None or not leaf.allowed:
            yield f"pods go only to leaves that exist and pass the filters, not to {values}"
            continue
        asked = [(request.per_pod, placed.workers.get(values, 0))]
        if request.leader_per_pod is not None and values == placed.leader:
            asked.append((request.leader_per_pod, 1))
        for name in sorted({name for per_pod, _ in asked for name in per_pod}):
            used = sum(per_pod.get(name, 0) * pods for per_pod, pods in asked)
            if used > max(0, leaf.room.get(name, 0)):
                yield f"no leaf is over its room: {values} gives {used} {name}"


def _broken_shares(request: Request, workers: Mapping[Path, int]) -> Iterable[str]:
    if request.share is None:
        return
    together = {p: workers.get(p, 0) + request.kept.get(p, 0) for p in {*workers, *request.kept}}
    for path, pods in sorted(_held(together, request.share.level).items()):
        if pods > request.share.most and any(path == p[: len(path)] for p in workers):
            yield f"at most {request.share.most} pods are in one domain: {path} holds {pods}"


def _broken_required(request: Request, placed: Placed) -> Iterable[str]:
    level = required_level(request)
    if level is None:
        return
    used = {values[: level + 1] for values in _used(placed)}
    if len(used) > 1:
        yield f"required: all pods are in one domain of level {level}, not in {sorted(used)}"
    if any(path[-1] == NAMELESS for path in used):
        yield f"required: the domain of level {level} has a name"


def _broken_levels(
    merged: Sequence[Leaf], level_count: int, request: Request, placed: Placed, ask: Ask
) -> Iterable[str]:
    """Where one domain of a level that is tried would have held everything, one is used."""
    if ask.packing and ask.use_affinity and request.mode != "required":
        return  # affinity goes before a finer level or fewer domains (5; case affinity-adds-upward)
    tree = counted(merged, level_count, request, ask)
    for level in range(ask.start, ask.stop - 1, -1):
        asked = (level, ask.stop) if ask.required else (level,)
        named = [d for d in tree[level] if all(d.values[at] != NAMELESS for at in asked)]
        if any(holds(domain, ask.need, ask.guests, True) for domain in named):
            used = {values[: level + 1] for values in _used(placed)}
            if len(used) > 1:
                yield f"one domain of level {level} holds everything, {len(used)} are used"
            return


def _broken_packing(
    merged: Sequence[Leaf], level_count: int, request: Request, placed: Placed, ask: Ask
) -> Iterable[str]:
    """Below the slice level, what one domain has is in as few of its children as can hold it."""
    if request.small_hosts_first or ask.use_affinity or ask.leaders or request.share is not None:
        return
    tree = counted(merged, level_count, request, ask)
    for level in range(ask.slice_level, level_count - 1):
        if not ask.packs(level + 1, level_count):
            continue
        held, below = _held(placed.workers, level), _held(placed.workers, level + 1)
        for domain in tree[level]:
            rooms = sorted((child.pods for child in domain.children), reverse=True)
            pods = held.get(domain.values, 0)
            enough = (n for n in range(len(rooms) + 1) if sum(rooms[:n]) >= pods)
            fewest = next(enough, len(rooms))
            got = sum(1 for path in below if path[:-1] == domain.values)
            if got > fewest:
                yield f"{fewest} domains below {domain.values} hold its {pods} pods, {got} are used"


def _held(workers: Mapping[Path, int], level: int) -> dict[Path, int]:
    """Return the pods of each domain of a level."""
    held: dict[Path, int] = {}
    for values, pods in workers.items():
        path = values[: level + 1]
        held[path] = held.get(path, 0) + pods
    return {path: pods for path, pods in held.items() if pods}


def _used(placed: Placed) -> set[Path]:
    return {*placed.workers, *([placed.leader] if placed.leader else [])}
