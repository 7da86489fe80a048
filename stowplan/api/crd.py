"""Our kinds as kube-apiserver must know them.

``python -m stowplan.api.crd FOLDER`` writes them; with ``--check`` it says which are out of date.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from stowplan.api.models import placement

Json = dict[str, Any]

_TEXT: Json = {"type": "string", "maxLength": 1024}
_TEXTS: Json = {"type": "array", "items": _TEXT, "maxItems": 64, "x-kubernetes-list-type": "atomic"}
_COUNT: Json = {"type": "integer", "minimum": 0}
_MOST_SEATS = 10_000


def _object(properties: Json, *required: str, says: str) -> Json:
    found: Json = {"type": "object", "description": says, "properties": properties}
    return {**found, "required": list(required)} if required else found


def _list(items: Json, most: int) -> Json:
    """A list that is written whole, by one writer."""
    kept = {"maxItems": most, "x-kubernetes-list-type": "atomic"}
    return {"type": "array", "items": items, **kept}


def placement_definition() -> Json:
    """Return the CustomResourceDefinition of Placement."""
    gang = _object(
        {"kind": _TEXT, "name": _TEXT, "uid": _TEXT},
        *("kind", "name"),
        says="What names the gang: a group label or the pods' controller.",
    )
    spec = _object(
        {"gang": gang, "size": _COUNT},
        "gang",
        says="Whom the decision is about.",
    )
    spec["x-kubernetes-validations"] = [
        {"rule": "self.gang == oldSelf.gang", "message": "the gang must not change"}
    ]
    schema = _object(
        {"spec": spec, "status": _status()},
        "spec",
        says="The durable decision about one gang: where all its pods go, or why nowhere.",
    )
    columns = (
        ("Gang", ".spec.gang.name", "string"),
        ("Kind", ".spec.gang.kind", "string"),
        ("Size", ".spec.size", "integer"),
        ("Phase", ".status.phase", "string"),
        ("Domain", ".status.where", "string"),
        ("Reason", ".status.conditions[?(@.type=='Placed')].reason", "string"),
        ("Age", ".metadata.creationTimestamp", "date"),
    )
    version = {
        "name": placement.VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": name, "jsonPath": path, "type": kind} for name, path, kind in columns
        ],
    }
    names = {"kind": "Placement", "plural": "placements", "singular": "placement"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"placements.{placement.GROUP}"},
        "spec": {
            "group": placement.GROUP,
            "scope": "Namespaced",
            "names": {**names, "listKind": "PlacementList", "shortNames": ["plc"]},
            "versions": [version],
        },
    }


def _status() -> Json:
    podset = _object(
        {
            "role": _TEXT,
            "requests": {"type": "object", "additionalProperties": _TEXT, "maxProperties": 64},
            "domain": _TEXTS,
        },
        says="Pods alike, and what each costs in base units.",
    )
    seat = _object(
        {"podset": _COUNT, "rank": _COUNT, "node": _TEXT, "name": _TEXT, "uid": _TEXT},
        *("podset", "node"),
        says="A node for one pod, and the pod, once it is there.",
    )
    decision = _object(
        {
            "id": _TEXT,
            "format": _COUNT,
            "level": _TEXT,
            "domain": _TEXTS,
            "ahead": {"type": "boolean"},
            "podsets": _list(podset, 1024),
            "seats": _list(seat, _MOST_SEATS),
        },
        *("id", "format"),
        says="Where every pod goes.",
    )
    excluded = _object(
        {"node": _TEXT, "until": _TEXT, "times": _COUNT},
        *("node", "until"),
        says="A node that is left out for the gang until some moment.",
    )
    condition = _object(
        {
            "type": _TEXT,
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": _TEXT,
            "message": {"type": "string", "maxLength": 32768},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
        },
        *("type", "status"),
        says="Whether the gang is placed, and if not, why not.",
    )
    phases = ["Incomplete", "Waiting", "Reserved", "Releasing", "Released", "Bound"]
    return _object(
        {
            "phase": {"type": "string", "enum": phases},
            "where": _TEXT,
            "epoch": {"type": "integer"},
            "decision": decision,
            "excluded": _list(excluded, 1024),
            "conditions": {
                "type": "array",
                "items": condition,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
        },
        says="What was decided. Without it nothing is reserved.",
    )


DEFINITIONS = {"placements.yaml": placement_definition}


class _Dumper(yaml.SafeDumper):
    """Writes what stands twice twice: nobody reads anchors."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def written(definition: Json) -> str:
    """Return a definition as a file."""
    head = "# Written by: make docs\n"
    return head + yaml.dump(definition, Dumper=_Dumper, sort_keys=False, width=100)


def main(argv: Sequence[str]) -> int:
    """Write every definition, or tell which ones are not as they would be written."""
    *options, folder = argv
    status = 0
    for name, definition in DEFINITIONS.items():
        file, text = Path(folder) / name, written(definition())
        if "--check" not in options:
            file.write_text(text, encoding="utf-8")
        elif not file.exists() or file.read_text(encoding="utf-8") != text:
            print(f"{file} is out of date; run make docs", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
