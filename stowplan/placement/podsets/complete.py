"""Places for the pods of a podset that have none yet, beside those that have: nothing else moves.

The rest of a gang, the pods of lost nodes (any number at once), and growth are one thing:
``docs/placement.md``, "Completing a gang".
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from stowplan.placement.podsets.plan import NoFit, plan_of
from stowplan.placement.podsets.podset import NO_LEAVES, Assigned, PodSet, Region, fit
from stowplan.placement.request import Profile, Share, TopologyRequest
from stowplan.placement.rules import STOWPLAN, Rules
from stowplan.placement.shapes import Shapes
from stowplan.placement.state import ClusterState, Trial, View
from stowplan.topology.tree import Index

Places = Sequence[tuple[int, int]]  # (leaf, pods), leaves counted from the first one


def complete(
    state: ClusterState,
    shapes: Shapes,
    podset: PodSet,
    kept: Places,
    missing: int,
    profile: Profile,
    rules: Rules = STOWPLAN,
    excluded: Index = NO_LEAVES,
    beside: Sequence[int] = (),
    regions: Sequence[int | None] | None = None,
) -> Assigned | NoFit:
    """Place ``missing`` pods near those that have their places; the state is as before.

    Args:
        state: the cluster; the room of kept pods is taken off already.
        shapes: warm counts.
        podset: its request is what all its pods asked for; its count is not read.
        kept: where pods of the podset are.
        missing: how many pods to place.
        profile: for a podset that names none.
        rules: ours, or Kueue's.
        excluded: leaves that may not be used.
        beside: leaves of other pods whose domain the podset shares.
        regions: domains to try, None for everything; by default those around all these leaves.

    Returns:
        The new places alone.
    """
    view = state.view()
    plan = plan_of(view.tree.levels, podset.request, profile, bool(podset.preferred), rules)
    if isinstance(plan, NoFit):
        return plan
    if regions is None:
        around = regions_around(view, podset.request, [*(leaf for leaf, _ in kept), *beside])
        if isinstance(around, NoFit):
            return around
        regions = around
    places: Counter[int] = Counter()
    for leaf, pods in kept:
        places[leaf] += pods
    profile = podset.packing or profile
    if profile == "balanced" and places:  # a part has nothing to be balanced with
        profile = "best-fit"
    request = _with_fixed_share(podset.request, places.total() + missing)
    with state.trial() as trial:
        work = _Completion(
            view,
            shapes,
            replace(podset, leader=None, request=request),
            profile,
            rules,
            excluded,
            trial,
            places,
        )
        failed = work.mend_slices(missing) or work.place_rest(missing, regions)
    return failed if failed is not None else work.answer()


def regions_around(
    view: View, request: TopologyRequest, leaves: Sequence[int]
) -> list[int | None] | NoFit:
    """Return the domains to try for pods that belong to others on ``leaves``; None is everything.

    Required: the one domain that the others are in. Preferred: the finest one, then coarser ones.
    """
    keys = view.tree.levels.keys
    level = request.preferred if request.preferred is not None else request.required
    if not leaves or level not in keys:
        return [None]
    shared = common_domain(view, leaves, keys.index(level))
    last = -1
    if request.required in keys:
        last = keys.index(request.required)
        if shared is None or view.tree.level_of(shared) < last:
            return NoFit("kept-apart", keys[last])
    tries = upwards(view, shared)
    if last < 0:
        return tries
    return [domain for domain in tries if domain is not None and view.tree.level_of(domain) >= last]


def upwards(view: View, domain: int | None) -> list[int | None]:
    """Return ``domain``, each domain above it, and None for everything."""
    tries: list[int | None] = []
    while domain is not None and domain >= 0:
        tries.append(domain)
        domain = int(view.tree.arrays.parent[domain])
    return [*tries, None]


def common_domain(view: View, leaves: Sequence[int], finest: int) -> int | None:
    """Return the finest domain above all ``leaves``, no finer than level ``finest``.

    Nodes that lack a label share no domain of its level.
    """
    tree = view.tree
    # A domain's leaves are one range, so the two ends speak for all between them.
    one = tree.ancestor(tree.first_leaf + min(leaves), finest)
    other = tree.ancestor(tree.first_leaf + max(leaves), finest)
    while one != other or (one >= 0 and not tree.arrays.named[one]):
        one, other = int(tree.arrays.parent[one]), int(tree.arrays.parent[other])
    return one if one >= 0 else None


@dataclass(slots=True)
class _Completion:
    """Places pods step by step; each step sees the room and the places of those before it."""

    view: View
    shapes: Shapes
    podset: PodSet
    profile: Profile
    rules: Rules
    excluded: Index
    trial: Trial
    places: Counter[int]
    new: Counter[int] = field(default_factory=Counter)
    level: int = 0

    def mend_slices(self, missing: int) -> NoFit | None:
        """Fill up broken slices, those of the innermost layer first."""
        layers = self.podset.request.slices
        keys = self.view.tree.levels.keys
        for at in range(len(layers) - 1, -1, -1):
            for domain, lacks in self._broken(keys.index(layers[at].level), layers[at].size):
                count = min(lacks, missing - self.new.total())
                # In that one domain "preferred" means all of them; "required" would forbid a share
                # of a coarser level.
                request = TopologyRequest(
                    preferred=layers[at].level,
                    layers=layers[at + 1 :],
                    share=self.podset.request.share,
                )
                request = part_of(request, count)
                if count and (failed := self._place(count, request, [domain])) is not None:
                    return failed
        return None

    def place_rest(self, missing: int, regions: Sequence[int | None]) -> NoFit | None:
        """Place what mending left over, in the first of ``regions`` that holds it."""
        count = missing - self.new.total()
        request = self.podset.request
        if request.last_slice == "smaller":
            request = part_of(request, count)
        return self._place(count, request, regions) if count else None

    def answer(self) -> Assigned:
        """Return the new places."""
        return Assigned(tuple(sorted(self.new.items())), self.level)

    def _broken(self, level: int, size: int) -> Iterator[tuple[int, int]]:
        """Yield domains of ``level`` that hold no whole slices, and how many pods they lack."""
        tree = self.view.tree
        pods: Counter[int] = Counter()
        for leaf, count in self.places.items():
            pods[tree.ancestor(tree.first_leaf + leaf, level)] += count
        lacking = [(-count % size, d) for d, count in pods.items() if count % size]
        yield from ((d, lacks) for lacks, d in sorted(lacking) if tree.arrays.named[d])

    def _place(
        self, count: int, request: TopologyRequest, regions: Sequence[int | None]
    ) -> NoFit | None:
        podset = replace(self.podset, count=count, request=request)
        answer: Assigned | NoFit = NoFit("none-fit")
        for domain in regions:
            region = Region(domain, self.excluded, tuple(self.places.items()))
            answer = fit(self.view, self.shapes, podset, self.profile, region, self.rules)
            if not isinstance(answer, NoFit):
                break
        if isinstance(answer, NoFit):
            return answer
        self.trial.take(self.view, answer.leaves, podset.amounts)
        self.places.update(dict(answer.leaves))
        self.new.update(dict(answer.leaves))
        self.level = answer.level
        return None


def _with_fixed_share(request: TopologyRequest, count: int) -> TopologyRequest:
    """Turn a percentage of all pods into pods, so that it stays the same for a part of them."""
    share = request.share
    if share is None:
        return request
    return replace(request, share=Share(share.level, pods=share.of(count)))


def part_of(request: TopologyRequest, count: int) -> TopologyRequest:
    """Return the request for ``count`` of the pods.

    The others may lie anyhow, so a part need not be whole slices: then its last slice is smaller,
    and where that would break inner layers these do not count.
    """
    layers = request.slices
    if not layers or count % layers[0].size == 0:
        return request
    kept = layers if count % layers[0].size % request.inner_size == 0 else layers[:1]
    return replace(request, slice_level=None, slice_size=None, layers=kept, last_slice="smaller")
