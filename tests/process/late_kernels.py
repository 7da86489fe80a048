"""Prints each kernel that is compiled after the warm-up; run it in a process of its own.

It goes through every kind of decision: a kernel that is called with new types is compiled anew.
"""

import gc

from stowplan.placement import decide
from stowplan.placement.gangs import gang_of
from stowplan.placement.rank import rank_nodes
from stowplan.topology import jit
from tests.build import PodObject, cluster, node, pod

NAMES = ("b1-r1-x1", "b1-r1-x2", "b1-r2-x1", "b1-r2-x2")


def compiled() -> set[tuple[str, str]]:
    """Return name and types of everything that is compiled now."""
    from numba.core.registry import CPUDispatcher

    return {
        (f"{each.py_func.__module__}.{each.py_func.__name__}", str(types))
        for each in gc.get_objects()
        if isinstance(each, CPUDispatcher) and each.py_func.__module__.startswith("stowplan.")
        for types in each.signatures
    }


def decisions() -> list[PodObject]:
    """Return pods that take every way through placement."""
    return [
        pod("required").requires("rack").gpus(1),
        pod("preferred").prefers("rack").gpus(1),
        pod("anywhere").anywhere().gpus(1),
        pod("best-fit").anywhere().annotated(**{"stowplan.dev/packing": "best-fit"}).gpus(1),
        pod("sliced").requires("block").sliced("rack", 1).gpus(1),
        pod("selecting").requires("rack").selecting(**{"kubernetes.io/hostname": NAMES[3]}).gpus(1),
        pod("refused").requires("rack").gpus(99),
        pod("two-0").in_gang("two", 2).requires("rack").gpus(1),
        pod("two-1").in_gang("two", 2).requires("rack").gpus(2),
        pod("excluded").requires("rack").gpus(1),
    ]


def main() -> None:
    """Warm up, decide, and compare."""
    jit.warm_up()
    before = compiled()
    machines = [
        node(name).at(block=name.split("-")[0], rack=name.split("-")[1]).gpus(8) for name in NAMES
    ]
    world = cluster(*machines, pod("busy").gpus(2).on(NAMES[0]))
    for each in decisions():
        if each["metadata"]["name"] == "excluded":
            world.ledger.exclude(gang_of(each.record()), NAMES[0], now=0.0)
        decide.filter_nodes(world, each.record(), NAMES, now=0.0)
        rank_nodes(world, each.record(), NAMES)
    rank_nodes(world, pod("plain").gpus(1).record(), NAMES)
    late = sorted({name for name, _ in compiled() - before})
    print("\n".join(late) or "no kernel is late")


if __name__ == "__main__":
    main()
