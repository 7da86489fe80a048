"""What somebody probably meant to type."""

import difflib
from collections.abc import Iterable


def closest(word: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the word of ``known`` that is most like ``word``, if any is."""
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=likeness)
    return found[0] if found else None


def did_you_mean(word: str, known: Iterable[str], otherwise: str) -> str:
    """Return advice to write the word that was probably meant, or ``otherwise``."""
    found = closest(word, known)
    return f"did you mean {found}?" if found else otherwise
