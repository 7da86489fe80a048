"""Records keep what a decision reads, and cost what Kubernetes says a pod costs."""

from typing import Any

import pytest

from stowplan.api.errors import InvalidObjectError
from stowplan.api.models import core
from stowplan.api.models.wire import read
from stowplan.placement import keys
from stowplan.placement.cluster import Objects
from stowplan.placement.records import PodRecord, effective_requests, node_changes
from tests.build import GPU, Json, node, pod

GI = 2**30


def container(cpu: str | None = None, **more: Any) -> dict[str, Any]:
    requests = {} if cpu is None else {"cpu": cpu}
    return {"name": "c", "resources": {"requests": requests}, **more}


def sidecar(cpu: str) -> dict[str, Any]:
    return container(cpu, restartPolicy="Always")


def cost(**spec: Any) -> dict[str, int]:
    return dict(effective_requests(read(core.PodSpec, spec, "Pod p"), "Pod p"))


ONE = {"containers": [container("1")]}


@pytest.mark.parametrize(
    ("spec", "want_cpu"),
    [
        pytest.param({"containers": [container("1"), container("500m")]}, 1500, id="sum"),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("3")]},
            3000,
            id="a larger init container",
        ),
        pytest.param(
            {"containers": [container("4")], "initContainers": [container("3"), container("2")]},
            4000,
            id="smaller init containers run one by one",
        ),
        pytest.param(
            {"containers": [container("1")], "initContainers": [sidecar("2")]},
            3000,
            id="a sidecar runs beside the containers",
        ),
        pytest.param(
            {"containers": [container("1")], "initContainers": [sidecar("2"), container("3")]},
            5000,
            id="an init container runs beside sidecars before it",
        ),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("3"), sidecar("1")]},
            3000,
            id="but not beside sidecars after it",
        ),
        pytest.param(
            {
                "containers": [container("1")],
                "initContainers": [sidecar("1"), container("5"), sidecar("1"), container("3")],
            },
            6000,
            id="the largest moment of several",
        ),
        pytest.param(
            {"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1250, id="overhead"
        ),
        pytest.param(
            {
                "containers": [container("1")],
                "initContainers": [container("3")],
                "overhead": {"cpu": "250m"},
            },
            3250,
            id="overhead on the larger",
        ),
        pytest.param(
            {"containers": [container("1")], "resources": {"requests": {"cpu": "8"}}},
            8000,
            id="the whole pod's request replaces the sum",
        ),
        pytest.param(
            {
                "containers": [container("1")],
                "resources": {"requests": {"cpu": "8"}},
                "overhead": {"cpu": "1"},
            },
            9000,
            id="and overhead comes on top",
        ),
        pytest.param(
            {"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]},
            2000,
            id="a limit without a request is one",
        ),
        pytest.param(
            {
                "containers": [
                    {"name": "c", "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}}
                ]
            },
            1000,
            id="a request beside a limit",
        ),
        pytest.param(
            {"containers": [{"name": "c"}], "resources": {"limits": {"cpu": "3"}}},
            3000,
            id="the whole pod's limit without any request is one",
        ),
    ],
)
def test_a_pod_costs_what_kubernetes_says(spec: dict[str, Any], want_cpu: int) -> None:
    assert cost(**spec)["cpu"] == want_cpu


def has(cpu: str, promised: str | None = None) -> Json:
    """The status of container c."""
    allocated = {} if promised is None else {"allocatedResources": {"cpu": promised}}
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **allocated}


PENDING = {"type": "PodResizePending", "status": "True"}
WHOLE = {"containers": [{"name": "c"}], "resources": {"requests": {"cpu": "4"}}}


@pytest.mark.parametrize(
    ("spec", "status", "want_cpu"),
    [
        pytest.param(ONE, {"containerStatuses": [has("1", "1")]}, 1000, id="as it is asked"),
        pytest.param(ONE, {"containerStatuses": [has("3", "1")]}, 3000, id="it still has more"),
        pytest.param(ONE, {"containerStatuses": [has("1", "2")]}, 2000, id="more was promised"),
        pytest.param(
            ONE, {"containerStatuses": [has("500m", "500m")]}, 1000, id="it asks for more"
        ),
        pytest.param(
            ONE,
            {
                "containerStatuses": [has("500m", "500m")],
                "conditions": [{**PENDING, "reason": "Infeasible"}],
            },
            500,
            id="it asks in vain",
        ),
        pytest.param(
            ONE,
            {
                "containerStatuses": [has("500m", "500m")],
                "conditions": [{**PENDING, "reason": "Deferred"}],
            },
            1000,
            id="it may get it later",
        ),
        pytest.param(
            ONE,
            {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "9"}}]},
            1000,
            id="a promise counts only beside what is had",
        ),
        pytest.param(
            {"initContainers": [{**container("1"), "restartPolicy": "Always"}]},
            {"initContainerStatuses": [has("2")]},
            2000,
            id="a sidecar",
        ),
        pytest.param(
            {"initContainers": [container("1")]},
            {"initContainerStatuses": [has("2")]},
            1000,
            id="an init container is over",
        ),
        pytest.param(
            WHOLE, {"resources": {"requests": {"cpu": "6"}}}, 6000, id="the whole pod has more"
        ),
        pytest.param(
            WHOLE,
            {"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "5"}},
            5000,
            id="the whole pod was promised more",
        ),
        pytest.param(
            WHOLE,
            {"resources": {"requests": {"memory": "1Gi"}}},
            4000,
            id="only what the whole pod asks for counts as a whole",
        ),
    ],
)
def test_a_pod_that_is_resized_costs_the_most_of_what_it_asks_and_has(
    spec: Json, status: Json, want_cpu: int
) -> None:
    found = PodRecord.of(
        read(core.Pod, {"metadata": {"name": "p"}, "spec": spec, "status": status}, "Pod")
    )
    assert dict(found.requests) == {"cpu": want_cpu, "pods": 1}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"containers": None, "initContainers": None, "overhead": None, "resources": None},
        {"containers": [{"name": "c", "resources": None}]},
        {"containers": [{"resources": {"requests": None, "limits": None}}]},
        {"containers": [container("0")]},
        {"resources": {"requests": None}},
    ],
)
def test_a_pod_without_requests_costs_its_slot(spec: dict[str, Any]) -> None:
    assert cost(**spec) == {"pods": 1}


def test_each_resource_has_its_own_largest_moment() -> None:
    got = cost(
        containers=[{"resources": {"requests": {"cpu": "1", GPU: "8"}}}],
        initContainers=[{"resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}],
    )
    assert got == {"cpu": 2000, "memory": GI, GPU: 8, "pods": 1}


def test_parts_of_devices_round_up_for_each_container() -> None:
    assert cost(containers=[container("100u"), container("100u")])["cpu"] == 2


def test_bare_numbers_are_quantities() -> None:
    got = cost(containers=[{"resources": {"requests": {"cpu": 0.5, "memory": 1024, GPU: 2}}}])
    assert got == {"cpu": 500, "memory": 1024, GPU: 2, "pods": 1}


def test_every_wrong_quantity_is_reported_at_once_with_its_path() -> None:
    spec = {
        "containers": [{"resources": {"requests": {"cpu": "lots", GPU: "-1"}}}, container("1")],
        "initContainers": [{"resources": {"limits": {"memory": "1gb"}}}],
        "overhead": {"cpu": ""},
        "resources": {"requests": {"memory": "1e"}},
    }
    with pytest.raises(InvalidObjectError) as caught:
        cost(**spec)
    assert {v.path for v in caught.value.violations} == {
        "spec.containers[0].resources.requests.cpu",
        f"spec.containers[0].resources.requests['{GPU}']",
        "spec.initContainers[0].resources.limits.memory",
        "spec.overhead.cpu",
        "spec.resources.requests.memory",
    }
    assert "Pod p is refused" in str(caught.value)


def test_every_wrong_object_of_a_cluster_is_reported_at_once() -> None:
    objects: list[Json] = [
        node("n1").offering(cpu="x", memory="-1"),
        node("n2"),
        pod("p1").asking(cpu="y"),
        {"kind": "Node", "metadata": {"name": 7}},
        {"kind": "Pod"},
    ]
    with pytest.raises(InvalidObjectError) as caught:
        Objects.of(objects)
    assert [v.path for v in caught.value.violations] == [
        "Node n1: status.allocatable.cpu",
        "Node n1: status.allocatable.memory",
        "Pod default/p1: spec.containers[0].resources.requests.cpu",
        "Node: metadata.name",
        "Pod: metadata",
    ]


def test_kinds_that_placement_does_not_read_are_passed_over() -> None:
    objects: list[Json] = [
        {"kind": "ConfigMap", "data": 7},
        {"kind": ["Pod"]},
        {"kind": None},
        {},
        node("n1"),
    ]
    assert set(Objects.of(objects).nodes) == {"n1"}


def test_a_pod_without_a_name_is_refused() -> None:
    broken = pod("")
    with pytest.raises(InvalidObjectError):
        broken.record()


# --- Nodes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conditions", "cordoned", "want"),
    [
        ([{"type": "Ready", "status": "True"}], False, True),
        ([{"type": "Ready", "status": "True"}], True, False),
        ([{"type": "Ready", "status": "False"}], False, False),
        ([{"type": "Ready", "status": "Unknown"}], None, False),
        ([{"type": "DiskPressure", "status": "True"}], None, False),
        ([], None, False),
        (None, None, False),
    ],
)
def test_a_node_gives_room_when_it_is_ready_and_not_cordoned(
    conditions: Any, cordoned: bool | None, want: bool
) -> None:
    found = node("n")
    found["status"]["conditions"] = conditions
    found["spec"]["unschedulable"] = cordoned
    assert found.record().usable is want


def test_a_node_without_spec_and_status_offers_nothing() -> None:
    bare = node("n")
    del bare["spec"], bare["status"]
    record = bare.record()
    assert (record.allocatable, record.usable, record.taints) == ((), False, ())


@pytest.mark.parametrize("text", ["0", "0.5"])
def test_a_capacity_is_rounded_down(text: str) -> None:
    assert dict(node("n").offering(**{GPU: text}).record().allocatable)[GPU] == 0


def test_heartbeats_change_nothing_that_matters() -> None:
    before, after = node("n"), node("n")
    after["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-01T00:00:00Z"
    after["metadata"]["resourceVersion"] = "7"
    assert node_changes(before.record(), after.record()) == ()
    assert node_changes(before.record(), node("n").gpus(1).cordoned().record()) == (
        "allocatable",
        "unschedulable",
    )


# --- Pods ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((key, "x") for key in (*keys.REQUIRED, *keys.PREFERRED, *keys.UNCONSTRAINED)),
        (keys.OUR_SLICES, "rack=2"),
        (keys.SLICE_LEVEL, "rack"),
        (keys.SLICE_SIZE, "2"),
        (keys.SLICE_LAYERS, "[]"),
    ],
)
def test_each_request_key_makes_a_pod_ask(key: str, value: str) -> None:
    assert pod("p").annotated(**{key: value}).record().asks


def test_other_keys_ask_for_nothing() -> None:
    found = pod("p").in_gang("g", 2).annotated(**{keys.PACKING: "mixed", "x": "y"})
    assert not found.labelled(**{keys.REQUIRED[0]: "rack"}).record().asks


@pytest.mark.parametrize("label", keys.HELD_LABELS)
def test_each_label_of_kueue_s_holds_a_pod(label: str) -> None:
    assert pod("p").labelled(**{label: ""}).record().held_by_kueue


def test_kueue_holds_by_annotation_and_by_gate_too() -> None:
    assert pod("p").annotated(**{keys.HELD_ANNOTATION: "w"}).record().held_by_kueue
    assert pod("p").gated_by("kueue.x-k8s.io/topology").record().held_by_kueue
    assert not pod("p").gated_by("example.com/wait").in_gang("g", 2).record().held_by_kueue


def test_what_tells_a_pod_apart_survives_and_the_rest_is_dropped() -> None:
    found = pod("p").in_namespace("team").labelled(app="x").annotated(note="y" * 10_000_000)
    found["metadata"]["uid"] = "u1"
    record = found.owned_by("Job", "train", "u2").nominated_to("n1").record()
    assert (record.key, record.uid, record.nominated) == ("team/p", "u1", "n1")
    assert (record.labels, record.annotations) == ({}, {})
    assert record.owner is not None
    assert (record.owner.kind, record.owner.name, record.owner.uid) == ("Job", "train", "u2")


def test_only_a_controller_owns_a_pod() -> None:
    found = pod("p").owned_by("Job", "train")
    found["metadata"]["ownerReferences"][0]["controller"] = None
    assert found.record().owner is None


@pytest.mark.parametrize(
    "spec",
    [
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
        {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "ephemeral": {"x": 1}}]},
        {"resourceClaims": [{"name": "gpu"}]},
    ],
)
def test_a_pod_with_a_claim_binds_slowly(spec: dict[str, Any]) -> None:
    found = pod("p")
    found["spec"].update(spec)
    assert found.record().binds_slowly
    assert not pod("p").record().binds_slowly
