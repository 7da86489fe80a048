"""The lock files: complete, by hash, of one mind, and free of addresses."""

import re
import tomllib

import pytest

from tests.packaging import checkout

LOCKS = {name: (checkout.ROOT / f"requirements/{name}.txt") for name in ("build", "dev", "runtime")}
PROJECT = tomllib.loads((checkout.ROOT / "pyproject.toml").read_text())


def pins(name: str) -> set[str]:
    """Return ``name==version ; condition`` of every package in one lock file."""
    lines = LOCKS[name].read_text().splitlines()
    return {line.removesuffix("\\").strip() for line in lines if re.match(r"[a-z0-9]", line)}


def canonical(requirement: str) -> str:
    """Return the name in a requirement, as lock files spell it."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None
    return re.sub(r"[._-]+", "-", found[0]).lower()


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_has_one_version_and_a_hash_and_no_address(name: str) -> None:
    text = LOCKS[name].read_text()
    for entry in re.split(r"\n(?=[a-z0-9])", text)[1:]:
        assert re.match(r"[a-z0-9-]+==\S+ ", entry), entry
        assert "--hash=sha256:" in entry, entry
    assert not re.search(r"://|--index|--find-links|/(home|root|tmp|work)/", text)


def test_every_dependency_is_locked() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = {
        "runtime": PROJECT["project"]["dependencies"],
        "dev": [*PROJECT["project"]["dependencies"], *extras["test"], *extras["dev"]],
        "build": PROJECT["build-system"]["requires"],
    }
    for name, requirements in wanted.items():
        locked = {canonical(pin) for pin in pins(name)}
        assert {canonical(r) for r in requirements} - {"stowplan"} <= locked, name


def test_what_is_tested_is_what_is_shipped() -> None:
    assert pins("runtime") <= pins("dev")
    assert pins("build") <= pins("dev")
