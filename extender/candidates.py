"""The nodes that kube-scheduler offers, in the form they came in, and handed back in the same form.

A decision asks whether one name is among them. So the usual form, a list of names, stays bytes.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import orjson

from stowplan.api.errors import WireError

_QUOTE, _COMMA, _SPACE, _NOT_ASCII = 34, 44, 32, 128
# What names do not hold (they are DNS subdomains) and whatever is more than a list of them does.
_STRUCTURE = (b"\\", b"[", b"]", b"{", b"}", b":")


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

    def looks_plain(self) -> bool:
        """Whether it can only be one list of plain strings, by what is cheap to see.

        Nothing needs an escape or ends the list early, and quotes stand at both ends. That every
        name is between quotes and commas is seen where names are handed back (``all``) or parsed.
        """
        body, start, end = self._body, self._start, self._end
        if start == end:
            return True
        inside = np.frombuffer(body, dtype=np.uint8, count=end - start, offset=start)
        return bool(
            inside[0] == _QUOTE
            and inside[-1] == _QUOTE
            and inside.min() > _SPACE
            and inside.max() < _NOT_ASCII
            and all(body.find(mark, start, end) < 0 for mark in _STRUCTURE)
        )

    def _well_formed(self) -> bool:
        """Whether every quote opens or closes a name, and one comma stands between two of them."""
        if self._start == self._end:
            return True
        inside = np.frombuffer(
            self._body, dtype=np.uint8, count=self._end - self._start, offset=self._start
        )
        quotes = inside == _QUOTE
        between = (inside[1:-1] == _COMMA) & quotes[:-2] & quotes[2:]
        return int(np.count_nonzero(quotes)) == 2 * int(np.count_nonzero(between)) + 2

    def __contains__(self, node: str) -> bool:
        """Search for the quoted name; the first quote is compared last, as there are so many."""
        body, rest = self._body, b'%s"' % node.encode()
        at = body.find(rest, self._start, self._end)
        while at >= 0 and body[at - 1] != _QUOTE:
            at = body.find(rest, at + 1, self._end)
        return at >= 0

    def __len__(self) -> int:
        """Count pairs of quotes."""
        inside = np.frombuffer(self._body, np.uint8, self._end - self._start, self._start)
        return int(np.count_nonzero(inside == _QUOTE)) // 2

    def names(self) -> Sequence[str]:
        """Parse them."""
        return node_names(loads(b"[%s]" % self._body[self._start : self._end]))

    def all(self) -> bytes:
        """Hand the bytes back without re-encoding them."""
        if not self._well_formed():
            raise WireError("NodeNames must be a list of node names")
        return _name_members(b"[%s]" % self._body[self._start : self._end])


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
