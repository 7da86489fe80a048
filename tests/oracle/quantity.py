"""The exact value of a Kubernetes quantity, as a fraction.

The grammar, as the Quantity type of apimachinery documents it:

    quantity  = [+|-] number [suffix]
    number    = digits | digits "." [digits] | "." digits
    suffix    = n u m k M G T P E | Ki Mi Gi Ti Pi Ei | (e|E) [+|-] digits

``E`` alone is the suffix exa and ``e`` alone is nothing. No spaces, and ``K`` does not exist. The
API server also rounds below one nano and caps at 2^63 - 1; that is its storage, not the meaning of
the text, and is left out here.
"""

import re
from fractions import Fraction

DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)"
    r"(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?P<suffix>[numkMGTPE]?|[KMGTPE]i|[eE](?P<exponent>[+-]?[0-9]+))"
)


def exact(text: str) -> Fraction:
    """Return the value of ``text`` in its base unit (cores, bytes, devices).

    Raises:
        ValueError: ``text`` is no Kubernetes quantity.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"not a Kubernetes quantity: {text!r}")
    whole, part = match["whole"], match["part"] or ""
    if not whole + part:  # "", "+", "." and "Ki" have no number at all
        raise ValueError(f"not a Kubernetes quantity, it has no digits: {text!r}")
    value = Fraction(int(whole + part), 10 ** len(part))
    if match["exponent"] is not None:
        value *= Fraction(10) ** int(match["exponent"])
    elif match["suffix"] in BINARY:
        value *= 2 ** BINARY[match["suffix"]]
    else:
        value *= Fraction(10) ** DECIMAL[match["suffix"]]
    return -value if match["sign"] == "-" else value
