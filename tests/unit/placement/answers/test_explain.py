"""Why a gang does not fit: what domains could hold of it, and which nodes are left out."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stowplan.placement import reasons
from stowplan.placement.answers.answer import (
    DoesNotFit,
    DomainVerdict,
    LeftOut,
    LevelVerdict,
    Oversized,
)
from stowplan.placement.answers.ask import ask
from stowplan.placement.answers.demands import Demand
from stowplan.placement.answers.domains import count
from stowplan.placement.answers.explain import FOR_LACK_OF_ROOM
from stowplan.placement.answers.headroom import Headroom
from stowplan.placement.answers.tally import NODES_EXCLUDED, RUNS_ELSEWHERE
from stowplan.placement.cluster import Cluster
from stowplan.placement.gangs import Gang, GangId
from stowplan.placement.podsets.plan import Plan, plan_of
from stowplan.placement.rules import KUEUE
from stowplan.topology.fit import MOST_PODS, counts_of
from stowplan.topology.levels import HOSTNAME
from tests.build import GPU, Json, NodeObject, PodObject, cluster, gang, level, levels, node, pod
from tests.unit.placement.answers import misfits
from tests.unit.placement.answers.misfits import LEVELS, NOW, Role, Scene

TRAIN = GangId("default", "pod-group", "train")

#   block  b1                 b2
#   rack   r1       r2        r3
#   node   a  b     c  d      e  f        4 GPUs each
PLACES = {"a": ("b1", "r1"), "b": ("b1", "r1"), "c": ("b1", "r2"), "d": ("b1", "r2")}
PLACES |= {"e": ("b2", "r3"), "f": ("b2", "r3")}


def nodes(**changed: Callable[[NodeObject], object]) -> list[NodeObject]:
    """Return the six nodes, some of them changed."""
    made = {name: node(name).at(block=b, rack=r).gpus(4) for name, (b, r) in PLACES.items()}
    for name, change in changed.items():
        change(made[name])
    return list(made.values())


def why_not(*objects: Json, on: Cluster | None = None, **options: Any) -> DoesNotFit:
    answer = ask(on or cluster(*objects, **options), TRAIN, advice=False)
    assert isinstance(answer, DoesNotFit)
    return answer


def uses(on: str, gpus: int) -> PodObject:
    return pod(f"on-{on}").gpus(gpus).on(on)


# --- levels and domains --------------------------------------------------------------------------


def test_each_level_tells_how_many_domains_hold_the_gang_and_which_comes_closest() -> None:
    found = why_not(*nodes(), uses("a", 4), uses("f", 4), *gang("train", 3, gpus=4))
    assert found.levels == (
        LevelVerdict(level("block"), False, 2, 1, ("b1",), 3, 3),
        LevelVerdict(level("rack"), True, 3, 0, ("b1", "r2"), 2, 3),
        LevelVerdict(HOSTNAME, False, 6, 0, ("b1", "r1", "b"), 1, 3),
    )


def test_each_domain_of_the_asked_level_tells_what_it_lacks_the_closest_first() -> None:
    members = [member.asking(cpu="100") for member in gang("train", 3, gpus=2)]
    there = nodes(c=lambda n: n.gpus(8), d=lambda n: n.gpus(0), f=lambda n: n.gpus(2))
    found = why_not(*there, uses("e", 3), *members)
    assert [(d.domain[-1], d.fits, d.needed, d.short_of) for d in found.domains] == [
        ("r1", 2, 3, "cpu"),
        ("r2", 1, 3, "cpu"),
        ("r3", 1, 3, GPU),
    ]


def test_as_many_domains_are_told_as_were_asked_for() -> None:
    there = cluster(*nodes(), *gang("train", 3, gpus=4))
    answer = ask(there, TRAIN, domains=1, advice=False)
    assert isinstance(answer, DoesNotFit)
    assert [verdict.domain for verdict in answer.domains] == [("b1", "r1")]


def test_without_a_level_the_one_domain_is_the_whole_cluster() -> None:
    members = [pod(f"train-{i}").in_gang("train", 7).anywhere().gpus(4) for i in range(7)]
    found = why_not(*nodes(), *members)
    assert found.domains == (DomainVerdict((), 6, 7, GPU, ()),)
    assert [verdict.asked for verdict in found.levels] == [False] * 3


def test_whole_slices_are_counted_where_the_gang_asks_for_slices() -> None:
    members = [
        pod(f"train-{i}").in_gang("train", 6).requires("rack").sliced("host", 3).gpus(1)
        for i in range(6)
    ]
    found = why_not(*nodes(), *(uses(x, 2) for x in "bdf"), *members)
    assert (found.levels[1].fits, found.levels[1].needed) == (3, 6)


def test_a_share_is_kept_in_the_counts() -> None:
    members = [pod(f"train-{i}").in_gang("train", 6).requires("rack").gpus(1) for i in range(6)]
    for member in members:
        member.annotated(**{"stowplan.dev/max-per-domain": f"{HOSTNAME}=2"})
    found = why_not(*nodes(), *members)
    assert [verdict.fits for verdict in found.levels] == [8, 4, 2]


def test_a_nameless_domain_is_no_domain_of_its_level() -> None:
    found = why_not(*nodes(c=no_rack, d=no_rack), *gang("train", 3, gpus=4))
    rack = found.levels[1]
    assert (rack.domains, rack.holding) == (2, 0)
    assert {verdict.domain for verdict in found.domains} == {("b1", "r1"), ("b2", "r3")}


def no_rack(made: NodeObject) -> NodeObject:
    return made.without(level("rack"))


def test_roles_are_judged_together_and_the_one_that_is_short_is_named() -> None:
    workers = [pod(f"train-{i}").in_gang("train", 3).requires("rack").gpus(4) for i in range(2)]
    for worker in workers:
        worker.annotated(**{"kueue.x-k8s.io/role-hash": "worker"})
    server = pod("train-x").in_gang("train", 3).requires("rack").gpus(1)
    server.annotated(**{"kueue.x-k8s.io/role-hash": "server"})
    found = why_not(*nodes(), uses("c", 4), *workers, server)
    assert [(v.holding, v.fits) for v in found.levels] == [(1, 3), (0, 2), (0, 1)]
    assert [(d.domain[-1], d.fits, d.podset, d.short_of) for d in found.domains] == [
        ("r1", 2, "server", GPU),
        ("r3", 2, "server", GPU),
        ("r2", 1, "worker", GPU),
    ]


@pytest.mark.parametrize(
    ("cores", "want"),
    [
        pytest.param("200", ("leader", "cpu", True), id="the leader fits nowhere"),
        pytest.param("1", ("worker", GPU, False), id="the workers do not fit beside it"),
    ],
)
def test_the_leader_is_named_when_it_is_the_leader_that_does_not_fit(
    cores: str, want: tuple[str, str, bool]
) -> None:
    leader = pod("train-0").gpus(1).asking(cpu=cores)
    workers = [pod(f"train-{i}").gpus(4) for i in (1, 2)]
    for role, member in [("leader", leader), *(("worker", worker) for worker in workers)]:
        member.in_gang("train", 3).requires("rack").annotated(
            **{"kueue.x-k8s.io/role-hash": role, "stowplan.dev/podset-group": "g"}
        )
    found = why_not(*nodes(), leader, *workers)
    (podset, short_of, leads), *_ = {(d.podset, d.short_of, d.leader) for d in found.domains}
    assert (podset, short_of, leads) == want


def test_a_leader_is_counted_where_it_takes_least_from_its_workers() -> None:
    leader = pod("train-0").gpus(1)
    workers = [pod(f"train-{i}").gpus(4) for i in (1, 2)]
    for member in (leader, *workers):
        member.in_gang("train", 3).requires("rack").annotated(**{"stowplan.dev/podset-group": "g"})
    found = why_not(*nodes(), *(uses(x, 3) for x in "bdf"), leader, *workers)
    assert [(d.fits, d.needed, d.podset) for d in found.domains] == [(2, 3, "podset-1")] * 3


def test_nodes_that_lack_the_label_of_slices_hold_none() -> None:
    members = [
        pod(f"train-{i}").in_gang("train", 8).requires("block").sliced("rack", 2).gpus(2)
        for i in range(8)
    ]
    found = why_not(*nodes(c=no_rack, d=no_rack), *members)
    assert {d.domain: d.fits for d in found.domains} == {("b1",): 4, ("b2",): 4}


@pytest.mark.parametrize(
    ("change", "short_of"),
    [
        pytest.param(NodeObject.cordoned, reasons.NO_NODE_USABLE, id="no node is usable"),
        pytest.param(lambda n: n.tainted("x"), reasons.NO_NODE_PASSES, id="no node passes"),
    ],
)
def test_a_domain_without_a_node_for_the_pods_says_why(
    change: Callable[[NodeObject], object], short_of: str
) -> None:
    found = why_not(*nodes(e=change, f=change), *gang("train", 3, gpus=4))
    assert {d.domain[-1]: d.short_of for d in found.domains}["r3"] == short_of


def test_a_domain_whose_nodes_were_all_refused_for_the_gang_says_so() -> None:
    there = cluster(*nodes(), *gang("train", 3, gpus=4))
    for name in "ef":
        there.ledger.exclude(TRAIN, name, now=0.0)
    found = why_not(on=there)
    assert {d.domain[-1]: d.short_of for d in found.domains}["r3"] == NODES_EXCLUDED


def test_of_a_gang_that_runs_in_part_only_its_own_domain_is_told() -> None:
    members = gang("train", 4, gpus=4)
    members[0].on("c")
    found = why_not(*nodes(), *members)
    assert [(d.domain, d.fits, d.needed) for d in found.domains] == [(("b1", "r2"), 1, 3)]
    assert [v.holding for v in found.levels] == [1, 0, 0]


def test_domains_that_a_gang_runs_in_at_once_are_told_as_no_choice() -> None:
    members = gang("train", 3, gpus=1)
    members[0].on("a")
    members[1].on("e")
    found = why_not(*nodes(), *members)
    assert {d.short_of for d in found.domains} == {RUNS_ELSEWHERE}
    assert [v.holding for v in found.levels] == [0, 0, 0]


def test_no_domain_is_a_choice_for_a_gang_that_runs_outside_of_all() -> None:
    members = gang("train", 2, gpus=1)
    members[0].on("stray")
    found = why_not(*nodes(), node("stray").gpus(4), *members)
    assert {d.short_of for d in found.domains} == {RUNS_ELSEWHERE}
    assert [v.holding for v in found.levels] == [0, 0, 0]


def test_a_cluster_without_a_node_in_the_tree_has_levels_without_domains() -> None:
    stray = node("stray")
    found = why_not(stray, *gang("train", 2))
    assert found.levels[1] == LevelVerdict(level("rack"), True, 0, 0, (), 0, 2)
    assert found.left_out == (LeftOut("", "no-level-label", level("block"), 1, "stray"),)


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda p: p.requires("row"), id="a level that is unknown"),
        pytest.param(lambda p: p.requires("host").sliced("rack", 1), id="slices above the level"),
    ],
)
def test_a_request_that_cannot_be_placed_anywhere_is_not_blamed_on_the_nodes(
    wrong: Callable[[PodObject], object],
) -> None:
    members = [pod(f"train-{i}").in_gang("train", 2).gpus(4) for i in range(2)]
    for member in members:
        wrong(member)
    found = why_not(*nodes(), *members)
    assert found.reason.word not in FOR_LACK_OF_ROOM
    assert (found.levels, found.domains, found.left_out) == ((), (), ())


# --- nodes that are left out ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(
            lambda n: n.without(level("block")),
            LeftOut("", "no-level-label", level("block"), 1, "d"),
            id="no label of the coarsest level",
        ),
        pytest.param(NodeObject.not_ready, LeftOut("", "not-ready", "", 1, "d"), id="not ready"),
        pytest.param(
            lambda n: n.not_ready().cordoned(),
            LeftOut("", "not-ready", "", 1, "d"),
            id="not ready, and cordoned too",
        ),
        pytest.param(NodeObject.cordoned, LeftOut("", "cordoned", "", 1, "d"), id="cordoned"),
        pytest.param(
            lambda n: n.tainted("team", "x"),
            LeftOut("", "taint", "team=x:NoSchedule", 1, "d"),
            id="a taint",
        ),
        pytest.param(
            lambda n: n.labelled(pool="cpu"),
            LeftOut("", "node-selector", "pool=gpu", 1, "d"),
            id="the node selector",
        ),
        pytest.param(
            lambda n: n.labelled(gen="old"),
            LeftOut("", "node-affinity", "", 1, "d"),
            id="node affinity",
        ),
        pytest.param(lambda n: n.gpus(2), LeftOut("", "too-small", GPU, 1, "d"), id="its size"),
        pytest.param(
            lambda n: n.offering(pods="0"), LeftOut("", "too-small", "pods", 1, "d"), id="pod slots"
        ),
    ],
)
def test_a_node_is_left_out_by_the_first_thing_that_keeps_the_pods_off(
    change: Callable[[NodeObject], object], want: LeftOut
) -> None:
    made = nodes()
    for each in made:
        each.labelled(pool="gpu", gen="new")
    change(made[3])
    found = why_not(*made, *picky(gang("train", 3, gpus=3)))
    assert found.left_out == (want,)
    there = {d.domain[-1]: d.left_out for d in found.domains}
    assert there["r2"] == (() if want.by == "no-level-label" else (want,))
    assert there["r1"] == ()


def picky(members: Iterable[PodObject]) -> list[PodObject]:
    """Let pods select the pool of GPUs, and not the old generation."""
    terms = [{"matchExpressions": [{"key": "gen", "operator": "NotIn", "values": ["old"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    picked = [member.selecting(pool="gpu") for member in members]
    for member in picked:
        member["spec"]["affinity"] = {"nodeAffinity": required}
    return picked


def test_by_kueues_rules_a_node_that_lacks_a_fine_label_is_left_out_for_it() -> None:
    found = why_not(*nodes(c=no_rack), *gang("train", 3, gpus=4), rules=KUEUE)
    assert LeftOut("", "no-level-label", level("rack"), 1, "c") in found.left_out


def test_nodes_that_were_refused_for_the_gang_are_left_out_for_that() -> None:
    there = cluster(*nodes(), *gang("train", 3, gpus=4))
    there.ledger.exclude(TRAIN, "b", now=0.0)
    assert why_not(on=there).left_out == (LeftOut("", "excluded", "", 1, "b"),)
    there.set_pod(pod("x").gpus(4).on("a").record())
    assert ask(there, TRAIN, now=1e9, advice=False) == ask(there, TRAIN, now=2e9, advice=False)


def test_alike_nodes_are_told_once_with_how_many_and_the_first_by_name() -> None:
    found = why_not(*nodes(), *(uses(x, 1) for x in "fcb"), *gang("train", 3, gpus=4))
    assert found.left_out == (LeftOut("", "resource", GPU, 3, "b"),)


def test_selectors_that_name_single_nodes_are_judged_node_by_node() -> None:
    members = [member.selecting(**{HOSTNAME: "a"}) for member in gang("train", 2, gpus=4)]
    found = why_not(*nodes(), *members)
    assert found.left_out == (LeftOut("", "node-selector", f"{HOSTNAME}=a", 5, "b"),)


def test_what_keeps_only_one_role_off_is_told_of_that_role() -> None:
    big = pod("train-0").in_gang("train", 2).requires("rack").gpus(8)
    small = pod("train-1").in_gang("train", 2).requires("rack").gpus(1)
    found = why_not(*nodes(a=NodeObject.cordoned), big, small)
    assert found.left_out == (
        LeftOut("", "cordoned", "", 1, "a"),
        LeftOut("podset-0", "too-small", GPU, 5, "b"),
    )
    assert found.oversized == (Oversized("podset-0", GPU, 8, 4),)


def test_without_a_host_level_nodes_are_counted_though_their_room_is_one() -> None:
    made = nodes(a=NodeObject.cordoned, c=lambda n: n.gpus(0), d=lambda n: n.gpus(0))
    racks = replace(levels("block", "rack"), keys=levels("block", "rack").keys[:2])
    found = why_not(*made, *gang("train", 3, gpus=4), at=racks)
    assert [(v.domains, v.fits) for v in found.levels] == [(2, 2), (3, 2)]
    assert found.left_out == (
        LeftOut("", "cordoned", "", 1, "a"),
        LeftOut("", "too-small", GPU, 2, "c"),
    )


# --- laws on random misfits ----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_a_level_holds_the_gang_in_as_many_domains_as_it_fits_inside_of(seed: int) -> None:
    scene = misfits.misfit(seed)
    there = scene.cluster()
    answer = ask(there, scene.gang, now=NOW, advice=False)
    assert isinstance(answer, DoesNotFit)
    tree = there.state.view().tree
    for at, verdict in enumerate(answer.levels):
        low, high = tree.range_of(at)
        named = [tree.paths[d] for d in range(low, high) if tree.arrays.named[d]]
        assert verdict.domains == len(named)
        assert verdict.holding == sum(fits_inside(scene, at, path) for path in named)
        assert (verdict.fits >= verdict.needed) == (verdict.holding > 0) or runs_apart(answer)
    for told in answer.domains:
        assert (told.fits >= told.needed) == (not told.short_of) or runs_apart(answer)


def runs_apart(answer: DoesNotFit) -> bool:
    return any(verdict.short_of == RUNS_ELSEWHERE for verdict in answer.domains)


def fits_inside(scene: Scene, at: int, path: tuple[str, ...]) -> bool:
    """Whether the gang fits when its pods select one domain and ask for its level."""
    named = dict(zip(LEVELS.keys, path, strict=False))
    inside = {HOSTNAME: named[HOSTNAME]} if HOSTNAME in named else named
    if any(over_its_share(role, at) for role in scene.roles):
        return False
    roles = [asking_inside(role, at, inside) for role in scene.roles]
    bound_to = {name for role in roles for name in role.runs_on}
    there = {n.name for n in scene.nodes if inside.items() <= n.labels.items()}
    return bound_to <= there and replace(scene, roles=tuple(roles)).fits()


def over_its_share(role: Role, at: int) -> bool:
    short, _, most = (role.share or "host=100%").partition("=")
    percent = most.endswith("%")
    limit = max(role.count * int(most[:-1]) // 100, 1) if percent else int(most)
    return misfits.SHORT.index(short) <= at and role.count > limit


def asking_inside(role: Role, at: int, inside: dict[str, str]) -> Role:
    slices = tuple(x for x in role.slices if misfits.SHORT.index(x[0]) >= at)
    finer = role.share and misfits.SHORT.index(role.share.split("=")[0]) > at
    return replace(
        role,
        required=misfits.SHORT[at],
        preferred=None,
        slices=slices,
        smaller=role.smaller and bool(slices),
        share=role.share if finer else None,
        inside=tuple(inside.items()),
    )


@pytest.mark.parametrize("seed", range(120))
def test_what_fits_is_never_ruled_out_by_counting(seed: int) -> None:
    scene = misfits.fitting(seed)
    there = scene.cluster()
    wanted = misfits.gang_in(there, scene.gang)
    assert isinstance(wanted, Gang)
    room = Headroom.of(there, wanted, NOW)
    assert room is not None
    assert room.each_fits(there.state.view().leaves.free)
    for group in room.groups:
        assert room.may_hold(group, group.level).any()
    for i, demand in enumerate(room.demands):
        assert room.most_of(i) >= demand.need


@pytest.mark.parametrize("seed", range(120))
def test_the_counts_are_those_of_the_kernels(seed: int) -> None:
    scene = misfits.misfit(seed)
    there = scene.cluster()
    wanted = misfits.gang_in(there, scene.gang)
    assert isinstance(wanted, Gang)
    room = Headroom.of(there, wanted, NOW)
    for demand in room.demands if room and not wanted.bound else ():
        want = kernel_counts(there, demand)
        if want is None:
            continue
        tree, free = there.state.view().tree, there.state.view().leaves.free
        for at in range(tree.levels.depth):
            low, high = tree.range_of(at)
            got = count(tree, demand.pods_on(free), at, demand.cuts)
            assert got.tolist() == want[low:high].tolist()


def kernel_counts(there: Cluster, demand: Demand) -> "np.ndarray[Any, np.dtype[np.int64]] | None":
    """Return (D,) slices times their size above the slice level, pods below; None with a rest.

    Below the level of a share a domain is cut to it as well: it holds no more for its parent.
    """
    view, podset = there.state.view(), demand.podset
    tree = view.tree
    plan = plan_of(tree.levels, podset.request, "best-fit", False, there.policy.rules)
    if not isinstance(plan, Plan) or podset.count % plan.slicing.size:
        return None
    slicing, most = plan.slicing, MOST_PODS
    if plan.share is not None and podset.count > plan.share.of(podset.count):
        most = plan.share.of(podset.count)
        low, high = tree.range_of(plan.share_level)
        slicing = slicing._replace(share_level=plan.share_level, limit=np.full(high - low, most))
    leaves = view.leaves._replace(usable=demand.allowed.astype(np.uint8))
    counts = counts_of(tree, leaves, demand.ask, None, None, slicing)
    domains = np.arange(counts.pods.size)
    in_slices = domains < tree.range_of(slicing.level)[1]
    fits = np.where(in_slices, counts.slices * slicing.size, counts.pods)
    shared = domains >= tree.range_of(min(slicing.share_level, tree.levels.depth - 1))[1]
    return np.where(shared, np.minimum(fits, most), fits)


# --- shares --------------------------------------------------------------------------------------


def test_where_a_share_is_what_keeps_pods_out_the_share_is_blamed() -> None:
    members = [member.requires("block").at_most("rack", "1") for member in gang("train", 3, gpus=1)]
    found = why_not(*nodes(), *members)
    kept_apart = "stowplan.dev/max-per-domain keeps pods apart"
    assert found.reason.text == f"no {level('block')} domain fits all 3 pods: {kept_apart}"
    assert [verdict.short_of for verdict in found.domains] == [kept_apart, kept_apart]


def test_a_share_is_not_blamed_where_a_resource_lacks_as_well() -> None:
    members = [member.requires("block").at_most("rack", "1") for member in gang("train", 3, gpus=8)]
    found = why_not(*nodes(), *members)
    assert found.reason.text.endswith(f"no usable node has enough {GPU} for one pod")
    assert [verdict.short_of for verdict in found.domains] == [GPU, GPU]
