"""Full recount of a new request shape, against a copy of the rows of free room that it reads."""

import numpy as np

from bench.clusters import ONE_POD, cluster, whole_gang
from bench.report import Line
from bench.timings import Timings, timed_round
from stowplan.placement.shapes import ask_of
from stowplan.topology.fit import pods_per_domain

_NODES = 102_400
_ROUNDS = 15
_CALLS = 40
_BUDGET = 10.0  # copies


def measure() -> list[Line]:
    """Return how many copies a recount costs."""
    made = cluster(_NODES)
    view = made.state.view()
    podset = whole_gang(made, "recount", 8)[0].podsets[0]
    ask = ask_of(podset.amounts, podset.filters, view)
    rows = np.ascontiguousarray(view.leaves.free[ask.rows])
    target = np.empty_like(rows)
    counts = np.zeros(view.tree.domain_count, dtype=np.int64)
    recount, copy = Timings(), Timings()
    for _ in range(_ROUNDS):
        timed_round(copy, _CALLS, _nothing, lambda: np.copyto(target, rows))
        timed_round(
            recount, _CALLS, _nothing, lambda: pods_per_domain(view.tree, view.leaves, ask, counts)
        )
    ratio = recount.p50 / copy.p50
    return [
        Line(
            f"recount, {_NODES:,} nodes x {len(ONE_POD)} resources",
            f"{ratio:.1f} x a copy (p50 {recount.p50:.0f} of {copy.p50:.0f} µs,"
            f" CPU {recount.cpu_us:.0f} of {copy.cpu_us:.0f})",
            ratio,
            _BUDGET,
            "x",
            {
                **{f"recount_{name}": value for name, value in recount.facts().items()},
                **{f"copy_{name}": value for name, value in copy.facts().items()},
            },
        )
    ]


def _nothing() -> None:
    """A recount needs no preparation."""
