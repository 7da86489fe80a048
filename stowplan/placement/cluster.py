"""The one live picture: folds each object into state, gangs, owners and ledger, in that order."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stowplan.api.errors import InvalidObjectError, Violation
from stowplan.api.models import core
from stowplan.api.objects import Json, Object
from stowplan.placement import keys, owners
from stowplan.placement.filters import Filters
from stowplan.placement.gangs import GangId, GangIndex, gang_of
from stowplan.placement.ledger import Ledger
from stowplan.placement.owners import Owners
from stowplan.placement.reasons import Reason
from stowplan.placement.records import Amounts, NodeRecord, OwnerRecord, PodRecord
from stowplan.placement.request import Profile
from stowplan.placement.rules import STOWPLAN, Rules
from stowplan.placement.shapes import Shapes
from stowplan.placement.state import ClusterState
from stowplan.topology.levels import Levels


@dataclass(frozen=True, slots=True)
class Policy:
    """What an operator decides about placement.

    Attributes:
        levels: what forms the tree, coarse to fine.
        packing: profile for requests that do not name one.
        rules: ours, or Kueue's with its quirks.
        weigh_affinity: preferred node affinity counts.
        keep_seconds: how long a gang keeps its seats after its last answer.
        keep_slow_seconds: the same when a pod has a claim, whose binding can take minutes.
        exclude_seconds: how long a refused node is left out for a gang.
    """

    levels: Levels
    packing: Profile = "mixed"
    rules: Rules = STOWPLAN
    weigh_affinity: bool = False
    keep_seconds: float = 60.0
    keep_slow_seconds: float = 660.0
    exclude_seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """A verdict that stands while neither the cluster nor the gang changes.

    Attributes:
        generation: of the cluster.
        version: of the gang.
        until: when an excluded node may be used again.
        reason: the verdict.
        kind: request and filters of the pods that it is about; None for the whole gang.
    """

    generation: int
    version: int
    until: float
    reason: Reason
    kind: tuple[Amounts, Filters] | None

    @classmethod
    def of(
        cls, cluster: "Cluster", gang: GangId, reason: Reason, pod: PodRecord | None, now: float
    ) -> "Refusal":
        """Return a verdict on the gang as it is; it ends when an excluded node is free again."""
        until = cluster.ledger.next_exclusion_end(gang, now)
        kind = None if pod is None else (pod.requests, pod.filters)
        return cls(cluster.state.generation, cluster.gangs.version(gang), until, reason, kind)

    def stands(self, cluster: "Cluster", gang: GangId, pod: PodRecord, now: float) -> bool:
        """Whether it is about ``pod`` and nothing changed since that could change it."""
        same = (cluster.state.generation, cluster.gangs.version(gang))
        if (self.generation, self.version) != same or now >= self.until:
            return False
        return self.kind is None or self.kind == (pod.requests, pod.filters)


@dataclass(frozen=True, slots=True)
class Objects:
    """A whole cluster as records, checked."""

    nodes: Mapping[str, NodeRecord]
    pods: Mapping[str, PodRecord]
    owners: Mapping[tuple[str, str, str], OwnerRecord]

    @classmethod
    def of(cls, objects: Iterable[Object | Json]) -> "Objects":
        """Read Kubernetes objects; kinds that placement does not read are passed over.

        Raises:
            InvalidObjectError: with every field that is wrong, in every object.
        """
        nodes: dict[str, NodeRecord] = {}
        pods: dict[str, PodRecord] = {}
        known: dict[tuple[str, str, str], OwnerRecord] = {}
        broken: list[Violation] = []
        for obj in map(Object.of, objects):
            try:
                match obj.kind:
                    case "Node":
                        node = NodeRecord.of(obj.read(core.Node))
                        nodes[node.name] = node
                    case "Pod":
                        pod = PodRecord.of(obj.read(core.Pod))
                        pods[pod.key] = pod
                    case kind if obj.group == keys.API_GROUPS.get(kind):
                        owner = OwnerRecord.of(kind, obj.read(core.Owner))
                        known[owner.namespace, owner.kind, owner.name] = owner
                    case _:
                        pass
            except InvalidObjectError as error:
                broken += (v.under(error.what) for v in error.violations)
        if broken:
            raise InvalidObjectError("the cluster's objects", broken)
        return cls(nodes, pods, known)


@dataclass(slots=True, eq=False)
class Cluster:
    """Everything that a decision reads and writes.

    Attributes:
        policy: what the operator decided.
        state: nodes, pods and free room.
        gangs: which pods belong together.
        owners: how large gangs are.
        ledger: who holds which seat.
        shapes: warm counts.
        refusals: verdicts that still stand, by gang.
    """

    policy: Policy
    state: ClusterState = field(init=False)
    gangs: GangIndex = field(init=False)
    owners: Owners = field(init=False)
    ledger: Ledger = field(init=False)
    shapes: Shapes = field(init=False)
    refusals: dict[GangId, Refusal] = field(init=False)

    def __post_init__(self) -> None:
        """Begin with an empty cluster."""
        policy = self.policy
        self.state = ClusterState(policy.levels, rules=policy.rules)
        self.gangs = GangIndex(callers_count_for=policy.keep_seconds)
        self.owners = Owners()
        self.ledger = Ledger(
            self.state, policy.keep_seconds, policy.keep_slow_seconds, policy.exclude_seconds
        )
        self.shapes = Shapes()
        self.refusals = {}

    def set_pod(self, pod: PodRecord) -> None:
        """Add or replace a pod; one made again under the same name is another pod."""
        old = self.state.pods.get(pod.key)
        if old is not None and old.is_another(pod):
            self.remove_pod(old.key)
            old = None
        if old is not None and gang_of(old) != gang_of(pod):
            self.ledger.forget(old.key)
        self.state.set_pod(pod)
        self.gangs.set_pod(old, pod)
        self.ledger.settle(pod)
        self.ledger.adopt(gang_of(pod), pod, owners.role_of(pod))

    def remove_pod(self, key: str) -> None:
        """Forget a pod and its seat."""
        pod = self.state.pods.get(key)
        if pod is None:
            return
        self.state.remove_pod(key)
        self.gangs.remove_pod(pod)
        self.ledger.forget(key)

    def set_owner(self, owner: OwnerRecord) -> None:
        """Add or replace an owner; what was refused for its size is judged again."""
        self.owners.set(owner)
        self._owners_changed()

    def remove_owner(self, namespace: str, kind: str, name: str) -> None:
        """Forget an owner."""
        self.owners.remove(namespace, kind, name)
        self._owners_changed()

    def replace(self, new: Objects) -> None:
        """Become the cluster of ``new``; only what differs is touched, and seats stay."""
        state = self.state
        for name in [name for name in state.nodes if name not in new.nodes]:
            state.remove_node(name)
        for name, node in new.nodes.items():
            if state.nodes.get(name) != node:
                state.set_node(node)
        for key in [key for key in state.pods if key not in new.pods]:
            self.remove_pod(key)
        for key, pod in new.pods.items():
            if state.pods.get(key) != pod:
                self.set_pod(pod)
        if self.owners.known != new.owners:
            self.owners.known = dict(new.owners)
            self._owners_changed()

    def expire(self, now: float) -> list[GangId]:
        """Free seats that nobody came for; return the gangs that lost theirs."""
        freed = self.ledger.expire(now)
        self.forget_the_gone(now)
        return freed

    def forget_the_gone(self, now: float) -> None:
        """Drop what is known of pods that only called, long ago, and of gangs without pods."""
        self.gangs.drop_old_callers(now)
        there = set(self.gangs.ids()) | set(self.ledger.reservations)
        for gang in self.ledger.excluded_gangs():
            if gang not in there:
                self.ledger.forget_exclusions(gang)
        for gang in [gang for gang in self.refusals if gang not in there]:
            del self.refusals[gang]

    def forget_decisions(self) -> None:
        """Know only what is there: somebody else decides from now on."""
        self.ledger.clear()
        self.refusals.clear()

    def _owners_changed(self) -> None:
        """Judge again what was refused, and drop seats that a smaller owner will not use."""
        self.refusals.clear()
        for reservation in [r for r in self.ledger.reservations.values() if r.ahead]:
            members = [
                self.state.pods[s.pod] for s in reservation.seats if s.pod in self.state.pods
            ]
            size = owners.size_of(reservation.gang.kind, members, self.owners) if members else None
            if isinstance(size, owners.Size):
                self.ledger.shrink(reservation, size.pods)
