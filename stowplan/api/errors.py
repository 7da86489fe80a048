"""The exception family, and the one shape in which a broken rule is reported.

StowplanError
|- InvalidObjectError  its author must mend it; never retried; carries every Violation
|- WireError           a peer sent what we cannot read (400; `Error` in the extender); never retried
`- UnavailableError    a peer is down or slow; always retried with backoff
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

Code = Literal["required", "invalid", "duplicate", "forbidden", "immutable"]

_LISTED = 20  # violations that a message lists; the exception carries them all
_SHOWN = 120  # characters of a found value that a message repeats; annotations may hold megabytes


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule at one field path.

    Attributes:
        path: the field as its author typed it, ``spec.levels[2]``.
        code: which kind of rule was broken.
        value: what was found; None when absent.
        problem: positive and lower case, "must ..." or "must not ...".
        remedy: the next action, "remove this entry".
    """

    path: str
    code: Code
    value: object
    problem: str
    remedy: str

    def __str__(self) -> str:
        """Return the one-line form that people read."""
        found = "" if self.value is None else f" (got {_shortened(self.value)})"
        return f"{self.path}: {self.problem}{found}; {self.remedy}"

    def under(self, what: str) -> "Violation":
        """Return the same violation with the object it is in before its path."""
        return replace(self, path=f"{what}: {self.path}")


class StowplanError(Exception):
    """Everything that stowplan raises on purpose."""


class InvalidObjectError(StowplanError):
    """An object breaks rules; its author must mend it, so it is never retried."""

    def __init__(self, what: str, violations: Iterable[Violation]) -> None:
        """Say in ``what`` which object is refused; ``violations`` holds every broken rule."""
        self.what = what
        self.violations = tuple(violations)
        super().__init__(what, self.violations)

    def __str__(self) -> str:
        """Return the object and one line for each violation."""
        lines = [f"{self.what} is refused:", *map(str, self.violations[:_LISTED])]
        if (rest := len(self.violations) - _LISTED) > 0:
            lines.append(f"and {rest} more")
        return "\n  ".join(lines)


class WireError(StowplanError):
    """A peer sent what we cannot read; sending it again would not help."""


class UnavailableError(StowplanError):
    """A peer is down or slow; try again later."""


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... {len(text)} characters"
