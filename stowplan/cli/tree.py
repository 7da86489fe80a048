"""``stowplan tree``: the topology, the room in it, and the largest gang that each domain holds."""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import orjson

from stowplan.api.errors import InvalidObjectError, Violation
from stowplan.cli import flags
from stowplan.cli.cluster import offered_resources, read_cluster
from stowplan.cli.output import Screen, amount, counted, show
from stowplan.cli.place_text import why
from stowplan.cli.rules import CLUSTER_RULES
from stowplan.cli.spelling import did_you_mean
from stowplan.placement.answers.overview import DomainRoom, Overview, overview
from stowplan.placement.records import Amounts, NodeRecord
from stowplan.topology import capacity
from stowplan.topology.levels import Levels

SUMMARY = """\
Show the topology, the room in it, and the largest gang that still fits into each domain.

A gang is counted in pods of --pod: as many as fit into the domain together. Nodes that are not
ready or cordoned give no room; taints keep the pods off unless they are named like a resource that
the pods ask for. Pods that merely wait take no room.

Exit status: 0, or 2 when the input cannot be used.

examples:
  stowplan tree --from-file cluster.json --levels example.com/block,example.com/rack
  stowplan tree --from-file cluster.json --levels example.com/rack --pod nvidia.com/gpu=8,cpu=64
"""

KEYS = ("from_file", "kubeconfig", "context", "levels", "rules")

Json = dict[str, Any]


def run(argv: Sequence[str]) -> int:
    """Print the tree and return 0."""
    in_force, given = flags.read(
        "stowplan tree",
        SUMMARY,
        argv,
        CLUSTER_RULES,
        _add_flags,
        _judge_flags,
        KEYS,
        "--from-file PATH... --levels KEY,KEY,... [flags]",
    )
    depth = _depth(given.level, Levels.over_hosts(in_force.settings.levels).keys)
    cluster, _ = read_cluster(in_force)
    found = overview(cluster, _pod(given.pod, cluster.state.nodes.values()), depth)
    if given.output == "json":
        show(orjson.dumps(document(found), option=orjson.OPT_INDENT_2).decode())
    else:
        show("\n".join(_text(found, Screen.of(sys.stdout, os.environ))))
    return 0


def _add_flags(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--level", metavar="KEY", help="Show the tree down to this level, default all but the host."
    )
    parser.add_argument(
        "--pod",
        metavar="RESOURCE=AMOUNT,...",
        help="What each pod of a gang asks for, as in nvidia.com/gpu=8,cpu=32,memory=256Gi; "
        "default one of the device that most nodes offer.",
    )
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="How to print it."
    )


def _judge_flags(given: Namespace) -> Iterator[Violation]:
    try:
        list(_amounts(given.pod or ""))
    except InvalidObjectError as error:
        yield from error.violations


def _amounts(text: str) -> Iterator[tuple[str, int]]:
    """Yield each resource with its amount in base units.

    Raises:
        InvalidObjectError: with everything that cannot be read, or asks for nothing.
    """
    broken: list[Violation] = []
    seen: set[str] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        resource, equals, quantity = part.partition("=")
        try:
            if not resource or not equals:
                raise capacity.QuantityError("must be RESOURCE=AMOUNT")
            wanted = capacity.requested(resource, quantity)
            if not wanted:
                raise capacity.QuantityError("must be more than 0")
            if capacity.is_extended(resource) and wanted != capacity.offered(resource, quantity):
                raise capacity.QuantityError("must be whole: a pod has all of a device or none")
            if resource in seen:
                raise capacity.QuantityError("must name each resource once")
            seen.add(resource)
            yield resource, wanted
        except capacity.QuantityError as error:
            remedy = "write it as in nvidia.com/gpu=8,cpu=32"
            broken.append(Violation("--pod", "invalid", part, str(error), remedy))
    if broken:
        raise InvalidObjectError("the configuration", broken)


def _pod(text: str | None, nodes: Collection[NodeRecord]) -> Amounts | None:
    """Return what each pod asks for, None without a wish.

    Raises:
        InvalidObjectError: no node has any of some resource, so the whole tree would say 0.
    """
    if text is None:
        return None
    pod = dict(_amounts(text))
    offered = offered_resources(nodes)
    broken = [
        Violation(
            "--pod",
            "invalid",
            resource,
            "must be a resource that a node offers",
            did_you_mean(resource, offered, f"they offer {', '.join(sorted(offered))}"),
        )
        for resource in pod
        if resource not in offered
    ]
    if broken:
        raise InvalidObjectError("the configuration", broken)
    return capacity.per_pod(pod)


def _depth(level: str | None, keys: Sequence[str]) -> int:
    """Return how many levels to show; without a wish all but the host, if there is another."""
    if level is None:
        return max(len(keys) - 1, 1)
    if level in keys:
        return keys.index(level) + 1
    remedy = did_you_mean(level, keys, "add it to --levels")
    problem = f"must be one of the levels: {', '.join(keys)}"
    broken = Violation("--level", "invalid", level, problem, remedy)
    raise InvalidObjectError("the configuration", [broken])


def document(found: Overview) -> Json:
    """Return the overview as a JSON document; ``docs/commands.md`` describes it."""
    return {
        "levels": list(found.levels),
        "pod": dict(found.pod),
        "main": found.main,
        "cluster": _domain(found.cluster),
        "domains": [_domain(each) for level in found.domains for each in level],
        "left_out": [
            {"by": each.by, "what": each.what or None, "nodes": each.nodes, "example": each.example}
            for each in found.left_out
        ],
    }


def _domain(room: DomainRoom) -> Json:
    return {
        "domain": list(room.domain),
        "nodes": room.nodes,
        "usable": room.usable,
        "empty": room.empty,
        "pods": room.pods,
        "room": {
            each.resource: {"total": each.total, "free": each.free, "reserved": each.reserved}
            for each in room.room
        },
    }


def _text(found: Overview, screen: Screen) -> Iterator[str]:
    resources = _shown(found.cluster, found.main)
    reserved = [
        each.resource for each in found.cluster.room if each.reserved and each.resource in resources
    ]
    asked = ",".join(f"{name}={amount(name, n, True)}" for name, n in _requested(found.pod))
    yield f"{counted(found.cluster.nodes, 'node')}, {_usable(found.cluster)}, in {_levels(found)}"
    yield screen.faint(
        f"LARGEST GANG counts pods of {asked}, EMPTY nodes with no {found.main} in use"
    )
    yield ""
    headings = ["DOMAIN", "NODES", "EMPTY", "LARGEST GANG"]
    headings += [f"FREE {name}" for name in resources] + [f"RESERVED {name}" for name in reserved]
    rows = [_row("all", found.cluster, resources, reserved)]
    rows += [
        _row("  " * (len(each.domain) - 1) + (each.domain[-1] or "-"), each, resources, reserved)
        for each in _in_depth(found.domains)
    ]
    yield from screen.table(headings, rows, right=range(1, len(headings)))
    if found.left_out:
        yield ""
        yield "Nodes that take no such pod, however empty they are:"
        told = [(f"{each.nodes:,}", why(each), each.example) for each in found.left_out]
        yield from screen.table(("NODES", "WHY", "ONE OF THEM"), told, right={0}, indent="  ")


def _requested(pod: Amounts) -> Amounts:
    """Return the request without the slot that every pod takes, unless it is all there is."""
    return tuple(pair for pair in pod if pair[0] != capacity.PODS) or pod


def _usable(room: DomainRoom) -> str:
    return "all usable" if room.usable == room.nodes else f"{room.usable:,} usable"


def _levels(found: Overview) -> str:
    counts = zip(found.levels, found.domains, strict=True)
    return " and ".join(f"{len(domains):,} {level}" for level, domains in counts)


def _shown(cluster: DomainRoom, main: str) -> list[str]:
    """Return the resources that text tells of: the main one, cpu and memory; JSON has them all."""
    there = [each.resource for each in cluster.room if each.total]
    return [name for name in dict.fromkeys((main, "cpu", "memory")) if name in there]


def _row(
    name: str, room: DomainRoom, resources: Sequence[str], reserved: Sequence[str]
) -> list[str]:
    of = {each.resource: each for each in room.room}
    nodes = f"{room.nodes:,}" if room.nodes == room.usable else f"{room.usable:,}/{room.nodes:,}"
    return [
        name,
        nodes,
        f"{room.empty:,}",
        f"{room.pods:,}",
        *(f"{amount(each, of[each].free)} of {amount(each, of[each].total)}" for each in resources),
        *(amount(each, of[each].reserved) for each in reserved),
    ]


def _in_depth(domains: Sequence[Sequence[DomainRoom]]) -> list[DomainRoom]:
    """Return the domains of all levels, each before those inside it."""
    return sorted((each for level in domains for each in level), key=lambda each: each.domain)
