"""Documents -> the Kubernetes objects in them, each checked for what tells it from others."""

from collections.abc import Iterable, Iterator
from typing import Any

from stowplan.api.errors import Violation
from stowplan.api.objects import Identity, Object

Json = dict[str, Any]


class Collected:
    """The objects of many files, and every rule that they break."""

    def __init__(self) -> None:
        """Start with none."""
        self.objects: list[Object] = []
        self.violations: list[Violation] = []
        self._first_seen: dict[Identity, tuple[str, str]] = {}

    def take(self, file: str, objects: Iterable[Object]) -> None:
        """Take the items of the one list in ``file``; none of them lacks what tells it apart."""
        for number, found in enumerate(objects):
            self.objects.append(found)
            self._note(file, f"items[{number}]", found)

    def add(self, file: str, documents: list[Any]) -> None:
        """Take every object of the documents of ``file``, in their order."""
        for number, document in enumerate(documents):
            path = f"document[{number}]" if len(documents) > 1 else ""
            if isinstance(document, dict) and _is_list(document):
                self._add_items(file, path, document)
            else:
                self._add_object(file, path, document)

    def _add_items(self, file: str, path: str, document: Json) -> None:
        items = document["items"]
        path = _under(path, "items")
        if items is None:  # how Go writes an empty list
            return
        if not isinstance(items, list):
            self._break(file, path, "invalid", type(items).__name__, "must be a list", _WRITE_LIST)
            return
        inherited = _type_of_items(document)
        for number, item in enumerate(items):
            if inherited and isinstance(item, dict):
                item = {**inherited, **item}
            self._add_object(file, f"{path}[{number}]", item)

    def _add_object(self, file: str, path: str, found: Any) -> None:
        if not isinstance(found, dict):
            kind = type(found).__name__
            self._break(
                file, path, "invalid", kind, "must be an object", "write kind, apiVersion …"
            )
            return
        problems = list(_missing(found))
        for field, value in problems:
            self._break_field(file, _under(path, field), value)
        if not problems:
            self.objects.append(Object.of(found))
            self._note(file, path, self.objects[-1])

    def _note(self, file: str, path: str, found: Object) -> None:
        here = file, path
        first = self._first_seen.setdefault(found.identity, here)
        if first is not here:
            problem = f"must be the only {found.kind} of this name; first found at {_where(*first)}"
            full = f"{found.namespace}/{found.name}" if found.namespace else found.name
            field = _under(path, "metadata.name")
            self._break(file, field, "duplicate", full, problem, "remove one of the two")

    def _break_field(self, file: str, path: str, value: object) -> None:
        if value is None:
            self._break(file, path, "required", None, "must be set", "write it")
        else:
            self._break(file, path, "invalid", value, "must be a string with text in it", "mend it")

    def _break(
        self, file: str, path: str, code: Any, value: object, problem: str, remedy: str
    ) -> None:
        self.violations.append(Violation(_where(file, path), code, value, problem, remedy))


_WRITE_LIST = "write [] for none"


def _is_list(document: Json) -> bool:
    kind = document.get("kind")
    return isinstance(kind, str) and kind.endswith("List") and "items" in document


def _type_of_items(document: Json) -> Json:
    """Return kind and apiVersion that the items of a NodeList and its like leave out."""
    kind = document["kind"].removesuffix("List")
    return {"apiVersion": document.get("apiVersion"), "kind": kind} if kind else {}


def _missing(found: Json) -> Iterator[tuple[str, object]]:
    """Yield each field without which an object cannot be told from others, and its value."""
    for field in ("apiVersion", "kind"):
        if not _is_text(found.get(field)):
            yield field, found.get(field)
    metadata = found.get("metadata")
    if not isinstance(metadata, dict):
        yield "metadata.name", metadata
        return
    if not _is_text(metadata.get("name")):
        yield "metadata.name", metadata.get("name")
    namespace = metadata.get("namespace")
    if not (namespace is None or isinstance(namespace, str)):
        yield "metadata.namespace", namespace


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _under(path: str, field: str) -> str:
    return f"{path}.{field}" if path else field


def _where(file: str, path: str) -> str:
    return f"{file}: {path}" if path else file
