"""The rest of a gang: doc, "Completing a gang". Some pods have places, only the missing are placed.

``leaves`` have the room that is left beside the kept pods. Written from the document alone; where
it leaves a choice, the choice is told in a comment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tests.oracle.asking import Leaf, Path, Request, refusal_of, required_level
from tests.oracle.domains import NAMELESS
from tests.oracle.fit import Failed, Placed, place


@dataclass
class _Places:
    """What is known while a gang is completed."""

    leaves: list[Leaf]  # with the room that is left
    kept: dict[Path, int]  # and placed so far
    new: dict[Path, int]
    missing: int

    def put(self, per_pod: Mapping[str, int], workers: Mapping[Path, int]) -> None:
        """Give pods their places, and take the room."""
        for path, pods in workers.items():
            self.kept[path] = self.kept.get(path, 0) + pods
            self.new[path] = self.new.get(path, 0) + pods
            self.missing -= pods
        self.leaves = [
            without(leaf, per_pod, workers[leaf.values]) if leaf.values in workers else leaf
            for leaf in self.leaves
        ]


def without(leaf: Leaf, per_pod: Mapping[str, int], pods: int) -> Leaf:
    """Return the leaf with the room of these pods gone."""
    room = dict(leaf.room)
    for name, amount in per_pod.items():
        room[name] = room.get(name, 0) - amount * pods
    return replace(leaf, room=room)


def inside(leaves: Sequence[Leaf], domain: Path) -> list[Leaf]:
    """Return the leaves, those outside the domain closed."""
    depth = len(domain)
    return [
        leaf if leaf.values[:depth] == domain else replace(leaf, allowed=False) for leaf in leaves
    ]


def complete(
    leaves: Sequence[Leaf],
    level_count: int,
    request: Request,
    kept: Mapping[Path, int],
    missing: int,
) -> Placed | Failed:
    """Return where the missing pods go; ``request.count`` is that of all pods, kept ones too."""
    if (refusal := refusal_of(request, level_count)) is not None:
        return Failed(refusal.kind, 0, 0, refusal.level, refusal.slice_level)
    if not _regions(kept, request):
        return Failed("kept-apart", 0, 0)  # no required domain has them in common
    places = _Places(list(leaves), dict(kept), {}, missing)
    for layer in reversed(range(len(request.slices))):  # 1. from the innermost to the outermost
        failed = _mended(places, level_count, request, layer)
        if failed is not None:
            return failed  # 4. nothing is placed
    if places.missing > 0:
        answer = _rest(places, level_count, request)
        if isinstance(answer, Failed):
            return answer
        places.put(request.per_pod, answer.workers)
    return Placed(dict(sorted(places.new.items())), None)


def _mended(places: _Places, level_count: int, request: Request, layer: int) -> Failed | None:
    """Give the broken slices of one layer what they lack, those that lack least first."""
    level, size = request.slices[layer]
    held: dict[Path, int] = {}
    for path, pods in places.kept.items():
        held[path[: level + 1]] = held.get(path[: level + 1], 0) + pods
    broken = sorted(
        (size - pods % size, path)
        for path, pods in held.items()
        if pods % size and path[-1] != NAMELESS
    )
    for lacks, domain in broken:
        amount = min(lacks, places.missing)
        if amount == 0:
            return None
        answer = _filled(places, level_count, request, layer, domain, amount)
        if isinstance(answer, Failed):
            return answer
        places.put(request.per_pod, answer.workers)
    return None


def _filled(
    places: _Places, level_count: int, request: Request, layer: int, domain: Path, amount: int
) -> Placed | Failed:
    """Place some pods in one domain, together by the layers finer than the broken one.

    Packed, as if the domain were required: it is one that the gang must have. Everything outside
    is closed, so asking for the coarsest level asks for this domain.
    """
    finer = request.slices[layer + 1 :]
    asked = replace(
        request,
        mode="preferred",
        level=0,
        within=None,
        count=amount,
        slices=finer,
        kept=places.kept,
    )
    return place(inside(places.leaves, domain), level_count, asked)


def _rest(places: _Places, level_count: int, request: Request) -> Placed | Failed:
    """2. Place what is left over as usual, inside the domain that the places have in common."""
    asked = replace(request, count=places.missing, kept=places.kept)
    answer: Placed | Failed = Failed("kept-apart", 0, 0)
    for region in _regions(places.kept, request):
        answer = place(inside(places.leaves, region), level_count, asked)
        if isinstance(answer, Placed):
            return answer
    return answer


def _regions(kept: Mapping[Path, int], request: Request) -> list[Path]:
    """Return the domains to try, finest first; () is the whole cluster."""
    if not kept or not request.asks_a_level:
        return [()]
    assert request.level is not None
    stop = required_level(request)
    regions: list[Path] = []
    for level in range(request.level, (stop or 0) - 1, -1):
        common = {path[: level + 1] for path in kept}
        # A nameless domain is never the one that is asked for, nor what lies inside it.
        asked = (level, level if stop is None else stop)
        if len(common) == 1 and all((*common,)[0][at] != NAMELESS for at in asked):
            regions.append(common.pop())
    # Required: pods in two of its domains are refused; else anywhere comes last.
    return regions if stop is not None else [*regions, ()]
