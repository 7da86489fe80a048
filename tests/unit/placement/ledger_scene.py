"""A cluster, a scheduler that asks it, and a clock: what the ledger is tried in."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from stowplan.placement import decide
from stowplan.placement.cluster import Cluster, Objects
from stowplan.placement.decide import Placed, Refused, Verdict
from stowplan.placement.gangs import GangId
from tests.unit.placement.ledger_model import (
    RACK,
    Gang,
    Pod,
    World,
    open_seats,
    racks,
    recount,
)


@dataclass
class Scene:
    """A world, a process that watches it, and a scheduler that asks."""

    world: World = field(default_factory=racks)
    cluster: Cluster = field(init=False)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.cluster = self.world.start()

    def reread(self) -> None:
        self.cluster.replace(Objects.of(self.world.objects()))

    def gang(
        self,
        kind: str,
        size: int,
        *,
        pods: int | None = None,
        name: str = "g",
        gpus: tuple[int, ...] = (1,),
        mode: str = "required",
        level: str = RACK,
        completions: int | None = None,
        claim: bool = False,
    ) -> list[Pod]:
        gang = self.world.add(
            Gang(kind, name, size, mode, level, gpus, claim=claim, completions=completions)
        )
        made = [self.world.make(gang) for _ in range(size if pods is None else pods)]
        self.reread()
        return made

    def one_more(self, like: Pod, name: str = "", seen: bool = True) -> Pod:
        pod = self.world.make(like.gang, name=name)
        if seen:
            self.cluster.set_pod(pod.record())
        return pod

    def ask(self, pod: Pod, offered: Collection[str] | None = None) -> Verdict:
        names = self.world.feasible(pod) if offered is None else offered
        return decide.filter_nodes(self.cluster, pod.record(), names, self.now)

    def told(self, pod: Pod, offered: Collection[str] | None = None) -> str:
        verdict = self.ask(pod, offered)
        assert isinstance(verdict, Placed), verdict
        return verdict.node

    def refused(self, pod: Pod, offered: Collection[str] | None = None) -> str:
        verdict = self.ask(pod, offered)
        assert isinstance(verdict, Refused), verdict
        return verdict.reason.word

    def bind(self, *pods: Pod) -> None:
        for pod in pods:
            pod.node = self.told(pod)
            self.cluster.set_pod(pod.record())

    def wait(self, seconds: float) -> list[GangId]:
        self.now += seconds
        return self.cluster.expire(self.now)

    def without(self, *nodes: str) -> list[str]:
        return [n.name for n in self.world.nodes.values() if n.usable and n.name not in nodes]

    def rack(self, node: str) -> str:
        return self.world.nodes[node].rack

    def seats(self, pod: Pod | None = None) -> list[str]:
        """The nodes of open seats: all, or those of one pod."""
        seats = open_seats(self.cluster)
        return sorted(s.node for s in seats if pod is None or s.pod == pod.key)

    def fill(self, *nodes: str, gpus: int = 4) -> None:
        for node in nodes:
            self.world.make(None, gpus=gpus, node=node, phase="Running")
        self.reread()

    def check_usage(self) -> None:
        for node in self.world.nodes:
            assert Counter(self.cluster.state.used_on(node)) == recount(self.cluster, node), node
