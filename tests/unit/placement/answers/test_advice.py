"""Which change would make a gang fit: each is applied, and everything smaller is tried in vain."""

import random
from collections.abc import Iterator
from contextlib import AbstractContextManager
from math import comb

import pytest

from stowplan.placement.answers.answer import (
    Change,
    CoarserLevel,
    DoesNotFit,
    FewerPods,
    LargerShare,
    MoreRoom,
    WorkloadEnds,
)
from stowplan.placement.answers.ask import ask
from stowplan.placement.answers.more_room import offered
from stowplan.placement.answers.workloads import freed, running
from stowplan.placement.cluster import Cluster
from stowplan.placement.gangs import GangId
from tests.build import GPU, Json, NodeObject, PodObject, cluster, gang, level, node, pod
from tests.unit.placement.answers import misfits
from tests.unit.placement.answers.misfits import CPU_UNIT, LEVELS, NOW, Role, Scene

PLENTY = 1_000_000
MOST_SPLITS = 150  # of one amount over the nodes of one domain; beyond it that many are drawn


# --- 210 random misfits --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(210))
def test_the_smallest_change_of_each_kind_is_proven_on_a_random_misfit(seed: int) -> None:
    check_answer(misfits.misfit(seed))


@pytest.mark.parametrize("seed", range(40))
def test_the_smallest_change_is_proven_where_pods_are_kept_apart(seed: int) -> None:
    check_answer(misfits.misfit(seed, kind="share"))


def check_answer(scene: Scene) -> None:
    answer = ask(scene.cluster(), scene.gang, now=NOW)
    assert isinstance(answer, DoesNotFit)
    changes = answer.changes
    check_fewer_pods(scene, [c for c in changes if isinstance(c, FewerPods)])
    check_coarser_level(scene, [c for c in changes if isinstance(c, CoarserLevel)])
    scarce = answer.domains[0].short_of if answer.domains else ""
    check_larger_share(scene, [c for c in changes if isinstance(c, LargerShare)])
    check_workload_ends(scene, [c for c in changes if isinstance(c, WorkloadEnds)], scarce)
    check_more_room(scene, [c for c in changes if isinstance(c, MoreRoom)])


def check_fewer_pods(scene: Scene, told: list[FewerPods]) -> None:
    """The told count fits, and no way to take off fewer pods does; untold, none at all does."""
    fits = [
        (role.count - to, at, to)
        for at, role in enumerate(scene.roles)
        for to in fewer(role, scene)
        if misfits.with_fewer(scene, at, to).fits()
    ]
    assert [(change.was - change.to, change.to) for change in told] == [
        (off, to) for off, _, to in sorted(fits)[:1]
    ]
    if told and not scene.job:  # whose pods have no role
        assert told[0].podset == scene.roles[min(fits)[1]].name


def fewer(role: Role, scene: Scene) -> Iterator[int]:
    """Yield smaller counts that leave whole slices, or a smaller last one, and a pod to place."""
    size = role.slices[0][1] if role.slices else 1
    inner = role.slices[1][1] if len(role.slices) > 1 else 1
    whole = scene.policy.rules.rest_is_dropped
    for to in range(max(size, len(role.runs_on) + 1), role.count):
        rest = to % size
        if not rest or (not whole and (scene.done or (role.smaller and rest % inner == 0))):
            yield to


def check_coarser_level(scene: Scene, told: list[CoarserLevel]) -> None:
    """The told level fits, and none does that is nearer; untold, none at all does."""
    fits: list[tuple[int, int, str | None]] = []
    for short in {role.required or role.preferred for role in scene.roles}:
        at = misfits.SHORT.index(short) if short else 0
        for up in range(1, at + 2) if short else ():
            to = misfits.SHORT[at - up] if up <= at else None
            if misfits.with_level(scene, short or "", to).fits():
                fits.append((up, -at, to and level(to)))
    assert told == [
        CoarserLevel(LEVELS.keys[-at], to) for _, at, to in sorted(fits, key=lambda f: f[:2])[:1]
    ]


def check_larger_share(scene: Scene, told: list[LargerShare]) -> None:
    """The told share fits, and none that is raised by less does; untold, none at all does."""
    fits = [
        (to - allowed(role), at, to)
        for at, role in enumerate(scene.roles)
        if role.share
        for to in range(allowed(role) + 1, role.count + 1)
        if misfits.with_share(scene, at, to).fits()
    ]
    assert [(change.to - change.was, change.to) for change in told] == [
        (more, to) for more, _, to in sorted(fits)[:1]
    ]


def allowed(role: Role) -> int:
    """Return how many pods of the role one domain may have."""
    amount = (role.share or "").partition("=")[2]
    if not amount.endswith("%"):
        return int(amount)
    return max(role.count * int(amount.removesuffix("%")) // 100, 1)


def check_workload_ends(scene: Scene, told: list[WorkloadEnds], scarce: str) -> None:
    """Without the told workload it fits, and without no smaller one; untold, without none."""
    fits = [
        (len(uses), sum(use.get(scarce, 0) for use in uses), name)
        for name, uses in workloads(scene).items()
        if misfits.without(scene, name).fits()
    ]
    assert [(change.pods, change.gang.name) for change in told] == [
        (pods, name) for pods, _, name in sorted(fits)[:1]
    ]


def workloads(scene: Scene) -> dict[str, list[dict[str, int]]]:
    """Return by name what each pod, or seat, of a workload uses."""
    found: dict[str, list[dict[str, int]]] = {}
    for member in scene.running:
        found.setdefault(misfits.workload_of(member), []).append(dict(member.requests))
    for _, gpus, cores in scene.seats:
        found.setdefault("holder", []).append({GPU: gpus, "cpu": cores * CPU_UNIT, "pods": 1})
    return found


def check_more_room(scene: Scene, told: list[MoreRoom]) -> None:
    """Each told amount is proven; of an untold resource no amount would do in any domain."""
    by_resource = {change.resource: change for change in told}
    assert len(by_resource) == len(told)
    open_roles = [role for role in scene.roles if role.count > len(role.runs_on)]
    if len(open_roles) != 1 or open_roles[0].slices or open_roles[0].share:
        assert told == []
        return
    (role,) = open_roles
    asked = {"cpu": role.cores, GPU: role.gpus, "pods": 1}
    assert {resource for resource in by_resource if not asked[resource]} == set()
    for resource in (resource for resource, amount in asked.items() if amount):
        if resource in by_resource:
            check_amount(scene, role, by_resource[resource])
            continue
        for names in domains(scene, role).values():
            assert not misfits.with_more(scene, resource, dict.fromkeys(names, PLENTY)).fits()


def check_amount(scene: Scene, role: Role, change: MoreRoom) -> None:
    """With the amount it fits; with one unit less it does not, wherever that is added."""
    unit = CPU_UNIT if change.resource == "cpu" else 1
    assert sum(amount for _, amount in change.nodes) == change.amount
    assert {name for name, _ in change.nodes} <= set(domains(scene, role)[change.domain])
    assert misfits.with_more(scene, change.resource, dict(change.nodes)).fits()
    assert change.amount % unit == 0
    for names in domains(scene, role).values():
        for split in splits(change.amount // unit - 1, len(names)):
            amounts = {name: n * unit for name, n in zip(names, split, strict=True)}
            assert not misfits.with_more(scene, change.resource, amounts).fits()


def splits(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to split a total into so many parts, or some if there are too many."""
    if comb(total + parts - 1, parts - 1) <= MOST_SPLITS:
        yield from misfits.splits(total, parts)
        return
    rng = random.Random(total * 100 + parts)
    for _ in range(MOST_SPLITS):
        cuts = sorted(rng.randint(0, total) for _ in range(parts - 1))
        yield tuple(b - a for a, b in zip([0, *cuts], [*cuts, total], strict=True))


def domains(scene: Scene, role: Role) -> dict[tuple[str, ...], list[str]]:
    """Return the usable nodes of each domain of the level that a role asks for."""
    asked = role.required or role.preferred
    depth = misfits.SHORT.index(asked) + 1 if asked else 0
    strict = scene.policy.rules.all_labels_needed
    found: dict[tuple[str, ...], list[str]] = {}
    for record in (record for record in scene.nodes if record.usable):
        path = (LEVELS.path if strict else LEVELS.partial_path)(record.name, record.labels)
        if path is not None and all(path[depth - 1 : depth]):
            found.setdefault(path[:depth], []).append(record.name)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_left_behind_by_the_search(seed: int) -> None:
    scene = misfits.misfit(seed)
    there = scene.cluster()
    before = misfits.picture(there)
    ask(there, scene.gang, now=NOW)
    assert misfits.picture(there) == before


# --- one kind after the other --------------------------------------------------------------------

#   rack   r1          r2
#   node   r1a  r1b    r2a  r2b      4 GPUs each


def racks(gpus: int = 4) -> list[NodeObject]:
    return [
        node(f"{rack}{x}").at(block="b", rack=rack).gpus(gpus)
        for rack in ("r1", "r2")
        for x in "ab"
    ]


def uses(name: str, on: str, gpus: int) -> PodObject:
    return pod(name).gpus(gpus).on(on)


def told(*objects: Json, by: str = "train") -> tuple[Change, ...]:
    answer = ask(cluster(*objects), GangId("default", "pod-group", by))
    assert isinstance(answer, DoesNotFit)
    return answer.changes


def test_fewer_pods_leave_whole_slices() -> None:
    members = [pod(f"train-{i}").in_gang("train", 8) for i in range(8)]
    asking = [member.requires("rack").sliced("host", 2).gpus(1) for member in members]
    found = told(*racks(3), *asking)
    assert FewerPods("podset-0", 8, 4) in found


def test_fewer_pods_may_leave_a_smaller_last_slice_where_that_is_asked_for() -> None:
    members = [pod(f"train-{i}").in_gang("train", 8).gpus(1) for i in range(8)]
    asking = [
        member.requires("rack")
        .sliced("host", 2)
        .annotated(**{"stowplan.dev/last-slice": "smaller"})
        for member in members
    ]
    found = told(*racks(3), *asking)
    assert FewerPods("podset-0", 8, 5) in found


def test_of_two_roles_the_one_that_loses_fewer_pods_is_told() -> None:
    workers = [pod(f"w-{i}").in_gang("train", 6).requires("rack").gpus(2) for i in range(5)]
    server = pod("x").in_gang("train", 6).requires("rack").gpus(1).asking(cpu="1")
    assert told(*racks(), *workers, server)[0] == FewerPods("podset-0", 5, 3)


def test_the_level_told_is_the_next_that_holds_the_gang() -> None:
    found = told(*racks(), *gang("train", 3, gpus=4))
    assert CoarserLevel(level("rack"), level("block")) in found


def test_no_level_at_all_is_told_where_no_level_holds_the_gang() -> None:
    blocks = [node(x).at(block=x, rack="r").gpus(4) for x in "ab"]
    assert CoarserLevel(level("rack"), None) in told(*blocks, *gang("train", 2, gpus=4))


def ends(*objects: Json) -> list[WorkloadEnds]:
    return [change for change in told(*objects) if isinstance(change, WorkloadEnds)]


def test_the_workload_with_fewest_pods_is_told() -> None:
    small = [uses("small", "r1a", 2)]
    large = [uses(f"large-{i}", "r2a", 1).in_gang("large", 2) for i in range(2)]
    (change,) = ends(*racks(), *small, *large, *gang("train", 2, gpus=4))
    assert change == WorkloadEnds(GangId("default", "Pod", "small"), 1)


def test_of_equally_many_pods_those_that_free_less_of_what_lacks_are_told() -> None:
    running = [uses("greedy", "r1a", 4), uses("modest", "r2a", 1)]
    (change,) = ends(*racks(), *running, *gang("train", 2, gpus=4))
    assert change.gang.name == "modest"


def test_of_equal_workloads_the_first_by_name_is_told() -> None:
    running = [uses("b", "r1a", 1), uses("a", "r2a", 1)]
    (change,) = ends(*racks(), *running, *gang("train", 2, gpus=4))
    assert change.gang.name == "a"


@pytest.mark.parametrize("kind", ["DaemonSet", "Node"])
def test_pods_that_belong_to_a_node_never_end(kind: str) -> None:
    running = [
        uses(f"agent-{i}", x, 1).owned_by(kind, "agent") for i, x in enumerate(["r1a", "r2a"])
    ]
    assert ends(*racks(), *running, *gang("train", 2, gpus=4)) == []


def test_pods_of_the_gang_itself_are_no_other_workload() -> None:
    members = gang("train", 2, gpus=4)
    members[0].on("r1a")
    agent = uses("agent", "r1b", 1).owned_by("DaemonSet", "agent")
    assert ends(*racks()[:2], agent, *members) == []


def test_seats_that_are_promised_count_as_pods_of_their_gang() -> None:
    holder, waiting = gang("holder", 2, gpus=4), gang("waiting", 2, gpus=4)
    others = [uses(f"other-{i}", f"r2{x}", 1).in_gang("other", 3) for i, x in enumerate("aab")]
    there = cluster(*racks(), *holder, *waiting, *others)
    ask(there, GangId("default", "pod-group", "holder"), take=True)
    answer = ask(there, GangId("default", "pod-group", "waiting"))
    assert isinstance(answer, DoesNotFit)
    assert WorkloadEnds(GangId("default", "pod-group", "holder"), 2) in answer.changes


def more(*objects: Json) -> list[MoreRoom]:
    return [change for change in told(*objects) if isinstance(change, MoreRoom)]


#   Each case: GPUs used on r1a, r1b, r2a, r2b of 4 each, and what two pods of 4 then lack.
@pytest.mark.parametrize(
    ("used", "amount", "where"),
    [
        pytest.param((1, 0, 4, 4), 1, {"r1a": 1}, id="what one node lacks to a whole pod"),
        pytest.param((1, 2, 4, 4), 3, {"r1a": 1, "r1b": 2}, id="both nodes need some"),
        pytest.param((4, 4, 2, 1), 3, {"r2a": 2, "r2b": 1}, id="the cheaper rack"),
        pytest.param((4, 4, 4, 4), 8, {"r1a": 4, "r1b": 4}, id="no more than runs on each node"),
        pytest.param((6, 1, 6, 6), 5, {"r1b": 5}, id="nothing for an overcommitted node"),
    ],
)
def test_the_least_room_is_told_for_each_of_these_racks(
    used: tuple[int, ...], amount: int, where: dict[str, int]
) -> None:
    names = [made["metadata"]["name"] for made in racks()]
    running = [uses(f"u-{name}", name, n) for name, n in zip(names, used, strict=True) if n]
    (change,) = more(*racks(), *running, *gang("train", 2, gpus=4))
    assert (change.resource, change.amount, dict(change.nodes)) == (GPU, amount, where)


def test_an_overcommitted_node_gets_room_where_no_other_node_can_take_the_pod() -> None:
    # One pod a node: r1a and r1b have slots for one each, and r1a is two GPUs overcommitted.
    nodes = [made.offering(pods="2") for made in racks()[:2]]
    running = [uses("u", "r1a", 6), uses("v", "r1b", 1)]
    (change,) = more(*nodes, *running, *gang("train", 2, gpus=4))
    assert (change.amount, dict(change.nodes)) == (6 + 1, {"r1a": 6, "r1b": 1})


def test_the_cheapest_set_of_overcommitted_nodes_is_found() -> None:
    """Overcommitted by 3, 3 and 4, with slots for 1, 1 and 2 pods: two pods go to the last."""
    slots = {"x": 1, "y": 1, "z": 2}
    over = {"x": 3, "y": 3, "z": 4}
    nodes = [
        node(x).at(block="b", rack="r").gpus(1).offering(pods=str(n + 1)) for x, n in slots.items()
    ]
    running = [uses(f"u{x}", x, 1 + n) for x, n in over.items()]
    (change,) = more(*nodes, *running, *gang("train", 2, gpus=1))
    assert (change.amount, dict(change.nodes)) == (4 + 2, {"z": 6})


def test_pod_slots_are_a_resource_like_others() -> None:
    nodes = [made.offering(pods="1") for made in racks()]
    (change,) = more(*nodes, *gang("train", 4, gpus=2))
    assert (change.resource, change.amount) == ("pods", 2)


def test_no_amount_of_one_resource_helps_where_two_are_missing() -> None:
    members = [member.asking(cpu="100") for member in gang("train", 4, gpus=4)]
    assert more(*racks(), *members) == []


def test_room_is_asked_only_of_nodes_that_the_pods_may_use() -> None:
    nodes = racks()
    for made in nodes[:2]:
        made.tainted("dedicated")
    nodes[2].cordoned()
    (change,) = more(*nodes, *gang("train", 2, gpus=4))
    assert dict(change.nodes) == {"r2b": 4}


def test_without_a_level_room_may_be_anywhere() -> None:
    members = [pod(f"train-{i}").in_gang("train", 5).anywhere().gpus(4) for i in range(5)]
    (change,) = more(*racks(), *members)
    assert (change.amount, change.domain) == (4, ())


def test_with_a_preferred_level_room_in_one_of_its_domains_is_told() -> None:
    members = [pod(f"train-{i}").in_gang("train", 5).prefers("rack").gpus(4) for i in range(5)]
    (change,) = more(*racks(), *members)
    assert (change.amount, change.domain) == (4, ("b", "r1"))


def test_a_resource_that_no_node_offers_is_told_and_leaves_no_trace() -> None:
    members = [member.asking(**{"example.com/nic": "1"}) for member in gang("train", 2, gpus=4)]
    there = cluster(*racks(), *members)
    before = misfits.picture(there)
    answer = ask(there, GangId("default", "pod-group", "train"))
    assert isinstance(answer, DoesNotFit)
    assert [(c.resource, c.amount) for c in answer.changes if isinstance(c, MoreRoom)] == [
        ("example.com/nic", 2)
    ]
    assert misfits.picture(there) == before


def test_a_trial_that_fails_half_way_is_undone() -> None:
    there = cluster(*racks(), *[uses(f"u-{i}", "r1a", 1) for i in range(3)])
    workload = running(there, (), NOW)[0]
    change = MoreRoom(GPU, 3, ("b", "r1"), (("r1a", 1), ("r1b", 2)))
    before = misfits.picture(there)
    for trial in (freed(there.state, workload.taken), offered(there.state, change)):
        with pytest.raises(RuntimeError):
            fail_inside(trial, there, before)
        assert misfits.picture(there) == before


def fail_inside(
    trial: AbstractContextManager[None], there: Cluster, before: dict[str, object]
) -> None:
    with trial:
        assert misfits.picture(there) != before
        raise RuntimeError
