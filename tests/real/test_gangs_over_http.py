"""Random gangs on clusters that exist, placed over HTTP, each answer judged by the oracle.

The room that is left is kept here, by a slow model: what one gang took is gone for the next. The
clusters are in ``tests/real_clusters.py``; without their data every test is skipped and says so.
"""

import functools
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stowplan.placement.cluster import Cluster
from tests.build import GPU, Json, PodObject, pod
from tests.contract import go
from tests.oracle import fit
from tests.real_clusters import (
    HOSTNAME,
    LEVELS_OF,
    TOPOGRAPH_MODELS,
    lingjun_nodes,
    topograph_nodes,
)
from tests.strategies import EXAMPLES
from tests.unit.extender.served import Served, cluster_of, encoded, overpromised, served

CLUSTERS = ("lingjun", *TOPOGRAPH_MODELS)
GPUS = 8  # of each node
PODS = 110


@dataclass(frozen=True)
class Wish:
    """One random gang."""

    mode: str
    level: int
    count: int
    gpus: int
    first: int  # which of its pods calls first


@dataclass
class Model:
    """What is free on each node, kept the slow way."""

    levels: tuple[str, ...]  # the host's included
    paths: dict[str, fit.Path]
    room: dict[str, dict[str, int]]
    owners: Counter[str] = field(default_factory=Counter)

    def leaves(self) -> list[fit.Leaf]:
        return [fit.Leaf(path, dict(self.room[name])) for name, path in self.paths.items()]

    def take(self, name: str, gpus: int) -> None:
        self.room[name][GPU] -= gpus
        self.room[name]["pods"] -= 1


@functools.cache
def nodes_of(name: str) -> tuple[Json, ...]:
    """Return the nodes; skip the test where their data is not here."""
    try:
        return tuple(lingjun_nodes() if name == "lingjun" else topograph_nodes(name))
    except FileNotFoundError as missing:
        pytest.skip(str(missing))


def world(name: str, seed: int, share: float) -> tuple[Model, list[PodObject]]:
    """Return the room that is left on a partly used cluster, and the pods that use the rest."""
    chance = random.Random(seed)
    levels = (*LEVELS_OF[name], HOSTNAME)
    model = Model(levels, {}, {})
    busy = []
    for each in nodes_of(name):
        labels, host = each["metadata"]["labels"], each["metadata"]["name"]
        if all(key in labels for key in levels):
            model.paths[host] = (*(labels[key] for key in levels[:-1]), host)
            model.room[host] = {GPU: GPUS, "pods": PODS, "cpu": 128_000, "memory": 1 << 40}
            if chance.random() < share:
                used = chance.choice((1, 2, 4, 7, 8))
                busy.append(pod(f"busy-{host}").gpus(used).on(host))
                model.take(host, used)
    return model, busy


def pods_of(wish: Wish, number: int, levels: tuple[str, ...]) -> list[PodObject]:
    name, level = f"gang-{number}", levels[wish.level % len(levels)]
    pods = []
    for i in range(wish.count):
        each = pod(f"{name}-{i}").in_gang(name, wish.count).ranked(i)
        each.asking(**{GPU: str(wish.gpus)})
        match wish.mode:
            case "required":
                each.requires(level)
            case "preferred":
                each.prefers(level)
            case _:
                each.anywhere()
        pods.append(each)
    return pods


wishes = st.builds(
    Wish,
    mode=st.sampled_from(("required", "required", "preferred", "unconstrained")),
    level=st.integers(0, 3),
    count=st.one_of(st.integers(1, 6), st.integers(7, 40)),
    gpus=st.sampled_from((1, 2, 3, 4, 8, 8)),
    first=st.integers(0, 39),
)


@pytest.mark.parametrize("name", CLUSTERS)
@settings(
    max_examples=max(EXAMPLES // 12, 1), suppress_health_check=list(HealthCheck), deadline=None
)
@given(
    st.lists(wishes, min_size=1, max_size=4),
    st.integers(0, 2**16),
    st.sampled_from((0.0, 0.5, 0.9, 1.0)),
)
async def test_each_gang_is_placed_or_refused_as_the_oracle_says(
    name: str, asked: list[Wish], seed: int, share: float
) -> None:
    model, busy = world(name, seed, share)
    gangs = [pods_of(wish, i, model.levels) for i, wish in enumerate(asked)]
    known = [each for pods in gangs for each in pods]
    cluster = cluster_of(*nodes_of(name), *busy, *known, keys=model.levels)
    async with served(cluster) as extender:
        for wish, pods in zip(asked, gangs, strict=True):
            await judge(extender, model, wish, pods)
        assert overpromised(cluster) == []
        seats = sum(model.owners.values())
        assert cluster.ledger.seat_count == seats


async def judge(extender: Served, model: Model, wish: Wish, pods: list[PodObject]) -> None:
    """Ask for every pod of one gang and compare all answers with the oracle's one."""
    request = fit.Request(
        mode=wish.mode,
        level=None if wish.mode == "unconstrained" else wish.level % len(model.levels),
        count=wish.count,
        per_pod={GPU: wish.gpus, "pods": 1},
        unconstrained_scatters=False,  # our rules: few racks where no level is asked
    )
    leaves = model.leaves()
    want = fit.place(leaves, len(model.levels), request)
    names = list(model.paths)
    first = wish.first % wish.count
    calls = [*pods[first:], *pods[:first]]
    found = [
        go.filter_result(await extender.post("filter", encoded(each, names))) for each in calls
    ]
    if isinstance(want, fit.Failed):
        assert [answer.node_names for answer in found] == [[]] * wish.count, (wish, want)
        assert {answer.reason.split(":")[0] for answer in found} == {"stowplan NoDomainFits"}
        return
    nodes = [answer.only_node for answer in found]
    assert None not in nodes, (wish, [answer for answer in found if not answer.only_node])
    got = Counter(model.paths[node] for node in nodes if node is not None)
    placed = fit.Placed(dict(sorted(got.items())), None)
    assert fit.check_laws(leaves, request, placed) == []
    assert placed == want
    for node in nodes:
        assert node is not None
        model.take(node, wish.gpus)
        model.owners[pods[0]["metadata"]["name"]] += 1
    assert all(amount >= 0 for room in model.room.values() for amount in room.values())
    again = go.filter_result(await extender.post("filter", encoded(calls[0], names)))
    assert again.only_node == nodes[0]


@pytest.mark.parametrize("name", CLUSTERS)
async def test_gangs_of_one_rack_fill_a_cluster_until_the_oracle_says_that_none_is_left(
    name: str,
) -> None:
    """Gangs of two whole nodes in one finest domain, known by their calls alone."""
    model, _ = world(name, seed=0, share=0.0)
    level = len(model.levels) - 2
    cluster: Cluster = cluster_of(*nodes_of(name), keys=model.levels)
    most = sum(n // 2 for n in Counter(path[:-1] for path in model.paths.values()).values())
    wish = Wish("required", level, 2, GPUS, 0)
    async with served(cluster) as extender:
        for i in range(min(most, 100)):
            pods = pods_of(wish, i, model.levels)
            names = list(model.paths)
            early = go.filter_result(await extender.post("filter", encoded(pods[0], names)))
            assert early.reason.startswith("stowplan Incomplete")
            calls: list[Any] = [pods[1], pods[0]]
            nodes = [
                go.filter_result(await extender.post("filter", encoded(p, names))).only_node
                for p in calls
            ]
            assert None not in nodes
            assert len({model.paths[str(node)][:-1] for node in nodes}) == 1
            assert len(set(nodes)) == 2
            for node in nodes:
                model.take(str(node), GPUS)
        if most <= 100:
            await judge(
                extender,
                model,
                Wish("required", level, 1, GPUS, 0),
                [pods_of(Wish("required", level, 1, GPUS, 0), most, model.levels)[0]],
            )
        assert overpromised(cluster) == []
