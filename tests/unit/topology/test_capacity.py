"""Quantities are exact: requests are rounded up, capacities down, and both stay within float64."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.topology.capacity import LIMIT, QuantityError, offered, per_pod, requested
from tests.oracle.quantity import exact
from tests.strategies import EXAMPLES

SUFFIXES = ("", "n", "u", "m", "k", "M", "G", "T", "P", "E")
WRONG = (
    *("", "+", "-", ".", "e3", "Ki", "1e", "1e+", "1K", "1ki", "1mi", "1 ", " 1", "1\n", "1,5"),
    *("0x1", "1_000", "٣", "1²", "nan", "inf", "∞", "--1", "1e3m", "1Kim", "1.2.3", "1e1.5"),
)
BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

digits = st.text("0123456789", max_size=30)
numbers = st.one_of(
    digits.filter(bool),
    st.tuples(digits, digits).filter(lambda two: two[0] + two[1] != "").map(".".join),
)
suffixes = st.one_of(
    st.sampled_from(SUFFIXES + BINARY),
    st.tuples(
        st.sampled_from("eE"), st.sampled_from(("", "+", "-")), st.integers(0, 400).map(str)
    ).map("".join),
)
quantities = st.tuples(st.sampled_from(("", "+")), numbers, suffixes).map("".join)
# What is almost a quantity: the same characters in any order, spaces, other digits.
texts = st.text("0123456789.+-eEinumkKMGTP \n_٣²", max_size=8)


def units(resource: str, text: str) -> Fraction:
    return exact(text) * (1000 if resource == "cpu" else 1)


@given(quantities, st.sampled_from(("cpu", "memory", "nvidia.com/gpu")))
@settings(max_examples=5 * EXAMPLES)
def test_a_request_is_rounded_up_and_a_capacity_down(text: str, resource: str) -> None:
    value = units(resource, text)
    assert requested(resource, text) == min(math.ceil(value), LIMIT)
    assert offered(resource, text) == min(math.floor(value), LIMIT - 1)


@given(texts, st.sampled_from(("cpu", "memory")))
@settings(max_examples=10 * EXAMPLES)
def test_what_the_oracle_does_not_read_is_no_quantity(text: str, resource: str) -> None:
    try:
        value = units(resource, text)
    except ValueError:
        value = Fraction(-1)
    if value >= 0:
        assert requested(resource, text) == min(math.ceil(value), LIMIT)
        return
    for read in (requested, offered):
        with pytest.raises(QuantityError, match=r"^must"):
            read(resource, text)


@pytest.mark.parametrize(
    ("text", "want_cpu", "want_memory", "want_capacity"),
    [
        ("0", 0, 0, 0),
        ("-0", 0, 0, 0),
        ("1", 1000, 1, 1),
        ("+1", 1000, 1, 1),
        ("007", 7000, 7, 7),
        (".5", 500, 1, 0),
        ("5.", 5000, 5, 5),
        ("1e3", 1_000_000, 1000, 1000),
        ("1E3", 1_000_000, 1000, 1000),
        ("1e-3", 1, 1, 0),
        ("1e+3", 1_000_000, 1000, 1000),
        ("0.5m", 1, 1, 0),
        ("500m", 500, 1, 0),
        ("1500m", 1500, 2, 1),
        ("1n", 1, 1, 0),
        ("1.5Gi", 1536 * 2**20 * 1000, 3 * 2**29, 3 * 2**29),
        ("1E", LIMIT, LIMIT, LIMIT - 1),
        ("1Ei", LIMIT, LIMIT, LIMIT - 1),
        ("8Pi", LIMIT, LIMIT, LIMIT - 1),
        (str(LIMIT - 1), LIMIT, LIMIT - 1, LIMIT - 1),
        (str(LIMIT), LIMIT, LIMIT, LIMIT - 1),
        ("1e999999999999999999999", LIMIT, LIMIT, LIMIT - 1),
        ("0e999999999999999999999", 0, 0, 0),
        ("1e-999999999999999999999", 1, 1, 0),
        ("1" + "0" * 99 + "e-99", 1000, 1, 1),
        ("0." + "0" * 98 + "1e99", 1000, 1, 1),
    ],
)
def test_known_texts_have_known_amounts(
    text: str, want_cpu: int, want_memory: int, want_capacity: int
) -> None:
    assert requested("cpu", text) == want_cpu
    assert requested("memory", text) == want_memory
    assert offered("memory", text) == want_capacity


@pytest.mark.parametrize(
    "text",
    WRONG,
)
def test_what_is_no_quantity_is_refused_with_what_one_looks_like(text: str) -> None:
    with pytest.raises(QuantityError, match="must be a quantity such as"):
        requested("cpu", text)


@pytest.mark.parametrize("text", ["-1", "-1m", "-1e-9", "-.5", "-1Ki"])
def test_a_negative_quantity_is_said_to_be_negative(text: str) -> None:
    with pytest.raises(QuantityError, match="must not be negative"):
        requested("cpu", text)
    with pytest.raises(QuantityError, match="must not be negative"):
        offered("cpu", text)


@pytest.mark.parametrize("text", ["9" * 10_000_000, "1e" + "9" * 10_000_000, "0." + "0" * 10**7])
def test_ten_megabytes_of_digits_are_refused_and_not_computed(text: str) -> None:
    with pytest.raises(QuantityError, match="must be a quantity"):
        requested("memory", text)


def test_a_request_cut_to_the_limit_fits_into_no_capacity() -> None:
    assert requested("memory", "100Ei") > offered("memory", "100Ei")


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 9), max_size=5))
@settings(max_examples=EXAMPLES)
def test_a_pod_costs_what_it_asks_for_and_one_slot_by_name(requests: dict[str, int]) -> None:
    got = per_pod({**requests, "pods": 7})  # nobody asks for more slots than one
    assert dict(got) == {**{k: v for k, v in requests.items() if v > 0}, "pods": 1}
    assert [name for name, _ in got] == sorted(dict(got))
