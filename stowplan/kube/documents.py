"""Bytes of JSON or YAML -> the values in them, as kube-apiserver would have read them.

YAML costs seconds at 5,000 nodes even through libyaml; JSON costs a tenth of one.
"""

from typing import Any

import orjson

from stowplan.api.errors import InvalidObjectError, Violation

SUFFIXES = (".json", ".yaml", ".yml")

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # some editors write it; it means nothing in UTF-8


def documents(file: str, content: bytes) -> list[Any]:
    """Return every document of ``content``; ``file`` says by its name how to read it.

    Raises:
        InvalidObjectError: when it cannot be read, with the line and column.
    """
    content = content.removeprefix(_BYTE_ORDER_MARK)
    if file.endswith(".json"):
        return [_json(file, content)]
    from stowplan.kube import yaml_documents  # late: commands that read JSON start without it

    return yaml_documents.read(file, content)


def _json(file: str, content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        require_utf8(file, content)
        raise refused(file, f"must be JSON: {error}", "mend it there") from error


def require_utf8(file: str, content: bytes) -> None:
    """Refuse content that is not UTF-8, with the place."""
    try:
        content.decode()
    except UnicodeDecodeError as error:
        problem = f"must be UTF-8; byte {error.start} is not"
        raise refused(file, problem, "save it as UTF-8") from error


def refused(file: str, problem: str, remedy: str) -> InvalidObjectError:
    """Return the refusal of a whole file."""
    return InvalidObjectError(file, [Violation(file, "invalid", None, problem, remedy)])
