"""Both verbs through a real listener: what the peer sees of the transport, and what we record."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from extender.app import KERNELS
from stowplan.telemetry import metrics
from tests.build import PodObject, gang, node, owner, pod
from tests.contract import go
from tests.unit.extender.served import (
    NAMES,
    RACK,
    WAIT_SECONDS,
    cluster_of,
    connected,
    counted,
    encoded,
    encoded_with_nodes,
    four_nodes,
    head_of,
    overpromised,
    read_response,
    served,
)

VERBS = ("filter", "prioritize")
Logged = list[MutableMapping[str, Any]]

wants_verb = pytest.mark.parametrize("verb", VERBS)


def asking(name: str = "solo", gpus: int = 8) -> PodObject:
    return pod(name).requires(RACK).gpus(gpus)


def held_by_kueue() -> PodObject:
    return asking().labelled(**{"kueue.x-k8s.io/queue-name": "main"})


# --- What the peer sees -------------------------------------------------------------------------


@wants_verb
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(encoded(pod("plain")), id="an ordinary pod"),
        pytest.param(encoded(asking()), id="a pod that asks"),
        pytest.param(encoded(gang("train", 2, rack=RACK)[0]), id="a pod that is refused"),
        pytest.param(encoded_with_nodes(asking(), four_nodes()), id="whole nodes"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xff", id="no UTF-8"),
        pytest.param(b"{}", id="no members"),
        pytest.param(encoded(7), id="a number as pod"),
    ],
)
async def test_every_answer_is_a_200_with_its_length(verb: str, body: bytes) -> None:
    async with served(cluster_of(*four_nodes())) as extender:
        answer = await extender.post(verb, body)
        (go.filter_result if verb == "filter" else go.host_priorities)(answer)
        assert overpromised(extender.cluster) == []


@wants_verb
async def test_one_connection_serves_twenty_calls(verb: str) -> None:
    bodies = [encoded(asking()), b"{", encoded(pod("plain")), encoded(gang("g", 2)[0])]
    async with (
        served(cluster_of(*four_nodes())) as extender,
        connected(extender.address) as (reader, writer),
    ):
        for i in range(20):
            body = bodies[i % len(bodies)]
            writer.write(head_of(verb, len(body)) + body)
            head, _ = await read_response(reader)
            assert head.startswith(b"HTTP/1.1 200 ")
            assert b"transfer-encoding" not in head.lower()
            assert b"connection: close" not in head.lower()


@wants_verb
async def test_while_draining_every_answer_ends_its_connection(verb: str) -> None:
    body = encoded(pod("plain"))
    async with (
        served(cluster_of(*four_nodes())) as extender,
        connected(extender.address) as (reader, writer),
    ):
        writer.write(head_of(verb, len(body)) + body)
        head, before = await read_response(reader)
        assert b"connection: close" not in head.lower()
        extender.readiness.start_draining()
        writer.write(head_of(verb, len(body)) + body)
        head, after = await read_response(reader)
        assert head.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close" in head.lower()
        assert after == before
        async with asyncio.timeout(WAIT_SECONDS):
            assert await reader.read() == b""


async def test_a_body_over_the_limit_is_told_in_error_and_never_as_413() -> None:
    async with served(cluster_of(*four_nodes()), body_limit_bytes=1000) as extender:
        found = go.filter_result(await extender.post("filter", encoded(asking(), ["n" * 1000])))
        assert found.error == "stowplan: the body is larger than body_limit_bytes; raise it"
        assert await extender.post("prioritize", b"x" * 1001) == b"[]"
        assert extender.cluster.ledger.seat_count == 0
        fits = go.filter_result(await extender.post("filter", encoded(pod("plain"))))
        assert fits.node_names == list(NAMES)


async def test_a_body_as_large_as_the_limit_is_read() -> None:
    body = encoded(pod("plain"))
    async with served(cluster_of(*four_nodes()), body_limit_bytes=len(body)) as extender:
        assert go.filter_result(await extender.post("filter", body)).error == ""
        assert go.filter_result(await extender.post("filter", body + b" ")).error != ""


@pytest.mark.parametrize("sent", [0, 40], ids=["no byte of it", "half of it"])
async def test_a_body_that_does_not_arrive_is_told_in_error_within_the_deadline(sent: int) -> None:
    body = encoded(asking())
    async with (
        served(cluster_of(*four_nodes()), deadline_seconds=0.1) as extender,
        connected(extender.address) as (reader, writer),
    ):
        writer.write(head_of("filter", len(body)) + body[:sent])
        _, answer = await read_response(reader)
        found = go.filter_result(answer)
        assert found.error == "stowplan: the body did not arrive within deadline_seconds"
        assert extender.cluster.ledger.seat_count == 0


async def test_a_peer_that_hangs_up_is_no_fault_of_ours(logged: Logged) -> None:
    before = counted("stowplan_decisions_total", verb="filter", outcome="failed")
    async with served(cluster_of(*four_nodes())) as extender:
        async with connected(extender.address) as (_, writer):
            writer.write(head_of("filter", 1000) + b'{"Pod":')
            await writer.drain()
            await extender.post("filter", encoded(pod("plain")))  # by now the other one is read
        async with asyncio.timeout(WAIT_SECONDS):
            while counted("stowplan_decisions_total", verb="filter", outcome="failed") == before:
                await extender.post("filter", encoded(pod("plain")))
    assert [entry for entry in logged if entry["log_level"] == "error"] == []


async def test_a_body_in_a_broken_encoding_is_one_that_cannot_be_read(logged: Logged) -> None:
    before = counted("stowplan_wire_errors_total", verb="filter")
    async with (
        served(cluster_of(*four_nodes())) as extender,
        connected(extender.address) as (reader, writer),
    ):
        writer.write(head_of("filter", 9, "Content-Encoding: gzip") + b"no gzip !")
        head, answer = await read_response(reader)
    assert head.startswith(b"HTTP/1.1 200 ")
    assert go.filter_result(answer).error.startswith("stowplan: ")
    assert counted("stowplan_wire_errors_total", verb="filter") == before + 1
    assert [entry for entry in logged if entry["log_level"] == "error"] == []


# --- Before the kernels are ready ---------------------------------------------------------------


async def test_before_the_kernels_are_ready_only_pods_that_ask_get_an_error() -> None:
    async with served(cluster_of(*four_nodes()), kernels=False) as extender:
        assert extender.readiness.problem == f"{KERNELS}: not ready yet"
        asked = go.filter_result(await extender.post("filter", encoded(asking())))
        plain = go.filter_result(await extender.post("filter", encoded(pod("plain"))))
        assert asked.error.startswith("stowplan StateStale: still starting")
        assert (asked.node_names, asked.nodes) == (None, None)
        assert plain == go.FilterResult(list(NAMES), None, {}, {}, "")
        assert await extender.post("prioritize", encoded(pod("plain"))) == b"[]"
        await extender.kernels()
        assert extender.readiness.problem is None
        again = go.filter_result(await extender.post("filter", encoded(asking())))
        assert again.only_node in NAMES


async def test_before_the_kernels_are_ready_a_pod_that_kueue_holds_goes_back() -> None:
    async with served(cluster_of(*four_nodes()), kernels=False) as extender:
        found = go.filter_result(await extender.post("filter", encoded(held_by_kueue())))
    assert found == go.FilterResult(list(NAMES), None, {}, {}, "")


# --- Decisions ----------------------------------------------------------------------------------


async def test_a_pod_that_kueue_holds_goes_back_untouched() -> None:
    async with served(cluster_of(*four_nodes())) as extender:
        found = go.filter_result(await extender.post("filter", encoded(held_by_kueue())))
        assert found == go.FilterResult(list(NAMES), None, {}, {}, "")
        assert extender.cluster.ledger.seat_count == 0


async def test_the_marker_that_sends_a_pod_to_us_takes_no_room() -> None:
    """No node offers it, and kube-scheduler ignores it (facts V7, E32)."""
    marked = asking()
    marked["spec"]["containers"][0]["resources"]["limits"] = {"stowplan.dev/filter-time": "1"}
    async with served(cluster_of(*four_nodes())) as extender:
        found = go.filter_result(await extender.post("filter", encoded(marked)))
        assert found.only_node in NAMES, found
        scores = go.host_priorities(await extender.post("prioritize", encoded(marked)))
        assert scores == {found.only_node: 10}


async def test_the_whole_gang_has_seats_after_its_first_call_and_each_pod_gets_its_own() -> None:
    pods = gang("train", 4, gpus=4, rack=RACK)
    async with served(cluster_of(*four_nodes(), *pods)) as extender:
        first = go.filter_result(await extender.post("filter", encoded(pods[2])))
        assert extender.cluster.ledger.seat_count == 4
        found = [go.filter_result(await extender.post("filter", encoded(p))) for p in pods]
        assert extender.cluster.ledger.seat_count == 4
        assert overpromised(extender.cluster) == []
    nodes = [each.only_node or "" for each in found]
    assert nodes[2] == first.only_node
    assert len({name.rpartition("-")[0] for name in nodes}) == 1
    assert sorted(map(nodes.count, set(nodes))) == [2, 2]


async def test_the_same_pod_twice_at_once_gets_one_seat() -> None:
    async with served(cluster_of(*four_nodes())) as extender:
        answers = await asyncio.gather(
            *(extender.post("filter", encoded(asking())) for _ in range(8))
        )
        assert len(set(answers)) == 1
        assert extender.cluster.ledger.seat_count == 1


async def test_a_seat_on_a_node_that_is_not_offered_moves_inside_the_domain() -> None:
    async with served(cluster_of(*four_nodes())) as extender:
        first = go.filter_result(await extender.post("filter", encoded(asking()))).only_node
        rest = [name for name in NAMES if name != first]
        second = go.filter_result(await extender.post("filter", encoded(asking(), rest))).only_node
        assert second in rest
        assert extender.cluster.ledger.seat_count == 1
        assert overpromised(extender.cluster) == []


async def test_unknown_node_names_are_no_candidates_and_no_crash() -> None:
    names = ["template-node-0", "no.such.node"]
    async with served(cluster_of(*four_nodes())) as extender:
        asked = go.filter_result(await extender.post("filter", encoded(asking(), names)))
        plain = go.filter_result(await extender.post("filter", encoded(pod("plain"), names)))
        scores = go.host_priorities(await extender.post("prioritize", encoded(pod("p"), names)))
        assert (asked.node_names, asked.error) == ([], "")
        assert overpromised(extender.cluster) == []
    assert plain.node_names == names
    assert scores == {}


# --- Metrics ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "body", "outcome"),
    [
        pytest.param("filter", encoded(pod("plain")), "untouched", id="an ordinary pod"),
        pytest.param("filter", encoded(held_by_kueue()), "untouched", id="a pod Kueue holds"),
        pytest.param("filter", encoded(asking()), "placed", id="a pod that fits"),
        pytest.param("filter", encoded(asking(gpus=99)), "refused", id="a pod that does not"),
        pytest.param("filter", b"{", "failed", id="no JSON"),
        pytest.param("prioritize", encoded(pod("plain")), "ranked", id="an ordinary pod's scores"),
        pytest.param("prioritize", b"{", "failed", id="no JSON for scores"),
    ],
)
async def test_each_answer_is_counted_once_under_its_outcome(
    verb: str, body: bytes, outcome: str
) -> None:
    def seen() -> dict[str, float]:
        return {
            word: counted("stowplan_decisions_total", verb=verb, outcome=word)
            for word in ("untouched", "placed", "refused", "ranked", "failed")
        }

    def timed() -> float:
        labels = {"verb": verb, "outcome": outcome}
        name = "stowplan_decision_duration_seconds_count"
        return metrics.REGISTRY.get_sample_value(name, labels) or 0.0  # no series before its first

    async with served(cluster_of(*four_nodes())) as extender:
        before, times = seen(), timed()
        await extender.post(verb, body)
    assert seen() == {**before, outcome: before[outcome] + 1}
    assert timed() == times + 1


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(encoded(asking(gpus=99)), "NoDomainFits", id="too large a pod"),
        pytest.param(encoded(gang("g", 2, rack=RACK)[0]), "Incomplete", id="half a gang"),
        pytest.param(encoded(pod("x").requires("rak")), "LevelUnknown", id="a typo"),
        pytest.param(encoded(asking(), ["other"]), "SeatLost", id="a seat not offered"),
        pytest.param(
            encoded(asking().in_gang("g", "many")), "RequestInvalid", id="a size that is none"
        ),
        pytest.param(
            encoded(asking().in_gang("g", 10_001)), "TooLarge", id="more pods than one decision"
        ),
    ],
)
async def test_each_refusal_is_counted_under_the_first_word_of_its_text(
    body: bytes, reason: str
) -> None:
    before = counted("stowplan_refusals_total", reason=reason)
    async with served(cluster_of(*four_nodes())) as extender:
        found = go.filter_result(await extender.post("filter", body))
    assert found.reason.startswith(f"stowplan {reason}: ")
    assert counted("stowplan_refusals_total", reason=reason) == before + 1


async def test_bodies_that_cannot_be_read_are_counted() -> None:
    async with served(cluster_of(*four_nodes()), body_limit_bytes=5000) as extender:
        for verb in VERBS:
            before = counted("stowplan_wire_errors_total", verb=verb)
            for body in (b"{", b"[]", encoded(7), b" " * 5001):
                await extender.post(verb, body)
            assert counted("stowplan_wire_errors_total", verb=verb) == before + 4


@wants_verb
async def test_sizes_of_bodies_are_measured(verb: str) -> None:
    body = encoded(pod("plain"))
    name = "stowplan_request_body_bytes"
    async with served(cluster_of(*four_nodes())) as extender:
        await extender.post(verb, body)
        count = counted(f"{name}_count", verb=verb)
        total = counted(f"{name}_sum", verb=verb)
        await extender.post(verb, body)
    assert counted(f"{name}_count", verb=verb) == count + 1
    assert counted(f"{name}_sum", verb=verb) == total + len(body)


@pytest.mark.parametrize(
    ("offered", "want"), [(119, 0), (120, 1), (121, 0), (250, 0)], ids=lambda n: str(n)
)
async def test_a_list_as_long_as_the_default_sample_is_counted(offered: int, want: int) -> None:
    nodes = [node(f"n{i}").at(block="b", rack="r").gpus(8) for i in range(250)]
    names = [each["metadata"]["name"] for each in nodes]
    before = counted("stowplan_list_looks_sampled_total")
    async with served(cluster_of(*nodes)) as extender:
        await extender.post("filter", encoded(asking(), names[:offered]))
        await extender.post("filter", encoded(pod("plain"), names[:offered]))
    assert counted("stowplan_list_looks_sampled_total") == before + want


async def test_whole_nodes_are_counted_each_time_and_warned_of_once(logged: Logged) -> None:
    before = counted("stowplan_node_objects_received_total")
    body = encoded_with_nodes(pod("plain"), four_nodes())
    async with served(cluster_of(*four_nodes())) as extender:
        for verb in ("filter", "prioritize", "filter"):
            await extender.post(verb, body)
        await extender.post("filter", encoded(pod("plain")))
    assert counted("stowplan_node_objects_received_total") == before + 3
    warnings = [entry for entry in logged if entry["log_level"] == "warning"]
    assert [entry["event"] for entry in warnings] == ["whole nodes received"]
    assert "nodeCacheCapable: true" in warnings[0]["remedy"]


# --- Logs ---------------------------------------------------------------------------------------


def events(logged: Logged) -> list[str]:
    quiet = ("listening", "compiling kernels", "kernels ready")
    return [entry["event"] for entry in logged if entry["event"] not in quiet]


async def test_a_decision_is_logged_once_however_often_it_is_asked_for(logged: Logged) -> None:
    pods = gang("train", 2, rack=RACK)
    async with served(cluster_of(*four_nodes(), *pods)) as extender:
        for _ in range(3):
            for each in pods:
                await extender.post("filter", encoded(each))
    (entry,) = (entry for entry in logged if entry["event"] == "gang placed")
    assert events(logged) == ["gang placed"]
    assert entry["log_level"] == "info"
    assert entry["pod"] == "default/train-0"
    assert (entry["gang"], entry["seats"], entry["topology_level"]) == ("default/train", 2, RACK)
    assert entry["node"] in NAMES


async def test_a_refusal_is_logged_once_while_nothing_changes(logged: Logged) -> None:
    pods = gang("wide", 3, rack=RACK)
    async with served(cluster_of(*four_nodes(), *pods)) as extender:
        for _ in range(3):
            for each in pods:
                found = go.filter_result(await extender.post("filter", encoded(each)))
                assert found.reason.startswith("stowplan NoDomainFits")
    assert events(logged) == ["gang refused"]


async def test_a_later_pod_that_does_not_fit_is_refused_from_memory_too(logged: Logged) -> None:
    pods = [pod(f"j-{i}").owned_by("Job", "train").requires(RACK).gpus(8) for i in range(3)]
    running = [each.on(name) for each, name in zip(pods, NAMES[:2], strict=False)]
    job = owner("Job", "train", parallelism=1)
    async with served(cluster_of(*four_nodes(), job, *running)) as extender:
        for _ in range(4):
            found = go.filter_result(await extender.post("filter", encoded(pods[2])))
            assert found.reason.startswith("stowplan NoDomainFits"), found
    assert events(logged) == ["gang refused"]


async def test_a_lost_seat_is_logged_once_while_nothing_changes(logged: Logged) -> None:
    async with served(cluster_of(*four_nodes())) as extender:
        for _ in range(4):
            found = go.filter_result(await extender.post("filter", encoded(asking(), ["other"])))
            assert found.reason.startswith("stowplan SeatLost")
    assert events(logged).count("gang refused") == 1


async def test_a_seat_that_moves_is_logged_because_it_is_a_change(logged: Logged) -> None:
    async with served(cluster_of(*four_nodes())) as extender:
        first = go.filter_result(await extender.post("filter", encoded(asking()))).only_node
        rest = [name for name in NAMES if name != first]
        second = go.filter_result(await extender.post("filter", encoded(asking(), rest))).only_node
    assert second not in (None, first)
    assert [entry["node"] for entry in logged if "node" in entry][-1] == second


async def test_a_gang_that_is_placed_anew_is_logged_with_the_seats_it_has(logged: Logged) -> None:
    """The first rack is not offered at all: all seats are given up, and made again elsewhere."""
    pods = gang("train", 2, rack=RACK)
    async with served(cluster_of(*four_nodes(), *pods)) as extender:
        found = go.filter_result(await extender.post("filter", encoded(pods[0], NAMES[2:])))
        assert found.only_node in NAMES[2:]
        assert extender.cluster.ledger.seat_count == 2
    (entry,) = (entry for entry in logged if entry["event"] == "gang placed")
    assert entry["seats"] == 2


async def test_ordinary_pods_and_scores_are_not_logged(logged: Logged) -> None:
    async with served(cluster_of(*four_nodes())) as extender:
        for verb in VERBS:
            await extender.post(verb, encoded(pod("plain")))
            await extender.post(verb, encoded(held_by_kueue()))
    assert events(logged) == []


@wants_verb
@pytest.mark.parametrize("spoil", ["nothing", "a quantity", "a label", "the tail"])
async def test_no_secret_and_no_whole_object_is_logged(
    verb: str, spoil: str, logged: Logged
) -> None:
    secret = "hunter2" * 10
    each = asking().annotated(token=secret).labelled(password=secret)
    each["spec"]["containers"][0]["env"] = [{"name": "TOKEN", "value": secret}]
    if spoil == "a quantity":
        each.asking(cpu="many")
    if spoil == "a label":
        each["metadata"]["labels"]["number"] = 7
    body = encoded(each)
    body = body[:-3] if spoil == "the tail" else body
    async with served(cluster_of(*four_nodes())) as extender:
        answer = await extender.post(verb, body)
    assert secret not in repr(logged)
    assert secret not in answer.decode()
    assert all(len(repr(entry)) < 1000 for entry in logged)
