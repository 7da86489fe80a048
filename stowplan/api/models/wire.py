"""How a peer's JSON becomes a typed object, and how what is wrong in it is told."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec

from stowplan.api.errors import InvalidObjectError, Violation

Quantity = str | int | float  # Kubernetes takes a bare number for the text of one


def text_of(quantity: Quantity) -> str:
    """Return a quantity as it would be written in quotes."""
    return quantity if isinstance(quantity, str) else str(quantity)


Document = msgspec.Raw | bytes | memoryview  # JSON that nobody has read yet


class Wire(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A frozen mirror of a peer's object: its camel-case names, unknown fields passed over.

    Fields that are passed over cost next to nothing and are checked for no more than being JSON.
    JSON has no cycles, so the garbage collector need not look at what was read.
    """


Model = TypeVar("Model", bound=Wire)


def read(model: type[Model], obj: object, what: str | Callable[[], str]) -> Model:
    """Return ``obj``, parsed JSON, as ``model``.

    Args:
        model: what it must be.
        obj: the object.
        what: names the object in an error, or returns its name: thousands of names are not needed.

    Raises:
        InvalidObjectError: one violation for each field that is wrong.
    """
    try:
        return msgspec.convert(obj, model)
    except msgspec.ValidationError as error:
        named = what if isinstance(what, str) else what()
        raise InvalidObjectError(named, _violations(model, obj)) from error


def decode(model: type[Model], document: Document, what: str | Callable[[], str]) -> Model:
    """Return ``document`` as ``model``, in one step: several times faster than by way of values.

    Raises:
        InvalidObjectError: one violation for each field that is wrong.
        msgspec.DecodeError: it is no JSON.
    """
    try:
        found: Model = decoder(model).decode(document)
    except msgspec.ValidationError:
        return read(model, msgspec.json.decode(document), what)
    return found


@cache
def decoder(model: type[Wire]) -> "msgspec.json.Decoder[Any]":
    """Return what reads JSON as ``model``; it is made once."""
    return msgspec.json.Decoder(model)


def _violations(kind: Any, value: object, path: str = "") -> Iterator[Violation]:
    """Yield what is wrong, field by field; reading by itself stops at the first."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        inside = list(_inside(_bare(kind), value, path))
        yield from inside or [_whole(value, path, str(error))]


def _inside(kind: Any, value: object, path: str) -> Iterator[Violation]:
    """Yield what is wrong with the parts of a value."""
    if isinstance(kind, type) and issubclass(kind, Wire) and isinstance(value, Mapping):
        fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
        for name, field in fields.items():
            if name in value:
                yield from _violations(field.type, value[name], _under(path, name))
            elif field.required:
                yield Violation(_under(path, name), "required", None, "must be present", "add it")
        if kind.__struct_config__.forbid_unknown_fields:
            for name in value.keys() - fields:
                problem = "must be a field of this form"
                yield Violation(_under(path, name), "forbidden", value[name], problem, "remove it")
    elif get_origin(kind) is list and isinstance(value, list):
        for at, item in enumerate(value):
            yield from _violations(get_args(kind)[0], item, f"{path}[{at}]")
    elif get_origin(kind) is dict and isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):  # YAML has such keys
                where = _under(path, str(key))
                yield Violation(where, "invalid", key, "must be a string", "put it in quotes")
            yield from _violations(get_args(kind)[1], item, _under(path, str(key)))


def _bare(kind: Any) -> Any:
    """Return a type without its limits and without None."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, UnionType):
        others = [each for each in get_args(kind) if each is not type(None)]
        return _bare(others[0]) if len(others) == 1 else kind
    return kind


_EXPECTED = re.compile(r"Expected `(?P<types>[^`]+)`(?P<limit>[^,]*).*", re.DOTALL)
_LIMIT = re.compile(r" (?P<length>of length )?(?P<relation>[<>]=) (?P<number>\d+)(?: - at .*)?")
_NAMES = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "object": "an object",
    "str": "a string",
}


def _whole(value: object, path: str, message: str) -> Violation:
    """Return what the message says of a value; its parts are right."""
    expected = _EXPECTED.fullmatch(message)
    problem = _problem(expected["types"], expected["limit"]) if expected else f"is not: {message}"
    where = path or "(the whole object)"
    return Violation(where, "invalid", value, f"must be {problem}", "correct this field")


def _problem(types: str, limit: str) -> str:
    names = [name for name in types.split(" | ") if name != "null"]
    if bound := _LIMIT.fullmatch(limit):
        relation = "at least" if bound["relation"] == ">=" else "at most"
        counted = {"str": " characters", "array": " entries"}.get(names[0], "")
        return f"{relation} {bound['number']}{counted if bound['length'] else ''}"
    if {"str", "int", "float"}.issubset(names):
        return "a quantity"
    return " or ".join(_NAMES.get(name, name) for name in names)


def _under(path: str, name: str) -> str:
    if not path:
        return name
    return f"{path}.{name}" if name.isidentifier() else f"{path}[{name}]"
