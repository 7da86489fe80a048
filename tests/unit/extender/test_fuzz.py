"""Whatever arrives, the answer is one that Go reads, and the books stay right."""

import copy
from collections.abc import MutableMapping, Sequence
from typing import Any

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stowplan.placement import keys
from tests.build import GPU, Json, gang, owner, pod
from tests.contract import go
from tests.strategies import EXAMPLES
from tests.unit.extender.served import (
    BLOCK,
    NAMES,
    RACK,
    Served,
    cluster_of,
    encoded,
    encoded_with_nodes,
    four_nodes,
    overpromised,
    served,
)

Logged = list[MutableMapping[str, Any]]
Path = tuple[str | int, ...]

fuzzed = settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)

# Pods of every way to be in a gang, some of which the cluster knows with their owner.
PODS = [
    *gang("train", 2, gpus=4, rack=RACK),
    pod("solo").requires(RACK).gpus(8),
    pod("spread-0").in_gang("spread", 2).prefers(RACK).gpus(8),
    pod("any-0").in_gang("any", 1).anywhere().gpus(1),
    pod("job-0").owned_by("Job", "job").requires(BLOCK).gpus(2),
    pod("set-0").owned_by("StatefulSet", "set").requires(RACK).sliced(RACK, 1).gpus(1),
    pod("plain"),
]
OWNERS = [owner("Job", "job", parallelism=1), owner("StatefulSet", "set", replicas=2)]
ANNOTATIONS = sorted(keys.ANNOTATIONS_KEPT)
LABELS = sorted(keys.LABELS_KEPT)

WITH_SEATS = ("SeatLost:", "NodesExcluded:")  # the gang is placed, but not on what was offered

words = st.sampled_from(
    (
        *("", "0", "1", "2", "-1", "8", "1e3", "0.5m", "9E", "10001", "1" * 5000, "true", "x"),
        *(RACK, BLOCK, f"{RACK}=1", "kubernetes.io/hostname", "é", "\u0000", *NAMES[:2]),
        *("Job", "JobSet", "PodGroup", "LeaderWorkerSet", "Pod", "job", "Succeeded", "Failed"),
    )
)
values: st.SearchStrategy[Any] = st.one_of(
    words,
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.just([]),
    st.just({}),
    st.lists(words, max_size=2),
    st.dictionaries(words, words, max_size=2),
)
quantities = st.sampled_from(("0", "1", "0.5m", "1e3", "-1", "9E", "1,5", "", 3, 0.5, None))


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Draw a request that was valid before a few parts of it were changed."""
    each = copy.deepcopy(draw(st.sampled_from(PODS)))
    for _ in range(draw(st.integers(0, 2))):
        draw(st.sampled_from((_annotate, _label, _own, _ask)))(draw, each)
    names = draw(st.lists(st.sampled_from((*NAMES, "ghost")), max_size=5, unique=True))
    nodes = four_nodes()[: draw(st.integers(0, 4))]
    body = draw(st.sampled_from((encoded(each, names), encoded_with_nodes(each, nodes))))
    whole = orjson.loads(body)
    for _ in range(draw(st.integers(0, 2))):
        _spoil(draw, whole)
    return orjson.dumps(whole)


def _annotate(draw: st.DrawFn, each: Json) -> None:
    each["metadata"]["annotations"][draw(st.sampled_from(ANNOTATIONS))] = draw(words)


def _label(draw: st.DrawFn, each: Json) -> None:
    each["metadata"]["labels"][draw(st.sampled_from(LABELS))] = draw(words)


def _own(draw: st.DrawFn, each: Json) -> None:
    reference = {"kind": draw(words), "name": draw(words), "controller": True}
    each["metadata"]["ownerReferences"] = [reference]


def _ask(draw: st.DrawFn, each: Json) -> None:
    amounts = each["spec"]["containers"][0]["resources"]["requests"]
    amounts[draw(st.sampled_from((GPU, "cpu", "memory", "pods", "x")))] = draw(quantities)


def _spoil(draw: st.DrawFn, whole: Any) -> None:
    """Replace, remove or add something anywhere."""
    path = draw(st.sampled_from(sorted(_paths(whole), key=repr)))
    holder = whole
    for step in path[:-1]:
        holder = holder[step]
    match draw(st.sampled_from(("replace", "remove", "add"))):
        case "replace":
            holder[path[-1]] = draw(values)
        case "remove":
            del holder[path[-1]]
        case _ if isinstance(holder, dict):
            fields = ("nodeName", "phase", "uid", "deletionTimestamp", "nominatedNodeName", "x")
            holder[draw(st.sampled_from(fields))] = draw(values)
        case _:
            holder.insert(0, draw(values))


def _paths(part: Any, above: Path = ()) -> Sequence[Path]:
    if isinstance(part, dict):
        steps: Sequence[str | int] = list(part)
    elif isinstance(part, list):
        steps = range(len(part))
    else:
        return []
    return [
        path for step in steps for path in ((*above, step), *_paths(part[step], (*above, step)))
    ]


@st.composite
def garbled(draw: st.DrawFn) -> bytes:
    """Draw a valid request of which some bytes were changed."""
    body = bytearray(encoded(draw(st.sampled_from(PODS))))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(body) - 1))
        byte = draw(st.integers(0, 255) | st.sampled_from(b'"{}[],:\\ 0n'))
        match draw(st.sampled_from(("replace", "remove", "insert", "cut"))):
            case "replace":
                body[at] = byte
            case "remove" if len(body) > 1:
                del body[at]
            case "insert":
                body.insert(at, byte)
            case _:
                del body[at + 1 :]
    return bytes(body)


async def judge(extender: Served, body: bytes, logged: Logged) -> None:
    """Ask both verbs; seats are made only for a pod that is placed or whose seat is not offered."""
    seats = extender.cluster.ledger.seat_count
    found = go.filter_result(await extender.post("filter", body))
    if found.error or (found.unresolvable and found.reason.split()[1] not in WITH_SEATS):
        assert extender.cluster.ledger.seat_count <= seats
    go.host_priorities(await extender.post("prioritize", body))
    assert overpromised(extender.cluster) == []
    assert "internal error" not in found.error
    assert [entry for entry in logged if entry["log_level"] == "error"] == []


async def judge_all(these: Sequence[bytes], logged: Logged) -> None:
    logged.clear()
    known = [PODS[0], PODS[1], *OWNERS]
    busy = pod("busy").gpus(6).on(NAMES[0])
    async with served(cluster_of(*four_nodes(), *known, busy)) as extender:
        for body in these:
            await judge(extender, body, logged)
        fine = go.filter_result(await extender.post("filter", encoded(pod("fine"))))
        assert fine.node_names == list(NAMES)


@fuzzed
@given(st.lists(bodies(), min_size=1, max_size=6))
async def test_requests_that_were_changed_are_answered_and_never_break_the_books(
    logged: Logged, these: list[bytes]
) -> None:
    await judge_all(these, logged)


@fuzzed
@given(st.lists(garbled(), min_size=1, max_size=6))
async def test_requests_with_wrong_bytes_are_answered_and_never_break_the_books(
    logged: Logged, these: list[bytes]
) -> None:
    await judge_all(these, logged)


@fuzzed
@given(st.lists(st.binary(max_size=200), min_size=1, max_size=6))
async def test_random_bytes_are_answered_and_reserve_nothing(
    logged: Logged, these: list[bytes]
) -> None:
    await judge_all(these, logged)
