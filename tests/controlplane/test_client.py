"""The client against a real kube-apiserver."""

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from stowplan.api.errors import InvalidObjectError, UnavailableError
from stowplan.kube.access import InCluster, Kubeconfig
from stowplan.kube.client import Kube
from stowplan.kube.errors import ConflictError, NotFoundError, RefusedError
from stowplan.kube.resources import NODES, PODS, Resource
from tests.build import node, pod
from tests.controlplane.bed import ControlPlane, free_port, kubeconfig_of

pytestmark = pytest.mark.controlplane

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False
)


def settings(name: str, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    meta = {"namespace": "default", "name": name, "labels": labels or {}}
    return {"metadata": meta, "data": data}


async def test_objects_are_made_read_changed_and_deleted(kube: Kube) -> None:
    made = await kube.create(CONFIG_MAPS, settings("a", x="1"))
    assert (await kube.get(CONFIG_MAPS, "default", "a"))["data"] == {"x": "1"}
    changed = await kube.replace(CONFIG_MAPS, {**made, "data": {"x": "2"}})
    assert changed["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
    merged = await kube.patch(CONFIG_MAPS, "default", "a", {"data": {"y": "3"}})
    assert merged["data"] == {"x": "2", "y": "3"}
    patch = [{"op": "test", "path": "/data/x", "value": "2"}, {"op": "remove", "path": "/data/x"}]
    assert (await kube.patch(CONFIG_MAPS, "default", "a", patch))["data"] == {"y": "3"}
    await kube.delete(CONFIG_MAPS, "default", "a")
    with pytest.raises(NotFoundError):
        await kube.get(CONFIG_MAPS, "default", "a")


async def test_two_who_change_the_same_version_do_not_both_succeed(kube: Kube) -> None:
    made = await kube.create(CONFIG_MAPS, settings("b", x="1"))
    await kube.replace(CONFIG_MAPS, {**made, "data": {"x": "2"}})
    with pytest.raises(ConflictError):
        await kube.replace(CONFIG_MAPS, {**made, "data": {"x": "3"}})
    with pytest.raises(ConflictError):
        await kube.create(CONFIG_MAPS, settings("b"))
    with pytest.raises(RefusedError) as refused:
        await kube.patch(
            CONFIG_MAPS, "default", "b", [{"op": "test", "path": "/data/x", "value": "1"}]
        )
    assert refused.value.status == 422


async def test_a_deletion_names_whom_it_means(kube: Kube) -> None:
    made = await kube.create(CONFIG_MAPS, settings("c"))
    meta = made["metadata"]
    uid, version = meta["uid"], meta["resourceVersion"]
    for wrong in (("another", version), (uid, "1")):
        with pytest.raises(ConflictError):
            await kube.delete(CONFIG_MAPS, "default", "c", uid=wrong[0], resource_version=wrong[1])
    await kube.delete(CONFIG_MAPS, "default", "c", uid=uid, resource_version=version)


async def test_fields_are_applied_by_whoever_says_so(kube: Kube) -> None:
    await kube.apply(CONFIG_MAPS, settings("d", x="1", y="1"), manager="one")
    await kube.apply(CONFIG_MAPS, settings("d", x="2"), manager="two")
    found = await kube.apply(CONFIG_MAPS, settings("d"), manager="one")
    assert found["data"] == {"x": "2"}


async def test_the_status_is_written_apart(kube: Kube) -> None:
    await kube.create(NODES, node("n1").gpus(8))
    made = await kube.create(PODS, {**pod("p"), "status": {}})
    assert made["status"]["phase"] == "Pending"
    done = await kube.patch(PODS, "default", "p", {"status": {"phase": "Running"}}, "status")
    assert done["status"]["phase"] == "Running"
    applied = {"metadata": {"namespace": "default", "name": "p"}, "status": {"message": "hi"}}
    found = await kube.apply(PODS, applied, "me", "status")
    assert found["status"]["message"] == "hi"
    whole = await kube.replace(PODS, {**found, "status": {"phase": "Failed"}}, "status")
    assert whole["status"]["phase"] == "Failed"
    await kube.delete(PODS, "default", "p", grace_seconds=0)
    assert await kube.list(PODS, "default") == []


async def test_labels_select_what_is_listed(kube: Kube) -> None:
    for name, color in (("red", "red"), ("blue", "blue")):
        await kube.create(CONFIG_MAPS, settings(name, {"color": color}))
    found = await kube.list(CONFIG_MAPS, "default", "color in (red)")
    assert [each["metadata"]["name"] for each in found] == ["red"]


async def test_a_kind_that_is_not_served_is_not_found(kube: Kube) -> None:
    with pytest.raises(NotFoundError):
        await kube.list(Resource("example.com", "v1", "things", "Thing"))


async def test_who_may_not_is_told_so(plane: ControlPlane) -> None:
    async with Kube(Kubeconfig((plane.kubeconfig("nobody"),))) as nobody:
        with pytest.raises(RefusedError) as refused:
            await nobody.list(PODS)
    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")
    assert 'User "nobody" cannot list resource "pods"' in str(refused.value)


async def test_a_server_that_is_not_there_is_unavailable(
    plane: ControlPlane, tmp_path: Path
) -> None:
    file = tmp_path / "kubeconfig"
    user = plane.authority.issue("somebody")
    file.write_text(kubeconfig_of(f"https://127.0.0.1:{free_port()}", plane.authority, user))
    async with Kube(Kubeconfig((file,))) as kube:
        with pytest.raises(UnavailableError, match="GET /api/v1/pods: "):
            await kube.list(PODS)


async def test_a_kubeconfig_that_changes_is_read_anew(plane: ControlPlane, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    user = plane.authority.issue("somebody")
    file.write_text(kubeconfig_of(f"https://127.0.0.1:{free_port()}", plane.authority, user))
    async with Kube(Kubeconfig((file,))) as kube:
        file.write_text(plane.admin.read_text())
        kube.look_at_files()
        await kube.list(PODS)
        file.write_text("{")  # half written: the old one stays
        kube.look_at_files()
        await kube.list(PODS)


@pytest.fixture
async def token(kube: Kube) -> str:
    """The token of a service account that may do everything."""
    await kube.apply(ACCOUNTS, {"metadata": {"namespace": "default", "name": "robot"}}, "test")
    subject = {"kind": "ServiceAccount", "namespace": "default", "name": "robot"}
    role = {"apiGroup": BINDINGS.group, "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {"metadata": {"name": "robot"}, "roleRef": role, "subjects": [subject]}
    await kube.apply(BINDINGS, binding, "test")
    path = ACCOUNTS.path("default", "robot", "token")
    wish = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {}}
    found: str = orjson.loads(await kube.request("POST", path, wish))["status"]["token"]
    return found


async def test_the_token_of_a_pod_is_read_anew_when_it_is_no_longer_known(
    plane: ControlPlane, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ca.crt").write_bytes(plane.authority.own.certificate.read_bytes())
    (tmp_path / "token").write_text("not-a-token\n")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(plane.port))
    async with Kube(InCluster(tmp_path)) as in_a_pod:
        with pytest.raises(RefusedError) as refused:
            await in_a_pod.list(PODS)
        assert refused.value.status == 401
        (tmp_path / "token").write_text(f"{token}\n")
        await in_a_pod.list(PODS)


async def test_outside_of_a_pod_there_is_no_service_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(InvalidObjectError) as refused:
        async with Kube(InCluster(tmp_path)):
            pass
    assert "no kubeconfig was named, and this is no pod" in str(refused.value)
    assert str(tmp_path / "token") in str(refused.value)


def with_plugin(plane: ControlPlane, folder: Path, script: str) -> Path:
    """Return a kubeconfig whose user asks a program who it is."""
    plugin = folder / "plugin"
    plugin.write_text(f"#!/bin/sh\n{script}\n")
    plugin.chmod(0o755)
    whole = json.loads(plane.admin.read_text())
    asked = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}
    whole["users"][0]["user"] = {"exec": {**asked, "interactiveMode": "Never"}}
    file = folder / "kubeconfig"
    file.write_text(json.dumps(whole))
    return file


async def test_a_credential_plugin_is_asked_again_when_its_token_is_no_longer_known(
    plane: ControlPlane, token: str, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    credential = {"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1"}
    said.write_text(json.dumps({**credential, "status": {"token": "old"}}))
    async with Kube(Kubeconfig((with_plugin(plane, tmp_path, f"cat {said}"),))) as kube:
        said.write_text(json.dumps({**credential, "status": {"token": token}}))
        await kube.list(PODS)


async def test_a_credential_plugin_that_fails_is_told(plane: ControlPlane, tmp_path: Path) -> None:
    file = with_plugin(plane, tmp_path, "echo please log in >&2; exit 1")
    with pytest.raises(InvalidObjectError, match="please log in"):
        async with Kube(Kubeconfig((file,))):
            pass


@pytest.mark.parametrize(
    ("content", "want"),
    [
        (None, "must be a kubeconfig file"),
        ("{", "must be a kubeconfig that can be used"),
        ("kind: Config", "must be a kubeconfig that can be used"),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used_is_refused_at_once(
    tmp_path: Path, content: str | None, want: str
) -> None:
    file = tmp_path / "kubeconfig"
    if content is not None:
        file.write_text(content)
    with pytest.raises(InvalidObjectError) as refused:
        async with Kube(Kubeconfig((file,))):
            pass
    assert want in str(refused.value)


async def test_a_context_that_is_not_there_is_refused(plane: ControlPlane) -> None:
    with pytest.raises(InvalidObjectError, match="nowhere"):
        async with Kube(Kubeconfig((plane.admin,), context="nowhere")):
            pass
