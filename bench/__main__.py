"""``python -m bench``: measure the budgets, print a table, write the record."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence

from bench import commands, decision, filtering, recount, report, requests
from stowplan.topology import jit

_PARTS: dict[str, Callable[[], list[report.Line]]] = {
    "recount": recount.measure,
    "decision": decision.measure,
    "requests": requests.measure,
    "filter": filtering.measure,
    "commands": commands.measure,
}
_UNCOMPILED = "commands"  # its processes compile nothing

_DESCRIPTION = """\
Measure the budgets of the design on this machine and print one table.

  recount   all nodes counted anew for a new request shape, against a copy of the same rows
  decision  a gang placed on warm counts, after 1, 16 or 64 nodes changed
  requests  every kind of request: 8 to 1,024 pods, 1 to 4 levels, 640 to 102,400 nodes; memory
  filter    POST /filter of 5,000 and 15,000 names, against a handler that parses and echoes all
  commands  stowplan place and tree as whole processes, on 5,000 nodes in a file of JSON

Without a name all of them run, in minutes on two cores. Everything is measured in interleaved
rounds, p50 and p99 are those of the quietest quarter of them, and CPU time stands beside them:
where it is far below p50, other work held the machine and the run should be repeated. ratio is
measured by budget: above 1 it is missed.
"""


def main(argv: Sequence[str]) -> int:
    """Run what is asked for; return 1 when a budget is missed and that shall count."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("part", nargs="*", help="which of them (default: all)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a budget is missed")
    asked = parser.parse_args(argv)
    if unknown := [part for part in asked.part if part not in _PARTS]:
        parser.error(f"no part {unknown[0]!r}; choose from {', '.join(_PARTS)}")
    facts = report.machine()
    began = time.perf_counter()
    parts = asked.part or list(_PARTS)
    if parts != [_UNCOMPILED]:
        jit.warm_up()
    lines: list[report.Line] = []
    for part in parts:
        print(f"measuring {part} ...", file=sys.stderr, flush=True)
        lines += _PARTS[part]()
    seconds = time.perf_counter() - began
    print(report.table(lines))
    report.write(lines, {**facts, "compiled": jit.ENABLED}, seconds, report.LATEST)
    print(f"measured in {seconds:.0f} s; record: bench/results/{report.LATEST.name}")
    return int(asked.strict and any(line.missed for line in lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
