"""A node is on a workload's list while it is lost to it, and only then."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.placement.filters import Filters, Toleration
from stowplan.placement.keys import KUEUE_GATE, OUR_GATE
from stowplan.placement.kueue.assignment import Assignment
from stowplan.placement.kueue.health import (
    KUEUE,
    MOST_LISTED,
    STOWPLAN,
    Evicted,
    HealthRules,
    Judged,
    PlacedPodSet,
    PlacedWorkload,
    TimedToleration,
    judge,
)
from stowplan.placement.records import NodeRecord, PodRecord
from stowplan.topology.levels import HOSTNAME
from tests.build import PodObject, node, pod
from tests.strategies import EXAMPLES

NOW = 1000.0
LONG_AGO = NOW - 31
JUST_NOW = NOW - 10

AT_ONCE = replace(STOWPLAN, replace_on_pod_end=False)
FIXED_TOO = replace(STOWPLAN, replace_after_fixed_time=True)
KUEUE_FIXED_TOO = replace(KUEUE, replace_after_fixed_time=True)

READY = node("h1").record()
AWAY = node("h1").not_ready().record()
SILENT = replace(READY, conditions=(("DiskPressure", "False"),))


def tainted(effect: str, key: str = "broken") -> NodeRecord:
    return node("h1").tainted(key, effect=effect).record()


def tolerating(key: str, seconds: int | None = None) -> TimedToleration:
    return TimedToleration(Toleration(key, "Exists", "", ""), seconds)


def running(name: str = "p", host: str = "h1") -> PodObject:
    return pod(name).on(host)


def pinned(name: str = "p", host: str = "h1") -> PodObject:
    return pod(name).selecting(**{HOSTNAME: host})


def on_hosts(*hosts: str) -> Assignment:
    return Assignment((HOSTNAME,), tuple(((host,), 1) for host in hosts))


def workload(
    *pods: PodObject,
    hosts: Sequence[str] = ("h1", "h2"),
    listed: Sequence[str] = (),
    tolerations: Sequence[TimedToleration] = (),
) -> PlacedWorkload:
    records = tuple(each.record() for each in pods)
    podset = PlacedPodSet(on_hosts(*hosts), records, tuple(tolerations))
    return PlacedWorkload((podset,), tuple(listed))


def seen(
    of: PlacedWorkload,
    at: NodeRecord | None,
    since: float = LONG_AGO,
    rules: HealthRules = STOWPLAN,
    host: str = "h1",
) -> Judged:
    found = judge(of, host, at, since, NOW, rules)
    assert isinstance(found, Judged), found
    return found


# --- What is seen of the node --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "want_waits"),
    [
        pytest.param(None, False, id="gone"),
        pytest.param(SILENT, False, id="no Ready condition"),
        pytest.param(AWAY, True, id="Ready is Unknown"),
        pytest.param(replace(READY, conditions=(("Ready", "False"),)), True, id="Ready is False"),
        pytest.param(tainted("NoSchedule"), True, id="NoSchedule"),
        pytest.param(tainted("NoExecute"), True, id="NoExecute"),
    ],
)
def test_a_lost_node_is_listed_at_once_or_when_nothing_progresses_there(
    at: NodeRecord | None, want_waits: bool
) -> None:
    assert seen(workload(), at).unhealthy == ("h1",)
    assert seen(workload(running()), at).unhealthy == (() if want_waits else ("h1",))


@pytest.mark.parametrize(
    "at",
    [
        pytest.param(READY, id="ready"),
        pytest.param(tainted("PreferNoSchedule"), id="PreferNoSchedule"),
        pytest.param(replace(READY, unschedulable=True), id="cordoned, not tainted yet"),
        pytest.param(
            replace(READY, conditions=(("MemoryPressure", "True"), ("Ready", "True"))),
            id="under pressure",
        ),
    ],
)
def test_a_node_that_is_well_leaves_the_list_and_its_pods_alone(at: NodeRecord) -> None:
    found = seen(workload(pinned(), listed=["h2", "h1", "h3"]), at)
    assert found == Judged(("h2", "h3"))


@pytest.mark.parametrize(
    ("of_the_pod", "want_listed"),
    [
        pytest.param(running(), False, id="runs"),
        pytest.param(running().phase("Pending"), False, id="bound, starting"),
        pytest.param(running().phase("Unknown"), False, id="nobody knows"),
        pytest.param(running().terminating(), True, id="being deleted"),
        pytest.param(running().phase("Succeeded"), True, id="succeeded"),
        pytest.param(running().phase("Failed"), True, id="failed"),
        pytest.param(running(host="h2"), True, id="runs on another node"),
        pytest.param(pinned(), True, id="pinned, not bound"),
        pytest.param(pod("p").gated_by(KUEUE_GATE), True, id="gated"),
    ],
)
def test_a_pod_progresses_while_it_is_bound_there_and_neither_leaving_nor_ended(
    of_the_pod: PodObject, want_listed: bool
) -> None:
    assert (seen(workload(of_the_pod), AWAY).unhealthy == ("h1",)) is want_listed


def test_one_pod_that_progresses_is_enough_to_wait_whichever_podset_it_is_of() -> None:
    ended = PlacedPodSet(on_hosts("h1"), (running("a").phase("Failed").record(),))
    lives = PlacedPodSet(on_hosts("h2"), (running("b").record(),))
    assert seen(PlacedWorkload((ended, lives)), AWAY).unhealthy == ()


# --- Taints and tolerations ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tolerations", "rules", "want_listed"),
    [
        pytest.param([], STOWPLAN, "when pods end", id="not tolerated"),
        pytest.param([], AT_ONCE, "at once", id="not tolerated, no waiting"),
        pytest.param([tolerating("other")], STOWPLAN, "when pods end", id="another tolerated"),
        pytest.param([tolerating("broken", 300)], STOWPLAN, "when pods end", id="for a time"),
        pytest.param([tolerating("broken", 0)], STOWPLAN, "when pods end", id="for no time"),
        pytest.param(
            [tolerating("broken", 300)], AT_ONCE, "when pods end", id="for a time, no waiting"
        ),
        pytest.param([tolerating("broken")], STOWPLAN, "never", id="for good"),
        pytest.param([tolerating("")], STOWPLAN, "never", id="every taint, for good"),
        pytest.param(
            [tolerating("broken", 300), tolerating("broken")], STOWPLAN, "never", id="both ways"
        ),
        pytest.param([], replace(STOWPLAN, replace_on_taints=False), "never", id="taints off"),
    ],
)
@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_a_taint_counts_as_far_as_it_is_not_tolerated(
    tolerations: list[TimedToleration], rules: HealthRules, want_listed: str, effect: str
) -> None:
    at = tainted(effect)
    idle = seen(workload(tolerations=tolerations), at, rules=rules)
    busy = seen(workload(running(), tolerations=tolerations), at, rules=rules)
    want = {"never": ((), ()), "when pods end": (("h1",), ()), "at once": (("h1",), ("h1",))}
    assert (idle.unhealthy, busy.unhealthy) == want[want_listed]


def test_the_worst_taint_counts() -> None:
    at = node("h1").tainted("slow", effect="NoExecute").tainted("broken").record()
    for_a_time = [tolerating("slow", 300)]
    busy = workload(running(), tolerations=for_a_time)
    assert seen(busy, at, rules=AT_ONCE).unhealthy == ("h1",)
    good = workload(tolerations=[*for_a_time, tolerating("broken")])
    assert seen(good, at).unhealthy == ("h1",)


def test_every_podset_on_the_node_must_tolerate_and_no_other() -> None:
    tolerant = PlacedPodSet(on_hosts("h1"), (), (tolerating("broken"),))
    delicate = PlacedPodSet(on_hosts("h1"))
    elsewhere = PlacedPodSet(on_hosts("h2"))
    at = tainted("NoSchedule")
    assert seen(PlacedWorkload((tolerant, delicate)), at).unhealthy == ("h1",)
    assert seen(PlacedWorkload((tolerant, elsewhere)), at).unhealthy == ()


def test_a_taint_that_is_tolerated_does_not_hide_that_the_node_is_not_ready() -> None:
    at = node("h1").tainted("broken").not_ready().record()
    assert seen(workload(tolerations=[tolerating("broken")]), at).unhealthy == ("h1",)


# --- Time ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "since", "want_idle", "want_busy"),
    [
        pytest.param(STOWPLAN, 0, ("h1", None), ("", None), id="waiting for pods: never timed"),
        pytest.param(STOWPLAN, 99, ("h1", None), ("", None), id="waiting for pods: long away"),
        pytest.param(AT_ONCE, 0, ("", 30), ("", 30), id="no waiting: just away"),
        pytest.param(AT_ONCE, 29.5, ("", 0.5), ("", 0.5), id="no waiting: the rest is over soon"),
        pytest.param(AT_ONCE, 30, ("h1", None), ("h1", None), id="no waiting: exactly then"),
        pytest.param(FIXED_TOO, 10, ("h1", None), ("", 20), id="both: pods or time"),
        pytest.param(FIXED_TOO, 30, ("h1", None), ("h1", None), id="both: time is over"),
        pytest.param(KUEUE_FIXED_TOO, 10, ("h1", None), ("", None), id="both, Kueue's"),
        pytest.param(
            KUEUE_FIXED_TOO, 30, ("h1", None), ("", None), id="both, Kueue's: listed and taken off"
        ),
    ],
)
def test_a_node_that_is_not_ready_is_lost_when_time_or_pods_say_so(
    rules: HealthRules,
    since: float,
    want_idle: tuple[str, float | None],
    want_busy: tuple[str, float | None],
) -> None:
    for of, want in ((workload(), want_idle), (workload(running()), want_busy)):
        found = seen(of, AWAY, NOW - since, rules)
        assert ("".join(found.unhealthy), found.recheck_after_seconds) == want


def test_until_the_time_is_over_the_list_stays_as_it_is_and_pinned_pods_wait() -> None:
    of = workload(pinned(), listed=["h2", "h1"])
    assert seen(of, AWAY, JUST_NOW, AT_ONCE) == Judged(("h2", "h1"), (), 20)


@pytest.mark.parametrize(
    ("at", "rules"),
    [
        pytest.param(tainted("NoSchedule"), AT_ONCE, id="tainted"),
        pytest.param(None, AT_ONCE, id="gone"),
        pytest.param(SILENT, AT_ONCE, id="no Ready condition"),
    ],
)
def test_only_a_node_that_is_not_ready_has_time(at: NodeRecord | None, rules: HealthRules) -> None:
    assert seen(workload(running()), at, NOW, rules) == Judged(("h1",))


def test_where_kueue_lists_and_takes_off_in_one_look_a_second_node_still_evicts() -> None:
    busy = workload(running(), listed=["h2"])
    assert judge(busy, "h1", AWAY, LONG_AGO, NOW, KUEUE_FIXED_TOO) == Evicted(("h2", "h1"))
    assert seen(busy, AWAY, LONG_AGO, KUEUE).unhealthy == ("h2",)
    assert seen(busy, AWAY, LONG_AGO, FIXED_TOO).unhealthy == ("h2", "h1")


# --- Several nodes -------------------------------------------------------------------------------


def lost_one_after_another(hosts: Sequence[str], rules: HealthRules) -> Judged | Evicted:
    of = workload(hosts=hosts)
    found: Judged | Evicted = Judged(())
    for host in hosts:
        found = judge(of, host, None, NOW, NOW, rules)
        if isinstance(found, Evicted):
            return found
        of = replace(of, unhealthy=found.unhealthy)
    return found


def test_all_lost_nodes_are_listed_in_the_order_of_their_loss() -> None:
    assert lost_one_after_another(["h3", "h1", "h2"], STOWPLAN) == Judged(("h3", "h1", "h2"))


def test_a_ninth_lost_node_evicts_the_workload() -> None:
    hosts = [f"h{i}" for i in range(MOST_LISTED + 1)]
    assert lost_one_after_another(hosts[:-1], STOWPLAN) == Judged(tuple(hosts[:-1]))
    assert lost_one_after_another(hosts, STOWPLAN) == Evicted(tuple(hosts))


def test_by_kueues_rules_a_second_lost_node_evicts_the_workload() -> None:
    assert lost_one_after_another(["h2", "h1"], KUEUE) == Evicted(("h2", "h1"))


@pytest.mark.parametrize("rules", [STOWPLAN, KUEUE], ids=["ours", "kueue"])
def test_a_listed_node_that_is_still_lost_is_not_a_second_one(rules: HealthRules) -> None:
    assert seen(workload(listed=["h1"]), None, rules=rules) == Judged(("h1",))


def test_a_full_list_evicts_nobody_while_its_nodes_stay_lost() -> None:
    hosts = tuple(f"h{i}" for i in range(MOST_LISTED))
    assert seen(workload(hosts=hosts, listed=hosts), None) == Judged(hosts)


# --- Pods to make again --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of_the_pod", "want_fails"),
    [
        pytest.param(pinned(), True, id="pinned"),
        pytest.param(pinned().gated_by("other"), True, id="behind another gate it cannot leave"),
        pytest.param(pinned().gated_by(KUEUE_GATE), False, id="gated by Kueue"),
        pytest.param(pinned().gated_by(OUR_GATE), False, id="gated by us"),
        pytest.param(pinned(host="h2"), False, id="pinned to another node"),
        pytest.param(pod("p"), False, id="not pinned"),
        pytest.param(pinned().on("h1").phase("Failed"), False, id="failed already"),
        pytest.param(pinned().phase("Failed"), False, id="failed before it was bound"),
        pytest.param(pinned().on("h1").phase("Pending").terminating(), False, id="bound"),
    ],
)
@pytest.mark.parametrize("at", [None, AWAY, tainted("NoSchedule")], ids=["gone", "away", "tainted"])
def test_pods_that_were_sent_to_a_lost_node_and_can_never_start_fail(
    of_the_pod: PodObject, want_fails: bool, at: NodeRecord | None
) -> None:
    found = seen(workload(of_the_pod), at)
    assert found == Judged(("h1",), ("default/p",) if want_fails else ())


def test_failed_pods_are_sorted_by_name() -> None:
    assert seen(workload(pinned("b"), pinned("a")), None).failed_pods == ("default/a", "default/b")


def test_while_others_run_there_a_pinned_pod_waits_or_it_might_come_back_to_the_same_node() -> None:
    of = workload(running("a"), pinned("b"))
    assert seen(of, AWAY) == Judged(())
    assert seen(of, AWAY, rules=KUEUE) == Judged((), ("default/b",))


@pytest.mark.parametrize("at", [READY, AWAY, None], ids=["ready", "away", "gone"])
@pytest.mark.parametrize("rules", [STOWPLAN, KUEUE, AT_ONCE], ids=["ours", "kueue", "at once"])
def test_a_pod_pinned_to_a_node_outside_the_assignment_fails_and_nothing_is_listed(
    at: NodeRecord | None, rules: HealthRules
) -> None:
    stray = workload(pinned(), hosts=["h2", "h3"], listed=["h3"])
    assert seen(stray, at, JUST_NOW, rules) == Judged(("h3",), ("default/p",))


def test_a_node_that_was_replaced_leaves_the_list() -> None:
    assert seen(workload(hosts=["h2"], listed=["h1"]), None) == Judged(())


# --- Who is looked at ----------------------------------------------------------------------------


def test_a_workload_that_finished_or_was_evicted_stays_as_it_is() -> None:
    over = replace(workload(pinned(), listed=["h2"]), active=False)
    assert seen(over, None, rules=KUEUE) == Judged(("h2",))


def test_without_a_host_level_no_node_is_lost_and_a_pinned_pod_is_its_authors_wish() -> None:
    racks = Assignment(("rack",), ((("h1",), 1),))
    of = PlacedWorkload((PlacedPodSet(racks, (pinned().record(),)),))
    assert seen(of, None) == Judged(())


def test_only_podsets_with_a_host_level_have_strays() -> None:
    racks = PlacedPodSet(Assignment(("rack",), ((("r1",), 1),)), (pinned("a").record(),))
    hosts = PlacedPodSet(on_hosts("h2"), (pinned("b").record(),))
    assert seen(PlacedWorkload((racks, hosts)), None) == Judged((), ("default/b",))


def test_a_workload_without_places_loses_nothing() -> None:
    assert seen(PlacedWorkload(()), None) == Judged(())


# --- Laws ----------------------------------------------------------------------------------------

HOSTS = tuple(f"h{i}" for i in range(10))


@dataclass(frozen=True)
class Scene:
    """A workload, what is seen of every host, and by which rules."""

    of: PlacedWorkload
    nodes: dict[str, tuple[NodeRecord | None, float]]
    rules: HealthRules

    def look(self, of: PlacedWorkload, host: str) -> Judged | Evicted:
        return judge(of, host, *self.nodes[host], NOW, self.rules)

    def look_at_all(self, order: Sequence[str]) -> PlacedWorkload:
        """Return the workload after one pass over the nodes; inactive once it was evicted."""
        of = self.of
        for host in order:
            match self.look(of, host):
                case Judged(unhealthy):
                    of = replace(of, unhealthy=unhealthy)
                case Evicted():
                    of = replace(of, active=False)
        return of


# All that a node can look like: gone, or these taints under each condition.
TAINTS: list[list[tuple[str, str]]] = [
    [],
    [],
    [("broken", "NoSchedule")],
    [("slow", "NoExecute")],
    [("broken", "PreferNoSchedule")],
    [("slow", "NoExecute"), ("broken", "NoSchedule")],
]
CONDITIONS: list[tuple[tuple[str, str], ...]] = [
    (("Ready", "True"),),
    (("Ready", "True"),),
    (("Ready", "Unknown"),),
    (),
]


def looking(taints: list[tuple[str, str]], conditions: tuple[tuple[str, str], ...]) -> NodeRecord:
    made = node("any")
    for key, effect in taints:
        made.tainted(key, effect=effect)
    return replace(made.record(), conditions=conditions)


LOOKS = [None, *(looking(taints, conditions) for taints in TAINTS for conditions in CONDITIONS)]
PODS = [
    each.record()
    for each in (
        *(running(), running(), running().phase("Failed"), running().terminating()),
        *(pinned(), pinned(), pinned().phase("Failed"), pinned().gated_by(KUEUE_GATE)),
    )
]


def moved(record: PodRecord, name: str, host: str) -> PodRecord:
    """Return one of PODS under another name and at another host."""
    if record.node:
        return replace(record, name=name, node=host)
    return replace(record, name=name, filters=Filters(selector=((HOSTNAME, host),)))


@st.composite
def drawn_podsets(draw: st.DrawFn, name: str) -> PlacedPodSet:
    hosts = draw(st.lists(st.sampled_from(HOSTS), min_size=1, max_size=10, unique=True))
    tolerated = st.builds(
        tolerating, st.sampled_from(["broken", "slow"]), st.sampled_from([None, 300])
    )
    shapes = draw(st.lists(st.tuples(st.sampled_from(PODS), st.sampled_from(HOSTS)), max_size=5))
    pods = [moved(record, f"{name}{i}", host) for i, (record, host) in enumerate(shapes)]
    return PlacedPodSet(on_hosts(*hosts), tuple(pods), tuple(draw(st.lists(tolerated, max_size=3))))


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    podsets = [draw(drawn_podsets(name)) for name in "ab"[: draw(st.integers(1, 2))]]
    listed = draw(st.lists(st.sampled_from(HOSTS), max_size=3, unique=True))
    rules = HealthRules(*(draw(st.booleans()) for _ in range(6)))
    looks = st.tuples(st.sampled_from(LOOKS), st.sampled_from([NOW, JUST_NOW, NOW - 30]))
    nodes = dict(zip(HOSTS, draw(st.lists(looks, min_size=10, max_size=10)), strict=True))
    return Scene(PlacedWorkload(tuple(podsets), tuple(listed)), nodes, rules)


def without_the_quirk(scene: Scene) -> Scene:
    """Return the scene by rules that never list and take off a node in one look.

    By that quirk such a node evicts a workload if the other one was listed before it, and not if
    it comes first.
    """
    return replace(scene, rules=replace(scene.rules, fixed_time_wins=True))


def is_well(scene: Scene, host: str) -> bool:
    """Say it slowly: ready, and every podset there tolerates every taint for good."""
    at = scene.nodes[host][0]
    if at is None or ("Ready", "True") not in at.conditions:
        return False
    for podset in scene.of.podsets:
        for taint in at.taints:
            for_good = [t.toleration for t in podset.tolerations if t.seconds is None]
            if podset.is_on(host) and not any(t.tolerates(taint) for t in for_good):
                return False
    return True


@settings(max_examples=EXAMPLES)
@given(scene=scenes(), host=st.sampled_from(HOSTS))
def test_a_node_that_is_well_or_not_in_the_assignment_is_never_listed(
    scene: Scene, host: str
) -> None:
    is_there = any(podset.is_on(host) for podset in scene.of.podsets)
    found = scene.look(scene.of, host)
    if is_well(scene, host) or not is_there:
        assert isinstance(found, Judged)
        assert host not in found.unhealthy


@settings(max_examples=EXAMPLES)
@given(scene=scenes(), host=st.sampled_from(HOSTS))
def test_a_look_touches_no_other_node_of_the_list(scene: Scene, host: str) -> None:
    found = scene.look(scene.of, host)
    if isinstance(found, Judged):
        others = [name for name in scene.of.unhealthy if name != host]
        assert [name for name in found.unhealthy if name != host] == others


@settings(max_examples=EXAMPLES)
@given(scene=scenes(), host=st.sampled_from(HOSTS))
def test_a_second_look_finds_what_the_first_found(scene: Scene, host: str) -> None:
    found = scene.look(scene.of, host)
    if isinstance(found, Judged):
        assert scene.look(replace(scene.of, unhealthy=found.unhealthy), host) == found


@settings(max_examples=EXAMPLES)
@given(scene=scenes(), order=st.permutations(HOSTS))
def test_a_second_pass_over_all_nodes_changes_nothing(scene: Scene, order: list[str]) -> None:
    scene = without_the_quirk(scene)
    first = scene.look_at_all(order)
    if first.active:
        assert replace(scene, of=first).look_at_all(order) == first


@settings(max_examples=EXAMPLES)
@given(scene=scenes(), order=st.permutations(HOSTS))
def test_which_nodes_are_lost_does_not_depend_on_the_order_of_looks(
    scene: Scene, order: list[str]
) -> None:
    fresh = without_the_quirk(replace(scene, of=replace(scene.of, unhealthy=())))
    one, other = fresh.look_at_all(HOSTS), fresh.look_at_all(order)
    assert one.active == other.active
    if one.active:
        assert set(one.unhealthy) == set(other.unhealthy)


@settings(max_examples=EXAMPLES)
@given(scene=scenes(), order=st.permutations(HOSTS))
def test_the_list_is_never_longer_than_its_limit(scene: Scene, order: list[str]) -> None:
    fresh = replace(scene, of=replace(scene.of, unhealthy=()))
    most = MOST_LISTED if scene.rules.several_lost_nodes else 1
    assert len(fresh.look_at_all(order).unhealthy) <= most


@settings(max_examples=EXAMPLES)
@given(scene=scenes(), host=st.sampled_from(HOSTS))
def test_pods_fail_only_where_they_wait_for_this_node_and_not_on_one_that_is_well(
    scene: Scene, host: str
) -> None:
    found = scene.look(scene.of, host)
    if not isinstance(found, Judged):
        return
    pods = {p.key: p for podset in scene.of.podsets for p in podset.pods}
    for key in found.failed_pods:
        assert dict(pods[key].filters.selector) == {HOSTNAME: host}
        assert (pods[key].node, pods[key].phase, pods[key].gates) == ("", "Pending", ())
    is_there = any(podset.is_on(host) for podset in scene.of.podsets)
    if is_there and is_well(scene, host):
        assert not found.failed_pods


@settings(max_examples=EXAMPLES)
@given(scene=scenes(), host=st.sampled_from(HOSTS))
def test_by_our_rules_a_pod_fails_only_once_it_cannot_come_back_to_the_same_node(
    scene: Scene, host: str
) -> None:
    found = judge(
        scene.of, host, *scene.nodes[host], NOW, replace(scene.rules, pinned_pods_wait=True)
    )
    is_there = any(podset.is_on(host) for podset in scene.of.podsets)
    if isinstance(found, Judged) and found.failed_pods and is_there:
        assert host in found.unhealthy


@settings(max_examples=EXAMPLES)
@given(scene=scenes(), host=st.sampled_from(HOSTS))
def test_when_the_time_to_look_again_has_come_the_answer_is_another(
    scene: Scene, host: str
) -> None:
    at, since = scene.nodes[host]
    found = judge(scene.of, host, at, since, NOW, scene.rules)
    if isinstance(found, Judged) and (wait := found.recheck_after_seconds) is not None:
        assert wait > 0
        later = judge(scene.of, host, at, since, NOW + wait, scene.rules)
        assert isinstance(later, Evicted) or (
            host in later.unhealthy and later.recheck_after_seconds is None
        )
