"""What is built is what the modules pin."""

import re

from tests.controlplane.programs import MODULES, PROGRAMS, cache


def test_the_cache_is_named_after_the_versions_of_the_modules() -> None:
    pinned: dict[str, str] = {}
    for module in {program.module for program in PROGRAMS}:
        text = (MODULES / module / "go.mod").read_text()
        pinned |= dict(re.findall(r"^require (\S+) v(\S+)$", text, re.MULTILINE))
    kubernetes, etcd = pinned["k8s.io/kubernetes"], pinned["go.etcd.io/etcd/server/v3"]
    assert cache().name == f"k{kubernetes}-e{etcd}"
