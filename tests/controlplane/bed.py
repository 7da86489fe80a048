"""A real control plane on loopback: etcd, kube-apiserver, kube-scheduler, controller manager.

Each program is a child in a session of its own that writes to a file, is ended by its own process
id, and can be killed, stopped and continued like any other process.
"""

import base64
import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.programs import find
from tests.pki import CA, Authority, Pair, make_pair

READY_SECONDS = 60.0
_LEAVE_SECONDS = 5.0  # between SIGTERM and SIGKILL; what they leave behind is thrown away

CONTROLLERS = (
    "deployment-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "statefulset-controller",
)


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@dataclass(slots=True)
class Child:
    """One program.

    Attributes:
        argv: how it is started.
        log: where its output goes, one run after another.
        ready: whether it can be used.
        environment: what it sees beside ours.
    """

    argv: Sequence[str]
    log: Path
    ready: Callable[[], bool]
    environment: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        """The program's."""
        return Path(self.argv[0]).name

    def start(self) -> None:
        """Start it and return when it is ready."""
        assert self.process is None, f"{self.name} runs already"
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )
        try:
            self._wait()
        except BaseException:
            self.kill()
            raise

    def _wait(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        assert self.process is not None
        while not self.ready():
            ended = self.process.poll() is not None
            if ended or time.monotonic() > deadline:
                last = "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
                state = "ended" if ended else "is not ready"
                raise RuntimeError(f"{self.name} {state}; its log ends with:\n{last}")
            time.sleep(0.02)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it at once."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """End it, with time to say goodbye."""
        if self.process is None:
            return
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_LEAVE_SECONDS)
        self.kill()


@dataclass(slots=True)
class ControlPlane:
    """Everything but a scheduler, which each scenario configures for itself.

    Attributes:
        folder: where it keeps its files.
        authority: the CA that all trust.
        etcd, apiserver, manager: its programs; the manager is started only where it is wanted.
        port: kube-apiserver's.
        gates: feature gates of kube-apiserver and kube-scheduler.
    """

    folder: Path
    authority: Authority
    etcd: Child
    apiserver: Child
    manager: Child
    port: int
    gates: str = ""

    @property
    def server(self) -> str:
        """The address of kube-apiserver."""
        return f"https://127.0.0.1:{self.port}"

    def kubeconfig(self, user: str, group: str = "") -> Path:
        """Return a kubeconfig of a user, and of the group that allows something."""
        file = self.folder / f"{user.replace(':', '-')}.kubeconfig"
        if not file.exists():
            pair = self.authority.issue(user, group)
            file.write_text(kubeconfig_of(self.server, self.authority, pair))
        return file

    @property
    def admin(self) -> Path:
        """The kubeconfig of somebody who may do everything."""
        return self.kubeconfig("admin", "system:masters")

    def scheduler(self, **configuration: Any) -> Child:
        """Return a kube-scheduler that is not started; the configuration is merged into ours."""
        port, number = free_port(), len(list(self.folder.glob("scheduler-*.yaml")))
        file = self.folder / f"scheduler-{number}.yaml"
        kubeconfig = self.kubeconfig("system:kube-scheduler")
        whole = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 1000, "burst": 2000},
            "leaderElection": {"leaderElect": False},
            "percentageOfNodesToScore": 100,
            **configuration,
        }
        file.write_text(yaml.safe_dump(whole))
        return Child(
            [
                *(program("kube-scheduler"), "--config", str(file), *_listen(port)),
                *(("--feature-gates", self.gates) if self.gates else ()),
            ],
            self.folder / f"scheduler-{number}.log",
            lambda: answers(f"https://127.0.0.1:{port}/readyz"),
        )


def _listen(port: int) -> list[str]:
    return ["--bind-address", "127.0.0.1", "--secure-port", str(port)]


@contextlib.contextmanager
def control_plane(
    folder: Path, *, manager: bool = False, gates: str = ""
) -> Iterator[ControlPlane]:
    """Start one and end it; with ``manager`` the controllers of ``CONTROLLERS`` run, too.

    ``gates`` are feature gates of kube-apiserver and kube-scheduler.
    """
    authority = Authority(make_pair(folder, "cluster-ca", CA))
    etcd_port, peer_port, port = free_port(), free_port(), free_port()
    etcd, peer = f"http://127.0.0.1:{etcd_port}", f"http://127.0.0.1:{peer_port}"
    plane = ControlPlane(
        folder=folder,
        authority=authority,
        etcd=Child(
            [
                program("etcd"),
                *("--name", "bed", "--data-dir", str(folder / "etcd"), "--unsafe-no-fsync"),
                *("--listen-client-urls", etcd, "--advertise-client-urls", etcd),
                *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                *("--initial-cluster", f"bed={peer}", "--log-level", "warn"),
            ],
            folder / "etcd.log",
            lambda: answers(f"{etcd}/health"),
        ),
        apiserver=_apiserver(folder, authority, etcd, port, gates),
        manager=Child([], folder / "manager.log", lambda: True),
        port=port,
        gates=gates,
    )
    plane.manager = _manager(folder, plane.kubeconfig("system:kube-controller-manager"))
    started: list[Child] = []
    try:
        for child in (plane.etcd, plane.apiserver, *([plane.manager] if manager else [])):
            started.append(child)
            child.start()
        yield plane
    finally:
        for child in reversed(started):
            child.stop()


def _apiserver(folder: Path, authority: Authority, etcd: str, port: int, gates: str) -> Child:
    server, accounts = authority.issue("kube-apiserver"), authority.issue("service-accounts")
    client = authority.client_context(authority.issue("prober", "system:masters"))
    return Child(
        [
            program("kube-apiserver"),
            *("--etcd-servers", etcd, *_listen(port), "--advertise-address", "127.0.0.1"),
            *("--tls-cert-file", str(server.certificate)),
            *("--tls-private-key-file", str(server.key)),
            *("--client-ca-file", str(authority.own.certificate)),
            *("--service-account-issuer", "https://kubernetes.default.svc"),
            *("--service-account-key-file", str(accounts.certificate)),
            *("--service-account-signing-key-file", str(accounts.key)),
            *("--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.0.0.0/24"),
            # Nobody makes default service accounts here, nor takes the taint off a node by hand.
            *("--disable-admission-plugins", "ServiceAccount,TaintNodesByCondition"),
            *("--endpoint-reconciler-type", "none", "--shutdown-delay-duration", "0s"),
            *(("--feature-gates", gates) if gates else ()),
            *(("--runtime-config", "scheduling.k8s.io/v1alpha2=true") if gates else ()),
            *("--max-requests-inflight", "2000", "--max-mutating-requests-inflight", "2000"),
        ],
        folder / "apiserver.log",
        lambda: answers(f"https://127.0.0.1:{port}/readyz", context=client),
    )


def _manager(folder: Path, kubeconfig: Path) -> Child:
    port = free_port()
    return Child(
        [
            program("kube-controller-manager"),
            *("--kubeconfig", str(kubeconfig), "--authentication-kubeconfig", str(kubeconfig)),
            *("--authorization-kubeconfig", str(kubeconfig), *_listen(port)),
            # As itself the garbage collector may not read kinds of others.
            *("--leader-elect=false", "--use-service-account-credentials=true"),
            *("--controllers", ",".join(CONTROLLERS)),
        ],
        folder / "manager.log",
        lambda: answers(f"https://127.0.0.1:{port}/healthz"),
    )


def program(name: str) -> str:
    """Return the file of a program that is there."""
    file = find(name)
    assert file is not None, f"{name} is not built; run make controlplane"
    return str(file)


def kubeconfig_of(server: str, authority: Authority, user: Pair) -> str:
    """Return a kubeconfig with everything in it."""

    def data(file: Path) -> str:
        return base64.b64encode(file.read_bytes()).decode()

    cluster = {"server": server, "certificate-authority-data": data(authority.own.certificate)}
    keys = {
        "client-certificate-data": data(user.certificate),
        "client-key-data": data(user.key),
    }
    whole = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bed",
        "clusters": [{"name": "bed", "cluster": cluster}],
        "users": [{"name": user.name, "user": keys}],
        "contexts": [{"name": "bed", "context": {"cluster": "bed", "user": user.name}}],
    }
    return json.dumps(whole)


def compact(plane: ControlPlane) -> None:
    """Forget the history of etcd."""
    address = plane.etcd.argv[plane.etcd.argv.index("--advertise-client-urls") + 1]

    def call(path: str, **body: Any) -> Any:
        whole = urllib.request.Request(f"{address}/v3/{path}", json.dumps(body).encode())
        with urllib.request.urlopen(whole, timeout=10) as answer:
            return json.load(answer)

    revision = call("kv/range", key="AA==")["header"]["revision"]
    call("kv/compaction", revision=revision, physical=True)


def answers(url: str, says: str = "", context: ssl.SSLContext | None = None) -> bool:
    """Whether a probe says yes, and says something; our own programs need not prove themselves."""
    try:
        return says in fetched(url, context)
    except (urllib.error.URLError, OSError):
        return False


def fetched(url: str, context: ssl.SSLContext | None = None) -> str:
    """Return a page."""
    if context is None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with urllib.request.urlopen(url, timeout=2, context=context) as answer:
        text: str = answer.read().decode()
        return text
