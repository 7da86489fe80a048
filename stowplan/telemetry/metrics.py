"""The one list of metrics, in a registry of our own.

Names are ``stowplan_<noun>_<unit>``, base units; counters end in ``_total``. Every label takes its
values from a closed set in ``LABEL_VALUES``, never from a pod or a node. ``docs/metrics.md`` is
printed from this list: ``python -m stowplan.telemetry.metrics > docs/metrics.md``.
"""

import functools
import itertools
import math
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from stowplan.telemetry.build import version

Verb = Literal["filter", "prioritize"]
# Those of stowplan.placement, which this layer cannot import; and failed: answered with `Error`.
Outcome = Literal["untouched", "placed", "refused", "ranked", "failed"]
# The words of stowplan.placement.reasons.
Reason = Literal[
    "Contradiction", "Incomplete", "LevelUnknown", "NoDomainFits", "NodesExcluded",
    "NotTheLeader", "RequestInvalid", "SeatLost", "StateStale", "TooLarge",
]  # fmt: skip
ReloadResult = Literal["ok", "refused"]
# The kinds that are followed, and why a watch did not simply go on (stowplan.kube.reflector).
Kind = Literal[
    "Job", "JobSet", "LeaderWorkerSet", "Node", "Pod", "PodGroup", "ReplicaSet", "StatefulSet",
]  # fmt: skip
Cause = Literal["expired", "refused", "unavailable", "unreadable"]

LABEL_VALUES: Final[dict[str, tuple[str, ...]]] = {
    "verb": get_args(Verb),
    "outcome": get_args(Outcome),
    "reason": get_args(Reason),
    "result": get_args(ReloadResult),
    "kind": get_args(Kind),
    "cause": get_args(Cause),
    "version": (version(),),
    "python": (platform.python_version(),),
}

CONTENT_TYPE = CONTENT_TYPE_LATEST
REGISTRY = CollectorRegistry(auto_describe=True)

M = TypeVar("M", bound=MetricWrapperBase)


@dataclass(frozen=True, slots=True)
class Declared:
    """One metric as the documentation shows it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str
    metric: MetricWrapperBase


DECLARED: list[Declared] = []


def _declare(
    kind: type[M], name: str, meaning: str, labels: tuple[str, ...] = (), **options: Any
) -> M:
    metric = kind(name, meaning, labels, registry=REGISTRY, **options)
    DECLARED.append(Declared(name, kind.__name__.lower(), labels, meaning, metric))
    return metric


DECISION_DURATION_SECONDS = _declare(
    Histogram,
    "stowplan_decision_duration_seconds",
    "Time from the whole body to the answer.",
    ("verb", "outcome"),
    # The budget of a warm decision is 40 µs, the scheduler's patience one second.
    buckets=(5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0),
)
DECISIONS_TOTAL = _declare(
    Counter,
    "stowplan_decisions_total",
    "Verdicts, one for each call that was answered.",
    ("verb", "outcome"),
)
REFUSALS_TOTAL = _declare(
    Counter, "stowplan_refusals_total", "Pods refused, by the reason they were given.", ("reason",)
)
STATE_GENERATION = _declare(
    Gauge,
    "stowplan_state_generation",
    "Changes of the cluster state since the process started.",
)
STATE_AGE_SECONDS = _declare(
    Gauge,
    "stowplan_state_age_seconds",
    "Time since the cluster state was last loaded well; NaN before the first load.",
)
STATE_RELOADS_TOTAL = _declare(
    Counter,
    "stowplan_state_reloads_total",
    "Versions of the cluster state that were taken over, or refused whole.",
    ("result",),
)
STATE_REFUSED = _declare(
    Gauge,
    "stowplan_state_refused",
    "1 while the newest version of the files is refused and an older one is in use, else 0.",
)
STATE_BEHIND_SECONDS = _declare(
    Gauge,
    "stowplan_state_behind_seconds",
    "For how long kube-apiserver has told nothing of some kind; 0 while every watch is open.",
)
WATCH_RESTARTS_TOTAL = _declare(
    Counter,
    "stowplan_watch_restarts_total",
    "Watches of kube-apiserver that broke, by what broke them.",
    ("kind", "cause"),
)
OBJECTS_UNREADABLE_TOTAL = _declare(
    Counter,
    "stowplan_objects_unreadable_total",
    "Objects of kube-apiserver that could not be read and are not counted; the log names them.",
    ("kind",),
)
LEADING = _declare(
    Gauge, "stowplan_server_leading", "1 while this process decides for a live cluster, else 0."
)
LEDGER_SEATS = _declare(
    Gauge, "stowplan_ledger_seats", "Seats that are reserved and not yet bound."
)
LEDGER_GANGS = _declare(
    Gauge, "stowplan_ledger_gangs", "Gangs that the ledger holds a decision for."
)
LIST_LOOKS_SAMPLED_TOTAL = _declare(
    Counter,
    "stowplan_list_looks_sampled_total",
    "Candidate lists that look like a sample of the nodes: set percentageOfNodesToScore to 100.",
)
NODE_OBJECTS_RECEIVED_TOTAL = _declare(
    Counter,
    "stowplan_node_objects_received_total",
    "Bodies that carry whole nodes instead of names: set nodeCacheCapable to true.",
)
REQUEST_BODY_BYTES = _declare(
    Histogram,
    "stowplan_request_body_bytes",
    "Size of request bodies.",
    ("verb",),
    buckets=tuple(4**power for power in range(5, 13)),  # 1 KiB to 16 MiB, the body limit
)
WIRE_ERRORS_TOTAL = _declare(
    Counter, "stowplan_wire_errors_total", "Bodies that could not be read.", ("verb",)
)
SERVER_DRAINING = _declare(
    Gauge,
    "stowplan_server_draining",
    "1 while the server asks its peers to leave before it stops, else 0.",
)
BUILD_INFO = _declare(
    Gauge, "stowplan_build_info", "Always 1; its labels say what runs.", ("version", "python")
)


def child(metric: M, *values: str) -> M:
    """Return the series of ``metric`` with these label values; cheap enough for a hot path.

    Raises:
        ValueError: when a value is outside its closed set, which is a bug of the caller.
    """
    found: M = _child(metric, *values)
    return found


@functools.cache
def _child(metric: Any, *values: str) -> Any:
    labels = next(declared.labels for declared in DECLARED if declared.metric is metric)
    for label, value in zip(labels, values, strict=True):
        if value not in (allowed := LABEL_VALUES[label]):
            raise ValueError(f"label {label} must be one of {', '.join(allowed)}; got {value!r}")
    return metric.labels(*values) if labels else metric


def mark_state_loaded() -> None:
    """Restart ``STATE_AGE_SECONDS``; call it after each good load."""
    loaded_at = time.monotonic()
    STATE_AGE_SECONDS.set_function(lambda: time.monotonic() - loaded_at)


def exposition() -> bytes:
    """Return every series in the text format of Prometheus."""
    return generate_latest(_Scraped())


class _Scraped(Collector):
    """The registry without the ``_created`` series, which double every counter and serve nobody.

    The library's own switch for them acts on the whole process.
    """

    def collect(self) -> Iterator[Metric]:
        for family in REGISTRY.collect():
            family.samples = [s for s in family.samples if not s.name.endswith("_created")]
            yield family


def _start_counters_at_zero(declared: Sequence[Declared]) -> None:
    """Make every series of every counter, so that the first event is seen as a rise."""
    for each in declared:
        if each.kind == "counter":
            for values in itertools.product(*(LABEL_VALUES[label] for label in each.labels)):
                child(each.metric, *values)


_start_counters_at_zero(DECLARED)
STATE_AGE_SECONDS.set(math.nan)
SERVER_DRAINING.set(0)
child(BUILD_INFO, version(), platform.python_version()).set(1)


if __name__ == "__main__":
    from stowplan.telemetry.page import main as _main

    sys.exit(_main())
