"""Settings from flags, environment and file, and where each came from.

Precedence: flag, environment, file, default. Everything that is wrong is reported at once, each
under the name that its author typed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from stowplan.api.errors import InvalidObjectError, Violation
from stowplan.cli.rules import Rule
from stowplan.cli.settings import (
    ENVIRONMENT_PREFIX,
    KEYS,
    Settings,
    example_of,
    flag_of,
    variable_of,
)
from stowplan.cli.spelling import closest, did_you_mean
from stowplan.kube.documents import SUFFIXES, documents

CONFIG_VARIABLE = f"{ENVIRONMENT_PREFIX}CONFIG"

# Kubernetes sets variables for every Service (STOWPLAN_PORT and its like), so only one that is very
# much like ours is taken for a misspelling.
_MISSPELT = 0.9


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where one value came from: what kind of place, and its name there."""

    kind: Literal["flag", "environment", "file", "default"]
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".rstrip()

    def spelled(self, key: str) -> str:
        """Return ``key`` as its author typed it; a default's author would type the flag."""
        match self.kind:
            case "environment":
                return self.name
            case "file":
                return f"{self.name}: {key}"
            case _:
                return flag_of(key)


DEFAULT = Provenance("default")


@dataclass(frozen=True, slots=True)
class InForce:
    """The settings, and for every key where its value came from."""

    settings: Settings
    provenance: Mapping[str, Provenance]

    def spelled(self, key: str) -> str:
        """Return ``key`` as its author typed it."""
        return self.provenance[key].spelled(key)


@dataclass(slots=True)
class _Gathered:
    """What each key was set to by the strongest source that sets it."""

    values: dict[str, Any]
    provenance: dict[str, Provenance]
    violations: list[Violation]

    def set(self, key: str, value: Any, provenance: Provenance) -> None:
        self.values[key] = value
        self.provenance[key] = provenance

    def spelled(self, key: str) -> str:
        return self.provenance[key].spelled(key)


def resolve(
    flags: Mapping[str, Any],
    environment: Mapping[str, str],
    config: Path | None,
    rules: Sequence[Rule],
    mistyped: Sequence[Violation] = (),
) -> InForce:
    """Return the settings in force.

    Args:
        flags: key -> value, for the flags that were given.
        environment: of the process.
        config: the file that a flag names; the environment may name another.
        rules: what the settings must obey.
        mistyped: what is already known to be wrong, to be reported with the rest.

    Raises:
        InvalidObjectError: with every violation of every source.
    """
    gathered = _Gathered({}, dict.fromkeys(KEYS, DEFAULT), list(mistyped))
    if config is None and environment.get(CONFIG_VARIABLE):
        config = Path(environment[CONFIG_VARIABLE])
    if config is not None:
        _gather_file(gathered, config)
    _gather_environment(gathered, environment)
    for key, value in flags.items():
        gathered.set(key, value, Provenance("flag", flag_of(key)))
    settings = _judge(gathered, rules)
    if gathered.violations:
        raise InvalidObjectError("the configuration", gathered.violations)
    return InForce(settings, gathered.provenance)


def _gather_file(gathered: _Gathered, file: Path) -> None:
    try:
        found = _read(file)
    except InvalidObjectError as refused:
        gathered.violations += refused.violations
        return
    for key, value in found.items():
        if key not in KEYS:
            remedy = did_you_mean(str(key), KEYS, "stowplan config lists them all")
            problem = "must be a known key"
            gathered.violations.append(
                Violation(f"{file}: {key}", "invalid", None, problem, remedy)
            )
        elif value is not None:  # `key:` with nothing after it is a key that is not set
            gathered.set(key, value, Provenance("file", str(file)))


def _read(file: Path) -> Mapping[str, Any]:
    name = str(file)
    if file.suffix not in SUFFIXES:
        problem = f"must have a name that ends in {' or '.join(SUFFIXES)}"
        raise _refused(Violation(name, "invalid", None, problem, "rename it"))
    try:
        content = file.read_bytes()
    except OSError as error:
        problem = f"must be a file that we can read: {error.strerror}"
        remedy = "check the path and its mode"
        raise _refused(Violation(name, "required", None, problem, remedy)) from error
    found = documents(name, content)
    if not found:
        return {}
    if len(found) > 1 or not isinstance(found[0], dict):
        problem = "must be one object of keys and values"
        raise _refused(Violation(name, "invalid", None, problem, "write key: value, one a line"))
    return found[0]


def _refused(violation: Violation) -> InvalidObjectError:
    return InvalidObjectError("the configuration file", [violation])


def _gather_environment(gathered: _Gathered, environment: Mapping[str, str]) -> None:
    known = {variable_of(key): key for key in KEYS}
    for name in sorted(environment):
        if not name.startswith(ENVIRONMENT_PREFIX) or not environment[name]:
            continue  # an empty variable is one that is not set
        if name in known:
            gathered.set(known[name], environment[name], Provenance("environment", name))
        elif meant := closest(name, known, _MISSPELT):
            problem = "must be a known variable"
            remedy = f"did you mean {meant}?"
            gathered.violations.append(Violation(name, "invalid", None, problem, remedy))


def _judge(gathered: _Gathered, rules: Sequence[Rule]) -> Settings:
    """Return the settings, with defaults for what is broken by itself, and note all that is."""
    broken: set[str] = set()
    try:
        settings = Settings.model_validate(gathered.values)
    except ValidationError as error:
        for detail in error.errors():
            broken.add(str(detail["loc"][0]))
            gathered.violations.append(_violation(gathered, detail))
        sound = {key: value for key, value in gathered.values.items() if key not in broken}
        settings = Settings.model_validate(sound)
    gathered.violations += _broken_rules(gathered, settings, rules, broken)
    return settings


def _broken_rules(
    gathered: _Gathered, settings: Settings, rules: Sequence[Rule], broken: set[str]
) -> Iterator[Violation]:
    for rule in rules:
        if broken.isdisjoint(rule.keys):
            yield from rule.check(settings, gathered.spelled)


def _violation(gathered: _Gathered, detail: ErrorDetails) -> Violation:
    key = str(detail["loc"][0])
    indexes = "".join(f"[{part}]" for part in detail["loc"][1:] if isinstance(part, int))
    path = gathered.spelled(key) + indexes
    problem = detail["msg"].removeprefix("Value error, ")
    problem = problem.replace("Input should be", "must be").replace("Input is not", "must be")
    remedy = f"write a value such as {example_of(key)}"
    return Violation(path, "invalid", detail["input"], problem, remedy)
