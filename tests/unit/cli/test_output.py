import errno
import io
from collections.abc import Mapping

import pytest

from stowplan.api.errors import UnavailableError
from stowplan.cli.output import Screen, amount, counted, domain, runs, show


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "colour"),
    [
        pytest.param({}, True, id="nothing said"),
        pytest.param({"NO_COLOR": "1"}, False, id="no colour wanted"),
        pytest.param({"NO_COLOR": ""}, True, id="an empty variable says nothing"),
        pytest.param({"TERM": "dumb"}, False, id="a dumb terminal"),
    ],
)
def test_a_terminal_has_a_width_and_colour_unless_it_is_unwanted(
    environment: Mapping[str, str], colour: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "72")
    assert Screen.of(Terminal(), environment) == Screen(colour, 72)


def test_a_pipe_has_neither() -> None:
    assert Screen.of(io.StringIO(), {}) == Screen(False, None)


def test_a_very_narrow_terminal_is_written_for_as_if_it_were_wider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "7")
    assert Screen.of(Terminal(), {}).width == 40


def test_colour_is_put_on_only_where_it_is_understood() -> None:
    assert Screen(colour=True).good("fits") == "\033[32mfits\033[0m"
    assert Screen().good("fits") == "fits"
    assert Screen(colour=True).bold("") == ""


def test_a_table_aligns_its_columns_and_leaves_no_space_at_the_end() -> None:
    rows = [("a", "1", "x"), ("longer", "12", "")]
    assert Screen().table(("NAME", "N", "WHY"), rows, right={1}, indent="  ") == [
        "  NAME     N  WHY",
        "  a        1  x",
        "  longer  12",
    ]


def test_a_table_without_rows_is_its_headings() -> None:
    assert Screen().table(("NAME",), []) == ["NAME"]


@pytest.mark.parametrize(
    ("width", "want"),
    [
        pytest.param(None, ["x1  a-1, a-2, a-3"], id="a pipe"),
        pytest.param(20, ["x1  a-1, a-2, a-3"], id="wide enough"),
        pytest.param(13, ["x1  a-1, a-2,", "    a-3"], id="two lines"),
        pytest.param(3, ["x1  a-1,", "    a-2,", "    a-3"], id="one word a line at least"),
    ],
)
def test_a_list_is_wrapped_below_its_first_word(width: int | None, want: list[str]) -> None:
    assert Screen(width=width).listed("x1  ", ["a-1", "a-2", "a-3"]) == want


@pytest.mark.parametrize(
    ("resource", "units", "want", "want_up"),
    [
        ("cpu", 96_000, "96", "96"),
        ("cpu", 500, "0.5", "0.5"),
        ("cpu", 0, "0", "0"),
        ("cpu", 1_234_567, "1,234.567", "1,234.567"),
        ("memory", 1 << 40, "1,024Gi", "1,024Gi"),
        ("memory", (1 << 40) - 1, "1,023.9Gi", "1,024Gi"),
        ("memory", 3 << 29, "1.5Gi", "1.5Gi"),
        ("memory", 5 << 20, "5Mi", "5Mi"),
        ("memory", 100, "100", "100"),
        ("ephemeral-storage", 2 << 30, "2Gi", "2Gi"),
        ("hugepages-2Mi", 4 << 20, "4Mi", "4Mi"),
        ("nvidia.com/gpu", 12_345, "12,345", "12,345"),
    ],
)
def test_quantities_are_written_for_people(
    resource: str, units: int, want: str, want_up: str
) -> None:
    assert (amount(resource, units), amount(resource, units, up=True)) == (want, want_up)


def test_a_count_has_its_noun() -> None:
    assert [counted(n, "pod") for n in (0, 1, 2, 1000)] == [
        "0 pods",
        "1 pod",
        "2 pods",
        "1,000 pods",
    ]


def test_a_domain_shows_where_a_label_is_missing() -> None:
    assert domain(("b1", "", "x1")) == "b1/-/x1"


@pytest.mark.parametrize(
    ("names", "want"),
    [
        ([], []),
        (["train-0"], ["train-0"]),
        (["train-0", "train-1", "train-2"], ["train-[0-2]"]),
        (["train-9", "train-10", "train-11"], ["train-[9-11]"]),
        (["n08", "n09", "n10"], ["n[08-10]"]),
        (["n99", "n100"], ["n[99-100]"]),
        (["n099", "n100"], ["n[099-100]"]),
        (["n09", "n010"], ["n09", "n010"]),
        (["a-0", "a-2", "a-3", "b-4"], ["a-0", "a-[2-3]", "b-4"]),
        (["t-0-*", "t-1-*", "t-1-x"], ["t-[0-1]-*", "t-1-x"]),
        (["web-*", "web-*", "web-*"], ["3 x web-*"]),
        (["solo", "train-7x"], ["solo", "train-7x"]),
        (["a-1", "a-0"], ["a-1", "a-0"]),
    ],
)
def test_names_that_count_up_are_written_as_one(names: list[str], want: list[str]) -> None:
    assert runs(names) == want


class Full(io.StringIO):
    def write(self, _: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_what_cannot_be_written_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", Full())
    with pytest.raises(UnavailableError, match="cannot be written: No space left on device"):
        show("an answer")
