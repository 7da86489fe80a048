"""Random small clusters with a gang that does not fit, and every change that could be made to them.

A scene is the objects that a user would have written, so a change is made by editing them, and what
it leads to is judged in a cluster of its own, made from the edited objects.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from stowplan.placement import keys
from stowplan.placement.cluster import Cluster, Objects, Policy
from stowplan.placement.gangs import Gang, GangId, assemble
from stowplan.placement.ledger import Reservation, Seat
from stowplan.placement.placing import place_gang
from stowplan.placement.reasons import Reason
from stowplan.placement.records import NodeRecord, PodRecord
from stowplan.placement.rules import KUEUE
from tests.build import GPU, NodeObject, PodObject, level, levels, node, owner, pod

GANG = GangId("default", "pod-group", "wanted")
CPU_UNIT = 1000  # all amounts of cpu are whole cores, so smaller changes of it are, too
JOB = GangId("default", "Job", "wanted", "uid-of-Job-wanted")
NOW = 100.0
SHORT = ("block", "rack", "host")
LEVELS = levels("block", "rack")
POLICY = Policy(LEVELS)
_SHARES = ("rack=1", "rack=2", "rack=50%", "host=1", "host=34%")


@dataclass(frozen=True)
class Role:
    """One podset: ``count`` pods, of which the first run on nodes already.

    ``inside`` are labels of a domain that they may not leave.
    """

    name: str
    count: int
    gpus: int
    cores: int
    required: str | None = None
    preferred: str | None = None
    slices: tuple[tuple[str, int], ...] = ()
    smaller: bool = False
    share: str | None = None
    group: str | None = None
    tolerates: bool = False
    pool: str | None = None
    inside: tuple[tuple[str, str], ...] = ()
    runs_on: tuple[str, ...] = ()

    def pods(self, size: int, job: bool) -> Iterator[PodRecord]:
        """Yield its pods as members of a gang of that size, or of a Job."""
        made = pod("").owned_by("Job", "wanted") if job else pod("").in_gang("wanted", size)
        self._ask_in(made)
        for i in range(self.count):
            made["metadata"]["name"] = f"wanted-{self.name}-{i}"
            record = made.record()
            yield replace(record, node=self.runs_on[i]) if i < len(self.runs_on) else record

    def _ask_in(self, made: PodObject) -> None:
        made.annotated(**{keys.ROLE_HASH: self.name})
        if self.gpus:
            made.gpus(self.gpus)
        if self.cores:
            made.asking(cpu=str(self.cores))
        if self.required:
            made.requires(self.required)
        if self.preferred:
            made.prefers(self.preferred)
        if not self.required and not self.preferred and not self.slices:
            made.anywhere()
        if self.slices:
            layers = ",".join(f"{level(short)}={pods}" for short, pods in self.slices)
            made.annotated(**{keys.OUR_SLICES: layers})
        if self.smaller:
            made.annotated(**{keys.LAST_SLICE: "smaller"})
        if self.share:
            short, _, amount = self.share.partition("=")
            made.annotated(**{keys.MAX_PER_DOMAIN: f"{level(short)}={amount}"})
        if self.group:
            made.annotated(**{keys.PODSET_GROUP[0]: self.group})
        if self.pool:
            made.selecting(pool=self.pool)
        made.selecting(**dict(self.inside))
        if self.tolerates:
            made["spec"]["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]


@dataclass(frozen=True)
class Scene:
    """A cluster, what runs there, and a gang.

    Attributes:
        running: pods of other workloads.
        seats: node, GPUs and cores of each seat that another gang holds.
        excluded: nodes that were refused for the gang.
        job: the gang is a Job.
        done: how many pods of the Job have succeeded.
    """

    nodes: tuple[NodeRecord, ...]
    running: tuple[PodRecord, ...]
    roles: tuple[Role, ...]
    seats: tuple[tuple[str, int, int], ...] = ()
    excluded: tuple[str, ...] = ()
    policy: Policy = POLICY
    job: bool = False
    done: int = 0

    @property
    def gang(self) -> GangId:
        """Which gang is wanted."""
        return JOB if self.job else GANG

    def cluster(self) -> Cluster:
        """Return a new cluster of these objects."""
        made = Cluster(self.policy)
        pods = [*self.running, *self.gang_pods()]
        size = sum(role.count for role in self.roles)
        job = owner("Job", "wanted", parallelism=size).with_status(succeeded=self.done)
        owners = {("default", "Job", "wanted"): job.record()} if self.job else {}
        made.replace(Objects({n.name: n for n in self.nodes}, {p.key: p for p in pods}, owners))
        if self.seats:
            seats = [
                Seat(node, (("cpu", cores * CPU_UNIT), (GPU, gpus), ("pods", 1)), 0, i)
                for i, (node, gpus, cores) in enumerate(self.seats)
            ]
            holder = GangId("default", "StatefulSet", "holder")
            made.ledger.commit(Reservation(holder, (), None, seats, (), NOW))
        for name in self.excluded:
            made.ledger.exclude(self.gang, name, NOW)
        return made

    def gang_pods(self) -> list[PodRecord]:
        """Return all pods of the gang."""
        size = sum(role.count for role in self.roles)
        return [pod for role in self.roles for pod in role.pods(size, self.job)]

    def place(self) -> Reservation | Reason:
        """Place the gang in a new cluster."""
        cluster = self.cluster()
        gang = gang_in(cluster, self.gang)
        return gang if isinstance(gang, Reason) else place_gang(cluster, gang, NOW)

    def fits(self) -> bool:
        """Whether the gang gets its places in a new cluster."""
        return isinstance(self.place(), Reservation)


def gang_in(cluster: Cluster, gang: GangId) -> Gang | Reason:
    """Return a gang from its cluster."""
    return assemble(gang, cluster.gangs.members(gang, NOW).values(), cluster.owners)


def with_fewer(scene: Scene, at: int, to: int) -> Scene:
    """Return the scene with ``to`` pods in one role."""
    roles = [*scene.roles]
    roles[at] = replace(roles[at], count=to)
    return replace(scene, roles=tuple(roles))


def with_share(scene: Scene, at: int, pods: int) -> Scene:
    """Return the scene with one role asking for at most so many pods per domain."""
    roles = [*scene.roles]
    short = (roles[at].share or "").partition("=")[0]
    roles[at] = replace(roles[at], share=f"{short}={pods}")
    return replace(scene, roles=tuple(roles))


def with_level(scene: Scene, was: str, to: str | None) -> Scene:
    """Return the scene with the roles that ask for level ``was`` asking for ``to``."""
    return replace(scene, roles=tuple(_asking(role, was, to) for role in scene.roles))


def _asking(role: Role, was: str, to: str | None) -> Role:
    if (role.required or role.preferred) != was:
        return role
    if to is None:
        return replace(role, required=None, preferred=None, group=None)
    if role.required:
        return replace(role, required=to)
    return replace(role, preferred=to)


def without(scene: Scene, workload: str) -> Scene:
    """Return the scene once a workload has ended."""
    running = tuple(pod for pod in scene.running if workload_of(pod) != workload)
    return replace(scene, running=running, seats=() if workload == "holder" else scene.seats)


def workload_of(pod: PodRecord) -> str:
    """Return the name of the workload that a pod belongs to."""
    return pod.labels.get(keys.POD_GROUP_NAME, "") or (pod.owner.name if pod.owner else pod.name)


def with_more(scene: Scene, resource: str, amounts: dict[str, int]) -> Scene:
    """Return the scene with nodes that offer more of one resource."""
    return replace(
        scene, nodes=tuple(_offering(n, resource, amounts.get(n.name, 0)) for n in scene.nodes)
    )


def _offering(node: NodeRecord, resource: str, more: int) -> NodeRecord:
    if not more:
        return node
    offers = dict(node.allocatable)
    offers[resource] = offers.get(resource, 0) + more
    return replace(node, allocatable=tuple(sorted(offers.items())))


def splits(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to split ``total`` into so many parts, zeros included."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for others in splits(total - first, parts - 1):
            yield first, *others


def fitting(seed: int) -> Scene:
    """Return a random scene whose gang fits."""
    rng = random.Random(seed)
    while not (scene := _scene(rng)).fits():
        pass
    return scene


def misfit(seed: int, kind: str | None = None) -> Scene:
    """Return a random scene whose gang does not fit, though it mostly would if nothing else ran.

    The kind is that of ``_roles``, or any.
    """
    rng = random.Random(seed)
    hopeless = rng.random() < 0.2
    while True:
        scene = _scene(rng, kind)
        if isinstance(gang_in(scene.cluster(), scene.gang), Reason) or scene.fits():
            continue
        if hopeless or replace(scene, running=(), seats=()).fits():
            return scene


def _scene(rng: random.Random, kind: str | None = None) -> Scene:
    nodes = tuple(_nodes(rng))
    names = [n["metadata"]["name"] for n in nodes]
    roles = _roles(rng, kind)
    if rng.random() < 0.15:
        at = rng.randrange(len(roles))
        runs = tuple(rng.choice(names) for _ in range(rng.randint(1, max(roles[at].count // 2, 1))))
        roles[at] = replace(roles[at], runs_on=runs[: roles[at].count])
    job = len(roles) == 1 and rng.random() < 0.25
    return Scene(
        nodes=tuple(n.record() for n in nodes),
        running=tuple(_running(rng, names)),
        roles=tuple(roles),
        seats=tuple(
            (rng.choice(names), rng.randint(1, 2), 1) for _ in range(rng.choice((0, 0, 0, 1, 2)))
        ),
        excluded=tuple(rng.sample(names, 1)) if rng.random() < 0.1 else (),
        policy=_policy(rng, roles),
        job=job,
        done=rng.choice((0, 1)) if job else 0,
    )


def _policy(rng: random.Random, roles: list[Role]) -> Policy:
    match rng.randrange(8):
        case 0 if not any(role.slices and role.runs_on for role in roles):  # Kueue drops the rest
            return replace(POLICY, rules=KUEUE)
        case 1:
            return replace(POLICY, packing="best-fit")
        case 2:
            return replace(POLICY, packing="balanced")
        case _:
            return POLICY


def _nodes(rng: random.Random) -> Iterator[NodeObject]:
    count = 0
    for block in range(rng.randint(1, 2)):
        for rack in range(rng.randint(1, 3)):
            for _ in range(rng.randint(1, 3)):
                count += 1
                made = (
                    node(f"n{count}").at(block=f"b{block}", rack=f"r{rack}").gpus(rng.randint(1, 4))
                )
                made.offering(cpu=str(rng.randint(2, 6)), pods=str(rng.choice((2, 3, 110, 110))))
                yield _marred(rng, made.labelled(pool=rng.choice("aab")))


def _marred(rng: random.Random, made: NodeObject) -> NodeObject:
    match rng.randrange(16):
        case 0:
            return made.cordoned()
        case 1:
            return made.not_ready()
        case 2 | 3:
            return made.tainted("dedicated", "batch")
        case 4:
            return made.without(level("rack"))
        case 5 if rng.random() < 0.5:
            return made.without(level("block"))
        case _:
            return made


def _running(rng: random.Random, names: list[str]) -> Iterator[PodRecord]:
    for w in range(rng.randint(1, 5)):
        pods = rng.randint(1, 3)
        for i in range(pods):
            made = pod(f"w{w}-{i}").asking(cpu=str(rng.randint(1, 2))).on(rng.choice(names))
            if rng.random() < 0.7:
                made.gpus(rng.randint(1, 2))
            if rng.random() < 0.9:
                made.in_gang(f"w{w}", pods).requires("block")
            yield made.record()


def _roles(rng: random.Random, kind: str | None) -> list[Role]:
    kind = kind or rng.choice(
        ("plain", "plain", "plain", "slices", "share", "both", "pair", "pair", "roles")
    )
    asked = rng.choice(("required", "required", "required", "preferred", "anywhere"))
    short = rng.choice(("block", "rack", "rack", "host"))
    base = Role(
        name="main",
        count=rng.randint(2, 8),
        gpus=rng.choice((1, 1, 2, 2, 3)),
        cores=rng.randint(0, 2),
        required=short if asked == "required" else None,
        preferred=short if asked == "preferred" else None,
        tolerates=rng.random() < 0.3,
        pool="a" if rng.random() < 0.15 else None,
    )
    match kind:
        case "slices":
            return [_sliced(rng, base)]
        case "share":
            base = replace(base, share=rng.choice(_SHARES))
            return [base] if rng.random() < 0.7 else [base, _other(rng, base)]
        case "both":
            return [replace(base, required="block", preferred="rack")]
        case "pair":
            return _pair(rng, base)
        case "roles":
            other = rng.choice(("block", "rack", "host"))
            second = replace(_other(rng, base), required=other, preferred=None)
            return [base, second]
        case _:
            return [base]


def _other(rng: random.Random, base: Role) -> Role:
    return replace(
        base, name="other", count=rng.randint(1, 4), gpus=rng.randint(0, 3), cores=rng.randint(1, 3)
    )


def _pair(rng: random.Random, base: Role) -> list[Role]:
    """Two podsets that share a domain, perhaps a leader and its workers."""
    other = _other(rng, base)
    if (base.required or base.preferred) and rng.random() < 0.5:
        lead = replace(other, name="lead", count=1, group="g")
        return [lead, replace(base, group="g")]
    return [base, other]


def _sliced(rng: random.Random, base: Role) -> Role:
    size = rng.choice((2, 2, 3, 4))
    outer = rng.choice(("block", "rack", "host"))
    layers: tuple[tuple[str, int], ...] = ((outer, size),)
    if outer == "rack" and size % 2 == 0 and rng.random() < 0.5:
        layers = (*layers, ("host", size // 2))
    if rng.random() < 0.4:
        return replace(base, slices=layers, smaller=True, count=rng.randint(size, 3 * size))
    return replace(base, slices=layers, count=size * rng.randint(1, 4))


def picture(cluster: Cluster) -> dict[str, object]:
    """Return everything of a cluster that a decision reads, to compare it with a later one."""
    state, view = cluster.state, cluster.state.view()
    return {
        "generation": state.generation,
        "nodes": dict(state.nodes),
        "pods": dict(state.pods),
        "used": {name: dict(state.used_on(name)) for name in state.nodes},
        "resources": view.resources,
        "tree": (view.tree.paths, view.tree.nodes),
        "arrays": [array.tolist() for array in (*view.leaves, view.total)],
        "gangs": {gang: cluster.gangs.version(gang) for gang in cluster.gangs.ids()},
        "seats": {
            gang: [(seat.node, seat.amounts, seat.pod, seat.bound) for seat in held.seats]
            for gang, held in cluster.ledger.reservations.items()
        },
        "excluded": {
            gang: list(cluster.ledger.excluded(gang, NOW))
            for gang in cluster.ledger.excluded_gangs()
        },
        "refusals": dict(cluster.refusals),
    }
