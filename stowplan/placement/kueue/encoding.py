"""Assignments as Kueue's Workloads carry them: listed in v1beta1, compact in v1beta2.

The compact form cuts the domains into slices (domain-fit, section 16). In a slice a level has one
``universal`` value, or ``individual`` ones whose common prefix and suffix are written once; the
numbers of pods likewise. ``encode`` writes what Kueue writes, down to the choice of slices.
``decode`` reads every valid form, and refuses any other with all that is wrong in it.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any

from stowplan.api.errors import InvalidObjectError, Violation
from stowplan.api.models.wire import Wire, read
from stowplan.placement.kueue.assignment import Assignment
from stowplan.topology.levels import MOST_LEVELS
from stowplan.topology.tree import Path

Json = dict[str, Any]  # a document, ready to be written as JSON
Violations = Iterator[Violation]

MOST_SLICES = 1_000
MOST_ROOTS = 100_000  # of one level of one slice, and so domains of one slice
MOST_PODS = 2**31 - 1  # Kueue counts in int32
LONGEST_TEXT = 63  # of a value, a prefix, a suffix and a root, as of any label value
LONGEST_KEY = 317

# Only a slice that names one domain again and again could name more within etcd's 1.5 MiB.
MOST_DOMAINS = 1_000_000

_WHAT = "topology assignment"
_ESCAPED = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


# To pass over a field that we do not know could mean to read another assignment than was written,
# so all of these are refused with one.


class _Domain(Wire, frozen=True, forbid_unknown_fields=True):
    values: list[str]
    count: int


class _Listed(Wire, frozen=True, forbid_unknown_fields=True):
    levels: list[str]
    domains: list[_Domain] | None


class _Individual(Wire, frozen=True, forbid_unknown_fields=True):
    roots: list[str]
    prefix: str | None = None
    suffix: str | None = None

    def values(self) -> list[str]:
        prefix, suffix = self.prefix or "", self.suffix or ""
        return [prefix + root + suffix for root in self.roots]


class _LevelValues(Wire, frozen=True, forbid_unknown_fields=True):
    universal: str | None = None
    individual: _Individual | None = None


class _PodCounts(Wire, frozen=True, forbid_unknown_fields=True):
    universal: int | None = None
    individual: list[int] | None = None


class _Slice(Wire, frozen=True, forbid_unknown_fields=True):
    domain_count: int
    values_per_level: list[_LevelValues]
    pod_counts: _PodCounts

    def domains(self) -> Iterator[tuple[Path, int]]:
        columns = (
            level.individual.values()
            if level.individual is not None
            else [level.universal or ""] * self.domain_count
            for level in self.values_per_level
        )
        pods = self.pod_counts.individual or [self.pod_counts.universal or 0] * self.domain_count
        return zip(zip(*columns, strict=True), pods, strict=True)


class _Compact(Wire, frozen=True, forbid_unknown_fields=True):
    levels: list[str]
    slices: list[_Slice] | None = None  # Go leaves an empty list out


def encode(assignment: Assignment, runs: bool = True) -> Json:
    """Return the compact form, v1beta2: with name runs, or in one slice where that is shorter.

    Args:
        assignment: with at most 1 000 000 domains.
        runs: whether hosts may be cut into runs of names with one prefix, Kueue's setting.

    Raises:
        InvalidObjectError: the form has no room for this assignment.
    """
    one_slice = encode_in_one_slice(assignment)
    if not (runs and assignment.has_host):
        return one_slice
    by_prefix = _compact(assignment, _keys(assignment))
    too_many = len(assignment.domains) > MOST_ROOTS  # for one slice, so that is cut as well
    return one_slice if not too_many and json_size(one_slice) < json_size(by_prefix) else by_prefix


def encode_in_one_slice(assignment: Assignment) -> Json:
    """Return the compact form in one slice, or in slices of 100 000 where it has more domains.

    Raises:
        InvalidObjectError: the form has no room for this assignment.
    """
    _refuse(_assignment_violations(assignment))
    return _compact(assignment, [""] * len(assignment.domains))


def encode_by_prefix(assignment: Assignment) -> Json:
    """Return the compact form in runs of hosts with one name prefix; without hosts, in one slice.

    Raises:
        InvalidObjectError: the form has no room for this assignment.
    """
    _refuse(_assignment_violations(assignment))
    return _compact(assignment, _keys(assignment))


def prefix_keys(hosts: Sequence[str], most_runs: int = MOST_SLICES) -> list[str]:
    """Return the key of each host: equal ones that follow one another make a run.

    It is the host's longest prefix that ends in a dash inside the name and that another host has,
    too; of all prefixes only so many dashes are kept that there are at most ``most_runs``.
    """
    longest = _longest_shared(hosts)
    shared = [longest[host] for host in hosts]
    # More dashes only cut runs further, so the most that are allowed can be searched by halves.
    counts = range(1, max((prefix.count("-") for prefix in shared), default=0) + 1)
    dashes = bisect_right(counts, most_runs, key=lambda n: len(_runs(_first(n, shared))))
    return list(_first(dashes, shared))


def json_size(document: Json) -> int:
    """Return how many bytes Go would write the document in: compact, some characters escaped."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return len(text.translate(_ESCAPED).encode(errors="surrogatepass"))


def decode(document: object) -> Assignment:
    """Return the assignment of a compact form, v1beta2; ``document`` is parsed JSON.

    Raises:
        InvalidObjectError: with every field that the form has not or that is no such value, else
            with every rule of the form that is broken.
    """
    form = read(_Compact, document, _WHAT)
    _refuse(_compact_violations(form))
    domains = (domain for part in form.slices or () for domain in part.domains())
    return Assignment(tuple(form.levels), tuple(domains))


def encode_listed(assignment: Assignment) -> Json:
    """Return the form of v1beta1, which lists the domains.

    Raises:
        InvalidObjectError: the form has no room for this assignment.
    """
    _refuse(_assignment_violations(assignment))
    return {
        "levels": list(assignment.levels),
        "domains": [{"values": list(path), "count": count} for path, count in assignment.domains],
    }


def decode_listed(document: object) -> Assignment:
    """Return the assignment that a v1beta1 document lists; ``document`` is parsed JSON.

    Raises:
        InvalidObjectError: with every field that the form has not or that is no such value, else
            with every rule of the form that is broken.
    """
    form = read(_Listed, document, _WHAT)
    _refuse(_listed_violations(form))
    domains = ((tuple(domain.values), domain.count) for domain in form.domains or ())
    return Assignment(tuple(form.levels), tuple(domains))


# --- Writing -------------------------------------------------------------------------------------


def _keys(assignment: Assignment) -> list[str]:
    """Return the key of each domain; only names of hosts make runs."""
    if not assignment.has_host:
        return [""] * len(assignment.domains)
    return prefix_keys([values[-1] for values, _ in assignment.domains])


def _compact(assignment: Assignment, keys: Iterable[str]) -> Json:
    slices = [_slice(assignment.domains[run]) for run in _runs(keys)]
    return {"levels": list(assignment.levels), "slices": slices}


def _runs(keys: Iterable[str]) -> list[slice]:
    """Return the ranges of equal keys that follow one another, none longer than a slice may be."""
    runs = []
    start = 0
    for _, run in groupby(keys):
        end = start + sum(1 for _ in run)
        runs += [slice(at, min(at + MOST_ROOTS, end)) for at in range(start, end, MOST_ROOTS)]
        start = end
    return runs


def _slice(domains: Sequence[tuple[Path, int]]) -> Json:
    paths, pods = zip(*domains, strict=True)
    return {
        "domainCount": len(domains),
        "valuesPerLevel": [_level(values) for values in zip(*paths, strict=True)],
        "podCounts": {"universal": pods[0]} if _all_equal(pods) else {"individual": list(pods)},
    }


def _level(values: Sequence[str]) -> Json:
    if _all_equal(values):
        return {"universal": values[0]}
    suffix = _common_start([value[::-1] for value in values])[::-1]
    prefix = _common_start(values)[: min(map(len, values)) - len(suffix)]  # they must not overlap
    roots = [value[len(prefix) : len(value) - len(suffix)] for value in values]
    ends = {"prefix": prefix, "suffix": suffix}
    return {"individual": {**{name: end for name, end in ends.items() if end}, "roots": roots}}


def _common_start(values: Sequence[str]) -> str:
    first, last = min(values), max(values)  # all others begin with what these two share
    for at, (one, other) in enumerate(zip(first, last, strict=False)):
        if one != other:
            return first[:at]
    return first


def _all_equal(values: Sequence[object]) -> bool:
    return values.count(values[0]) == len(values)


def _longest_shared(hosts: Iterable[str]) -> dict[str, str]:
    """Return each host's longest prefix that ends in a dash inside the name and is another's, too.

    Names with one prefix are neighbours in the order of names.
    """
    longest = dict.fromkeys(hosts, "")
    for one, other in pairwise(sorted(hosts)):
        inside = min(len(one), len(other)) - 1
        start = _common_start((one, other))
        start = start[: start.rfind("-", 0, inside) + 1]
        longest[one] = max(longest[one], start, key=len)
        longest[other] = start
    return longest


def _first(dashes: int, prefixes: Iterable[str]) -> Iterator[str]:
    """Yield each prefix up to so many of its dashes."""
    for prefix in prefixes:
        parts = prefix.split("-", dashes)
        yield "-".join((*parts[:dashes], "")) if len(parts) > dashes else prefix


# --- Rules ---------------------------------------------------------------------------------------


def _refuse(violations: Iterable[Violation]) -> None:
    if found := list(violations):
        raise InvalidObjectError(_WHAT, found)


def _assignment_violations(assignment: Assignment) -> Violations:
    """Yield what keeps an assignment from being written, at the paths of the listed form."""
    yield from _levels_violations(assignment.levels)
    yield from _most_violation("domains", len(assignment.domains), MOST_DOMAINS)
    for i, (values, count) in enumerate(assignment.domains):
        yield from _domain_violations(f"domains[{i}]", values, count, len(assignment.levels))
        for n, value in enumerate(values):
            yield from _text_violation(f"domains[{i}].values[{n}]", value)


def _listed_violations(form: _Listed) -> Violations:
    yield from _levels_violations(form.levels)
    for i, domain in enumerate(form.domains or ()):
        path = f"domains[{i}]"
        yield from _domain_violations(path, domain.values, domain.count, len(form.levels))


def _compact_violations(form: _Compact) -> Violations:
    slices = form.slices or ()
    yield from _levels_violations(form.levels)
    yield from _most_violation("slices", len(slices), MOST_SLICES)
    total = sum(max(part.domain_count, 0) for part in slices)
    yield from _most_violation("slices", total, MOST_DOMAINS, "domains")
    for i, part in enumerate(slices):
        yield from _slice_violations(f"slices[{i}]", part, len(form.levels))


def _slice_violations(path: str, part: _Slice, depth: int) -> Violations:
    yield from _count_violation(f"{path}.domainCount", part.domain_count)
    levels = part.values_per_level
    yield from _length_violation(f"{path}.valuesPerLevel", len(levels), depth, "levels")
    for i, level in enumerate(levels):
        yield from _values_violations(f"{path}.valuesPerLevel[{i}]", level, part.domain_count)
    yield from _pods_violations(f"{path}.podCounts", part.pod_counts, part.domain_count)


def _pods_violations(path: str, pods: _PodCounts, domains: int) -> Violations:
    yield from _choice_violation(path, pods.universal, pods.individual)
    if pods.universal is not None:
        yield from _count_violation(f"{path}.universal", pods.universal)
    if pods.individual is not None:
        path = f"{path}.individual"
        yield from _entries_violations(path, len(pods.individual), domains)
        for i, count in enumerate(pods.individual):
            yield from _count_violation(f"{path}[{i}]", count)


def _values_violations(path: str, level: _LevelValues, domains: int) -> Violations:
    yield from _choice_violation(path, level.universal, level.individual)
    yield from _text_violation(f"{path}.universal", level.universal or "")
    if level.individual is not None:
        each, path = level.individual, f"{path}.individual"
        yield from _text_violation(f"{path}.prefix", each.prefix or "")
        yield from _text_violation(f"{path}.suffix", each.suffix or "")
        yield from _entries_violations(f"{path}.roots", len(each.roots), domains)
        for i, root in enumerate(each.roots):
            yield from _text_violation(f"{path}.roots[{i}]", root)


def _domain_violations(path: str, values: list[str] | Path, count: int, depth: int) -> Violations:
    yield from _length_violation(f"{path}.values", len(values), depth, "levels")
    yield from _count_violation(f"{path}.count", count)


def _levels_violations(levels: Sequence[str]) -> Violations:
    if not 1 <= len(levels) <= MOST_LEVELS:
        problem = f"must be 1 to {MOST_LEVELS} label keys"
        yield Violation("levels", "invalid", list(levels), problem, "add or remove keys")
    for i, key in enumerate(levels):
        if len(key) > LONGEST_KEY:
            problem = f"must have at most {LONGEST_KEY} characters"
            yield Violation(f"levels[{i}]", "invalid", key, problem, "shorten it")


def _entries_violations(path: str, found: int, domains: int) -> Violations:
    yield from _length_violation(path, found, domains, "domains")
    yield from _most_violation(path, found, MOST_ROOTS)


def _length_violation(path: str, found: int, want: int, what: str) -> Violations:
    if found != want:
        problem = f"must have one entry for each of {want} {what}"
        yield Violation(path, "invalid", found, problem, "add or remove entries")


def _most_violation(path: str, found: int, most: int, what: str = "entries") -> Violations:
    if found > most:
        problem = f"must have at most {most} {what}"
        yield Violation(path, "invalid", found, problem, "place the pods in several podsets")


def _count_violation(path: str, number: int) -> Violations:
    if not 1 <= number <= MOST_PODS:
        problem = f"must be 1 to {MOST_PODS}"
        yield Violation(path, "invalid", number, problem, "correct the number")


def _text_violation(path: str, text: str) -> Violations:
    if len(text) > LONGEST_TEXT:
        problem = f"must have at most {LONGEST_TEXT} characters"
        yield Violation(path, "invalid", text, problem, "shorten it")


def _choice_violation(path: str, universal: object, individual: object) -> Violations:
    if universal is None and individual is None:
        problem = "must have universal or individual"
        yield Violation(path, "required", None, problem, "add one of them")
    if universal is not None and individual is not None:
        problem = "must not have universal and individual at once"
        yield Violation(path, "forbidden", None, problem, "keep one of them")
