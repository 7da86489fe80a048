"""Kubernetes quantities as whole numbers in base units, and the resources of one request.

CPU counts in millicores, everything else in its own unit (bytes, devices). A request is rounded up
and a capacity down, so that rounding never promises room that is not there.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

CPU = "cpu"
PODS = "pods"

# float64 holds every whole number up to here, so quotients of rooms stay exact (topology/fit.py).
LIMIT = 2**53

_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>\d*)(?:\.(?P<part>\d*))?"
    r"(?:(?P<binary>[KMGTPE]i)|(?P<decimal>[numkMGTPE])|[eE](?P<exponent>[+-]?\d+))?",
    re.ASCII,
)
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_LONGEST = 128  # characters; the API server's own canonical form has at most 20 digits
_FURTHEST = 40  # powers of ten beyond LIMIT or below a thousandth, whatever the digits say


Reader = Callable[[str, str], int]  # resource name and text -> base units


class QuantityError(ValueError):
    """The text is no Kubernetes quantity; the message says what one looks like."""


def requested(resource: str, text: str) -> int:
    """Return the base units that a request of ``text`` needs, rounded up and at most ``LIMIT``.

    Raises:
        QuantityError: ``text`` is no quantity, or is negative.
    """
    return _base_units(text, 3 if resource == CPU else 0, True)


def offered(resource: str, text: str) -> int:
    """Return the base units that a capacity of ``text`` holds, rounded down and below ``LIMIT``.

    Staying below keeps a request that was cut to ``LIMIT`` from fitting anywhere.

    Raises:
        QuantityError: ``text`` is no quantity, or is negative.
    """
    return min(_base_units(text, 3 if resource == CPU else 0, False), LIMIT - 1)


@lru_cache(maxsize=16384)
def _base_units(text: str, shift: int, round_up: bool) -> int:
    """Return ``text`` x 10**shift as a whole number; a cluster repeats few texts."""
    found = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None or not (found["whole"] or found["part"]):
        raise QuantityError("must be a quantity such as 2, 500m, 1.5Gi or 1e3")
    part = found["part"] or ""
    digits = int(found["whole"] + part)
    if found["sign"] == "-" and digits:
        raise QuantityError("must not be negative")
    ten = shift - len(part) + _DECIMAL.get(found["decimal"], 0)
    if found["exponent"]:
        # The digits may cancel a part of the power, so the cut-off leaves room for all of them.
        furthest = _FURTHEST + len(text)
        ten += max(-furthest, min(furthest, int(found["exponent"])))
    above: int = digits * 10 ** max(ten, 0) << _BINARY.get(found["binary"], 0)
    below: int = 10 ** max(-ten, 0)
    units = -(-above // below) if round_up else above // below
    return min(units, LIMIT)


def is_extended(resource: str) -> bool:
    """Whether it is a device: what kubelets offer by themselves has no domain in its name."""
    return "/" in resource and not resource.startswith("kubernetes.io/")


def per_pod(requests: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return what limits one pod: resources with a positive amount and one of ``pods``, by name.

    Names in order are what decides between equally scarce resources (section 3).
    """
    return tuple(sorted({**{k: v for k, v in requests.items() if v > 0}, PODS: 1}.items()))
