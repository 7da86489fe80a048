"""Kueue's two forms of an assignment: what is written is read, what is wrong is refused."""

import json
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.api.errors import InvalidObjectError
from stowplan.placement.kueue.assignment import Assignment
from stowplan.placement.kueue.encoding import (
    decode,
    decode_listed,
    encode,
    encode_by_prefix,
    encode_in_one_slice,
    encode_listed,
    json_size,
    prefix_keys,
)
from stowplan.topology.levels import HOSTNAME
from tests.strategies import EXAMPLES

Json = dict[str, Any]

BLOCK, RACK = "topology.example.com/block", "topology.example.com/rack"
LONG = "x" * 63

names = st.one_of(
    st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", fullmatch=True),
    st.builds(
        "{}{}{}".format,
        st.sampled_from(("", "pool-a-", "pool-a-rack-1-", "pool-b-")),
        st.sampled_from(("0", "1", "10", "2", "n")),
        st.sampled_from(("", ".site.example", "-0.site.example", "0")),
    ),
    st.sampled_from(("n", "mnm", "mnmnm", "<&>", LONG)),
)


@st.composite
def assignments(draw: st.DrawFn, levels: tuple[str, ...] | None = None) -> Assignment:
    """Draw an assignment, hosts or not; a domain may even come twice."""
    shown = [(HOSTNAME,), (BLOCK, HOSTNAME), (BLOCK,), (BLOCK, RACK)]
    keys = levels or draw(st.sampled_from(shown))
    paths = st.tuples(*(names for _ in keys))
    counts = st.one_of(st.just(8), st.integers(1, 2**31 - 1))
    return Assignment(keys, tuple(draw(st.lists(st.tuples(paths, counts), max_size=12))))


def on_hosts(*hosts: str) -> Assignment:
    return Assignment((HOSTNAME,), tuple(((host,), 1) for host in hosts))


def in_racks(*racks: str) -> Assignment:
    return Assignment((RACK,), tuple(((rack,), 1) for rack in racks))


def parsed(document: Json) -> Any:
    return json.loads(json.dumps(document))


@given(assignments(), st.booleans())
@settings(max_examples=5 * EXAMPLES)
def test_what_is_encoded_is_what_is_decoded(a: Assignment, runs: bool) -> None:
    assert decode(parsed(encode(a, runs))) == a
    assert decode(encode_in_one_slice(a)) == a
    assert decode(encode_by_prefix(a)) == a


@given(assignments())
@settings(max_examples=EXAMPLES)
def test_what_is_listed_is_what_is_read(a: Assignment) -> None:
    assert decode_listed(parsed(encode_listed(a))) == a


@given(assignments())
@settings(max_examples=5 * EXAMPLES)
def test_the_chosen_form_is_never_longer_than_the_other(a: Assignment) -> None:
    sizes = json_size(encode_in_one_slice(a)), json_size(encode_by_prefix(a))
    assert json_size(encode(a)) == min(sizes)


@given(assignments())
@settings(max_examples=EXAMPLES)
def test_a_slice_shares_all_that_it_can(a: Assignment) -> None:
    for part in encode(a)["slices"]:
        for level in part["valuesPerLevel"]:
            if "individual" not in level:
                continue
            roots = level["individual"]["roots"]
            assert len(set(roots)) > 1
            assert "" not in (level["individual"].get("prefix"), level["individual"].get("suffix"))
            if all(roots):
                assert len({root[0] for root in roots}) > 1
                assert len({root[-1] for root in roots}) > 1
        assert len(set(part["podCounts"].get("individual", (1, 2)))) > 1


@given(st.lists(st.text("ab-", max_size=7), max_size=9), st.integers(1, 9))
@settings(max_examples=10 * EXAMPLES)
def test_the_keys_of_hosts_are_those_that_trying_every_prefix_finds(
    hosts: list[str], most_runs: int
) -> None:
    assert prefix_keys(hosts, most_runs) == tried_keys(hosts, most_runs)


def tried_keys(hosts: list[str], most_runs: int) -> list[str]:
    """Try every prefix, with ever fewer dashes (domain-fit, section 16)."""
    prefixes = [
        [host[: end + 1] for end in range(len(host) - 1) if host[end] == "-"] for host in hosts
    ]
    everyone = [prefix for own in prefixes for prefix in own]
    for dashes in range(max(map(len, hosts), default=0), 0, -1):
        keys = []
        for own in prefixes:
            fit = [p for p in own if everyone.count(p) > 1 and p.count("-") <= dashes]
            keys.append(max(fit, key=len, default=""))
        if len(list(groupby(keys))) <= most_runs:
            return keys
    return ["" for _ in hosts]


@given(assignments((BLOCK, RACK)))
@settings(max_examples=EXAMPLES)
def test_without_hosts_there_is_one_slice(a: Assignment) -> None:
    assert encode(a) == encode_by_prefix(a) == encode_in_one_slice(a)
    assert len(encode(a)["slices"]) == bool(a.domains)


def test_runs_keep_the_order_of_the_domains() -> None:
    a = on_hosts("a-1", "a-2", "b-1", "b-2", "a-3")
    assert [part["domainCount"] for part in encode_by_prefix(a)["slices"]] == [2, 2, 1]


def test_of_two_forms_of_equal_length_the_runs_are_written() -> None:
    a = on_hosts(*(f"{pool * 26}-00{node}" for pool in "ab" for node in range(3)))
    assert json_size(encode_in_one_slice(a)) == json_size(encode_by_prefix(a))
    assert len(encode(a)["slices"]) == 2


def test_ten_thousand_hosts_of_a_cluster_are_cut_into_the_runs_of_their_racks() -> None:
    a = on_hosts(*(f"pool-{n // 500}-rack-{n // 20}-node-{n % 20}" for n in range(10_000)))
    compact = encode(a)
    assert [part["domainCount"] for part in compact["slices"]] == [20] * 500
    assert decode(compact) == a


def test_runs_that_are_too_many_are_cut_at_an_earlier_dash() -> None:
    a = on_hosts(*(f"pool-{n // 1000}-rack-{n // 2}-node-{n % 2}" for n in range(2_002)))
    assert [part["domainCount"] for part in encode_by_prefix(a)["slices"]] == [1000, 1000, 2]


@pytest.mark.parametrize("runs", [True, False])
def test_more_domains_than_a_slice_may_have_are_written_in_several(runs: bool) -> None:
    a = in_racks(*map(str, range(100_001)))
    compact = encode(a, runs)
    assert [part["domainCount"] for part in compact["slices"]] == [100_000, 1]
    assert decode(compact) == a


def test_a_run_of_more_hosts_than_a_slice_may_have_is_cut() -> None:
    a = on_hosts(*(f"pool-a-{n:06d}" for n in range(100_001)), "b-1", "b-2")
    assert [part["domainCount"] for part in encode(a)["slices"]] == [100_000, 1, 2]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("n", 1, id="a letter"),
        pytest.param("é", 2, id="as UTF-8"),
        pytest.param('"', 2, id="escaped by everybody"),
        pytest.param("<", 6, id="escaped by Go alone"),
        pytest.param("&>", 12, id="several of these"),
        pytest.param("\u2028", 6, id="the end of a line in JavaScript"),
    ],
)
def test_the_size_of_a_document_is_that_which_go_writes(text: str, want: int) -> None:
    assert json_size({"a": [text, 1]}) == len('{"a":["",1]}') + want


@pytest.mark.parametrize(
    ("assignment", "want"),
    [
        pytest.param(Assignment((), ()), ["levels"], id="no level"),
        pytest.param(
            Assignment(tuple(f"level-{n}" for n in range(17)), ()), ["levels"], id="17 levels"
        ),
        pytest.param(Assignment(("k" * 318,), ()), ["levels[0]"], id="a key too long"),
        pytest.param(
            Assignment((BLOCK, RACK), ((("b", "r"), 1), (("b",), 1))),
            ["domains[1].values"],
            id="a value that is missing",
        ),
        pytest.param(in_racks("r", LONG + "x"), ["domains[1].values[0]"], id="64 characters"),
        pytest.param(Assignment((RACK,), ((("r",), 0),)), ["domains[0].count"], id="no pods"),
        pytest.param(
            Assignment((RACK,), ((("r",), -1), (("s",), 2**31))),
            ["domains[0].count", "domains[1].count"],
            id="numbers outside int32",
        ),
        pytest.param(
            Assignment((RACK,), (((LONG * 2, "s"), 0),)),
            ["domains[0].values", "domains[0].count", "domains[0].values[0]"],
            id="all that is wrong",
        ),
    ],
)
def test_an_assignment_that_the_form_has_no_room_for_is_refused(
    assignment: Assignment, want: list[str]
) -> None:
    for write in (encode, encode_by_prefix, encode_in_one_slice, encode_listed):
        with pytest.raises(InvalidObjectError) as refused:
            write(assignment)
        assert [violation.path for violation in refused.value.violations] == want


def test_more_domains_than_etcd_could_hold_are_not_written() -> None:
    with pytest.raises(InvalidObjectError, match="must have at most 1000000 entries"):
        encode(Assignment((RACK,), ((("r",), 1),) * 1_000_001))


def compact(*slices: Any, levels: Any = (RACK,)) -> Json:
    return {"levels": list(levels), "slices": list(slices)}


def piece(*values: Any, domains: Any = 2, pods: Any = None, **more: Any) -> Json:
    """Return a slice: of the racks r1 and r2 with one pod each, unless told otherwise."""
    return {
        "domainCount": domains,
        "valuesPerLevel": list(values or ({"individual": {"roots": ["r1", "r2"]}},)),
        "podCounts": {"universal": 1} if pods is None else pods,
        **more,
    }


R1_R2 = in_racks("r1", "r2")


@pytest.mark.parametrize(
    ("document", "want"),
    [
        pytest.param(compact(), in_racks(), id="no slices"),
        pytest.param({"levels": [RACK]}, in_racks(), id="an empty list that Go left out"),
        pytest.param({"levels": [RACK], "slices": None}, in_racks(), id="slices that are null"),
        pytest.param(compact(piece()), R1_R2, id="roots alone"),
        pytest.param(
            compact(piece({"individual": {"prefix": "", "suffix": None, "roots": ["r1", "r2"]}})),
            R1_R2,
            id="an empty prefix and a suffix that is null",
        ),
        pytest.param(
            compact(piece({"universal": None, "individual": {"prefix": "r", "roots": ["1", "2"]}})),
            R1_R2,
            id="a universal value that is null",
        ),
        pytest.param(
            compact(piece(pods={"universal": None, "individual": [1, 1]})),
            R1_R2,
            id="equal numbers one by one",
        ),
        pytest.param(
            compact(piece({"individual": {"prefix": "r1", "roots": ["", ""]}})),
            in_racks("r1", "r1"),
            id="equal values one by one, the same domain twice",
        ),
        pytest.param(
            compact(piece({"universal": "r1"})), in_racks("r1", "r1"), id="one domain named twice"
        ),
        pytest.param(
            compact(piece({"individual": {"prefix": LONG, "suffix": LONG, "roots": [LONG, "x"]}})),
            in_racks(LONG * 3, LONG + "x" + LONG),
            id="the longest of everything",
        ),
        pytest.param(
            compact(
                piece({"universal": "b"}, {"individual": {"roots": ["r1", "r2"]}}), levels="BR"
            ),
            Assignment(("B", "R"), ((("b", "r1"), 1), (("b", "r2"), 1))),
            id="one block, many racks",
        ),
        pytest.param(
            compact(piece(), piece({"universal": "r3"}, domains=1, pods={"individual": [7]})),
            Assignment((RACK,), ((("r1",), 1), (("r2",), 1), (("r3",), 7))),
            id="slices of different kinds",
        ),
    ],
)
def test_every_valid_compact_form_can_be_read(document: Json, want: Assignment) -> None:
    assert decode(document) == want


@pytest.mark.parametrize(
    ("document", "want"),
    [
        pytest.param(None, {"(the whole object)": "invalid"}, id="nothing"),
        pytest.param([], {"(the whole object)": "invalid"}, id="a list"),
        pytest.param({}, {"levels": "required"}, id="an empty object"),
        pytest.param({"levels": None}, {"levels": "invalid"}, id="levels that are null"),
        pytest.param(compact(levels=()), {"levels": "invalid"}, id="no level"),
        pytest.param(compact(levels="x" * 17), {"levels": "invalid"}, id="17 levels"),
        pytest.param(compact(levels=[7]), {"levels[0]": "invalid"}, id="a level that is no text"),
        pytest.param(encode_listed(R1_R2), {"domains": "forbidden"}, id="the form of v1beta1"),
        pytest.param(
            {"levels": [RACK], "slices": {}}, {"slices": "invalid"}, id="slices that are no list"
        ),
        pytest.param(compact(7), {"slices[0]": "invalid"}, id="a slice that is no object"),
        pytest.param(
            compact({}),
            {
                "slices[0].domainCount": "required",
                "slices[0].valuesPerLevel": "required",
                "slices[0].podCounts": "required",
            },
            id="an empty slice",
        ),
        pytest.param(compact(*[piece()] * 1001), {"slices": "invalid"}, id="1001 slices"),
        pytest.param(
            compact(piece(size=2)), {"slices[0].size": "forbidden"}, id="a field nobody knows"
        ),
        pytest.param(
            compact(piece(domains=0, pods={"universal": 1})),
            {
                "slices[0].domainCount": "invalid",
                "slices[0].valuesPerLevel[0].individual.roots": "invalid",
            },
            id="no domain",
        ),
        pytest.param(
            compact(piece({"universal": "r"}, domains=-1)),
            {"slices[0].domainCount": "invalid"},
            id="fewer domains than none",
        ),
        pytest.param(
            compact(piece({"universal": "r"}, domains=True)),
            {"slices[0].domainCount": "invalid"},
            id="a number of domains that is a boolean",
        ),
        pytest.param(
            compact(piece({"universal": "r"}, domains=2.0)),
            {"slices[0].domainCount": "invalid"},
            id="a number of domains with a point",
        ),
        pytest.param(
            compact(*[piece({"universal": "r"}, domains=500_001)] * 2),
            {"slices": "invalid"},
            id="one domain named a million times",
        ),
        pytest.param(
            compact(piece({"universal": "r"}, domains=2**31)),
            {"slices": "invalid", "slices[0].domainCount": "invalid"},
            id="more domains than int32 counts",
        ),
        pytest.param(
            compact(piece(levels=(BLOCK, RACK)), levels=(BLOCK, RACK)),
            {"slices[0].levels": "forbidden"},
            id="levels of a slice's own",
        ),
        pytest.param(
            compact(piece({"universal": "b"}), levels=(BLOCK, RACK)),
            {"slices[0].valuesPerLevel": "invalid"},
            id="too few levels of values",
        ),
        pytest.param(
            compact(piece({"universal": "b"}, {"universal": "r"})),
            {"slices[0].valuesPerLevel": "invalid"},
            id="too many levels of values",
        ),
        pytest.param(
            compact(piece({})), {"slices[0].valuesPerLevel[0]": "required"}, id="no values"
        ),
        pytest.param(
            compact(piece({"universal": "r", "individual": {"roots": ["r1", "r2"]}})),
            {"slices[0].valuesPerLevel[0]": "forbidden"},
            id="roots beside a universal value",
        ),
        pytest.param(
            compact(piece({"roots": ["r1", "r2"]})),
            {"slices[0].valuesPerLevel[0].roots": "forbidden"},
            id="roots that stand alone",
        ),
        pytest.param(
            compact(piece({"individual": ["r1", "r2"]})),
            {"slices[0].valuesPerLevel[0].individual": "invalid"},
            id="values that are a bare list",
        ),
        pytest.param(
            compact(piece({"individual": {"prefix": "r"}})),
            {"slices[0].valuesPerLevel[0].individual.roots": "required"},
            id="a prefix without roots",
        ),
        pytest.param(
            compact(piece({"individual": {"roots": ["r1"]}})),
            {"slices[0].valuesPerLevel[0].individual.roots": "invalid"},
            id="too few roots",
        ),
        pytest.param(
            compact(piece({"individual": {"roots": ["r1", "r2", "r3"]}})),
            {"slices[0].valuesPerLevel[0].individual.roots": "invalid"},
            id="too many roots",
        ),
        pytest.param(
            compact(piece({"individual": {"roots": ["r"] * 100_001}}, domains=100_001)),
            {"slices[0].valuesPerLevel[0].individual.roots": "invalid"},
            id="more roots than a slice may have",
        ),
        pytest.param(
            compact(piece({"individual": {"roots": ["r1", None]}})),
            {"slices[0].valuesPerLevel[0].individual.roots[1]": "invalid"},
            id="a root that is null",
        ),
        pytest.param(
            compact(piece({"individual": {"root": "r", "roots": ["r1", "r2"]}})),
            {"slices[0].valuesPerLevel[0].individual.root": "forbidden"},
            id="a mistyped field beside the roots",
        ),
        pytest.param(
            compact(
                piece(
                    {
                        "individual": {
                            "prefix": LONG + "p",
                            "suffix": LONG + "s",
                            "roots": ["r", LONG + "r"],
                        }
                    }
                )
            ),
            {
                "slices[0].valuesPerLevel[0].individual.prefix": "invalid",
                "slices[0].valuesPerLevel[0].individual.suffix": "invalid",
                "slices[0].valuesPerLevel[0].individual.roots[1]": "invalid",
            },
            id="64 characters here and there",
        ),
        pytest.param(
            compact(piece({"universal": LONG + "x"})),
            {"slices[0].valuesPerLevel[0].universal": "invalid"},
            id="a universal value of 64 characters",
        ),
        pytest.param(
            compact(piece(pods={})), {"slices[0].podCounts": "required"}, id="no pod counts"
        ),
        pytest.param(
            compact(piece(pods={"universal": 1, "individual": [1, 1]})),
            {"slices[0].podCounts": "forbidden"},
            id="both kinds of pod counts",
        ),
        pytest.param(
            compact(piece(pods=[1, 1])),
            {"slices[0].podCounts": "invalid"},
            id="pod counts that are a bare list",
        ),
        pytest.param(
            compact(piece(pods={"universal": 1, "total": 2})),
            {"slices[0].podCounts.total": "forbidden"},
            id="a field nobody knows beside pod counts",
        ),
        pytest.param(
            compact(piece(pods={"universal": 0})),
            {"slices[0].podCounts.universal": "invalid"},
            id="no pods",
        ),
        pytest.param(
            compact(piece(pods={"universal": "1"})),
            {"slices[0].podCounts.universal": "invalid"},
            id="a number of pods as text",
        ),
        pytest.param(
            compact(piece(pods={"individual": [-1, 2**31]})),
            {
                "slices[0].podCounts.individual[0]": "invalid",
                "slices[0].podCounts.individual[1]": "invalid",
            },
            id="numbers of pods outside int32",
        ),
        pytest.param(
            compact(piece(pods={"individual": []})),
            {"slices[0].podCounts.individual": "invalid"},
            id="an empty list of pod counts",
        ),
        pytest.param(
            compact(piece(pods={"individual": [1, 1, 1]})),
            {"slices[0].podCounts.individual": "invalid"},
            id="too many pod counts",
        ),
        pytest.param(
            compact(piece({"universal": LONG + "x"}), piece({}, pods={"universal": 0})),
            {
                "slices[0].valuesPerLevel[0].universal": "invalid",
                "slices[1].valuesPerLevel[0]": "required",
                "slices[1].podCounts.universal": "invalid",
            },
            id="everything at once, in several slices",
        ),
    ],
)
def test_a_compact_form_that_is_wrong_is_refused_with_all_that_is_wrong(
    document: object, want: dict[str, str]
) -> None:
    with pytest.raises(InvalidObjectError) as refused:
        decode(document)
    assert {v.path: v.code for v in refused.value.violations} == want


@pytest.mark.parametrize(
    ("document", "want"),
    [
        pytest.param({"levels": [RACK]}, {"domains": "required"}, id="no domains"),
        pytest.param(
            encode_in_one_slice(R1_R2),
            {"domains": "required", "slices": "forbidden"},
            id="the form of v1beta2",
        ),
        pytest.param(
            {"levels": [RACK], "domains": [], "slices": []},
            {"slices": "forbidden"},
            id="both forms at once",
        ),
        pytest.param(
            {"levels": [RACK], "domains": [{"values": ["r"], "count": 1, "node": "n"}]},
            {"domains[0].node": "forbidden"},
            id="a field nobody knows",
        ),
        pytest.param(
            {"levels": [], "domains": [{"values": ["r"], "count": 0}]},
            {"levels": "invalid", "domains[0].values": "invalid", "domains[0].count": "invalid"},
            id="everything at once",
        ),
        pytest.param(
            {"levels": [RACK], "domains": [{"values": "r", "count": "1"}]},
            {"domains[0].values": "invalid", "domains[0].count": "invalid"},
            id="text for a list and for a number",
        ),
    ],
)
def test_a_list_of_domains_that_is_wrong_is_refused_with_all_that_is_wrong(
    document: object, want: dict[str, str]
) -> None:
    with pytest.raises(InvalidObjectError) as refused:
        decode_listed(document)
    assert {v.path: v.code for v in refused.value.violations} == want


def test_domains_that_are_null_are_none() -> None:
    assert decode_listed({"levels": [RACK], "domains": None}) == in_racks()


def test_a_refusal_tells_where_what_and_what_to_do() -> None:
    with pytest.raises(InvalidObjectError) as refused:
        decode(compact(piece({"individual": {"roots": ["r1"]}})))
    assert str(refused.value) == (
        "topology assignment is refused:\n"
        "  slices[0].valuesPerLevel[0].individual.roots: must have one entry for each of 2 domains"
        " (got 1); add or remove entries"
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.text(max_size=2) | st.sampled_from("rb"),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ("universal", "individual", "prefix", "suffix", "roots", "domainCount", "podCounts")
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


@given(
    st.fixed_dictionaries(
        {
            "domainCount": st.integers(0, 2),
            "valuesPerLevel": st.lists(json_values, max_size=2),
            "podCounts": json_values,
        }
    ),
)
@settings(max_examples=5 * EXAMPLES)
def test_any_document_is_read_or_refused(part: Json) -> None:
    assignment = decoded(compact(part))
    assert assignment is None or decode(encode(assignment)) == assignment


def decoded(document: Json) -> Assignment | None:
    """Return what is read, None when it is refused."""
    try:
        return decode(document)
    except InvalidObjectError:
        return None
