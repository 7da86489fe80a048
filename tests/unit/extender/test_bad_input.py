"""What no good peer sends: a clear Error or a fixed reason, a metric, and books that stay right."""

from collections.abc import MutableMapping
from typing import Any

import orjson
import pytest

from stowplan.placement import keys
from tests.build import GPU, Json, PodObject, gang, node, owner, pod
from tests.contract import go
from tests.unit.extender.served import (
    NAMES,
    RACK,
    Served,
    cluster_of,
    counted,
    encoded,
    encoded_with_nodes,
    four_nodes,
    overpromised,
    served,
)

Logged = list[MutableMapping[str, Any]]


@pytest.fixture(autouse=True)
def _nothing_fails_inside(logged: Logged) -> Any:
    yield
    assert [entry for entry in logged if entry["log_level"] == "error"] == []


async def ask(extender: Served, pod: Any, names: Any = NAMES) -> go.FilterResult:
    """Ask both verbs, check the books, and return what the filter answered."""
    found = go.filter_result(await extender.post("filter", encoded(pod, names)))
    go.host_priorities(await extender.post("prioritize", encoded(pod, names)))
    assert overpromised(extender.cluster) == []
    return found


def solo(name: str = "solo") -> PodObject:
    return pod(name).requires(RACK)


# --- Quantities ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("amounts", "want"),
    [
        pytest.param({"cpu": "0.5m"}, 1, id="half a millicore is one"),
        pytest.param({"cpu": "1e3"}, None, id="a thousand cores fit nowhere"),
        pytest.param({"memory": "1e3"}, 1000, id="a thousand bytes"),
        pytest.param({"cpu": "1e-3"}, 1, id="a millicore"),
        pytest.param({GPU: "0"}, 0, id="no GPU at all"),
        pytest.param({GPU: "-0"}, 0, id="minus nothing"),
        pytest.param({GPU: "0.5"}, 1, id="half a GPU is one"),
        pytest.param({GPU: 2}, 2, id="a bare number"),
        pytest.param({GPU: 1.5}, 2, id="a bare number with a part"),
        pytest.param({GPU: "9E"}, None, id="more than counts"),
        pytest.param({GPU: "1e999"}, None, id="far more than counts"),
    ],
)
async def test_odd_quantities_are_read_exactly(amounts: Json, want: int | None) -> None:
    (resource,) = amounts
    async with served(cluster_of(*four_nodes())) as extender:
        found = await ask(extender, solo().asking(**amounts))
        if want is None:
            assert found.reason == (
                f"stowplan NoDomainFits: no {RACK} domain fits the pod: "
                f"no usable node has enough {resource} for one pod"
            )
            assert extender.cluster.ledger.seat_count == 0
        else:
            assert found.only_node in NAMES
            used = extender.cluster.state.used_on(found.only_node or "")
            assert used.get(resource, 0) == want


@pytest.mark.parametrize(
    "text", ["-1", "1,5", "", " 1", "1 ", "0x1", "1K", "eight", "1" * 200, "\u0663"]
)
async def test_a_quantity_that_is_none_is_told_in_error(text: str) -> None:
    before = counted("stowplan_wire_errors_total", verb="filter")
    async with served(cluster_of(*four_nodes())) as extender:
        found = await ask(extender, solo().asking(**{GPU: text}))
        assert found.error.startswith("stowplan: Pod default/solo is refused:")
        assert GPU in found.error
        assert extender.cluster.ledger.seat_count == 0
    assert counted("stowplan_wire_errors_total", verb="filter") == before + 1


@pytest.mark.parametrize("value", [None, True, [], {}, [1]])
async def test_a_quantity_that_is_no_text_is_told_in_error(value: Any) -> None:
    async with served(cluster_of(*four_nodes())) as extender:
        found = await ask(extender, solo().asking(**{GPU: value}))
        assert found.error.startswith("stowplan: ")
        assert "spec.containers[0].resources.requests" in found.error


# --- Gangs that contradict themselves -----------------------------------------------------------


@pytest.mark.parametrize("said", ["0", "-1", "", "eight", "8.0", " 8", "1" * 5000, "\u0663"])
async def test_a_size_that_is_none_is_refused_and_says_which_annotation(said: str) -> None:
    async with served(cluster_of(*four_nodes())) as extender:
        found = await ask(extender, solo().in_gang("g", said))
        assert found.reason.startswith(
            "stowplan RequestInvalid: kueue.x-k8s.io/pod-group-total-count must be"
        )
        assert len(found.reason) < 300
        assert extender.cluster.ledger.seat_count == 0


@pytest.mark.parametrize("known", [True, False], ids=["all known", "known by their calls alone"])
async def test_a_gang_that_says_8_and_sends_9_promises_at_most_8_seats(known: bool) -> None:
    pods = [pod(f"g-{i}").in_gang("g", 8).ranked(i).requires(RACK).gpus(1) for i in range(9)]
    objects = pods if known else []
    async with served(cluster_of(*four_nodes(), *objects)) as extender:
        found = [await ask(extender, each) for each in (*pods, *pods)]
        assert extender.cluster.ledger.seat_count == (0 if known else 8)
        placed = [each for each in found[9:] if each.only_node]
        assert len(placed) == (0 if known else 8)
        for each in found[9:]:
            if not each.only_node:
                assert each.reason == (
                    "stowplan Contradiction: the gang has more pods than the size it states"
                )


async def test_pods_of_one_gang_that_state_different_sizes_are_refused() -> None:
    async with served(cluster_of(*four_nodes())) as extender:
        first = await ask(extender, solo("g-0").in_gang("g", 2))
        second = await ask(extender, solo("g-1").in_gang("g", 3))
        assert first.reason.startswith("stowplan Incomplete")
        assert second.reason == ("stowplan Contradiction: pods of one gang state different sizes")
        assert extender.cluster.ledger.seat_count == 0


@pytest.mark.parametrize(
    ("other", "by"),
    [
        pytest.param(pod("g-1").prefers(RACK), keys.PREFERRED[0], id="required and preferred"),
        pytest.param(pod("g-1").requires("block"), keys.REQUIRED[0], id="two levels"),
        pytest.param(pod("g-1").anywhere(), keys.REQUIRED[0], id="required and unconstrained"),
        pytest.param(solo("g-1").sliced("rack", 1), keys.OUR_SLICES, id="slices or none"),
    ],
)
async def test_pods_of_one_gang_that_ask_for_different_things_are_refused(
    other: PodObject, by: str
) -> None:
    async with served(cluster_of(*four_nodes())) as extender:
        await ask(extender, solo("g-0").in_gang("g", 2))
        found = await ask(extender, other.in_gang("g", 2))
        assert found.reason == (
            f"stowplan Contradiction: pods of one gang ask for different topology: {by}"
        )
        assert extender.cluster.ledger.seat_count == 0


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        pytest.param({"stowplan.dev/required-topology": ""}, "must be a label key", id="no level"),
        pytest.param({"stowplan.dev/required-topology": "a b"}, "must be a label key", id="space"),
        pytest.param(
            {"stowplan.dev/unconstrained-topology": "true"}, "must not stand beside", id="two modes"
        ),
        pytest.param({"stowplan.dev/unconstrained-topology": "yes"}, "must", id="a truth"),
        pytest.param({"stowplan.dev/slices": "rack"}, "must give each layer", id="no size"),
        pytest.param({"stowplan.dev/slices": f"{RACK}=0"}, "must be 1 or more", id="size 0"),
        pytest.param({"stowplan.dev/slices": f"{RACK}=-1"}, "must", id="size -1"),
        pytest.param({"stowplan.dev/slices": "a=1,b=1,c=1,d=1"}, "1 to 3 layers", id="4 layers"),
        pytest.param({"stowplan.dev/slices": ""}, "must", id="empty slices"),
        pytest.param({"kueue.x-k8s.io/podset-slice-size": "1"}, "must be there", id="size alone"),
        pytest.param(
            {"stowplan.dev/packing": "loose"}, "must be mixed, best-fit or balanced", id="packing"
        ),
        pytest.param(
            {"kueue.x-k8s.io/podset-slice-required-topology-constraints": "[" * 10_000},
            "must be a JSON list",
            id="a tower of brackets",
        ),
        pytest.param(
            {"kueue.x-k8s.io/podset-slice-required-topology-constraints": "[" + "9" * 5000 + "]"},
            "must",
            id="a number of 5000 digits",
        ),
    ],
)
async def test_an_annotation_that_breaks_a_rule_is_refused_with_the_rule(
    annotations: dict[str, str], want: str
) -> None:
    async with served(cluster_of(*four_nodes())) as extender:
        found = await ask(extender, solo().annotated(**annotations))
        assert found.reason.startswith("stowplan RequestInvalid: ")
        assert want in found.reason
        assert len(found.reason) < 400
        assert extender.cluster.ledger.seat_count == 0


@pytest.mark.parametrize("level", ["rak", "x" * 63, "kubernetes.io/hostnam"])
async def test_an_unknown_level_is_refused_with_the_known_ones(level: str) -> None:
    async with served(cluster_of(*four_nodes())) as extender:
        found = await ask(extender, pod("x").annotated(**{"stowplan.dev/required-topology": level}))
        assert found.reason.startswith("stowplan LevelUnknown: ")
        assert RACK in found.reason


# --- Owners with counts of 0, and owners that are none -------------------------------------------


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(owner("Job", "o", parallelism=0), id="a Job with parallelism 0"),
        pytest.param(owner("Job", "o", parallelism=-1), id="a Job with parallelism -1"),
        pytest.param(
            owner("Job", "o", parallelism=2, completions=2).with_status(succeeded=2),
            id="a Job that is complete",
        ),
        pytest.param(
            owner("Job", "o", parallelism=2, completions=2).with_status(failedIndexes="0-1"),
            id="a Job of which every index failed",
        ),
        pytest.param(
            owner("Job", "o", parallelism=2, completions=2).with_status(
                failedIndexes="0-" + "9" * 5000
            ),
            id="a Job with an index of 5000 digits",
        ),
        pytest.param(owner("StatefulSet", "o", replicas=0), id="a StatefulSet of 0"),
        pytest.param(owner("StatefulSet", "o", replicas=-3), id="a StatefulSet of -3"),
        pytest.param(owner("ReplicaSet", "o", replicas=0), id="a ReplicaSet of 0"),
        pytest.param(owner("ReplicaSet", "o", replicas=9).desiring("0"), id="a Deployment of 0"),
        pytest.param(owner("ReplicaSet", "o", replicas=2**62), id="a ReplicaSet of 2^62"),
    ],
)
async def test_a_count_of_an_owner_that_leaves_no_seat_promises_no_more_than_one(of: Json) -> None:
    """A pod that calls is there, so a Job may let it join; all others refuse it."""
    each = solo("o-0").owned_by(of["kind"], "o").gpus(1)
    async with served(cluster_of(*four_nodes(), of)) as extender:
        found = await ask(extender, each)
        assert found.error == ""
        if of["kind"] == "Job" and found.only_node:
            assert extender.cluster.ledger.seat_count == 1
        else:
            assert found.reason.startswith("stowplan ")
            assert extender.cluster.ledger.seat_count == 0


async def test_a_pod_group_of_0_is_one_of_1() -> None:
    each = solo().labelled(**{"scheduling.x-k8s.io/pod-group": "o"}).gpus(1)
    async with served(cluster_of(*four_nodes(), owner("PodGroup", "o", minMember=0))) as extender:
        assert (await ask(extender, each)).only_node in NAMES


@pytest.mark.parametrize(
    "kind", ["PodGroup", "JobSet", "LeaderWorkerSet", "Pod", "pod-group", "Widget", ""]
)
async def test_an_owner_without_the_labels_of_its_kind_is_no_crash(kind: str) -> None:
    each = solo().owned_by(kind, "o").gpus(1)
    each.annotated(**{"leaderworkerset.sigs.k8s.io/size": "1"})
    async with served(cluster_of(*four_nodes())) as extender:
        found = await ask(extender, each)
        assert found.error == ""


# --- Pods that claim what is not so -------------------------------------------------------------


@pytest.mark.parametrize("where", [*NAMES[:1], "ghost"])
async def test_a_pod_that_says_it_is_bound_gets_no_seat_without_room(where: str) -> None:
    """kube-scheduler never asks for a bound pod; whoever does must not corrupt the books."""
    busy = pod("busy").gpus(8).on(NAMES[0])
    async with served(cluster_of(*four_nodes(), busy)) as extender:
        await ask(extender, solo().gpus(8).on(where))
        await ask(extender, solo().gpus(8))


async def test_a_pod_that_runs_keeps_its_room_whatever_is_asked_for_it() -> None:
    """Its node is not offered, which must not move the room of a pod that runs."""
    pods = gang("train", 2, gpus=4, rack=RACK)
    running = gang("train", 2, gpus=4, rack=RACK)[0].on(NAMES[0])
    async with served(cluster_of(*four_nodes(), running, pods[1])) as extender:
        await ask(extender, pods[0], NAMES[1:])
        await ask(extender, pods[1])
        await ask(extender, solo().gpus(8), NAMES[:1])


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Unknown", "", "Running"])
async def test_a_pod_in_any_phase_is_answered(phase: str) -> None:
    async with served(cluster_of(*four_nodes())) as extender:
        found = await ask(extender, solo().gpus(1).phase(phase))
        assert found.error == ""


async def test_a_pod_without_a_name_is_answered() -> None:
    nameless = solo()
    del nameless["metadata"]["name"]
    async with served(cluster_of(*four_nodes())) as extender:
        for each in (nameless, solo("")):
            found = await ask(extender, each)
            assert "metadata.name" in found.error
            assert extender.cluster.ledger.seat_count == 0


@pytest.mark.parametrize(
    "name", ["x" * 10_000, "a-" + "1" * 5000, "\u0663-\u0661", "a/b", "\u0000"]
)
async def test_a_name_that_no_pod_has_is_answered(name: str) -> None:
    async with served(cluster_of(*four_nodes())) as extender:
        found = await ask(extender, solo(name).gpus(1))
        assert found.only_node in NAMES


# --- Nodes --------------------------------------------------------------------------------------


async def test_nodes_without_level_labels_are_never_given_to_a_gang() -> None:
    bare = [node(f"bare-{i}").gpus(8) for i in range(2)]
    half = node("half").at(block="b1").gpus(8)
    names = ["bare-0", "bare-1", "half"]
    async with served(cluster_of(*bare, half)) as extender:
        found = await ask(extender, solo().gpus(1), names)
        assert (found.node_names, found.error) == ([], "")
        assert found.reason.startswith("stowplan NoDomainFits")
        plain = await ask(extender, pod("plain").gpus(1), names)
        assert plain.node_names == names


async def test_a_cluster_without_nodes_refuses_and_does_not_crash() -> None:
    async with served(cluster_of()) as extender:
        found = await ask(extender, solo().gpus(1))
        assert found.reason.startswith("stowplan NoDomainFits")


async def test_nodes_of_the_other_form_may_lack_everything_but_a_name() -> None:
    bare = [{"metadata": {"name": name}} for name in NAMES]
    async with served(cluster_of(*four_nodes())) as extender:
        answer = await extender.post("filter", encoded_with_nodes(solo().gpus(1), bare))
        assert go.filter_result(answer).only_node in NAMES


# --- Size ---------------------------------------------------------------------------------------


async def test_an_annotation_of_10_megabytes_is_read_and_not_repeated(logged: Logged) -> None:
    huge = "x" * 10_000_000
    async with served(cluster_of(*four_nodes())) as extender:
        fine = await ask(extender, solo().gpus(1).annotated(note=huge))
        assert fine.only_node in NAMES
        refused = await ask(
            extender,
            pod("y").gpus(1).annotated(**{"stowplan.dev/required-topology": huge}),
        )
        assert refused.reason.startswith("stowplan RequestInvalid")
        assert len(refused.reason) < 400
        assert len(repr(logged)) < 10_000


async def test_an_error_stays_short_however_much_is_wrong() -> None:
    wrong = {f"key-{i}": i for i in range(2000)}
    async with served(cluster_of(*four_nodes())) as extender:
        for body in (
            encoded({"metadata": {"name": "x", "annotations": wrong}}),
            encoded(solo().asking(**{f"example.com/{i}": "many" for i in range(2000)})),
        ):
            found = go.filter_result(await extender.post("filter", body))
            assert found.error.startswith("stowplan: ")
            assert len(found.error) < 5000


@pytest.mark.parametrize("inside", ["default", "é", "Pending", "b1-r1-x1"])
async def test_bytes_that_are_not_utf8_are_told_in_error(inside: str) -> None:
    body = encoded(solo().annotated(note="é").phase("Pending")).replace(inside.encode(), b"\xff")
    assert b"\xff" in body
    before = counted("stowplan_wire_errors_total", verb="filter")
    async with served(cluster_of(*four_nodes())) as extender:
        found = go.filter_result(await extender.post("filter", body))
        assert found.error.startswith("stowplan: ")
        assert extender.cluster.ledger.seat_count == 0
    assert counted("stowplan_wire_errors_total", verb="filter") == before + 1


@pytest.mark.parametrize(
    "tail", [b'oops "b1-r1-x1" ]}', b'{"a":"b1-r1-x1"}]}', b'"b1-r1-x1",]}', b'"b1-r1-x1"]}]}']
)
async def test_names_that_are_no_list_are_told_in_error_and_reserve_nothing(tail: bytes) -> None:
    body = b'{"Pod":%s,"Nodes":null,"NodeNames":[%s' % (orjson.dumps(solo().gpus(1)), tail)
    async with served(cluster_of(*four_nodes())) as extender:
        found = go.filter_result(await extender.post("filter", body))
        assert extender.cluster.ledger.seat_count == 0
        assert found.error.startswith("stowplan: ")


# --- Calls that disagree with what is known ------------------------------------------------------


@pytest.mark.parametrize("spec", [None, {}, {"containers": None}], ids=["null", "{}", "no list"])
async def test_a_seat_never_moves_to_a_node_without_room_for_what_it_holds(spec: Any) -> None:
    """The call asks for less than the pod that is known, and its seat's node is not offered."""
    pods = gang("train", 2, gpus=4, rack=RACK)
    busy = pod("busy").gpus(6).on(NAMES[0])
    async with served(cluster_of(*four_nodes(), busy, *pods)) as extender:
        first = await ask(extender, pods[0])
        less = gang("train", 2, gpus=4, rack=RACK)[0]
        less["spec"] = spec
        for _ in range(3):
            await ask(extender, less, [name for name in NAMES if name != first.only_node])
            await ask(extender, less, NAMES[:1] + NAMES[2:3])


async def test_a_pod_that_asks_for_more_than_is_known_gets_no_seat_that_is_too_small() -> None:
    known, larger = solo().gpus(1), solo().gpus(8)
    others = [pod(f"busy-{i}").gpus(7).on(name) for i, name in enumerate(NAMES)]
    async with served(cluster_of(*four_nodes(), *others, known)) as extender:
        await ask(extender, larger)
        await ask(extender, known)
