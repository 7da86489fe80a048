"""A node's path is one value per level, and a level is a label key."""

import pytest

from stowplan.topology.levels import HOSTNAME, Levels, label_key_problem

BLOCK, RACK = "topology.example.com/block", "rack"


def test_the_host_level_is_implied_and_comes_last() -> None:
    assert Levels.over_hosts([BLOCK, RACK]).keys == (BLOCK, RACK, HOSTNAME)
    assert Levels.over_hosts([BLOCK, HOSTNAME]).keys == (BLOCK, HOSTNAME)
    assert Levels.over_hosts([]).keys == (HOSTNAME,)


@pytest.mark.parametrize(
    ("keys", "want_depth", "want_host"),
    [
        pytest.param((BLOCK,), 1, False, id="no host level"),
        pytest.param((BLOCK, HOSTNAME), 2, True, id="host level last"),
        pytest.param((HOSTNAME,), 1, True, id="hosts only"),
    ],
)
def test_depth_and_host_level_follow_from_the_keys(
    keys: tuple[str, ...], want_depth: int, want_host: bool
) -> None:
    levels = Levels(keys)
    assert (levels.depth, levels.has_host) == (want_depth, want_host)


@pytest.mark.parametrize(
    ("labels", "want_path"),
    [
        pytest.param({BLOCK: "b1", RACK: "r1", HOSTNAME: "x"}, ("b1", "r1", "n1"), id="all"),
        pytest.param({BLOCK: "b1", HOSTNAME: "n1"}, None, id="a label is missing"),
        pytest.param({BLOCK: "b1", RACK: "", HOSTNAME: "n1"}, None, id="a label is empty"),
        pytest.param({BLOCK: "b1", RACK: "r1"}, None, id="the hostname label is missing"),
        pytest.param({}, None, id="no labels"),
    ],
)
def test_a_host_stands_for_itself_by_its_name_but_needs_every_label(
    labels: dict[str, str], want_path: tuple[str, ...] | None
) -> None:
    assert Levels((BLOCK, RACK, HOSTNAME)).path("n1", labels) == want_path


def test_without_a_host_level_the_labels_alone_are_the_path() -> None:
    assert Levels((BLOCK, RACK)).path("n1", {BLOCK: "b1", RACK: "r1"}) == ("b1", "r1")


@pytest.mark.parametrize(
    "key",
    [
        "rack",
        "a",
        "A.b_c-9",
        "x" * 63,
        "example.com/rack",
        "a/b",
        "1.2-3.example/rack",
        ".".join(["a" * 63] * 3) + ".aa/rack",
    ],
)
def test_a_label_key_of_kubernetes_is_accepted(key: str) -> None:
    assert label_key_problem(key) is None


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/",
        "/rack",
        "example.com/",
        "a/b/c",
        "-rack",
        "rack-",
        "rack\n",
        "ra ck",
        "räck",
        "x" * 64,
        "Example.com/rack",
        "example..com/rack",
        ".example.com/rack",
        "example.com\n/rack",
        "a" * 254 + "/rack",
        "x" * 10_000_000,
    ],
    ids=lambda key: repr(key[:12]),
)
def test_what_is_no_label_key_is_said_to_be_none(key: str) -> None:
    problem = label_key_problem(key)
    assert problem is not None
    assert problem.startswith("must be a label key")
