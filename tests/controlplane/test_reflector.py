"""The reflector against a real kube-apiserver, which is stopped, restarted and compacted."""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stowplan.api.objects import Object
from stowplan.kube import listing, reflector
from stowplan.kube.access import Kubeconfig
from stowplan.kube.client import Kube
from stowplan.kube.errors import NotFoundError
from stowplan.kube.reflector import Cause, Reflector
from stowplan.kube.resources import Resource
from tests.controlplane.bed import ControlPlane, compact, control_plane
from tests.controlplane.waiting import until

pytestmark = pytest.mark.controlplane

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
CRDS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)
THINGS = Resource("example.com", "v1", "things", "Thing")
OURS = {"app": "ours"}


class Kept:
    """A store, with all that it was told."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.told: list[str] = []

    def set(self, name: str, found: Object) -> None:
        if name not in self.objects or self.objects[name].content != found.content:
            self.told.append(f"set {found.name}")
        self.objects[name] = found

    def remove(self, name: str) -> None:
        if self.objects.pop(name, None) is not None:
            self.told.append(f"remove {name.rpartition('/')[2]}")

    def names(self) -> Iterable[str]:
        return self.objects

    def data(self) -> dict[str, Any]:
        return {name: found.values().get("data") for name, found in self.objects.items()}


def settings(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"namespace": "default", "name": name, "labels": OURS}, "data": data}


class Followed:
    """A reflector that can be held up, with what it told."""

    def __init__(self, kube: Kube, resource: Resource = CONFIG_MAPS, **options: Any) -> None:
        self.kept, self.causes = Kept(), list[Cause]()
        options = {"selector": "app=ours", **options}
        self.reflector = Reflector(
            kube, resource, self.kept, on_restart=self.causes.append, **options
        )
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self.reflector.run())

    async def stop(self) -> None:
        assert self._task is not None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def __aenter__(self) -> "Followed":
        self.start()
        await asyncio.wait_for(self.reflector.synced.wait(), 30)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def behind(self) -> bool:
        return self.reflector.behind_seconds() > 0


@pytest.fixture
async def emptied(kube: Kube) -> Kube:
    for each in await kube.list(CONFIG_MAPS, "default"):
        await kube.delete(CONFIG_MAPS, "default", each["metadata"]["name"])
    return kube


@pytest.fixture(params=["streamed", "paged"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """List by a watch, and in pages of two."""
    monkeypatch.setattr(listing, "PAGE", 2)
    return {"streams": request.param == "streamed"}


async def test_what_is_there_and_what_changes_is_kept(emptied: Kube, way: dict[str, Any]) -> None:
    kube = emptied
    for name in "abcde":
        await kube.create(CONFIG_MAPS, settings(name, x="1"))
    async with Followed(kube, **way) as it:
        assert it.kept.data() == {f"default/{name}": {"x": "1"} for name in "abcde"}
        assert not it.behind
        await kube.patch(CONFIG_MAPS, "default", "a", {"data": {"x": "2"}})
        await kube.create(CONFIG_MAPS, settings("f"))
        await kube.delete(CONFIG_MAPS, "default", "b")
        await until(lambda: it.kept.told[5:] == ["set a", "set f", "remove b"])
        assert it.kept.data()["default/a"] == {"x": "2"}
        assert it.causes == []


async def test_only_what_a_selector_wants_is_kept(emptied: Kube, way: dict[str, Any]) -> None:
    await emptied.create(CONFIG_MAPS, settings("a"))
    await emptied.create(CONFIG_MAPS, {"metadata": {"namespace": "default", "name": "other"}})
    async with Followed(emptied, **way) as it:
        assert set(it.kept.objects) == {"default/a"}
        await emptied.patch(CONFIG_MAPS, "default", "a", {"metadata": {"labels": {"app": None}}})
        await until(lambda: it.kept.told[-1] == "remove a")


async def test_a_kind_is_followed_while_it_is_served(
    kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflector, "_ABSENT_SECONDS", 0.1)
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "singular": "thing", "kind": "Thing"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    async with Followed(kube, THINGS, optional=True, selector="") as it:
        assert not it.behind
        await kube.create(CRDS, {"metadata": {"name": "things.example.com"}, "spec": spec})

        async def made() -> bool:
            with contextlib.suppress(NotFoundError):
                await kube.create(THINGS, {"metadata": {"namespace": "default", "name": "one"}})
                return True
            return False

        await until(made)
        await until(lambda: it.kept.told == ["set one"])
        await kube.delete(CRDS, "", "things.example.com")
        await until(lambda: it.kept.told == ["set one", "remove one"])


# --- A server that is not always there -----------------------------------------------------------


@pytest.fixture
def fragile(built: None, tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane of this test alone."""
    with control_plane(tmp_path) as running:
        yield running


async def test_a_server_that_comes_back_is_followed_where_it_was_left(
    fragile: ControlPlane, way: dict[str, Any]
) -> None:
    async with Kube(Kubeconfig((fragile.admin,))) as kube:
        for name in "abc":
            await kube.create(CONFIG_MAPS, settings(name))
        async with Followed(kube, **way) as it:
            told = len(it.kept.told)
            await asyncio.to_thread(fragile.apiserver.kill)
            await until(lambda: it.behind)
            await asyncio.to_thread(fragile.apiserver.start)
            await kube.delete(CONFIG_MAPS, "default", "b")
            await until(lambda: not it.behind and it.kept.told[told:] == ["remove b"])
            assert "unavailable" in it.causes


async def test_after_a_compaction_everything_is_listed_and_only_differences_are_told(
    fragile: ControlPlane, way: dict[str, Any]
) -> None:
    async with Kube(Kubeconfig((fragile.admin,))) as kube:
        for name in "abc":
            await kube.create(CONFIG_MAPS, settings(name))
        async with Followed(kube, **way) as it:
            told = len(it.kept.told)
            await it.stop()
            await kube.delete(CONFIG_MAPS, "default", "b")
            await kube.delete(CONFIG_MAPS, "default", "c")
            await kube.patch(CONFIG_MAPS, "default", "a", {"data": {"x": "2"}})
            await kube.create(CONFIG_MAPS, settings("d"))
            await asyncio.to_thread(compact, fragile)
            await asyncio.to_thread(fragile.apiserver.kill)  # its own memory of the history
            await asyncio.to_thread(fragile.apiserver.start)
            it.start()
            await until(lambda: set(it.kept.objects) == {"default/a", "default/d"})
            assert sorted(it.kept.told[told:]) == ["remove b", "remove c", "set a", "set d"]
            assert "expired" in it.causes
