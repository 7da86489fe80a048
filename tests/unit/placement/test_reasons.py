"""Refusals are worded from a closed set: stable, short, and never with the name of a node."""

from collections.abc import Callable
from typing import get_args

import pytest

from stowplan.api.errors import Violation
from stowplan.placement import keys, reasons
from stowplan.placement.cluster import Cluster
from stowplan.placement.decide import Refused, filter_nodes
from stowplan.placement.reasons import Reason
from tests.build import GPU, Json, PodObject, cluster, gang, level, node, pod

MEGABYTES = "x" * 10_000_000
RACK = level("rack")
VIOLATION = Violation(keys.PACKING, "invalid", MEGABYTES, "must be short", "shorten it")

ALL = (
    reasons.SEAT_LOST,
    reasons.STARTING,
    reasons.NATIVE_GROUP,
    reasons.requests_differ(keys.PACKING),
    reasons.SIZES_DIFFER,
    reasons.MORE_THAN_SIZE,
    reasons.NO_POD,
    reasons.SIBLINGS_MISSING,
    reasons.OLDER_POD,
    reasons.TERMINATING,
    reasons.owner_unknown("Job"),
    reasons.owner_without_size("Job.batch.volcano.sh"),
    reasons.no_domain_fits(RACK, 8, GPU),
    reasons.no_domain_fits(None, 1, reasons.NO_NODE_PASSES),
    reasons.no_domain_fits(None, 8, reasons.NO_NODE_USABLE),
    reasons.runs_outside(RACK),
    reasons.rest_does_not_fit(RACK, GPU),
    reasons.runs_apart(RACK),
    reasons.nodes_excluded(RACK),
    reasons.nodes_excluded(None),
    reasons.level_unknown(MEGABYTES, (RACK,)),
    reasons.request_invalid(VIOLATION),
    reasons.too_large(10_001, 10_000),
)


@pytest.mark.parametrize("reason", ALL, ids=lambda reason: reason.word)
def test_every_reason_starts_with_a_word_of_the_closed_set_and_stays_short(reason: Reason) -> None:
    assert reason.word in get_args(reasons.Word)
    assert str(reason).startswith(f"stowplan {reason.word}: ")
    assert len(str(reason)) < 300
    assert "\n" not in str(reason)


def test_a_shortage_names_the_level_the_pods_and_the_resource() -> None:
    assert reasons.no_domain_fits(RACK, 8, GPU).text == f"no {RACK} domain fits all 8 pods: {GPU}"


#   block  b1
#   rack   r1                     r2
#   node   nodename-1 nodename-2  nodename-3    8 GPUs each
def three_nodes(*more: Json) -> Cluster:
    racks = {"nodename-1": "r1", "nodename-2": "r1", "nodename-3": "r2"}
    return cluster(*(node(n).at(block="b1", rack=r).gpus(8) for n, r in racks.items()), *more)


NODES = ("nodename-1", "nodename-2", "nodename-3")


def alone(change: Callable[[PodObject], object]) -> PodObject:
    made = pod("p").in_gang("g", 1).requires("rack").gpus(8)
    change(made)
    return made


@pytest.mark.parametrize(
    ("asked", "want_word"),
    [
        (alone(lambda p: p.gpus(9)), "NoDomainFits"),
        (alone(lambda p: p.gpus(1).asking(cpu="129")), "NoDomainFits"),
        (alone(lambda p: p.asking(**{"example.com/none": "1"})), "NoDomainFits"),
        (alone(lambda p: p.selecting(no="where")), "NoDomainFits"),
        (alone(lambda p: p.selecting(**{"kubernetes.io/hostname": "gone"})), "NoDomainFits"),
        (alone(lambda p: p.requires("nowhere")), "LevelUnknown"),
        (alone(lambda p: p.requires("not a key")), "RequestInvalid"),
        (alone(lambda p: p.requires("a" * 60)), "LevelUnknown"),
        (alone(lambda p: p.sliced("block", 1)), "RequestInvalid"),
        (alone(lambda p: p.sliced("host", 2)), "RequestInvalid"),
        (alone(lambda p: p.sliced("nowhere", 1)), "LevelUnknown"),
        (alone(lambda p: p.in_gang("g", 2)), "Incomplete"),
        (alone(lambda p: p.in_gang("g", 0)), "RequestInvalid"),
        (alone(lambda p: p.in_gang("g", 20_000)), "TooLarge"),
    ],
)
def test_a_refusal_has_its_word_no_node_s_name_and_the_same_text_each_time(
    asked: PodObject, want_word: str
) -> None:
    live = three_nodes()
    texts = set()
    for now in range(3):
        verdict = filter_nodes(live, asked.record(), NODES, float(now))
        assert isinstance(verdict, Refused)
        assert verdict.reason.word == want_word
        texts.add(str(verdict.reason))
        # Another pod comes and goes: judged anew, told the same.
        live.set_pod(pod("other").asking(cpu="1").on("nodename-1").record())
        live.remove_pod("default/other")
    assert len(texts) == 1
    assert "nodename" not in texts.pop()


def test_the_shortage_named_is_of_the_resource_that_lacks_in_the_best_rack() -> None:
    members = gang("train", 3)
    live = three_nodes(*members)
    verdicts = [filter_nodes(live, member.record(), NODES, 0.0) for member in members]
    assert {str(v.reason) for v in verdicts if isinstance(v, Refused)} == {
        f"stowplan NoDomainFits: no {RACK} domain fits all 3 pods: {GPU}"
    }
