"""The nodes that kube-scheduler offers, in the form they came in, and handed back in the same form.

A decision asks whether one name is among them. So the usual form, a list of names, stays bytes.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import orjson

from stowplan.api.errors import WireError

# What a list of node names holds; they are DNS subdomains, so nothing in them is ever escaped.
_NAME_BYTES = b'abcdefghijklmnopqrstuvwxyz0123456789.-",'


class Offered(ABC):
    """The candidates of one call.

    Attributes:
        whole_nodes: they came as node objects, not as names.
    """

    whole_nodes: ClassVar[bool] = False

    @abstractmethod
    def __contains__(self, node: str) -> bool:
        """Whether the node is offered."""

    @abstractmethod
    def __len__(self) -> int:
        """How many nodes are offered."""

    @abstractmethod
    def names(self) -> Sequence[str]:
        """Return all names."""

    @abstractmethod
    def all(self) -> bytes:
        """Return the members ``NodeNames`` and ``Nodes`` with everything that was offered."""

    def only(self, node: str) -> bytes:
        """Return the same members with one node."""
        return _name_members(orjson.dumps([node]))

    def none(self) -> bytes:
        """Return the same members without any node."""
        return _name_members(b"[]")


class UnreadNames(Offered):
    """Names as they came: the rest of the body behind ``"NodeNames":[``."""

    def __init__(self, body: bytes, start: int) -> None:
        """Take the names from ``start`` up to the ``]}`` that ends ``body``."""
        self._body = body
        self._start = start
        self._end = body.rindex(b"]}")

    def well_formed(self) -> bool:
        """Whether it is a list of plain strings: quotes at both ends and around commas only."""
        body, start, end = self._body, self._start, self._end
        if start == end:
            return True
        return (
            body.startswith(b'"', start)
            and body.endswith(b'"', start, end)
            and body.count(b'"', start, end) == 2 * body.count(b'","', start, end) + 2
            and body.find(b"\\", start, end) < 0
            and body[start:end].isascii()
        )

    def __contains__(self, node: str) -> bool:
        """Search for the quoted name: quotes inside a string would be escaped."""
        return self._body.find(b'"%s"' % node.encode(), self._start, self._end) >= 0

    def __len__(self) -> int:
        """Count pairs of quotes."""
        return self._body.count(b'"', self._start, self._end) // 2

    def names(self) -> Sequence[str]:
        """Parse them."""
        return node_names(loads(b"[%s]" % self._body[self._start : self._end]))

    def all(self) -> bytes:
        """Hand the bytes back without re-encoding them, unless they are no names at all."""
        inside = self._body[self._start : self._end]
        if inside.translate(None, _NAME_BYTES):
            return NameList(self.names()).all()
        return _name_members(b"[%s]" % inside)


class NameList(Offered):
    """Names that were parsed with the rest of a body."""

    def __init__(self, names: Sequence[str]) -> None:
        """Take the names."""
        self._names = names

    @cached_property
    def _set(self) -> Collection[str]:
        return frozenset(self._names)

    def __contains__(self, node: str) -> bool:
        """Whether the node is offered."""
        return node in self._set

    def __len__(self) -> int:
        """How many nodes are offered."""
        return len(self._names)

    def names(self) -> Sequence[str]:
        """Return all names."""
        return self._names

    def all(self) -> bytes:
        """Encode all names."""
        return _name_members(orjson.dumps(self._names))


class NodeList(Offered):
    """Whole nodes, sent with ``nodeCacheCapable: false``; only nodes are read back then (E14)."""

    whole_nodes = True

    def __init__(self, nodes: Mapping[str, Any]) -> None:
        """Take the node objects by name."""
        self._nodes = nodes

    def __contains__(self, node: str) -> bool:
        """Whether the node is offered."""
        return node in self._nodes

    def __len__(self) -> int:
        """How many nodes are offered."""
        return len(self._nodes)

    def names(self) -> Sequence[str]:
        """Return all names."""
        return tuple(self._nodes)

    def all(self) -> bytes:
        """Encode all nodes."""
        return _node_members(self._nodes.values())

    def only(self, node: str) -> bytes:
        """Encode one node."""
        return _node_members([self._nodes[node]])

    def none(self) -> bytes:
        """Encode an empty list of nodes."""
        return _node_members([])


def loads(text: bytes) -> Any:
    """Parse JSON.

    Raises:
        WireError: it is none.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise WireError(f"the body must be JSON: {error}") from error


def node_names(names: Any) -> Sequence[str]:
    """Return ``NodeNames``.

    Raises:
        WireError: it is no list of names.
    """
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise WireError("NodeNames must be a list of node names")
    return names


def node_map(nodes: Any) -> Mapping[str, Any]:
    """Return the items of ``Nodes``, a NodeList, by name; ``items`` may be null (E8).

    Raises:
        WireError: it is none.
    """
    items = nodes.get("items") if isinstance(nodes, dict) else nodes
    if isinstance(nodes, dict) and items is None:
        return {}
    if not isinstance(items, list):
        raise WireError("Nodes must be a NodeList with items")
    try:
        named = {item["metadata"]["name"]: item for item in items}
    except (KeyError, TypeError) as error:
        raise WireError("Nodes.items must have names") from error
    if not all(isinstance(name, str) for name in named):
        raise WireError("Nodes.items must have names")
    return named


def _name_members(names: bytes) -> bytes:
    return b'"NodeNames":%s,"Nodes":null' % names


def _node_members(nodes: Collection[Any]) -> bytes:
    return b'"NodeNames":null,"Nodes":%s' % orjson.dumps({"metadata": {}, "items": list(nodes)})
