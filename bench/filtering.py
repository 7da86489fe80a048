"""POST /filter over HTTP, against a null handler that parses the whole body and echoes all names.

Rounds of the null handler and of ours are interleaved on one connection, so whatever slows one down
slows the other down as well.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench import calls
from bench.calls import FRESH, SEATED, Call
from bench.client import Connection, request, server
from bench.clusters import encoded
from bench.report import Line
from bench.timings import Timings

_SIZES = (5_000, 15_000)
_ROUNDS = 12
_CALLS = 100
_WARM_UP = 4
_BUDGET = 0.8  # of the null handler

Check = Callable[[Any], bool]


@dataclass(slots=True)
class _Case:
    """One kind of call.

    Attributes:
        what: for people.
        path: the route.
        call: the n-th call of a round.
        right: judges the answer.
        judged: whether the budget is about it.
    """

    what: str
    path: str
    call: Callable[[int], Call]
    right: Check
    judged: bool = True
    timings: Timings = field(default_factory=Timings)


def measure() -> list[Line]:
    """Return the lines of all sizes."""
    lines: list[Line] = []
    for nodes in _SIZES:
        with server(nodes, _CALLS + _WARM_UP) as (connection, _):
            cases = _cases(connection, nodes)
            for _ in range(_ROUNDS):
                for case in cases:
                    _round(connection, case)
        null = cases[0].timings
        lines += (_line(case, nodes, null) for case in cases)
    return lines


def _cases(connection: Connection, nodes: int) -> list[_Case]:
    """Return the null handler first, then ours."""
    all_names = calls.names(nodes)
    tail = calls.encoded_names(all_names)
    pod = encoded(calls.gang_pod(SEATED, 0))
    seat = _first_answer(connection, Call(pod, tail))

    def seated(share: float, where: str) -> _Case:
        call = Call(pod, calls.encoded_names(calls.with_name_at(all_names, seat, share)))
        what = f"seat known, its name at the {where}"
        return _Case(what, "/filter", lambda _: call, lambda answer: answer["NodeNames"] == [seat])

    fresh = [
        Call(encoded(calls.gang_pod(f"{FRESH}-{number}", 0)), tail)
        for number in range(_CALLS + _WARM_UP)
    ]
    plain = Call(calls.plain_pod(), tail)
    hopeless = Call(encoded(calls.hopeless_pod()), tail)
    return [
        _Case("null handler", "/bench/null", lambda _: plain, _echoes(all_names), judged=False),
        seated(0.0, "start"),
        seated(0.5, "middle"),
        seated(1.0, "end"),
        _Case("gang of 8 placed anew", "/filter", fresh.__getitem__, _names_one),
        _Case("refusal from memory", "/filter", lambda _: hopeless, _refuses),
        _Case("untouched, all names back", "/filter", lambda _: plain, _echoes(all_names)),
    ]


def _first_answer(connection: Connection, call: Call) -> str:
    answer = connection.ask("POST", "/filter", call.body())
    if not _names_one(answer):
        raise ValueError(f"must place gang {SEATED}; got {str(answer)[:300]}")
    return str(answer["NodeNames"][0])


def _echoes(all_names: list[str]) -> Check:
    return lambda answer: answer["NodeNames"] == all_names and not answer["Error"]


def _names_one(answer: Any) -> bool:
    return len(answer["NodeNames"] or ()) == 1 and not answer["Error"]


def _refuses(answer: Any) -> bool:
    return answer["NodeNames"] == [] and len(answer["FailedAndUnresolvableNodes"]) == 1


def _round(connection: Connection, case: _Case) -> None:
    """Add a round; the first answers are checked and not timed."""
    connection.ask("POST", "/bench/free")
    for number in range(_WARM_UP):
        answer = connection.ask("POST", case.path, case.call(number).body())
        if not case.right(answer):
            raise ValueError(f"{case.what}: wrong answer {str(answer)[:300]}")
    cpu_ns = -_cpu_ns(connection)
    wall = []
    for number in range(_WARM_UP, _WARM_UP + _CALLS):
        message = request("POST", case.path, case.call(number).body())
        began = time.perf_counter_ns()
        connection.exchange(message)
        wall.append(time.perf_counter_ns() - began)
    cpu_ns += _cpu_ns(connection)
    case.timings.add_round(wall, cpu_ns)


def _cpu_ns(connection: Connection) -> int:
    return int(connection.ask("GET", "/bench/who")["cpu_ns"])


def _line(case: _Case, nodes: int, null: Timings) -> Line:
    timings = case.timings
    ratio = timings.p99 / null.p99
    cpu = timings.cpu_us / null.cpu_us
    return Line(
        f"filter, {nodes:,} names, {case.what}",
        f"p99 {ratio:.2f}, p50 {timings.p50 / null.p50:.2f}, CPU {cpu:.2f} x null"
        f" ({timings.p99:.0f}, {timings.p50:.0f}, {timings.cpu_us:.0f} µs)",
        ratio,
        _BUDGET if case.judged else None,
        "x",
        {
            **timings.facts(),
            "p50_by_null": round(timings.p50 / null.p50, 3),
            "cpu_by_null": round(cpu, 3),
        },
    )
