"""One connection to kube-apiserver: raw bytes in and out, every request with an end.

Built on the library's raw calls, which know kubeconfigs, proxies and TLS, and not on its typed
ones: those parse each object three times (facts C7 to C19).
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson
import structlog

from stowplan.api.errors import InvalidObjectError, UnavailableError, WireError
from stowplan.kube.access import Access, Loaded
from stowplan.kube.errors import error_of
from stowplan.kube.resources import Resource
from stowplan.telemetry.build import version

if TYPE_CHECKING:  # as in ``access``
    from kubernetes_asyncio.client.api_client import ApiClient

log = structlog.get_logger()

Json = dict[str, Any]
Query = Mapping[str, str]

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"  # JSON is YAML, and the library writes JSON (fact C17)

REQUEST_SECONDS = 10.0
_LOOK_AT_FILES_SECONDS = 10.0
_CONNECT_SECONDS = 5.0
_GOODBYE_SECONDS = 0.1  # TLS connections are closed after their session is, and nobody can wait
_AGENT = f"stowplan/{version()}"
_LONGEST_LINE = 1 << 26  # bytes; far beyond what etcd stores as one object
_MOST_SHOWN = 500  # characters of a server's message that an error repeats


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    body: object
    content_type: str
    query: Query
    limits: aiohttp.ClientTimeout

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(slots=True, eq=False)
class _Session:
    """A client of the library, which is closed once it was replaced and nobody uses it."""

    loaded: Loaded
    api: "ApiClient"
    users: int = 0
    retired: bool = False


@dataclass(slots=True, eq=False)
class Kube:
    """Asks kube-apiserver; use it as an asynchronous context, or close it.

    Every method raises ``UnavailableError`` when the server cannot be asked now, and
    ``RefusedError`` when it says no.

    Attributes:
        access: where it is, and how we prove who we are.
        timeout_seconds: of a request that does not say.
    """

    access: Access
    timeout_seconds: float = REQUEST_SECONDS
    _session: _Session | None = None
    _changing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _look_at: float = 0.0

    async def __aenter__(self) -> "Kube":
        """Read the access, so that what is wrong with it is told at once.

        Raises:
            InvalidObjectError: it cannot be used.
        """
        await self._renew(None)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End all connections."""
        if self._session is not None:
            await self._session.api.close()
            self._session = None
            await asyncio.sleep(_GOODBYE_SECONDS)

    def look_at_files(self) -> None:
        """Look at the files of the access before the next request, not only every ten seconds."""
        self._look_at = 0.0

    async def get(self, resource: Resource, namespace: str, name: str) -> Json:
        """Return one object."""
        return await self._json("GET", resource.path(namespace, name))

    async def list(self, resource: Resource, namespace: str = "", selector: str = "") -> list[Json]:
        """Return all objects, of one namespace or of all; for kinds of which there are few."""
        query = {"labelSelector": selector} if selector else {}
        found = await self._json("GET", resource.path(namespace), query=query)
        items: list[Json] = found.get("items") or []
        return items

    async def create(self, resource: Resource, obj: Mapping[str, Any]) -> Json:
        """Create an object and return it as it is stored.

        Raises:
            ConflictError: there is one of its name.
        """
        namespace = obj["metadata"].get("namespace", "")
        return await self._json("POST", resource.path(namespace), _typed(resource, obj))

    async def replace(
        self, resource: Resource, obj: Mapping[str, Any], subresource: str = ""
    ) -> Json:
        """Replace an object, or a part of it such as ``status``.

        Raises:
            ConflictError: it names a ``resourceVersion`` that is no longer the stored one.
        """
        meta = obj["metadata"]
        path = resource.path(meta.get("namespace", ""), meta["name"], subresource)
        return await self._json("PUT", path, _typed(resource, obj))

    async def patch(
        self, resource: Resource, namespace: str, name: str, patch: object, subresource: str = ""
    ) -> Json:
        """Change an object by a JSON Patch, which is a list, or by a merge patch."""
        path = resource.path(namespace, name, subresource)
        kind = JSON_PATCH if isinstance(patch, Sequence) else MERGE_PATCH
        return await self._json("PATCH", path, patch, kind)

    async def apply(
        self, resource: Resource, obj: Mapping[str, Any], manager: str, subresource: str = ""
    ) -> Json:
        """Make the fields of ``obj`` ours, whoever had them (server-side apply)."""
        meta = obj["metadata"]
        path = resource.path(meta.get("namespace", ""), meta["name"], subresource)
        query = {"fieldManager": manager, "force": "true"}
        return await self._json("PATCH", path, _typed(resource, obj), APPLY, query)

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_seconds: int | None = None,
    ) -> None:
        """Delete an object.

        Raises:
            ConflictError: it has not the ``uid`` or ``resource_version`` that is named.
        """
        conditions = {"uid": uid, "resourceVersion": resource_version}
        options: Json = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if found := {key: value for key, value in conditions.items() if value}:
            options["preconditions"] = found
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        await self.request("DELETE", resource.path(namespace, name), options)

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = JSON,
        query: Query | None = None,
    ) -> bytes:
        """Return the body of a good answer."""
        limits = aiohttp.ClientTimeout(total=self.timeout_seconds, sock_connect=_CONNECT_SECONDS)
        request = _Request(method, path, body, content_type, query or {}, limits)
        async with self._answer(request) as answer:
            return await answer.read()

    @asynccontextmanager
    async def stream(
        self, path: str, query: Query, idle_seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Give the lines of an answer that goes on and on.

        ``UnavailableError`` ends it when nothing came for ``idle_seconds``: the server, or the way
        to it, is gone.
        """
        limits = aiohttp.ClientTimeout(
            total=None, sock_connect=_CONNECT_SECONDS, sock_read=idle_seconds
        )
        async with self._answer(_Request("GET", path, None, JSON, query, limits)) as answer:
            yield _lines(answer.content)

    async def _json(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = JSON,
        query: Query | None = None,
    ) -> Json:
        content = await self.request(method, path, body, content_type, query)
        try:
            found = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise WireError(f"{method} {path}: the answer is no JSON: {error}") from error
        if not isinstance(found, dict):
            raise WireError(f"{method} {path}: the answer is no object")
        return found

    @asynccontextmanager
    async def _answer(self, request: _Request) -> AsyncIterator[aiohttp.ClientResponse]:
        """Give a good answer; another is raised as an error.

        Who is no longer known (401) reads the access anew, once: a token may have run out.
        """
        for last in (False, True):
            session = await self._current()
            session.users += 1
            try:
                answer = await _sent(session.api, request)
                try:
                    if answer.status == 401 and not last:
                        await self._renew(session)
                        continue
                    if answer.status >= 400:
                        raise _error(str(request), answer, await answer.read())
                    yield answer
                    return
                finally:
                    answer.release()  # which closes the connection unless everything was read
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                named = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
                raise UnavailableError(f"{request}: {named}") from error
            finally:
                session.users -= 1
                if session.retired and not session.users:
                    await session.api.close()

    async def _current(self) -> _Session:
        """Return the session; a new one when its files changed."""
        session, now = self._session, time.monotonic()
        if session is None:
            return await self._renew(None)
        if now < self._look_at:
            return session
        self._look_at = now + _LOOK_AT_FILES_SECONDS
        if await asyncio.to_thread(session.loaded.changed):
            return await self._renew(session)
        return session

    async def _renew(self, old: _Session | None) -> _Session:
        """Replace ``old``, unless somebody did already; what cannot be read changes nothing.

        Raises:
            InvalidObjectError: it cannot be read, and there is no session yet.
        """
        async with self._changing:
            if self._session is not None and self._session is not old:
                return self._session
            try:
                loaded, library = await asyncio.to_thread(_load, self.access)
            except InvalidObjectError as error:
                if old is None:
                    raise
                log.error(
                    "access to the cluster unreadable", violations=list(map(str, error.violations))
                )
                return old
            api = library(loaded.configuration)
            api.user_agent = _AGENT
            made = _Session(loaded, api)
            if old is not None:
                log.info("access to the cluster read anew")
                old.retired = True
                if not old.users:
                    await old.api.close()
            self._session = made
            self._look_at = time.monotonic() + _LOOK_AT_FILES_SECONDS
            return made


def _load(access: Access) -> tuple[Loaded, "type[ApiClient]"]:
    """Read the access, and the library the first time, which takes longer; this blocks."""
    from kubernetes_asyncio.client.api_client import ApiClient

    return access.load(), ApiClient


async def _sent(api: "ApiClient", request: _Request) -> aiohttp.ClientResponse:
    answer: aiohttp.ClientResponse = await api.call_api(
        request.path,
        request.method,
        query_params=list(request.query.items()),
        header_params={"Accept": JSON, "Content-Type": request.content_type},
        body=request.body,
        auth_settings=["BearerToken"],
        _preload_content=False,
        _request_timeout=request.limits,
    )
    return answer


def _typed(resource: Resource, obj: Mapping[str, Any]) -> Json:
    return {**obj, "apiVersion": resource.api_version, "kind": resource.kind}


def _error(what: str, answer: aiohttp.ClientResponse, content: bytes) -> Exception:
    """Return what an answer says went wrong; a proxy on the way may answer with anything."""
    try:
        status = orjson.loads(content)
    except orjson.JSONDecodeError:
        status = None
    if not isinstance(status, dict):
        status = {"message": content[:_MOST_SHOWN].decode(errors="replace")}
    reason, message = (str(status.get(key) or "") for key in ("reason", "message"))
    after = answer.headers.get("Retry-After", "")
    seconds = float(after) if after.isascii() and after.isdigit() else 0.0
    return error_of(what, answer.status, reason, message[:_MOST_SHOWN], seconds)


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield lines; thousands of them arrive at once, so the loop gets a turn after each piece."""
    rest = bytearray()
    async for piece in content.iter_any():
        end = piece.rfind(b"\n") + 1
        if not end:
            rest += piece
            if len(rest) > _LONGEST_LINE:
                raise WireError(f"a line of the answer is longer than {_LONGEST_LINE} bytes")
            continue
        rest += piece[:end]  # whole lines, with what came before
        for line in bytes(rest).split(b"\n"):
            if line:
                yield line
        rest = bytearray(piece[end:])
        await asyncio.sleep(0)
    if rest:
        yield bytes(rest)
