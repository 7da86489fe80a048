"""Lines of a report: what was measured, what the design allows, and whether that is kept."""

import importlib.metadata
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

LATEST = Path(__file__).parent / "results" / "latest.json"

_LIBRARIES = ("aiohttp", "msgspec", "numba", "numpy", "orjson", "uvloop")
_HEADINGS = ("what", "measured", "budget", "ratio", "ok")


@dataclass(frozen=True, slots=True)
class Line:
    """One measurement.

    Attributes:
        what: for people.
        measured: for people, with every number that explains it.
        value: what the budget is about.
        budget: the most that ``value`` may be; None where the design sets none.
        unit: of ``value`` and ``budget``.
        facts: numbers for the record.
    """

    what: str
    measured: str
    value: float
    budget: float | None = None
    unit: str = "µs"
    facts: Mapping[str, float] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """Measured by budget; above 1 the budget is missed."""
        return None if self.budget is None else self.value / self.budget

    @property
    def missed(self) -> bool:
        """Whether there is a budget, and it is not kept."""
        return self.budget is not None and not self.value <= self.budget

    @property
    def verdict(self) -> str:
        """For people: yes, the gap, or nothing without a budget."""
        if self.budget is None:
            return ""
        if not self.missed:
            return "yes"
        return f"MISSED by {self.value - self.budget:.2f} {self.unit}"

    def cells(self) -> tuple[str, str, str, str, str]:
        """Return its columns of the table."""
        budget = "" if self.budget is None else f"<= {self.budget:.4g} {self.unit}"
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        return self.what, self.measured, budget, ratio, self.verdict

    def record(self) -> dict[str, object]:
        """Return it for the record."""
        return {
            "what": self.what,
            "value": round(self.value, 4),
            "unit": self.unit,
            "budget": None if self.budget is None else round(self.budget, 4),
            "ratio": None if self.ratio is None else round(self.ratio, 4),
            "ok": None if self.budget is None else not self.missed,
            "facts": dict(self.facts),
        }


def table(lines: Sequence[Line]) -> str:
    """Return the lines as an aligned table, and below it how many budgets are missed."""
    rows = [_HEADINGS, *(line.cells() for line in lines)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, tuple("-" * width for width in widths))  # type: ignore[arg-type]
    text = "\n".join(
        " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    judged = [line for line in lines if line.budget is not None]
    missed = sum(line.missed for line in judged)
    return f"{text}\n\n{len(judged)} budgets, {missed} missed; ratio is measured by budget"


def machine() -> dict[str, object]:
    """Return what a reader must know of the machine; no names and no paths."""
    return {
        "python": platform.python_version(),
        "system": platform.system(),
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "load_before": round(os.getloadavg()[0], 2),
        **{name: importlib.metadata.version(name) for name in _LIBRARIES},
    }


def write(lines: Sequence[Line], facts: Mapping[str, object], seconds: float, file: Path) -> None:
    """Write the record of one run."""
    found = {
        "taken": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
        "machine": dict(facts),
        "lines": [line.record() for line in lines],
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found, indent=2, ensure_ascii=False)
    file.write_text(f"{text}\n", encoding="utf-8")
