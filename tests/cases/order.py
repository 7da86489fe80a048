"""Cases on the total order of domains."""

from typing import Any

import numpy as np

from stowplan.topology.choose import Order, heapify, pop
from stowplan.topology.fit import Counts


def check(case: dict[str, Any]) -> None:
    """Take all domains out of the heap that the kernels use, and compare the order."""
    # Numbers of domains follow their paths, as in a tree.
    domains = sorted(case["domains"], key=lambda d: d["values"])
    columns = ("slices", "pods", "slices_with_leader", "pods_with_leader", "leader", "affinity")
    counts = Counts(*(np.array([d[c] for d in domains], dtype=np.int64) for c in columns))
    order = Order(case["filling"] == "largest-first", case["preferred_affinity"])
    heap = np.arange(len(domains), dtype=np.int32)
    heapify(heap, heap.size, case["with_leader"], order, counts)
    got = [
        domains[pop(heap, size, case["with_leader"], order, counts)]["values"]
        for size in range(heap.size, 0, -1)
    ]
    assert got == case["expect"]["order"]
