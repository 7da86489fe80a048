"""Requests as kube-scheduler encodes them, and answers member by member as it decodes them.

The samples were written from facts E8-E14, not recorded. ``names-`` is what it sends with
``nodeCacheCapable: true``, ``nodes-`` what it sends without; ``-old-release`` has the nulls of
older releases. Go escapes ``<``, ``>`` and ``&``, and writes no space.
"""

from pathlib import Path

import orjson
import pytest

from stowplan.placement.cluster import Cluster
from tests.build import gang, pod
from tests.contract import go
from tests.unit.extender.served import BLOCK, NAMES, RACK, cluster_of, four_nodes, served

SAMPLES = Path(__file__).with_name("samples")
OFFERED = ["b1-r2-x2", "b1-r1-x1", "b1-r2-x1", "b1-r1-x2"]  # the order of every sample

ASKING = ("names-asking", "names-asking-old-release", "nodes-asking")
ORDINARY = (
    "names-ordinary",
    "names-ordinary-old-release",
    "nodes-ordinary",
    "nodes-ordinary-old-release",
)


def sample(name: str) -> bytes:
    return (SAMPLES / f"{name}.json").read_bytes()


def waiting_gang() -> Cluster:
    """Rack r1 is half full, so that only r2 holds both pods of ``train``.

    block b1 ─┬─ rack r1 ── b1-r1-x1 (in use)  b1-r1-x2
              └─ rack r2 ── b1-r2-x1           b1-r2-x2
    """
    busy = pod("busy").gpus(8).on("b1-r1-x1")
    return cluster_of(*four_nodes(), busy, gang("train", 2, rack=RACK)[1])


def full_cluster() -> Cluster:
    busy = [pod(f"busy-{i}").gpus(8).on(name) for i, name in enumerate(NAMES)]
    return cluster_of(*four_nodes(), *busy, gang("train", 2, rack=RACK)[1])


@pytest.mark.parametrize("name", ASKING)
async def test_a_pod_of_a_gang_gets_one_node_in_the_form_that_was_sent(name: str) -> None:
    async with served(waiting_gang()) as extender:
        answer = await extender.post("filter", sample(name))
    found = go.filter_result(answer)
    assert found.only_node in ("b1-r2-x1", "b1-r2-x2")
    assert (found.node_names is None) == name.startswith("nodes-")
    assert (found.nodes is None) == name.startswith("names-")
    assert (found.failed, found.unresolvable, found.error) == ({}, {}, "")


async def test_a_node_comes_back_as_it_was_sent_managed_fields_and_all() -> None:
    body = sample("nodes-asking")
    async with served(waiting_gang()) as extender:
        found = go.filter_result(await extender.post("filter", body))
    assert found.nodes is not None
    (node,) = found.nodes
    sent = {item["metadata"]["name"]: item for item in orjson.loads(body)["Nodes"]["items"]}
    assert node == sent[node["metadata"]["name"]]
    assert node["metadata"]["managedFields"]


@pytest.mark.parametrize("name", ASKING)
async def test_a_gang_that_fits_nowhere_gets_an_empty_list_and_one_entry(name: str) -> None:
    async with served(full_cluster()) as extender:
        found = go.filter_result(await extender.post("filter", sample(name)))
    kept = found.node_names if name.startswith("names-") else found.nodes
    assert kept == []
    assert (found.failed, found.error) == ({}, "")
    assert found.unresolvable == {
        "stowplan": f"stowplan NoDomainFits: no {RACK} domain fits all 2 pods: nvidia.com/gpu"
    }


@pytest.mark.parametrize("name", [n for n in ORDINARY if n.startswith("names-")])
async def test_an_ordinary_pod_gets_the_names_back_byte_for_byte(name: str) -> None:
    body = sample(name)
    async with served(waiting_gang()) as extender:
        answer = await extender.post("filter", body)
    names = body[body.rindex(b'"NodeNames":') : -1]
    assert answer == b"{%s%s" % (
        names,
        b',"Nodes":null,"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}',
    )
    assert go.filter_result(answer).node_names == OFFERED


@pytest.mark.parametrize("name", [n for n in ORDINARY if n.startswith("nodes-")])
async def test_an_ordinary_pod_gets_the_nodes_back_and_no_names(name: str) -> None:
    body = sample(name)
    async with served(waiting_gang()) as extender:
        found = go.filter_result(await extender.post("filter", body))
    assert found.node_names is None
    assert found.nodes == orjson.loads(body)["Nodes"]["items"]
    assert (found.failed, found.unresolvable, found.error) == ({}, {}, "")


async def test_null_items_are_an_empty_list_of_nodes() -> None:
    async with served(waiting_gang()) as extender:
        found = go.filter_result(await extender.post("filter", sample("nodes-null-items")))
        scores = go.host_priorities(await extender.post("prioritize", sample("nodes-null-items")))
    assert (found.node_names, found.nodes, found.error) == (None, [], "")
    assert scores == {}


async def test_a_body_that_is_none_is_told_in_error_with_no_node_and_no_reason() -> None:
    async with served(waiting_gang()) as extender:
        found = go.filter_result(await extender.post("filter", b"{"))
    assert (found.node_names, found.nodes) == (None, None)
    assert (found.failed, found.unresolvable) == ({}, {})
    assert found.error.startswith("stowplan: the body must be JSON")


@pytest.mark.parametrize("name", ORDINARY)
async def test_scores_are_whole_numbers_from_0_to_10_for_nodes_that_were_offered(name: str) -> None:
    async with served(waiting_gang()) as extender:
        scores = go.host_priorities(await extender.post("prioritize", sample(name)))
    assert scores.keys() <= set(OFFERED)
    assert all(0 <= score <= 10 for score in scores.values())
    assert list(scores.values()).count(10) == 1  # ties are broken at random (E30)


async def test_scores_of_a_seated_pod_point_at_its_seat() -> None:
    async with served(waiting_gang()) as extender:
        node = go.filter_result(await extender.post("filter", sample("names-asking"))).only_node
        scores = go.host_priorities(await extender.post("prioritize", sample("names-asking")))
    assert scores == {node: 10}


async def test_trouble_with_scores_is_an_empty_list() -> None:
    async with served(waiting_gang()) as extender:
        answer = await extender.post("prioritize", b'{"Pod":{}}')
    assert answer == b"[]"


@pytest.mark.parametrize("rename", [str.lower, str.upper, str.swapcase])
@pytest.mark.parametrize("verb", ["filter", "prioritize"])
async def test_other_callers_may_write_the_keys_in_any_case(verb: str, rename: object) -> None:
    assert callable(rename)
    body = orjson.loads(sample("names-ordinary"))
    other = orjson.dumps({rename(key): value for key, value in body.items()})
    async with served(waiting_gang()) as extender:
        assert await extender.post(verb, other) == await extender.post(verb, orjson.dumps(body))


async def test_levels_of_the_samples_are_those_of_the_cluster() -> None:
    labels = orjson.loads(sample("nodes-asking"))["Nodes"]["items"][0]["metadata"]["labels"]
    assert {BLOCK, RACK} <= labels.keys()
