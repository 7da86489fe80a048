"""Timings of one thing over several rounds, and the quantiles that survive a noisy machine.

A quantile is taken within each round, and the quarter of the rounds that is quietest speaks: other
work on the machine only ever adds time, while what the code itself does now and then is in every
round. Both sides of a ratio are treated alike.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

Number = TypeVar("Number", int, float)

MICROSECOND = 1_000  # nanoseconds

_QUIET = 0.25  # of the rounds


@dataclass(slots=True)
class Timings:
    """What was measured of one thing.

    Attributes:
        wall: nanoseconds of each call, round by round.
        cpu: mean CPU nanoseconds of a call in each round, of the process that did the work.
    """

    wall: list[Sequence[int]] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def add_round(self, wall: Sequence[int], cpu_ns: float) -> None:
        """Add the calls of one round, which took ``cpu_ns`` of CPU together."""
        self.wall.append(wall)
        self.cpu.append(cpu_ns / len(wall))

    def quantile(self, share: float) -> float:
        """Return a quantile of the calls of a quiet round, in microseconds."""
        return quantile([quantile(calls, share) for calls in self.wall], _QUIET) / MICROSECOND

    @property
    def p50(self) -> float:
        """Half of the calls are no slower; microseconds."""
        return self.quantile(0.5)

    @property
    def p99(self) -> float:
        """All calls but one in a hundred are no slower; microseconds."""
        return self.quantile(0.99)

    @property
    def cpu_us(self) -> float:
        """CPU time of a call in a quiet round; microseconds."""
        return quantile(self.cpu, _QUIET) / MICROSECOND

    @property
    def noise(self) -> float:
        """How much slower the 99th percentile of the median round is than that of a quiet one."""
        ninety_ninth = [quantile(calls, 0.99) for calls in self.wall]
        return quantile(ninety_ninth, 0.5) / quantile(ninety_ninth, _QUIET)

    def facts(self) -> dict[str, float]:
        """Return the numbers for the record."""
        return {
            "p50_us": round(self.p50, 2),
            "p99_us": round(self.p99, 2),
            "cpu_us": round(self.cpu_us, 2),
            "noise": round(self.noise, 2),
            "calls": sum(map(len, self.wall)),
            "rounds": len(self.wall),
        }


def quantile(values: Sequence[Number], share: float) -> Number:
    """Return the smallest value that ``share`` of ``values`` do not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]


def timed_round(
    timings: Timings,
    calls: int,
    before: Callable[[], None],
    call: Callable[[], object],
    warm_up: int = 3,
) -> None:
    """Add a round of ``calls`` calls; ``before`` prepares each one and is not timed."""
    wall = []
    cpu_ns = 0
    for at in range(calls + warm_up):
        before()
        cpu = time.thread_time_ns()
        began = time.perf_counter_ns()
        call()
        ended = time.perf_counter_ns()
        if at >= warm_up:
            wall.append(ended - began)
            cpu_ns += time.thread_time_ns() - cpu
    timings.add_round(wall, cpu_ns)
