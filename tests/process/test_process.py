"""The process as an operator meets it: files that change, signals, flags, certificates, crashes."""

import http.client
import json
import signal
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from tests.build import Json, PodObject, node, pod
from tests.pki import CA, Authority, make_pair
from tests.process.running import (
    DEADLINE_SECONDS,
    LEVELS,
    REPOSITORY,
    command,
    environment,
    poll,
    running,
)

pytestmark = pytest.mark.process

RACK = LEVELS.split(",")[1]
RACKS = ("b1-r1", "b1-r2", "b2-r1")
ANYWHERE = "127.0.0.1:0"


def nodes(gpus: int = 8) -> list[Json]:
    return [
        node(f"{rack}-x{i}").at(block=rack[:2], rack=rack[3:]).gpus(gpus)
        for rack in RACKS
        for i in (1, 2)
    ]


def train(i: int) -> PodObject:
    """Return one of four pods that fill a rack."""
    return pod(f"train-{i}").in_gang("train", 4).ranked(i).requires(RACK).gpus(4)


def write(file: Path, objects: list[Json]) -> None:
    """Replace the file at once, as one should."""
    unfinished = file.with_suffix(".new")
    unfinished.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}))
    unfinished.replace(file)


def serve_flags(file: Path) -> tuple[str, ...]:
    return ("--from-file", str(file), "--levels", LEVELS, "--reload-seconds", "0.05")


def test_files_are_read_again_and_a_broken_version_is_refused_whole(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    solo = pod("solo").requires(RACK).gpus(8)
    write(file, [])
    with running(tmp_path / "run", *serve_flags(file), uncompiled=True) as it:
        assert it.filter(solo).reason.startswith("stowplan NoDomainFits")

        write(file, nodes())
        poll(lambda: it.metric('stowplan_state_reloads_total{result="ok"}') == 1)
        placed = it.filter(solo).only_node
        assert placed == "b1-r1-x1"
        assert it.metric("stowplan_ledger_seats") >= 0

        broken = nodes(gpus=4)
        broken[-1]["status"]["allocatable"]["cpu"] = "many"
        write(file, broken)
        poll(lambda: it.metric('stowplan_state_reloads_total{result="refused"}') == 1)
        (entry,) = it.logged("files refused, the last good version stays")
        assert entry["level"] == "error"
        assert "many" in str(entry["violations"])
        assert it.filter(solo).only_node == placed  # with 4 GPUs it would not fit
        another = pod("another").requires(RACK).gpus(8)
        assert it.filter(another).only_node is not None

        file.write_text("{")
        poll(lambda: it.metric('stowplan_state_reloads_total{result="refused"}') == 2)
        assert it.filter(pod("third").requires(RACK).gpus(8)).only_node is not None

        write(file, nodes(gpus=4))
        poll(lambda: it.metric('stowplan_state_reloads_total{result="ok"}') == 2)
        refused = it.filter(pod("fourth").requires(RACK).gpus(8))
        assert refused.reason.startswith("stowplan NoDomainFits")
        assert it.end() == 0


def test_a_first_version_that_is_broken_is_not_served(tmp_path: Path) -> None:
    broken = nodes()
    broken[0]["status"]["allocatable"]["cpu"] = "many"
    file = tmp_path / "cluster.json"
    write(file, broken)
    ended = _ended(*serve_flags(file), "--listen", ANYWHERE)
    assert ended.returncode == 2
    assert "Node b1-r1-x1: status.allocatable.cpu: must be a quantity" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_sigterm_asks_peers_to_leave_and_ends_with_0(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    write(file, nodes())
    flags = (*serve_flags(file), "--drain-seconds", "30")
    with running(tmp_path / "run", *flags, uncompiled=True) as it:
        peer = http.client.HTTPConnection("127.0.0.1", it.addresses[0].port, timeout=30)
        try:
            assert _ask(peer) is None
            it.process.send_signal(signal.SIGTERM)
            poll(lambda: it.get("/readyz") == (503, "draining\n"))
            assert _ask(peer) == "close"
            assert it.metric("stowplan_server_draining") == 1
        finally:
            peer.close()
        assert it.end() == 0  # the second signal does not wait for the rest of the time
        assert it.logged("stopped")


def _ask(peer: http.client.HTTPConnection) -> str | None:
    """Ask for scores of nothing, and return what the answer says of the connection."""
    peer.request("POST", "/prioritize", b'{"Pod":{"metadata":{}},"NodeNames":[]}')
    response = peer.getresponse()
    assert (response.status, response.read()) == (200, b"[]")
    return response.headers.get("Connection")


@pytest.mark.parametrize(
    ("flags", "want"),
    [
        pytest.param((), ["from_file"], id="no cluster"),
        pytest.param(("--from-file", "nowhere.json"), ["nowhere.json"], id="no such file"),
        pytest.param(
            ("--levels", "rack,rack", "--listen", "8888", "--drain-second", "1"),
            ["levels[1]", "listen", "--drain-second: must be a known flag"],
            id="several things at once",
        ),
        pytest.param(
            ("--from-file", "examples/one-rack", "--client-ca", "ca.crt"),
            ["client_ca", "probe_listen"],
            id="client certificates without the rest",
        ),
        pytest.param(
            ("--from-file", "examples/one-rack", "--tls-key", "k"), ["tls"], id="half a pair"
        ),
        pytest.param(
            ("--from-file", "examples/one-rack", "--keep-alive-seconds", "75"),
            ["keep_alive"],
            id="a keep-alive below the scheduler's",
        ),
    ],
)
def test_wrong_flags_end_with_2_and_every_violation(
    flags: tuple[str, ...], want: list[str]
) -> None:
    ended = _ended(*flags)
    assert ended.returncode == 2
    said = ended.stderr.replace("-", "_")
    for text in want:
        assert text.replace("-", "_") in said
    assert "Traceback" not in ended.stderr


def _ended(*flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*flags),
        cwd=REPOSITORY,
        env=environment(STOWPLAN_JIT="0"),
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


def test_with_client_certificates_only_proven_peers_ask_and_probes_need_none(
    tmp_path: Path,
) -> None:
    file = tmp_path / "cluster.json"
    write(file, nodes())
    authority = Authority(make_pair(tmp_path, "ca", CA))
    server, scheduler = authority.issue("stowplan"), authority.issue("scheduler")
    tls = ("--tls-certificate", str(server.certificate), "--tls-key", str(server.key))
    apart = ("--client-ca", str(authority.own.certificate), "--probe-listen", ANYWHERE)
    with running(tmp_path / "run", *serve_flags(file), *tls, *apart, uncompiled=True) as it:
        assert len(it.addresses) == 2
        body = b'{"Pod":{"metadata":{"name":"x"}},"Nodes":null,"NodeNames":["n1"]}'
        answer = it.post("filter", body, authority.client_context(scheduler))
        assert json.loads(answer)["NodeNames"] == ["n1"]
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
            it.post("filter", body, authority.client_context())
        with pytest.raises((AssertionError, ConnectionError, http.client.HTTPException)):
            it.post("filter", body)
        assert it.get("/healthz", listener=1) == (200, "ok\n")
        assert it.get("/readyz", listener=1) == (200, "ok\n")
        assert it.get("/filter", listener=1)[0] == 404


def test_after_a_crash_only_gangs_with_bound_pods_keep_their_domain(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    write(file, [*nodes(), *(train(i) for i in range(4))])
    flags = serve_flags(file)
    with running(tmp_path / "run", *flags, uncompiled=True) as it:
        assert it.filter(train(0)).only_node == "b1-r1-x1"
        solo = pod("solo").requires(RACK).gpus(8)
        assert it.filter(solo).only_node == "b1-r2-x1"
        poll(lambda: it.metric("stowplan_ledger_seats") == 5)
        assert it.end(signal.SIGKILL) == -signal.SIGKILL
    # Meanwhile one pod of the gang was bound, not where we wanted it but in the last rack.
    bound = train(0).on("b2-r1-x2")
    write(file, [*nodes(), bound, *(train(i) for i in range(1, 4))])
    with running(tmp_path / "run", *flags, uncompiled=True) as it:
        assert it.metric("stowplan_ledger_seats") == 0
        assert it.metric("stowplan_ledger_gangs") == 0
        found = [it.filter(train(i)).only_node for i in range(1, 4)]
        assert sorted(map(str, found)) == ["b2-r1-x1", "b2-r1-x1", "b2-r1-x2"]


def test_it_is_ready_in_time_when_the_kernels_were_compiled_before(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    write(file, nodes())
    solo = pod("solo").requires(RACK).gpus(8)
    with running(tmp_path / "first", *serve_flags(file)) as it:
        assert it.filter(solo).only_node == "b1-r1-x1"
    with running(tmp_path / "second", *serve_flags(file)) as it:
        assert it.filter(solo).only_node == "b1-r1-x1"
        (entry,) = it.logged("kernels ready")
    assert entry["duration_seconds"] < 15.0  # compiling takes 50 s on such cores, loading below 1 s


def test_no_kernel_is_compiled_after_the_warm_up() -> None:
    """A first call that compiles holds the scheduler for seconds (E27, V14)."""
    script = Path(__file__).with_name("late_kernels.py")
    ended = subprocess.run(
        [sys.executable, "-m", "tests.process.late_kernels"],
        cwd=script.parents[2],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "no kernel is late\n"), ended.stderr


def test_a_server_that_still_compiles_can_be_stopped(tmp_path: Path) -> None:
    file, log = tmp_path / "cluster.json", tmp_path / "log"
    write(file, nodes())
    with log.open("w", encoding="utf-8") as stderr:
        process = subprocess.Popen(
            command("--listen", "127.0.0.1:0", *serve_flags(file)),
            cwd=REPOSITORY,
            env=environment(STOWPLAN_KERNEL_CACHE=str(tmp_path / "empty")),
            stderr=stderr,
            text=True,
        )
    try:
        poll(lambda: "compiling kernels" in log.read_text(encoding="utf-8"), process)
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_SECONDS) == 0
        # It ended in the middle, instead of compiling to the end first.
        assert "kernels ready" not in log.read_text(encoding="utf-8")
    finally:
        process.kill()
        process.wait(DEADLINE_SECONDS)
