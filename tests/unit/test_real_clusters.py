"""The converters keep the shape of the clusters they read.

The numbers are those that the notes beside the data state, counted there from the same files.
"""

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.real_clusters import (
    ACCELERATOR_DOMAIN,
    ACCELERATOR_SUB_DOMAIN,
    HOSTNAME,
    LEVELS_OF,
    TOPOGRAPH_MODELS,
    Json,
    lingjun_nodes,
    shared_folder,
    topograph_nodes,
)

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
DNS_1123 = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")  # one label: a name must fit in one

SHARED = shared_folder()
needs_data = pytest.mark.skipif(
    not (SHARED / "data").is_dir(),
    reason="the shared data is not here; set STOWPLAN_SHARED to the folder that holds data/",
)


def sizes(nodes: list[Json], *keys: str) -> list[int]:
    """Return how many nodes share each list of values, largest first; unlabelled are left out."""
    labels = [node["metadata"]["labels"] for node in nodes]
    paths = Counter(tuple(of[key] for key in keys) for of in labels if keys[-1] in of)
    return sorted(paths.values(), reverse=True)


def nodes_of(source: str) -> list[Json]:
    return lingjun_nodes() if source == "lingjun" else topograph_nodes(source)


@needs_data
@pytest.mark.parametrize("source", LEVELS_OF)
def test_every_node_is_ready_named_validly_and_carries_every_level(source: str) -> None:
    nodes = nodes_of(source)
    for node in nodes:
        labels = node["metadata"]["labels"]
        assert DNS_1123.fullmatch(node["metadata"]["name"])
        assert labels[HOSTNAME] == node["metadata"]["name"]
        assert all(len(labels[key]) in range(1, 64) for key in LEVELS_OF[source])
        assert {c["type"]: c["status"] for c in node["status"]["conditions"]}["Ready"] == "True"
        assert {"cpu", "memory", "pods", "nvidia.com/gpu"} <= node["status"]["allocatable"].keys()
    assert len({node["metadata"]["name"] for node in nodes}) == len(nodes)
    assert len({node["metadata"]["uid"] for node in nodes}) == len(nodes)


@needs_data
def test_lingjun_has_847_hosts_in_119_racks_below_three_switches() -> None:
    nodes, levels = lingjun_nodes(), LEVELS_OF["lingjun"]
    assert sizes(nodes, *levels[:1]) == [847]
    assert sizes(nodes, *levels[:2]) == [362, 306, 179]
    racks = Counter(sizes(nodes, *levels))
    assert racks == {8: 68, 7: 23, 6: 15, 5: 7, 4: 2, 3: 1, 2: 3}
    assert {node["status"]["allocatable"]["nvidia.com/gpu"] for node in nodes} == {"8"}


@needs_data
def test_a_bare_access_switch_is_unique_only_below_its_aggregation_switch() -> None:
    _, psw, asw = LEVELS_OF["lingjun"]

    def parents(nodes: list[Json]) -> Counter[str]:
        labels = [node["metadata"]["labels"] for node in nodes]
        return Counter(rack for rack, _ in {(of[asw], of[psw]) for of in labels})

    bare = parents(lingjun_nodes())
    assert len(bare) == 48
    assert sum(count > 1 for count in bare.values()) == 42
    assert set(parents(lingjun_nodes(qualified_racks=True)).values()) == {1}


@needs_data
def test_the_list_of_models_is_what_lies_in_the_folder() -> None:
    files = sorted(path.stem for path in (SHARED / "data" / "topograph").glob("*.yaml"))
    assert files == sorted(TOPOGRAPH_MODELS)
    assert LEVELS_OF.keys() == {"lingjun", *TOPOGRAPH_MODELS}


@needs_data
@pytest.mark.parametrize(
    ("model", "want_tiers", "want_domains", "want_sub_domains"),
    [
        pytest.param("small-tree", [[6], [3, 3]], [3, 3], [], id="small-tree"),
        pytest.param("medium", [[8], [4, 4], [2] * 4], [2] * 4, [], id="medium"),
        pytest.param("nvl72", [[72], [36, 36], [18] * 4], [18] * 4, [], id="nvl72"),
        pytest.param("large", [[96], [16] * 6, [8] * 12], [8] * 12, [], id="large"),
        pytest.param(
            "dual-xclr-regular",
            [[96], [16] * 6, [8] * 12],
            [48, 48],
            [8] * 12,
            id="regular, a domain spans three spines",
        ),
        pytest.param(
            "dual-xclr-irregular",
            [[255], [131, 124], [9] * 27 + [7, 5]],
            [131, 124],
            [9] * 27 + [7, 5],
            id="irregular, racks with holes",
        ),
    ],
)
def test_a_model_keeps_its_tree_and_its_accelerator_domains(
    model: str, want_tiers: list[list[int]], want_domains: list[int], want_sub_domains: list[int]
) -> None:
    nodes, levels = topograph_nodes(model), LEVELS_OF[model]
    depths = range(1, len(levels) + 1)
    assert [sizes(nodes, *levels[:depth]) for depth in depths] == want_tiers
    # Switch names are unique in a model: one value never has two parents.
    assert [sizes(nodes, levels[depth - 1]) for depth in depths] == want_tiers
    assert sizes(nodes, ACCELERATOR_DOMAIN) == want_domains
    assert sizes(nodes, ACCELERATOR_SUB_DOMAIN) == want_sub_domains
    # Not one tier more than the levels name.
    keys = {key for node in nodes for key in node["metadata"]["labels"]}
    assert {key for key in keys if key.startswith("fabric.topograph.run/")} == set(levels)


@needs_data
@pytest.mark.parametrize(
    ("model", "want_region", "want_zones"),
    [
        ("medium", "us-west", 2),
        ("large", "us-east", 3),
        ("dual-xclr-regular", "us-east", 3),
        ("nvl72", "us-east", 1),
        ("dual-xclr-irregular", "us-east", 2),
        ("small-tree", None, 0),
    ],
)
def test_nodes_inherit_region_and_zone_from_their_switches(
    model: str, want_region: str | None, want_zones: int
) -> None:
    nodes = topograph_nodes(model)
    assert {node["metadata"]["labels"].get(REGION) for node in nodes} == {want_region}
    assert len(sizes(nodes, ZONE)) == want_zones
    regions = {node["metadata"]["annotations"]["topograph.run/region"] for node in nodes}
    assert regions == {want_region or "none"}


@needs_data
def test_ranges_keep_their_zeros_and_names_are_lower_case() -> None:
    def names(model: str) -> list[str]:
        return [node["metadata"]["name"] for node in topograph_nodes(model)]

    assert names("small-tree") == ["i21", "i22", "i25", "i34", "i35", "i36"]
    assert names("dual-xclr-irregular")[17:20] == ["node0018", "node0028", "node0029"]
    instance = topograph_nodes("small-tree")[0]["metadata"]["annotations"]
    assert instance["topograph.run/instance"] == "i-I21"  # the instance keeps the model's case


def test_missing_data_is_said_with_the_place_and_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STOWPLAN_SHARED", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"lingjun_topo\.csv\.gz; set STOWPLAN_SHARED"):
        lingjun_nodes()
    with pytest.raises(FileNotFoundError, match=r"medium\.yaml; set STOWPLAN_SHARED"):
        topograph_nodes("medium")
