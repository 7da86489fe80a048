"""Whole gangs by the rules beyond Kueue's (docs/placement.md), on clusters drawn by hand."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from stowplan.placement.cluster import Cluster
from stowplan.placement.filters import Filters
from stowplan.placement.gangs import Gang, assemble, gang_of
from stowplan.placement.ledger import Reservation
from stowplan.placement.placing import place_gang
from stowplan.placement.podsets.complete import complete
from stowplan.placement.podsets.plan import NoFit
from stowplan.placement.podsets.podset import PodSet
from stowplan.placement.reasons import Reason
from stowplan.placement.request import Layer, TopologyRequest
from stowplan.placement.rules import KUEUE
from stowplan.placement.shapes import Shapes
from tests.build import Json, PodObject, cluster, level, levels, node, owner, pod

#   block  b1                              b2
#   rack   r1        r2          r3        r4           r5
#   hosts  a  b      a  b  c     a         a  b  c  d   a  b       8 GPUs each
RACKS = {"r1": "ab", "r2": "abc", "r3": "a", "r4": "abcd", "r5": "ab"}


def block_of(rack: str) -> str:
    return "b2" if rack in ("r4", "r5") else "b1"


def drawn(*others: Json, only: Sequence[str] = tuple(RACKS), **policy: Any) -> Cluster:
    nodes = [
        node(f"{rack}{x}").at(block=block_of(rack), rack=rack).gpus(8)
        for rack in only
        for x in RACKS[rack]
    ]
    return cluster(*nodes, *others, **policy)


def answered(on: Cluster, members: Sequence[PodObject]) -> Reservation | Reason:
    pods = [member.record() for member in members]
    whole = assemble(gang_of(pods[0]), pods, on.owners)
    return place_gang(on, whole, 0.0) if isinstance(whole, Gang) else whole


def seats(on: Cluster, members: Sequence[PodObject]) -> dict[str, str]:
    """Return the node of each pod."""
    made = answered(on, members)
    assert isinstance(made, Reservation), made
    return {str(seat.pod).removeprefix("default/"): seat.node for seat in made.seats}


def per_rack(nodes: dict[str, str], prefix: str = "") -> dict[str, int]:
    return dict(sorted(Counter(n[:2] for p, n in nodes.items() if p.startswith(prefix)).items()))


def refused(on: Cluster, members: Sequence[PodObject]) -> str:
    made = answered(on, members)
    assert isinstance(made, Reason), made
    return str(made)


def pods(
    name: str, size: int, ask: Callable[[PodObject], PodObject], gpus: int = 8, of: int = 0
) -> list[PodObject]:
    """Return ``size`` pods of gang g, which has ``of`` in all."""
    return [ask(pod(f"{name}-{i}").in_gang("g", of or size).gpus(gpus)) for i in range(size)]


# --- A required and a preferred level ------------------------------------------------------------


def in_block_and_rack(p: PodObject) -> PodObject:
    return p.requires("block").prefers("rack")


@pytest.mark.parametrize(
    ("size", "want"),
    [
        pytest.param(3, {"r2": 3}, id="one rack holds it: the tightest"),
        pytest.param(4, {"r4": 4}, id="the one rack that holds it"),
        pytest.param(5, {"r1": 2, "r2": 3}, id="no rack: a block, in few racks"),
        pytest.param(6, {"r1": 2, "r2": 3, "r3": 1}, id="both blocks hold six: the first by path"),
    ],
)
def test_the_finest_level_that_holds_it_inside_the_required_one_is_used(
    size: int, want: dict[str, int]
) -> None:
    on = drawn()
    got = per_rack(seats(on, pods("p", size, in_block_and_rack)))
    assert got == want


def test_nothing_coarser_than_the_required_level_is_tried() -> None:
    assert refused(drawn(), pods("p", 7, in_block_and_rack)) == (
        "stowplan NoDomainFits: no topology.example.com/block domain fits all 7 pods: "
        "nvidia.com/gpu"
    )


def test_a_preferred_level_must_be_finer_than_the_required_one() -> None:
    members = pods("p", 2, lambda p: p.requires("rack").prefers("block"))
    assert refused(drawn(), members).startswith(
        "stowplan RequestInvalid: stowplan.dev/preferred-topology must name a level finer than the "
        "required 'topology.example.com/rack' (got 'topology.example.com/block'); levels are "
    )


# --- No level asked ------------------------------------------------------------------------------


def test_without_a_level_a_gang_is_kept_in_few_racks_and_small_gaps_are_filled_inside() -> None:
    used = pod("other").asking(**{"nvidia.com/gpu": "6"}).on("r4c")
    on = drawn(used)
    got = seats(on, pods("p", 3, lambda p: p.anywhere(), gpus=2))
    assert per_rack(got) == {"r3": 3}
    four = seats(on, pods("p", 13, lambda p: p.anywhere(), gpus=2))
    assert per_rack(four) == {"r4": 13}
    assert Counter(four.values())["r4c"] == 1


def test_by_kueue_s_rules_the_smallest_gaps_are_filled_wherever_they_are() -> None:
    used = pod("other").gpus(6).on("r1a")
    members = pods("p", 3, lambda p: p.anywhere())
    assert per_rack(seats(drawn(used, rules=KUEUE), members)) == {"r1": 1, "r2": 2}
    assert per_rack(seats(drawn(used), members)) == {"r2": 3}


# --- Nodes that lack a fine label ----------------------------------------------------------------


def with_bare(*bare: Json) -> Cluster:
    return drawn(*bare, only=("r1",))


def bare(name: str, **at: str) -> Json:
    return node(name).at(**at).gpus(8)


def test_a_node_without_a_rack_serves_its_block() -> None:
    on = with_bare(bare("x1", block="b1"), bare("x2", block="b1"))
    got = seats(on, pods("p", 4, lambda p: p.requires("block")))
    assert set(got.values()) == {"r1a", "r1b", "x1", "x2"}


def test_nodes_without_a_rack_are_no_rack() -> None:
    on = with_bare(*(bare(f"x{i}", block="b1") for i in range(5)))
    assert "no topology.example.com/rack domain" in refused(
        on, pods("p", 3, lambda p: p.requires("rack"))
    )
    assert set(seats(on, pods("p", 2, lambda p: p.requires("rack"))).values()) == {"r1a", "r1b"}
    got = seats(on, pods("p", 3, lambda p: p.prefers("rack")))
    assert len(got) == 3


def test_slices_are_never_whole_on_nodes_without_their_level() -> None:
    on = with_bare(*(bare(f"x{i}", block="b1") for i in range(4)))

    def ask(p: PodObject) -> PodObject:
        return p.requires("block").sliced("rack", 2)

    assert set(seats(on, pods("p", 2, ask)).values()) == {"r1a", "r1b"}
    assert "NoDomainFits" in refused(on, pods("p", 4, ask))


def test_a_node_without_any_label_is_in_no_domain() -> None:
    on = with_bare(bare("x1"))
    assert on.state.view().left_out == ("x1",)
    assert "NoDomainFits" in refused(on, pods("p", 3, lambda p: p.anywhere()))


def test_nodes_are_told_apart_by_name_whatever_their_hostname_label_says() -> None:
    same = [
        node(f"n{i}").at(block="b1", rack="r1").labelled(**{"kubernetes.io/hostname": "h"}).gpus(8)
        for i in range(2)
    ]
    on = cluster(
        *same, node("n2").at(block="b1", rack="r1").without("kubernetes.io/hostname").gpus(8)
    )
    assert set(seats(on, pods("p", 3, lambda p: p.requires("rack"))).values()) == {"n0", "n1", "n2"}


def test_a_nameless_domain_holds_no_slice_of_an_inner_layer_even_of_one_pod() -> None:
    hosts = [node(f"n{i}").at(block="b1", rack="r").gpus(8) for i in range(4)]
    for host in hosts[:3]:
        host.without(level("rack"))

    def ask(p: PodObject) -> PodObject:
        return p.requires("block").sliced("block", 2, rack=1)

    assert "NoDomainFits" in refused(cluster(*hosts), pods("p", 2, ask))
    named = node("n4").at(block="b1", rack="r").gpus(8)
    assert set(seats(cluster(*hosts, named), pods("p", 2, ask)).values()) == {"n3", "n4"}


# --- The last slice smaller ----------------------------------------------------------------------


def test_a_rest_is_refused_unless_the_last_slice_may_be_smaller() -> None:
    def ask(p: PodObject) -> PodObject:
        return p.requires("block").sliced("rack", 2)

    assert "1 of all 5 pods would fill no whole slice" in refused(drawn(), pods("p", 5, ask))

    def smaller(p: PodObject) -> PodObject:
        return ask(p).with_smaller_last_slice()

    got = per_rack(seats(drawn(), pods("p", 5, smaller)))
    assert sum(got.values()) == 5
    assert sum(count % 2 for count in got.values()) == 1
    assert len({block_of(rack) for rack in got}) == 1


def test_a_job_s_first_wave_must_be_whole_slices_and_a_later_one_need_not() -> None:
    members = [
        pod(f"p{i}").owned_by("Job", "x").requires("block").sliced("rack", 2).gpus(8)
        for i in range(5)
    ]
    job = owner("Job", "x", parallelism=5, completions=10)
    assert "1 of all 5 pods would fill no whole slice" in refused(drawn(job), members)
    job.with_status(succeeded=5)
    assert len(seats(drawn(job), members)) == 5


def test_the_rest_stays_together_and_the_domain_is_chosen_with_it_in_mind() -> None:
    """Block b1 has room for six pods, but in racks of 2, 3 and 1 no slice of 4."""

    def ask(p: PodObject) -> PodObject:
        return p.requires("block").sliced("rack", 4).with_smaller_last_slice()

    got = per_rack(seats(drawn(), pods("p", 6, ask)))
    assert got == {"r4": 4, "r5": 2}


# --- At most a share per domain ------------------------------------------------------------------


def test_no_rack_gets_more_than_its_share() -> None:
    def ask(p: PodObject) -> PodObject:
        return p.requires("block").at_most("rack", "50%")

    assert per_rack(seats(drawn(), pods("p", 4, ask))) == {"r4": 2, "r5": 2}
    assert "NoDomainFits" in refused(drawn(only=("r4",)), pods("p", 4, ask))


def test_a_share_of_a_host_spreads_pods_over_hosts() -> None:
    def ask(p: PodObject) -> PodObject:
        return p.requires("rack").at_most("host", "1")

    got = seats(drawn(), pods("p", 3, ask, gpus=1))
    assert len(set(got.values())) == 3
    assert len(per_rack(got)) == 1


def test_slices_and_shares_hold_together() -> None:
    def ask(p: PodObject) -> PodObject:
        return p.requires("block").sliced("host", 2).at_most("rack", "4")

    got = seats(drawn(), pods("p", 8, ask, gpus=4))
    assert per_rack(got) == {"r4": 4, "r5": 4}
    assert all(count == 2 for count in Counter(got.values()).values())


def test_a_share_of_the_required_level_itself_can_never_be_kept() -> None:
    members = pods("p", 4, lambda p: p.requires("rack").at_most("rack", "2"))
    assert refused(drawn(), members).startswith(
        "stowplan RequestInvalid: stowplan.dev/max-per-domain must name a level finer than the "
        "required 'topology.example.com/rack' (got 'topology.example.com/rack'); levels are "
    )


# --- Roles, each with its level ------------------------------------------------------------------


def two_roles(
    prefill: Callable[[PodObject], PodObject],
    decode: Callable[[PodObject], PodObject],
    sizes: tuple[int, int],
) -> list[PodObject]:
    total = sum(sizes)
    return [
        *pods("prefill", sizes[0], lambda p: prefill(p.of_role("prefill")), of=total),
        *pods("decode", sizes[1], lambda p: decode(p.of_role("decode")), of=total),
    ]


def test_roles_with_levels_of_their_own_get_domains_of_their_own_near_each_other() -> None:
    members = two_roles(lambda p: p.requires("rack"), lambda p: p.requires("block"), (2, 3))
    got = seats(drawn(), members)
    assert len(per_rack(got, "prefill")) == 1
    assert len({block_of(rack) for rack in per_rack(got)}) == 1


def test_groups_that_need_a_rack_each_get_racks_of_one_block() -> None:
    members = two_roles(
        lambda p: p.requires("rack").in_group("prefill"),
        lambda p: p.requires("rack").in_group("decode"),
        (3, 2),
    )
    got = seats(drawn(), members)
    assert len(per_rack(got, "prefill")) == len(per_rack(got, "decode")) == 1
    assert len({block_of(rack) for rack in per_rack(got)}) == 1


def test_roles_that_ask_the_same_share_one_domain() -> None:
    members = two_roles(lambda p: p.requires("rack"), lambda p: p.requires("rack"), (2, 2))
    assert per_rack(seats(drawn(), members)) == {"r4": 4}


def test_a_choice_that_leaves_no_room_for_the_next_group_is_taken_back() -> None:
    """The first group's tightest rack is the only one that the second could use."""
    narrow = node("n1").at(block="b1", rack="s1").gpus(8).offering(**{"example.com/nic": "1"})
    wide = node("n2").at(block="b1", rack="s2").gpus(9)
    members = [
        pod("a").in_gang("g", 2).of_role("a").requires("rack").in_group("a").gpus(8),
        pod("b")
        .in_gang("g", 2)
        .of_role("b")
        .requires("rack")
        .in_group("b")
        .gpus(8)
        .asking(**{"example.com/nic": "1"}),
    ]
    assert seats(cluster(narrow, wide), members) == {"a": "n2", "b": "n1"}


def test_a_leader_counts_where_the_tightest_region_is_looked_for() -> None:
    """Block b1 has fewer hosts for workers, but by far the most room for leaders."""
    hosts = [node(f"b1-{i}").at(block="b1", rack=f"s{i // 2}").gpus(8) for i in range(4)]
    hosts += [node(f"b2-{i}").at(block="b2", rack=f"t{i // 3}").gpus(8) for i in range(6)]
    for host in hosts:
        host.offering(cpu="1")
    roomy = node("b1-cpu").at(block="b1", rack="s0").offering(cpu="64", pods="110")

    def member(name: str, group: str, role: str) -> PodObject:
        return pod(name).in_gang("g", 5).of_role(role).requires("rack").in_group(group)

    members = [
        member("lead", "serve", "lead").asking(cpu="1"),
        *(member(f"work-{i}", "serve", "work").gpus(8) for i in range(2)),
        *(member(f"other-{i}", "other", "other").gpus(8) for i in range(2)),
    ]
    assert {name[:2] for name in seats(cluster(*hosts, roomy), members).values()} == {"b2"}
    alone = [m for m in members if "lead" not in m["metadata"]["name"]]
    for each in alone:
        each.in_gang("g", 4)
    assert {name[:2] for name in seats(cluster(*hosts, roomy), alone).values()} == {"b1"}


def test_a_role_that_asks_for_nothing_contradicts_the_others() -> None:
    members = two_roles(lambda p: p.requires("rack"), lambda p: p, (1, 1))
    assert "stowplan Contradiction: a role of the gang asks for no topology" in refused(
        drawn(), members
    )
    ok = two_roles(lambda p: p.requires("rack"), lambda p: p.anywhere(), (2, 1))
    assert len(seats(drawn(), ok)) == 3


def test_a_group_whose_podsets_ask_for_different_levels_contradicts_itself() -> None:
    members = two_roles(
        lambda p: p.requires("rack").in_group("x"),
        lambda p: p.requires("block").in_group("x"),
        (1, 1),
    )
    assert "pods of one podset group ask for different levels" in refused(drawn(), members)


# --- A leader and its workers --------------------------------------------------------------------


def led(leader_gpus: int, workers: int) -> list[PodObject]:
    total = workers + 1
    boss = pod("leader").in_gang("g", total).of_role("leader").gpus(leader_gpus)
    return [
        boss.requires("rack").in_group("x"),
        *pods("w", workers, lambda p: p.of_role("w").requires("rack").in_group("x"), of=total),
    ]


def test_a_leader_and_its_workers_share_a_rack() -> None:
    got = seats(drawn(), led(8, 3))
    assert per_rack(got) == {"r4": 4}
    assert len(set(got.values())) == 4


def test_a_leader_that_fits_nowhere_is_named() -> None:
    assert refused(drawn(), led(9, 2)) == (
        "stowplan NoDomainFits: no topology.example.com/rack domain fits the gang's leader: "
        "no usable node has enough nvidia.com/gpu for one pod"
    )


def test_of_two_single_pods_the_one_that_fits_nowhere_is_called_the_leader() -> None:
    small = pod("leader").in_gang("g", 2).of_role("leader")
    large = pod("w-0").in_gang("g", 2).of_role("w").gpus(9)
    members = [p.requires("rack").in_group("x") for p in (small, large)]
    assert "the gang's leader: no usable node has enough nvidia.com/gpu" in refused(
        drawn(), members
    )


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_podsets_the_one_that_lacks_room_says_what_is_short(order: int) -> None:
    small = pod("leader").in_gang("g", 2).of_role("leader")
    large = pod("w-0").in_gang("g", 2).of_role("w").gpus(9)
    members = [p.requires("rack") for p in (small, large)][::order]
    assert "fits all 2 pods: no usable node has enough nvidia.com/gpu" in refused(drawn(), members)


def test_a_resource_that_no_node_offers_is_named_as_such() -> None:
    members = [pod("p0").requires("rack").asking(**{"nvidia.com/gpus": "1"})]
    assert refused(drawn(), members).endswith("the pod: no usable node offers nvidia.com/gpus")


# --- The rest of a gang --------------------------------------------------------------------------


def test_the_rest_of_a_gang_fills_the_broken_slice_first() -> None:
    def ask(p: PodObject) -> PodObject:
        return p.requires("block").sliced("rack", 2)

    members = pods("p", 4, ask)
    nodes = {"p-0": "r1a", "p-2": "r2a", "p-3": "r2b"}
    running = [
        m.on(nodes[m["metadata"]["name"]]) for m in members if m["metadata"]["name"] in nodes
    ]
    on = drawn(*running)
    assert seats(on, members)["p-1"] == "r1b"


def test_what_runs_already_counts_against_the_share() -> None:
    def ask(p: PodObject) -> PodObject:
        return p.requires("block").at_most("rack", "2")

    members = pods("p", 4, ask)
    running = [m.on(f"r4{x}") for m, x in zip(members[:2], "ab", strict=True)]
    got = seats(drawn(*running), members)
    assert per_rack(got) == {"r4": 2, "r5": 2}


# --- Preferred node affinity ---------------------------------------------------------------------


@pytest.mark.parametrize(("weigh", "want"), [(True, "r4"), (False, "r3")])
def test_preferred_affinity_counts_only_where_the_operator_wants_it(weigh: bool, want: str) -> None:
    on = drawn(weigh_affinity=weigh)
    members = pods(
        "p", 1, lambda p: p.requires("rack").preferring(5, **{"topology.example.com/rack": "r4"})
    )
    assert set(per_rack(seats(on, members))) == {want}


def test_the_host_alone_is_a_topology() -> None:
    on = cluster(node("n1").gpus(8), node("n2").gpus(8), at=levels())
    assert set(seats(on, pods("p", 2, lambda p: p.anywhere())).values()) == {"n1", "n2"}


# --- Found by comparing with the oracle ----------------------------------------------------------


def test_the_rest_must_be_a_multiple_of_every_inner_layer() -> None:
    def ask(p: PodObject) -> PodObject:
        return p.sliced("block", 4, rack=2, host=1).with_smaller_last_slice()

    want = "a last slice of 3 of all 7 pods is no multiple of the inner slices"
    assert want in refused(drawn(), pods("p", 7, ask, gpus=1))


def test_a_preferred_host_lies_in_a_domain_of_the_required_level() -> None:
    on = with_bare(bare("a0", block="b1"))
    used = seats(on, pods("p", 1, lambda p: p.requires("rack").prefers("host"), gpus=1))
    assert set(used.values()) == {"r1a"}


def test_a_host_without_a_rack_is_no_region_for_a_role_that_requires_one() -> None:
    on = cluster(bare("a0", block="b1"), node("b0").at(block="b1", rack="r").gpus(8))
    members = two_roles(lambda p: p.requires("rack"), lambda p: p.requires("host"), (1, 1))
    for member in members:
        member.gpus(1)
    assert set(seats(on, members).values()) == {"b0"}


def test_a_host_may_be_the_region_of_a_role_whose_slices_are_coarser() -> None:
    on = cluster(
        node("n1").at(block="b", rack="r").gpus(1), node("n2").at(block="b", rack="r").gpus(3)
    )
    members = two_roles(
        lambda p: p.prefers("rack").sliced("rack", 1), lambda p: p.requires("host"), (1, 1)
    )
    for member in members:
        member.gpus(1)
    assert set(seats(on, members).values()) == {"n2"}


def test_growth_by_less_than_a_slice_is_refused() -> None:
    state = drawn().state
    layers = (Layer(level("rack"), 4),)
    podset = PodSet("main", 5, (("nvidia.com/gpu", 8),), Filters(), TopologyRequest(layers=layers))
    leaf_of = state.view().leaf_of
    kept = [(leaf_of[f"r4{x}"], 1) for x in "abcd"]
    answer = complete(state, Shapes(), podset, kept, 1, "mixed")
    assert isinstance(answer, NoFit)
    assert answer.kind == "slices-leave-a-rest"
