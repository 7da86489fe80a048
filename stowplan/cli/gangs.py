"""``stowplan gangs``: every gang that was asked for, and how far it has come."""

import asyncio
import os
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from stowplan.api.errors import InvalidObjectError, Violation
from stowplan.api.models.placement import Placement
from stowplan.api.models.wire import read
from stowplan.cli import flags
from stowplan.cli.access import access_of
from stowplan.cli.output import Screen, show
from stowplan.cli.rules import LIVE_RULES
from stowplan.kube.access import Access
from stowplan.kube.client import Kube
from stowplan.kube.errors import NotFoundError
from stowplan.kube.resources import PLACEMENTS

SUMMARY = """\
List the gangs of a live cluster, and say how far each has come: what waits, and why.

Incomplete gangs lack pods; Waiting ones do not fit now; Reserved ones have seats that their pods
have not all taken; Bound ones run.

Exit status: 0 nothing waits, 1 a gang waits, 2 the cluster cannot be asked.

examples:
  stowplan gangs --kubeconfig ~/.kube/config
  stowplan gangs --kubeconfig ~/.kube/config --phase Waiting -n training
"""

KEYS = ("kubeconfig", "context")
PHASES = ("Incomplete", "Waiting", "Reserved", "Bound")
_WAITING = ("Incomplete", "Waiting")

Json = dict[str, Any]


def run(argv: Sequence[str]) -> int:
    """Print the gangs; return 0 when none waits, 1 when one does."""
    in_force, given = flags.read(
        "stowplan gangs", SUMMARY, argv, LIVE_RULES, _add_flags, None, KEYS, "[flags]"
    )
    found = asyncio.run(_fetched(access_of(in_force.settings), given.namespace))
    shown = [each for each in found if given.phase in (None, _phase(each))]
    if given.output == "json":
        show(orjson.dumps(document(shown), option=orjson.OPT_INDENT_2).decode())
    else:
        show("\n".join(_text(shown, Screen.of(sys.stdout, os.environ))))
    return int(any(_phase(each) in _WAITING for each in shown))


def _add_flags(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-n", "--namespace", default="", help="Only gangs of this namespace; all without it."
    )
    parser.add_argument("--phase", choices=PHASES, help="Only gangs in this phase.")
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="How to print them."
    )


async def _fetched(access: Access, namespace: str) -> list[Placement]:
    """Return all Placements, by namespace and name.

    Raises:
        InvalidObjectError: the cluster does not know the kind.
    """
    async with Kube(access) as kube:
        try:
            found = await kube.list(PLACEMENTS, namespace)
        except NotFoundError:
            problem = "must have the kind Placement, which stowplan writes its decisions to"
            remedy = "kubectl apply -f manifests/crds/"
            missing = Violation("the cluster", "required", None, problem, remedy)
            raise InvalidObjectError("the question", [missing]) from None
    placements = [read(Placement, each, "Placement") for each in found]
    return sorted(placements, key=lambda p: (p.metadata.namespace, p.spec.gang.name))


def _phase(placement: Placement) -> str:
    """Return the phase; nobody has decided yet where there is none."""
    return (placement.status and placement.status.phase) or "Incomplete"


def document(found: Sequence[Placement]) -> Json:
    """Return the gangs as a JSON document; ``docs/commands.md`` describes it."""
    return {"gangs": [_document(each) for each in found]}


def _document(placement: Placement) -> Json:
    gang = placement.spec.gang
    reason, message = _why(placement)
    decision = placement.status.decision if placement.status else None
    return {
        "namespace": placement.metadata.namespace,
        "kind": gang.kind,
        "name": gang.name,
        "placement": placement.metadata.name,
        "size": placement.spec.size,
        "phase": _phase(placement),
        "level": (decision and decision.level) or None,
        "domain": list((decision and decision.domain) or ()),
        "reason": reason,
        "message": message,
        "seats": [
            {"pod": seat.name or None, "node": seat.node, "rank": seat.rank}
            for seat in (decision and decision.seats) or ()
        ],
    }


def _why(placement: Placement) -> tuple[str, str]:
    conditions = (placement.status and placement.status.conditions) or ()
    placed = (c for c in conditions if c.type == "Placed")
    return next(((c.reason, c.message) for c in placed), ("", ""))


def _text(found: Sequence[Placement], screen: Screen) -> Iterator[str]:
    if not found:
        yield "No gang asks for topology."
        return
    rows = []
    for each in found:
        gang, decision = each.spec.gang, each.status.decision if each.status else None
        reason, message = _why(each)
        domain = "/".join((decision and decision.domain) or ()) or "-"
        why = f"{reason}: {message}" if _phase(each) in _WAITING and reason else ""
        name = f"{each.metadata.namespace}/{gang.name}"
        rows.append((name, gang.kind, f"{each.spec.size:,}", _phase(each), domain, why))
    headings = ("GANG", "KIND", "SIZE", "PHASE", "DOMAIN", "WHY IT WAITS")
    yield from screen.table(headings, rows, right={2})
