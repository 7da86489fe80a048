import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stowplan.cli.main import main
from stowplan.cli.output import Screen
from stowplan.cli.place_json import document
from stowplan.cli.place_text import Text
from stowplan.placement import keys
from stowplan.placement.answers.answer import (
    CoarserLevel,
    DoesNotFit,
    DomainVerdict,
    FewerPods,
    Fits,
    LargerShare,
    LeftOut,
    LevelVerdict,
    MoreRoom,
    Oversized,
    Place,
    WorkloadEnds,
)
from stowplan.placement.gangs import GangId
from stowplan.placement.jobs.expand import Wanted
from stowplan.placement.reasons import (
    NO_POD,
    SIBLINGS_MISSING,
    SIZES_DIFFER,
    Reason,
    no_domain_fits,
    with_facts,
)
from stowplan.topology.levels import HOSTNAME
from tests.build import GPU, Json, gang, level, node, pod

RACK, BLOCK = level("rack"), level("block")
LEVELS = (BLOCK, RACK, HOSTNAME)
REPOSITORY = Path(__file__).parents[3]
IN_ONE_RACK = {keys.REQUIRED[0]: RACK}
EXAMPLE = ("--from-file", "examples/one-rack", "--levels", f"{BLOCK},{RACK}")


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)


def asked(
    capsys: pytest.CaptureFixture[str],
    job: str | Path,
    *flags: str,
    cluster: tuple[str, ...] = EXAMPLE,
) -> tuple[int, str]:
    status = main(["place", *cluster, "--job", str(job), *flags])
    printed = capsys.readouterr()
    assert printed.err == ""
    return status, printed.out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["place", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err


def write(file: Path, *objects: Json) -> Path:
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}))
    return file


def train(name: str = "train", pods: int = 2, annotations: Mapping[str, str] = IN_ONE_RACK) -> Json:
    template = {
        "metadata": {"annotations": dict(annotations)},
        "spec": {"containers": [{"name": "main", "resources": {"limits": {GPU: "8"}}}]},
    }
    spec = {"completionMode": "Indexed", "completions": pods, "parallelism": pods}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {**spec, "template": template},
    }


# --- as a user sees it ----------------------------------------------------------------------------


def test_a_job_that_fits_is_shown_node_by_node(capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(capsys, "examples/jobs/fits.yaml") == (
        0,
        "Job default/train fits: 4 pods in topology.example.com/rack b1/r2\n"
        "\n"
        "  b1/r2  4 pods on 2 nodes\n"
        "    b1-r2-x1  2  train-[0-1]-*\n"
        "    b1-r2-x2  2  train-[2-3]-*\n",
    )


def test_a_job_that_does_not_fit_is_told_why_and_what_would_help(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, text = asked(capsys, "examples/jobs/too-wide.yaml")
    assert status == 1
    lines = text.splitlines()
    assert lines[:2] == [
        "Job default/wide does not fit",
        f"stowplan NoDomainFits: no {RACK} domain fits all 6 pods: nvidia.com/gpu",
    ]
    assert [line.split()[:1] for line in lines if re.search(r"\d of \d+$", line)] == [
        [BLOCK],
        [RACK],
        [HOSTNAME],
    ]
    assert "b1/r2   4 of 6         nvidia.com/gpu" in lines
    assert "      2  too little nvidia.com/gpu left  b1-r1-x1" in lines
    assert "  - ask for 4 pods instead of 6" in lines
    assert f"  - ask for {BLOCK} instead of {RACK}" in lines


def test_a_typo_in_the_level_is_recognised(capsys: pytest.CaptureFixture[str]) -> None:
    status, text = asked(capsys, "examples/jobs/typo.yaml")
    assert status == 2
    assert text.startswith("Job default/typo is refused")
    assert "stowplan LevelUnknown: no level 'topology.example.com/rak'" in text
    assert f"Did you mean {RACK}?" in text


def test_without_levels_it_is_said_where_they_are_set(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = ("--from-file", "examples/one-rack")
    status, text = asked(capsys, "examples/jobs/fits.yaml", cluster=cluster)
    assert status == 2
    assert "Levels are set by --levels" in text


@pytest.mark.parametrize(
    "annotations",
    [
        {"stowplan.dev/preferred-topology": "topology.example.com/rak"},
        {
            keys.REQUIRED[0]: BLOCK,
            keys.OUR_SLICES: "topology.example.com/rak=1",
        },
        {keys.UNCONSTRAINED[0]: "true", keys.MAX_PER_DOMAIN: "topology.example.com/rak=1"},
    ],
    ids=["preferred", "slices", "share"],
)
def test_a_typo_is_recognised_wherever_a_level_is_named(
    annotations: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    status, text = asked(capsys, write(tmp_path / "job.json", train(annotations=annotations)))
    assert status == 2
    assert f"Did you mean {RACK}?" in text


def test_a_label_of_nodes_that_is_no_level_is_to_be_made_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = (*EXAMPLE[:2], "--levels", BLOCK)
    status, text = asked(capsys, "examples/jobs/fits.yaml", cluster=cluster)
    assert status == 2
    assert f"Nodes carry the label {RACK}: add it to --levels, from coarse" in text
    assert "Did you mean" not in text


def test_what_no_room_could_mend_is_refused_in_json_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, text = asked(capsys, "examples/jobs/typo.yaml", "-o", "json")
    found = json.loads(text)
    assert (status, found["fits"], found["gangs"][0]["status"]) == (2, False, "refused")


def test_a_gang_that_can_never_fit_counts_more_than_one_that_does_not(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A script that waits for room upon 1 would wait for ever."""
    never = train("never", annotations={keys.REQUIRED[0]: "topology.example.com/rak"})
    job = write(tmp_path / "job.json", train("wide", 1000), never)
    status, text = asked(capsys, job)
    assert status == 2
    assert "Job default/wide does not fit" in text
    assert "Job default/never is refused" in text


def test_a_job_may_be_written_in_several_files(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    one, two = write(tmp_path / "1.json", train("one")), write(tmp_path / "2.json", train("two", 1))
    for flags in ((str(two),), ("--job", str(two))):
        status, text = asked(capsys, one, *flags)
        assert status == 0
        assert [line for line in text.splitlines() if line.startswith("Job")] == [
            "Job default/one fits: 2 pods in topology.example.com/rack b1/r2",
            "Job default/two fits: 1 pod in topology.example.com/rack b1/r1",
        ]


def test_every_broken_file_of_a_job_is_told_of(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("{")
    said = refused(capsys, *EXAMPLE, "--job", str(broken), "nowhere.yaml")
    assert "broken.yaml" in said
    assert "nowhere.yaml: must be a file" in said


def test_gangs_of_one_file_do_not_share_room(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    job = write(tmp_path / "job.json", train("one"), train("two"))
    status, text = asked(capsys, job)
    assert status == 1
    assert "Job default/one fits" in text
    assert "Job default/two does not fit" in text
    assert "wait until Pod default/busy-b1-r1-x1 ends, which has 1 pod here" in text


def test_json_holds_every_place(capsys: pytest.CaptureFixture[str]) -> None:
    status, text = asked(capsys, "examples/jobs/fits.yaml", "-o", "json")
    found = json.loads(text)
    assert (status, found["fits"]) == (0, True)
    (answer,) = found["gangs"]
    assert answer["gang"] == {"namespace": "default", "kind": "Job", "name": "train"}
    assert (answer["status"], answer["level"], answer["domain"]) == ("fits", RACK, ["b1", "r2"])
    assert answer["places"][0] == {
        "pod": "train-0-*",
        "podset": "podset-0",
        "rank": 0,
        "node": "b1-r2-x1",
        "domain": ["b1", "r2", "b1-r2-x1"],
        "new": True,
    }


def test_json_tells_of_every_domain(capsys: pytest.CaptureFixture[str]) -> None:
    status, text = asked(capsys, "examples/jobs/too-wide.yaml", "-o", "json")
    found = json.loads(text)
    assert (status, found["fits"]) == (1, False)
    (answer,) = found["gangs"]
    assert answer["reason"]["word"] == "NoDomainFits"
    assert [each["domain"] for each in answer["domains"]] == [
        ["b1", "r2"],
        ["b1", "r1"],
        ["b2", "r1"],
    ]
    assert {change["kind"] for change in answer["changes"]} >= {"fewer-pods", "coarser-level"}


def test_the_job_can_come_from_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for content in (Path("examples/jobs/fits.yaml").read_bytes(), json.dumps(train()).encode()):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert asked(capsys, "-")[0] == 0


def test_a_namespace_is_given_to_objects_that_name_none(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    named = train("named")
    named["metadata"]["namespace"] = "team-a"
    job = write(tmp_path / "job.json", named, train("bare", pods=1))
    _, text = asked(capsys, job, "-n", "team-b")
    assert "Job team-a/named" in text
    assert "Job team-b/bare" in text


def test_a_name_that_is_only_begun_is_enough(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    jobs = [train(pods=1), train(pods=1)]
    for job in jobs:
        job["metadata"] = {"generateName": "train-"}
    status, text = asked(capsys, write(tmp_path / "job.json", *jobs))
    assert status == 0
    assert text.count("Job default/train-* fits: 1 pod in topology.example.com/rack") == 2
    assert "train-*-0-*" in text


def test_a_gang_that_asks_for_nothing_is_left_to_kube_scheduler(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    quiet = train("web", annotations={"other": "annotation"})
    status, text = asked(capsys, write(tmp_path / "job.json", quiet, train()))
    assert status == 0
    assert "Job default/web is not placed here: it asks for no topology." in text
    assert f"The levels are {', '.join(LEVELS)}." in text
    _, printed = asked(capsys, tmp_path / "job.json", "-o", "json")
    assert [each["status"] for each in json.loads(printed)["gangs"]] == ["asks-nothing", "fits"]


def test_a_gang_that_kueue_admits_is_marked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    queued = train()
    queued["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team-a"}
    job = write(tmp_path / "job.json", queued)
    text = asked(capsys, job)[1]
    assert "Kueue admits it (queue team-a): quota is not looked at here; --rules kueue" in text
    assert "--rules kueue" not in asked(capsys, job, "--rules", "kueue")[1]
    assert json.loads(asked(capsys, job, "-o", "json")[1])["gangs"][0]["queue"] == "team-a"


def test_pods_that_run_already_are_told_apart(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    nodes = [node(f"x{i}").at(block="b", rack="r").gpus(8) for i in (1, 2)]
    first = gang("train", 2)[0].on("x2")
    cluster = write(tmp_path / "cluster.json", *nodes, first)
    job = write(tmp_path / "job.json", *gang("train", 2))
    flags = ("--from-file", str(cluster), "--levels", f"{BLOCK},{RACK}")
    status, text = asked(capsys, job, cluster=flags)
    assert status == 0
    assert "pod group default/train fits: 2 pods (1 of them run already) in" in text
    assert "    x1  1  train-1\n    x2  1  train-0 (runs)\n" in text


# --- what is refused ------------------------------------------------------------------------------


def test_everything_that_is_missing_is_said_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines = refused(capsys, "--levels", "rack,rack", "--listen", "x").splitlines()
    assert [line.strip().partition(": ")[0] for line in lines[1:]] == [
        "--listen",
        "--job",
        "--levels[1]",
        "--from-file",
    ]
    assert "must not be given to stowplan place" in lines[1]
    assert "STOWPLAN_LISTEN" in lines[1]


@pytest.mark.parametrize(
    ("content", "want"),
    [
        pytest.param("{", "must be YAML", id="no YAML"),
        pytest.param("[1]", "must be an object", id="no object"),
        pytest.param("kind: Job\napiVersion: batch/v1", "metadata.name: must be set", id="no name"),
        pytest.param("", "job.yaml: must hold an object; write the job", id="nothing at all"),
    ],
)
def test_a_job_that_cannot_be_read_is_refused(
    content: str, want: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(content)
    said = refused(capsys, *EXAMPLE, "--job", str(job))
    assert said.startswith("the job is refused:\n")
    assert want in said


def test_a_job_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, *EXAMPLE, "--job", "nowhere.yaml")
    assert "nowhere.yaml: must be a file" in said


def test_a_job_of_which_nothing_asks_is_refused_with_what_to_write(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    job = write(tmp_path / "job.json", train(annotations={"other": "annotation"}))
    said = refused(capsys, *EXAMPLE, "--job", str(job))
    assert "Job default/train: must ask for topology" in said
    assert RACK in said


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("kueue.x-k8s.io/podset-required-topolgy", "kueue.x-k8s.io/podset-required-topology"),
        ("kueue.x-k8s.io/podset-slice-sizes", "kueue.x-k8s.io/podset-slice-size"),
    ],
)
def test_a_misspelt_key_of_kueues_is_refused_with_what_was_meant(
    written: str, meant: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    job = write(tmp_path / "job.json", train(annotations={written: RACK}))
    said = refused(capsys, *EXAMPLE, "--job", str(job))
    at = f"spec.template.metadata.annotations[{written}]"
    assert f"Job default/train: {at}: must be a key that Kueue reads; did you mean {meant}?" in said


def test_a_request_on_the_job_itself_is_sent_to_its_pods_template(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    job = train(annotations={"other": "annotation"})
    job["metadata"]["annotations"] = {keys.REQUIRED[0]: RACK}
    said = refused(capsys, *EXAMPLE, "--job", str(write(tmp_path / "job.json", job)))
    assert (
        f"Job default/train: metadata.annotations[{keys.REQUIRED[0]}]: must stand on the pods' "
        "template: nobody copies it there; move it to spec.template.metadata.annotations"
    ) in said


def test_an_unknown_packing_is_refused_where_it_stands(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    job = train(annotations={keys.UNCONSTRAINED[0]: "true", keys.PACKING: "tight"})
    said = refused(capsys, *EXAMPLE, "--job", str(write(tmp_path / "job.json", job)))
    assert f"spec.template.metadata.annotations[{keys.PACKING}]: must be mixed, best-fit" in said


def test_a_cluster_that_cannot_be_read_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    cluster = write(tmp_path / "cluster.json", node("x1").offering(cpu="many"))
    said = refused(capsys, "--from-file", str(cluster), "--job", "examples/jobs/fits.yaml")
    assert "Node x1: status.allocatable.cpu: must be a quantity" in said


# --- every kind of answer, written ----------------------------------------------------------------

GANG = GangId("default", "Job", "train")
TOLD = {"namespace": "default", "kind": "Job", "name": "train"}
WANTED = Wanted(GANG, "Job default/train", (), "")


def written(
    answer: Fits | DoesNotFit, wanted: Wanted = WANTED, width: int | None = None
) -> list[str]:
    return (
        Text(Screen(width=width), LEVELS, frozenset(), frozenset({GPU, "cpu"}), False)
        .of([(wanted, answer)])
        .splitlines()
    )


def place(name: str, at: str, rack: str = "r1", new: bool = True, podset: str = "w") -> Place:
    return Place(name, podset, 0, at, ("b1", rack, at), new)


def test_places_are_grouped_by_domain_and_node_whatever_their_order() -> None:
    places = (
        place("w-2", "x9", "r2"),
        place("w-0", "x1"),
        place("lead", "x1", podset="l"),
        place("", "x1"),
        place("w-1", "x2", new=False),
    )
    assert written(Fits(GANG, 5, BLOCK, ("b1",), places)) == [
        f"Job default/train fits: 5 pods (1 of them run already) in {BLOCK} b1",
        "",
        "  b1/r1  4 pods on 2 nodes",
        "    x1  3  w-0, lead, 1 unnamed",
        "    x2  1  w-1 (runs)",
        "  b1/r2  1 pod on 1 node",
        "    x9  1  w-2",
    ]


def test_a_gang_in_no_one_domain_and_a_gang_on_one_host() -> None:
    assert written(Fits(GANG, 1, None, (), (place("w", "x1"),)))[0].endswith(
        "fits: 1 pod in no one domain"
    )
    assert written(Fits(GANG, 1, HOSTNAME, ("b1", "r1", "x1"), (place("w", "x1"),)))[0].endswith(
        f"fits: 1 pod in {HOSTNAME} x1"
    )


def test_a_long_list_of_pods_is_wrapped_to_the_terminal() -> None:
    places = tuple(place(f"job-{letter}", "x1") for letter in "abcdefgh")
    lines = written(Fits(GANG, 8, RACK, ("b1", "r1"), places), width=40)
    assert lines[3:] == [
        "    x1  8  job-a, job-b, job-c, job-d,",
        "           job-e, job-f, job-g, job-h",
    ]


def refusal(**fields: Any) -> DoesNotFit:
    return DoesNotFit(GANG, 8, no_domain_fits(RACK, 8, GPU), **fields)


@pytest.mark.parametrize(
    ("change", "want"),
    [
        (FewerPods("w", 8, 6), "ask for 6 pods instead of 8"),
        (FewerPods("w", 7, 1), "ask for 1 pod instead of 7 in w"),
        (CoarserLevel(RACK, BLOCK), f"ask for {BLOCK} instead of {RACK}"),
        (CoarserLevel(RACK, None), 'ask for no level: stowplan.dev/unconstrained-topology: "true"'),
        (
            LargerShare("", RACK, 2, 3),
            f"let one {RACK} domain hold 3 pods instead of 2: "
            f"stowplan.dev/max-per-domain: {RACK}=3",
        ),
        (
            LargerShare("w", RACK, 1, 3),
            f"let one {RACK} domain hold 3 pods of w instead of 1: "
            f"stowplan.dev/max-per-domain: {RACK}=3",
        ),
        (
            WorkloadEnds(GangId("ml", "pod-group", "old"), 4),
            "wait until pod group ml/old ends, which has 4 pods here",
        ),
        (
            WorkloadEnds(GangId("ml", "Job", "old"), 1),
            "wait until Job ml/old ends, which has 1 pod here",
        ),
        (
            MoreRoom(GPU, 6, ("b1", "r1"), (("x1", 4), ("x2", 2))),
            f"have 6 more {GPU} free in b1/r1: 4 on x1, 2 on x2",
        ),
        (
            MoreRoom(GPU, 6, ("b1", "r1"), (("x1", 4), ("x2", 2)), beyond=6),
            f"add 6 {GPU} in b1/r1: 4 on x1, 2 on x2",
        ),
        (
            MoreRoom(GPU, 6, ("b1", "r1"), (("x1", 4), ("x2", 2)), beyond=2),
            f"have 6 more {GPU} free in b1/r1: 4 on x1, 2 on x2; 2 of it must be added",
        ),
        (
            MoreRoom("memory", (1 << 30) + 1, (), (("x1", (1 << 30) + 1),)),
            "have 1.1Gi more memory free: 1.1Gi on x1",
        ),
        (
            MoreRoom("cpu", 6500, ("b1",), tuple((f"x{i}", 1000) for i in range(6))),
            "have 6.5 more cpu free in b1: 1 on x0, 1 on x1, 1 on x2, 1 on x3 and 2 more nodes",
        ),
    ],
)
def test_each_change_is_a_sentence_that_says_what_to_do(change: Any, want: str) -> None:
    assert written(refusal(changes=(change,)))[-1] == f"  - {want}"


@pytest.mark.parametrize(
    ("left_out", "want"),
    [
        (LeftOut("", "no-level-label", RACK, 3, "x1"), f"3  no label {RACK}"),
        (LeftOut("", "not-ready", "", 3, "x1"), "3  not ready"),
        (LeftOut("", "cordoned", "", 3, "x1"), "3  cordoned"),
        (
            LeftOut("w", "taint", "team=a:NoSchedule", 1200, "x1"),
            "1,200  taint team=a:NoSchedule, which is not tolerated (for w)",
        ),
        (
            LeftOut("", "node-selector", "pool=a", 3, "x1"),
            "3  not pool=a, as the node selector asks",
        ),
        (LeftOut("", "node-affinity", "", 3, "x1"), "3  not as the node affinity requires"),
        (LeftOut("", "excluded", "", 3, "x1"), "3  refused for this gang a short while ago"),
        (
            LeftOut("", "too-small", GPU, 3, "x1"),
            f"3  too small: less {GPU} than a pod asks for",
        ),
        (LeftOut("", "resource", GPU, 3, "x1"), f"3  too little {GPU} left"),
    ],
)
def test_each_cause_for_which_nodes_are_left_out_is_named(left_out: LeftOut, want: str) -> None:
    line = written(refusal(left_out=(left_out,)))[-1]
    assert line.split() == [*want.split(), "x1"]


@pytest.mark.parametrize(
    ("reason", "want"),
    [
        (with_facts(SIBLINGS_MISSING, there=2, needed=8), "(2 there, 8 needed)"),
        (with_facts(SIZES_DIFFER, least=4, most=8), "different sizes (from 4 to 8)"),
        (NO_POD, "no pod of the gang is there"),
    ],
)
def test_people_are_told_the_numbers_that_kube_scheduler_is_not(reason: Reason, want: str) -> None:
    answer = DoesNotFit(GANG, 8, reason)
    assert written(answer)[-1].endswith(want)
    [gang] = document([(WANTED, answer)])["gangs"]
    assert gang["reason"]["facts"] == dict(reason.facts)


def test_several_gangs_end_with_how_many_of_them_fit() -> None:
    text = Text(Screen(), LEVELS, frozenset(), frozenset({GPU, "cpu"}), False)
    fits = Fits(GANG, 1, RACK, ("b1", "r1"), (place("w", "x1"),))
    both = text.of([(WANTED, fits), (WANTED, refusal())])
    assert both.splitlines()[-1] == "1 of 2 gangs fit."
    assert "gangs fit" not in text.of([(WANTED, fits), (WANTED, fits)])
    beside = text.of([(WANTED, fits), (WANTED, None)])
    assert beside.splitlines()[-1] == "1 of 1 gangs that ask for topology fit."


@pytest.mark.parametrize(
    ("oversized", "want"),
    [
        (
            Oversized("", GPU, 16, 8),
            f"A pod asks for 16 {GPU}; no usable node has more than 8.",
        ),
        (
            Oversized("w", "cpu", 64_000, 32_500),
            "A pod of w asks for 64 cpu; no usable node has more than 32.5.",
        ),
        (Oversized("", f"{GPU}s", 1, 0), f"No usable node offers {GPU}s; did you mean {GPU}?"),
        (
            Oversized("", "example.com/nic", 1, 0),
            f"No usable node offers example.com/nic; nodes offer cpu, {GPU}.",
        ),
        (
            Oversized("", GPU, 1, 0),
            f"No usable node offers {GPU}; nodes that do are left out, as told below.",
        ),
    ],
)
def test_a_pod_that_no_node_is_large_enough_for_is_told_so(oversized: Oversized, want: str) -> None:
    """And not to add devices to a node, though a program may want to know how many."""
    more = MoreRoom(oversized.resource, 6, (), (("x1", 6),), beyond=6)
    answer = refusal(oversized=(oversized,), changes=(more, CoarserLevel(RACK, BLOCK)))
    text = written(answer)
    assert text[2] == want
    assert [line for line in text if line.startswith("  - ")] == [
        f"  - ask for {BLOCK} instead of {RACK}"
    ]
    [gang] = document([(WANTED, answer)])["gangs"]
    assert [change["kind"] for change in gang["changes"]] == ["more-room", "coarser-level"]


def test_a_domain_is_short_for_a_podset_where_there_are_several() -> None:
    levels = (LevelVerdict(RACK, True, 1, 0, ("b1", "r1"), 3, 8),)
    verdicts = (
        DomainVerdict(("b1", "r1"), 3, 8, GPU, (), "lead", True),
        DomainVerdict(("b1", "r2"), 2, 8, "cpu", (), "w"),
    )
    text = "\n".join(written(refusal(levels=(levels[0], *levels), domains=verdicts)))
    assert f"{GPU} (for the leader lead)" in text
    assert "cpu (for w)" in text


def test_every_answer_has_its_document() -> None:
    changes = (
        FewerPods("w", 8, 6),
        CoarserLevel(RACK, None),
        LargerShare("w", RACK, 1, 3),
        WorkloadEnds(GANG, 4),
        MoreRoom(GPU, 6, (), (("x1", 6),), beyond=2),
    )
    answer = refusal(
        levels=(LevelVerdict(RACK, True, 1, 0, ("b1", "r1"), 3, 8),),
        domains=(DomainVerdict(("b1", "r1"), 3, 8, "", (LeftOut("", "cordoned", "", 1, "x"),)),),
        left_out=(LeftOut("w", "taint", "t", 2, "y"),),
        oversized=(Oversized("w", "cpu", 64_000, 32_000),),
        changes=changes,
    )
    found = document([(WANTED, answer)])
    assert found == {
        "fits": False,
        "gangs": [
            {
                "gang": TOLD,
                "title": "Job default/train",
                "queue": None,
                "status": "does-not-fit",
                "size": 8,
                "reason": {
                    "word": "NoDomainFits",
                    "text": f"no {RACK} domain fits all 8 pods: {GPU}",
                    "facts": {},
                },
                "levels": [
                    {
                        "level": RACK,
                        "asked": True,
                        "domains": 1,
                        "holding": 0,
                        "best": ["b1", "r1"],
                        "fits": 3,
                        "needed": 8,
                    }
                ],
                "domains": [
                    {
                        "domain": ["b1", "r1"],
                        "fits": 3,
                        "needed": 8,
                        "short_of": None,
                        "podset": None,
                        "leader": False,
                        "left_out": [
                            {
                                "podset": None,
                                "by": "cordoned",
                                "what": None,
                                "nodes": 1,
                                "example": "x",
                            }
                        ],
                    }
                ],
                "left_out": [
                    {"podset": "w", "by": "taint", "what": "t", "nodes": 2, "example": "y"}
                ],
                "oversized": [{"podset": "w", "resource": "cpu", "asked": 64_000, "most": 32_000}],
                "changes": [
                    {"kind": "fewer-pods", "podset": "w", "was": 8, "to": 6},
                    {"kind": "coarser-level", "was": RACK, "to": None},
                    {"kind": "larger-share", "podset": "w", "level": RACK, "was": 1, "to": 3},
                    {
                        "kind": "workload-ends",
                        "gang": {"namespace": "default", "kind": "Job", "name": "train"},
                        "pods": 4,
                    },
                    {
                        "kind": "more-room",
                        "resource": GPU,
                        "amount": 6,
                        "beyond": 2,
                        "domain": [],
                        "nodes": [{"node": "x1", "amount": 6}],
                    },
                ],
            }
        ],
    }


def test_a_pod_group_that_lacks_pods_is_told_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    job = write(tmp_path / "job.json", pod("a").in_gang("g", 3).anywhere())
    status, text = asked(capsys, job)
    assert status == 2
    assert "stowplan Incomplete: waiting for the other pods of the gang" in text
