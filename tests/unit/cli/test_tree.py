import json
from pathlib import Path

import pytest

from stowplan.cli.main import main
from tests.build import Json, level, node, pod

RACK, BLOCK = level("rack"), level("block")
REPOSITORY = Path(__file__).parents[3]
EXAMPLE = ("--from-file", str(REPOSITORY / "examples" / "one-rack"), "--levels", f"{BLOCK},{RACK}")


def printed(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    assert main(["tree", *flags]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def refused(capsys: pytest.CaptureFixture[str], *flags: str) -> list[str]:
    assert main(["tree", *flags]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    return [line.strip() for line in err.splitlines()[1:]]


def rows(text: str) -> dict[str, list[str]]:
    """Return the cells of each domain by its name as it stands in the tree, indents and all."""
    lines = text.split("\n\n")[1].splitlines()[1:]
    indents = [line[: len(line) - len(line.lstrip())] for line in lines]
    return {
        indent + line.split()[0]: line.split()[1:]
        for indent, line in zip(indents, lines, strict=True)
    }


def write(file: Path, *objects: Json) -> str:
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}))
    return str(file)


def test_the_tree_shows_the_room_of_all_levels_but_the_hosts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert printed(capsys, *EXAMPLE) == (
        "6 nodes, all usable, in 2 topology.example.com/block and 3 topology.example.com/rack\n"
        "LARGEST GANG counts pods of nvidia.com/gpu=1, EMPTY nodes with no nvidia.com/gpu in use\n"
        "\n"
        "DOMAIN  NODES  EMPTY  LARGEST GANG  FREE nvidia.com/gpu    FREE cpu         FREE memory\n"
        "all         6      4            32             32 of 48  576 of 576  6,144Gi of 6,144Gi\n"
        "b1          4      3            24             24 of 32  384 of 384  4,096Gi of 4,096Gi\n"
        "  r1        2      1             8              8 of 16  192 of 192  2,048Gi of 2,048Gi\n"
        "  r2        2      2            16             16 of 16  192 of 192  2,048Gi of 2,048Gi\n"
        "b2          2      1             8              8 of 16  192 of 192  2,048Gi of 2,048Gi\n"
        "  r1        2      1             8              8 of 16  192 of 192  2,048Gi of 2,048Gi\n"
    )


def test_a_level_says_how_far_down(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(rows(printed(capsys, *EXAMPLE, "--level", BLOCK))) == ["all", "b1", "b2"]
    hosts = rows(printed(capsys, *EXAMPLE, "--level", "kubernetes.io/hostname"))
    assert list(hosts)[:5] == ["all", "b1", "  r1", "    b1-r1-x1", "    b1-r1-x2"]


def test_without_levels_the_hosts_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(rows(printed(capsys, *EXAMPLE[:2])))[:2] == ["all", "b1-r1-x1"]


def test_a_gang_is_counted_in_the_pods_that_were_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = printed(capsys, *EXAMPLE, "--pod", "nvidia.com/gpu=8,cpu=32,memory=256Gi")
    assert "pods of cpu=32,memory=256Gi,nvidia.com/gpu=8" in text
    cells = [line.split()[:4] for line in text.splitlines()[4:]]
    assert [(name, largest) for name, _, _, largest in cells] == [
        ("all", "4"),
        ("b1", "3"),
        ("r1", "1"),
        ("r2", "2"),
        ("b2", "1"),
        ("r1", "1"),
    ]


def test_nodes_that_are_not_usable_are_named_with_the_cause(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = write(
        tmp_path / "cluster.json",
        node("x1").at(block="b", rack="r").gpus(8),
        node("x2").at(block="b", rack="r").gpus(8).cordoned(),
        node("x3").at(block="b").gpus(8).tainted("team", "a"),
        node("x4").gpus(8),
        pod("next").gpus(2).nominated_to("x1"),
    )
    text = printed(capsys, "--from-file", file, "--levels", f"{BLOCK},{RACK}")
    assert text.startswith(f"3 nodes, 2 usable, in 1 {BLOCK} and 2 {RACK}\n")
    assert "RESERVED nvidia.com/gpu" in text
    found = rows(text)
    assert list(found) == ["all", "b", "  -", "  r"]
    assert found["  r"][:3] == ["1/2", "0", "6"]
    assert text.split("\n\n")[2].splitlines() == [
        "Nodes that take no such pod, however empty they are:",
        "  NODES  WHY                                              ONE OF THEM",
        "      1  no label topology.example.com/block              x4",
        "      1  cordoned                                         x2",
        "      1  taint team=a:NoSchedule, which is not tolerated  x3",
    ]


def test_json_has_every_resource_of_every_domain(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, *EXAMPLE, "-o", "json"))
    assert list(found) == ["levels", "pod", "main", "cluster", "domains", "left_out"]
    assert (found["levels"], found["main"]) == ([BLOCK, RACK], "nvidia.com/gpu")
    assert found["pod"] == {"nvidia.com/gpu": 1, "pods": 1}
    assert [each["domain"] for each in found["domains"]] == [
        ["b1"],
        ["b2"],
        ["b1", "r1"],
        ["b1", "r2"],
        ["b2", "r1"],
    ]
    assert found["domains"][2] == {
        "domain": ["b1", "r1"],
        "nodes": 2,
        "usable": 2,
        "empty": 1,
        "pods": 8,
        "room": {
            "cpu": {"total": 192_000, "free": 192_000, "reserved": 0},
            "memory": {"total": 2 << 40, "free": 2 << 40, "reserved": 0},
            "nvidia.com/gpu": {"total": 16, "free": 8, "reserved": 0},
            "pods": {"total": 220, "free": 219, "reserved": 0},
        },
    }
    assert found["left_out"] == []


def test_json_names_what_is_left_out(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = write(tmp_path / "cluster.json", node("x1").at(block="b").cordoned())
    found = json.loads(printed(capsys, "--from-file", file, "--levels", BLOCK, "-o", "json"))
    assert found["left_out"] == [{"by": "cordoned", "what": None, "nodes": 1, "example": "x1"}]


def test_a_cluster_without_nodes_is_refused_with_how_to_write_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = write(tmp_path / "cluster.json", pod("a"))
    [said] = refused(capsys, "--from-file", file, "--levels", RACK)
    assert said.startswith("--from-file: must hold at least one Node; run: kubectl get nodes,pods,")


def test_levels_that_no_node_carries_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    levels = f"{BLOCK},topology.example.com/rakc,elsewhere"
    assert refused(capsys, *EXAMPLE[:2], "--levels", levels) == [
        "--levels[1]: must be a label of at least one node (got 'topology.example.com/rakc'); "
        "did you mean topology.example.com/rack?",
        "--levels[2]: must be a label of at least one node (got 'elsewhere'); "
        "kubectl get nodes --show-labels lists what is",
    ]


@pytest.mark.parametrize(
    ("flags", "want"),
    [
        pytest.param(
            ("--level", "topology.example.com/rak"),
            ["--level: must be one of the levels: ", "did you mean topology.example.com/rack?"],
            id="an unknown level",
        ),
        pytest.param(
            ("--pod", "nvidia.com/gpu,cpu=many,=1"),
            ["'nvidia.com/gpu'", "'cpu=many'", "'=1'"],
            id="requests that cannot be read",
        ),
        pytest.param(
            ("--pod", "nvidia.com/gpu=0,cpu=0.5,cpu=1"),
            ["must be more than 0", "must name each resource once", "'cpu=1'"],
            id="requests for nothing, and twice for the same",
        ),
        pytest.param(("--pod", "nvidia.com/gpu=500m"), ["must be whole"], id="a part of a device"),
        pytest.param(
            ("--pod", "nvidia.com/gpus=1,cpu=1,neuron=1"),
            [
                "(got 'nvidia.com/gpus'); did you mean nvidia.com/gpu?",
                "they offer cpu, memory, nvidia.com/gpu, pods",
                "'neuron'",
            ],
            id="a resource that no node offers",
        ),
        pytest.param(
            ("--packing", "mixed"),
            ["--packing: must not be given to stowplan tree"],
            id="a setting of another command",
        ),
        pytest.param(("--pods", "a=1"), ["did you mean --pod?"], id="a mistyped flag of its own"),
    ],
)
def test_what_is_wrong_with_flags_is_said(
    flags: tuple[str, ...], want: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    said = " ".join(refused(capsys, *EXAMPLE, *flags))
    assert all(text in said for text in want), said
