"""All objects of one kind, page by page, as they were at one moment."""

import asyncio
from collections.abc import AsyncIterator, Mapping

import msgspec

from stowplan.api.errors import WireError
from stowplan.api.objects import Object
from stowplan.kube.client import Kube
from stowplan.kube.resources import Resource

PAGE = 500  # objects


class Metadata(msgspec.Struct, rename="camel", gc=False):
    """What tells an object and its version from others."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Head(msgspec.Struct, gc=False):
    metadata: Metadata


class _ListMetadata(msgspec.Struct, rename={"version": "resourceVersion", "more": "continue"}):
    version: str = ""
    more: str = ""


class _List(msgspec.Struct):
    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


_HEAD = msgspec.json.Decoder(_Head)
_LIST = msgspec.json.Decoder(_List)


def head_of(content: msgspec.Raw) -> Metadata:
    """Return the metadata of an object that nobody has read yet."""
    return _HEAD.decode(content).metadata


def object_of(resource: Resource, meta: Metadata, content: msgspec.Raw) -> Object:
    """Return an object whose metadata were read, and nothing more."""
    return Object(resource.api_version, resource.kind, meta.namespace, meta.name, content)


async def pages(
    kube: Kube, resource: Resource, query: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[list[Object], str]]:
    """Yield the objects of each page, and the version of the whole list with the last one.

    Raises:
        ExpiredError: the list took so long that the server forgot how it was.
        WireError: an answer is no list.
    """
    asked = {**(query or {}), "limit": str(PAGE)}
    while True:
        content = await kube.request("GET", resource.path(), query=asked)
        try:
            page = _LIST.decode(content)
            found = [object_of(resource, head_of(item), item) for item in page.items or ()]
        except msgspec.DecodeError as error:
            raise WireError(f"the list of {resource.plural} is unreadable: {error}") from error
        if not (page.metadata.more or page.metadata.version):
            raise WireError(f"the list of {resource.plural} has no resourceVersion")
        yield found, "" if page.metadata.more else page.metadata.version
        if not page.metadata.more:
            return
        asked["continue"] = page.metadata.more
        await asyncio.sleep(0)
