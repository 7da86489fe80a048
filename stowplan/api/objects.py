"""One Kubernetes object whose content has not been looked at yet, only what tells it from others.

A cluster in a file is mostly fields that nobody reads, so objects stay as they came until somebody
asks for one as a model.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from stowplan.api.errors import InvalidObjectError, Violation
from stowplan.api.models.wire import Document, Model, decode, read

Json = Mapping[str, Any]
Identity = tuple[str, str, str, str]  # API group, kind, namespace, name


class Object(msgspec.Struct, frozen=True, gc=False):
    """One object.

    Attributes:
        api_version: group and version, or the version alone for the core group.
        kind: what it is.
        namespace: empty for none.
        name: what its author calls it.
        content: all of it, read or unread.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    content: Json | Document

    @classmethod
    def of(cls, found: "Object | Json") -> "Object":
        """Return an object of parsed JSON; what it lacks is empty, for models say what must be."""
        if isinstance(found, Object):
            return found
        meta = found.get("metadata")
        meta = meta if isinstance(meta, Mapping) else {}
        version, kind = found.get("apiVersion"), found.get("kind")
        namespace, name = meta.get("namespace"), meta.get("name")
        return cls(_text(version), _text(kind), _text(namespace), _text(name), found)

    @property
    def group(self) -> str:
        """The API group; empty for the core group. Its versions show the same objects."""
        return self.api_version.rpartition("/")[0]

    @property
    def identity(self) -> Identity:
        """What no two objects share."""
        return self.group, self.kind, self.namespace, self.name

    @property
    def title(self) -> str:
        """What people call it: ``Pod default/train-0``, ``Node n1``."""
        return f"{self.kind} {'/'.join(filter(None, (self.namespace, self.name)))}".rstrip()

    def values(self) -> Json:
        """Return the content as parsed JSON."""
        if isinstance(self.content, Mapping):
            return self.content
        found: Json = msgspec.json.decode(self.content)
        return found

    def read(self, model: type[Model]) -> Model:
        """Return the content as ``model``.

        Raises:
            InvalidObjectError: one violation for each field that is wrong.
        """
        if isinstance(self.content, Mapping):
            return read(model, self.content, lambda: self.title)
        try:
            return decode(model, self.content, lambda: self.title)
        except msgspec.DecodeError as error:
            problem = f"must be JSON: {error}"
            whole = Violation("(the whole object)", "invalid", None, problem, "mend it")
            raise InvalidObjectError(self.title, [whole]) from error


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
