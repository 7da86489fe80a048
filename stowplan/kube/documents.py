"""Bytes of JSON or YAML -> the values in them, as kube-apiserver would have read them.

YAML costs seconds at 5,000 nodes even through libyaml; JSON costs a tenth of one.
"""

from typing import Annotated, Any

import msgspec
import orjson

from stowplan.api.errors import InvalidObjectError, Violation
from stowplan.api.objects import Object

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


class _Metadata(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    namespace: str | None = None


class _Head(msgspec.Struct, rename="camel"):
    api_version: Annotated[str, msgspec.Meta(min_length=1)]
    kind: Annotated[str, msgspec.Meta(min_length=1)]
    metadata: _Metadata


class _List(msgspec.Struct):
    kind: Annotated[str, msgspec.Meta(pattern="List$")]
    items: list[msgspec.Raw]


def listed(file: str, content: bytes) -> list[Object] | None:
    """Return the items of a list as ``kubectl get -o json`` prints one, without reading them.

    None when it is anything else, or something is wrong with it: then ``documents`` reads it all,
    and tells.
    """
    if not file.endswith(".json"):
        return None
    try:
        content.decode()  # what nobody reads nobody else would check
        items = msgspec.json.decode(content.removeprefix(_BYTE_ORDER_MARK), type=_List).items
        decoder = msgspec.json.Decoder(_Head)
        heads = [decoder.decode(item) for item in items]
    except (UnicodeDecodeError, msgspec.DecodeError):
        return None
    return [
        Object(head.api_version, head.kind, head.metadata.namespace or "", head.metadata.name, item)
        for head, item in zip(heads, items, strict=True)
    ]


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
