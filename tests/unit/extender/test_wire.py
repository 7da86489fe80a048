"""A body is read the same whether its names are cut off as bytes or parsed with the rest."""

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.candidates import NameList, UnreadNames
from extender.wire import (
    ExtenderArgs,
    filter_error,
    filter_result,
    host_priorities,
)
from stowplan.api.errors import InvalidObjectError, WireError
from stowplan.placement import reasons
from stowplan.placement.decide import Placed, Refused, Untouched
from stowplan.placement.gangs import GangId
from tests.build import pod
from tests.contract import go
from tests.unit.extender.served import NAMES, encoded

CUT = ',"Nodes":null,"NodeNames":['
GANG = GangId("default", "Pod", "x")

hostile_text = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        (
            CUT,
            f'"{CUT}"n1"]}}',
            f'x"}}{CUT}"n9"]}}',
            '\\"',
            "\\",
            '"',
            "]}",
            '{"Pod":',
            "\u2028\u0000\t",
            "<&>",
            "𝄞",
            '\\u0022,"Nodes":null,"NodeNames":[',
        )
    ),
)
plain_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | hostile_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(hostile_text, inner, max_size=3),
    max_leaves=8,
)
pods = st.builds(
    lambda name, labels, annotations, more: {
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"containers": None, "x": more},
    },
    hostile_text,
    st.none() | st.dictionaries(hostile_text, hostile_text, max_size=3),
    st.none() | st.dictionaries(hostile_text, hostile_text, max_size=3),
    plain_json,
)
node_name = st.from_regex(r"[a-z0-9]([-.a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)
name_lists = st.lists(node_name, max_size=8)


def read(body: bytes) -> tuple[Any, list[str], type]:
    args = ExtenderArgs.parse(body)
    return whole_pod(args), list(args.offered.names()), type(args.offered)


def whole_pod(args: ExtenderArgs) -> Any:
    return orjson.loads(args.raw_pod) if isinstance(args.raw_pod, memoryview) else args.raw_pod


@settings(max_examples=200)
@given(pods, name_lists)
def test_the_cut_gives_what_parsing_the_whole_gives(pod: Any, names: list[str]) -> None:
    body = encoded(pod, names)
    cut, whole = ExtenderArgs.parse(body), orjson.loads(body)
    assert type(cut.offered) is UnreadNames
    assert whole_pod(cut) == whole["Pod"]
    assert list(cut.offered.names()) == whole["NodeNames"]
    assert len(cut.offered) == len(names)
    assert all(name in cut.offered for name in names)


@settings(max_examples=200)
@given(pods, name_lists, node_name)
def test_a_name_is_found_if_and_only_if_it_is_in_the_list(
    pod: Any, names: list[str], other: str
) -> None:
    offered = ExtenderArgs.parse(encoded(pod, names)).offered
    assert (other in offered) == (other in names)


@settings(max_examples=100)
@given(pods, name_lists)
def test_names_go_back_as_the_bytes_that_came(pod: Any, names: list[str]) -> None:
    offered = ExtenderArgs.parse(encoded(pod, names)).offered
    assert offered.all() == b'"NodeNames":%s,"Nodes":null' % orjson.dumps(names)
    assert offered.all() == NameList(names).all()


@settings(max_examples=100)
@given(
    pods,
    name_lists,
    st.permutations(["Pod", "Nodes", "NodeNames"]),
    st.sampled_from((str.lower, str.upper, str.title, str)),
    st.sampled_from((0, orjson.OPT_INDENT_2, orjson.OPT_APPEND_NEWLINE)),
)
def test_order_case_and_whitespace_do_not_matter(
    pod: Any, names: list[str], order: list[str], case: Any, style: int
) -> None:
    members = {"Pod": pod, "Nodes": None, "NodeNames": names}
    body = orjson.dumps({case(key): members[key] for key in order}, option=style)
    raw_pod, found, _ = read(body)
    assert (raw_pod, found) == (pod, names)


@pytest.mark.parametrize("space", [b"", b" ", b"\n", b"\r\n\t "])
def test_space_behind_the_body_does_not_matter(space: bytes) -> None:
    assert read(encoded(pod("x"), NAMES) + space) == (pod("x"), list(NAMES), UnreadNames)


def test_a_mark_inside_the_pod_does_not_end_it() -> None:
    inner: dict[str, Any] = {"Pod": {}, "Nodes": None, "NodeNames": ["n9"]}
    found, names, _ = read(encoded({"metadata": {"name": "x"}, "spec": inner}, ["n1"]))
    assert (found["spec"], names) == (inner, ["n1"])


@pytest.mark.parametrize(
    ("names", "asked"),
    [
        pytest.param(["n10", "n11"], "n1", id="a prefix"),
        pytest.param(["an1"], "n1", id="a suffix"),
        pytest.param(["n1.a"], "n1", id="the first label"),
        pytest.param(["n1", "n2"], "n1,n2", id="two names at once"),
        pytest.param([], "n1", id="no name at all"),
        pytest.param(["n1"], "", id="the empty name"),
    ],
)
def test_a_part_of_a_name_is_not_found(names: list[str], asked: str) -> None:
    assert asked not in ExtenderArgs.parse(encoded(pod("x"), names)).offered
    assert asked not in NameList(names)


# Behind the cut of a body in kube-scheduler's own spelling. Whatever stands there, the answer must
# be the one that parsing the whole gives: the same names, or an error.
TAILS = [
    pytest.param(b'"n1", "n2"]}', id="a space between names"),
    pytest.param(b'"n1"],"NodesToSkip":["n2"]}', id="a member of a later release"),
    pytest.param(b'"N1"]}', id="a name in capitals"),
    pytest.param(b'"n_1"]}', id="a name with an underscore"),
    pytest.param(b'"n\\u0031"]}', id="an escape in a name"),
    pytest.param(b'"n2"],"NodeNames":["n1"]}', id="names twice, of which the last counts"),
    pytest.param(b'oops "n1" ]}', id="words that are no JSON"),
    pytest.param(b"oops]}", id="a word without quotes"),
    pytest.param(b"null]}", id="null alone"),
    pytest.param(b"7]}", id="a number alone"),
    pytest.param(b'7"n1"]}', id="a number before a name"),
    pytest.param(b'"n1" "n2"]}', id="a comma that is missing"),
    pytest.param(b'"n1",]}', id="a comma too many"),
    pytest.param(b'{"a":"n1"}]}', id="an object among the names"),
    pytest.param(b'null,"n1"]}', id="null among the names"),
    pytest.param(b'["n1"]]}', id="a list among the names"),
    pytest.param(b'"n1"]}]}', id="an end that comes twice"),
    pytest.param(b'"n1\xff"]}', id="a byte that is not UTF-8"),
]


# A search for one name passes over it; it is seen wherever names are read or handed back.
BETWEEN = pytest.param(b'"n1"oops,"n2"]}', id="a word behind a name")


@pytest.mark.parametrize("tail", [*TAILS, BETWEEN])
def test_what_stands_behind_the_cut_is_read_as_if_it_were_parsed_whole(tail: bytes) -> None:
    body = b'{"Pod":%s,"Nodes":null,"NodeNames":[%s' % (orjson.dumps(pod("x")), tail)
    try:
        whole = orjson.loads(body)["NodeNames"]
        want = whole if all(isinstance(name, str) for name in whole) else None
    except orjson.JSONDecodeError:
        want = None
    try:
        offered = ExtenderArgs.parse(body).offered
        got = list(offered.names())
        assert offered.all() == NameList(got).all()
    except WireError:
        got = None
    assert got == want


@pytest.mark.parametrize("tail", TAILS)
def test_no_name_is_found_that_was_not_offered(tail: bytes) -> None:
    body = b'{"Pod":%s,"Nodes":null,"NodeNames":[%s' % (orjson.dumps(pod("x")), tail)
    try:
        whole = orjson.loads(body)["NodeNames"]
        sound = all(isinstance(name, str) for name in whole)
        want = [sound and name in whole for name in ("n1", "n2")]
    except orjson.JSONDecodeError:
        want = [False, False]
    try:
        offered = ExtenderArgs.parse(body).offered
        got = [name in offered for name in ("n1", "n2")]
    except WireError:
        got = [False, False]
    assert got == want


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param(b"", "must be JSON", id="nothing"),
        pytest.param(b"\xff\xfe", "must be JSON", id="not UTF-8"),
        pytest.param(b'\xef\xbb\xbf{"Pod":{}}', "must be JSON", id="a byte order mark"),
        pytest.param(b'{"Pod":{},"NodeNames":["\xc3"]}', "must be JSON", id="half a character"),
        pytest.param(b'{"Pod":{},"NodeNames":NaN}', "must be JSON", id="NaN"),
        pytest.param(b"[" * 100_000, "must be JSON", id="a tower of brackets"),
        pytest.param(b'{"Pod":{},"NodeNames":[]} {}', "must be JSON", id="two values"),
        pytest.param(b"[]", "must be an object", id="a list"),
        pytest.param(b"null", "must be an object", id="null"),
        pytest.param(b'{"NodeNames":[]}', "Pod must be an object", id="no pod"),
        pytest.param(b'{"Pod":[],"NodeNames":[]}', "Pod must be", id="a list as pod"),
        pytest.param(b'{"Pod":{}}', "must have NodeNames, or Nodes", id="no candidates"),
        pytest.param(b'{"Pod":{},"Nodes":null,"NodeNames":null}', "must have", id="both null"),
        pytest.param(b'{"Pod":{},"NodeNames":{}}', "list of node names", id="names as object"),
        pytest.param(b'{"Pod":{},"NodeNames":"n1"}', "list of node names", id="names as text"),
        pytest.param(b'{"Pod":{},"NodeNames":[1]}', "list of node names", id="a number as name"),
        pytest.param(b'{"Pod":{},"NodeNames":[null]}', "list of node names", id="null as name"),
        pytest.param(b'{"Pod":{},"Nodes":"n1"}', "NodeList", id="nodes as text"),
        pytest.param(b'{"Pod":{},"Nodes":{"items":{}}}', "NodeList", id="items as object"),
        pytest.param(b'{"Pod":{},"Nodes":{"items":[{}]}}', "have names", id="no name"),
        pytest.param(b'{"Pod":{},"Nodes":{"items":[null]}}', "have names", id="null as node"),
        pytest.param(
            b'{"Pod":{},"Nodes":{"items":[{"metadata":{"name":1}}]}}', "have names", id="name 1"
        ),
        pytest.param(
            b'{"Pod":{},"Nodes":{"items":[{"metadata":{"name":[]}}]}}', "have names", id="name []"
        ),
    ],
)
def test_a_body_that_is_none_is_refused_with_what_is_wrong(body: bytes, want: str) -> None:
    with pytest.raises(WireError, match=want):
        ExtenderArgs.parse(body)


@pytest.mark.parametrize("raw", [b"null", b"[]", b"1", b'"x"', b"{}", b'{"metadata":null}'])
def test_a_pod_without_metadata_is_refused(raw: bytes) -> None:
    with pytest.raises((WireError, InvalidObjectError)):
        ExtenderArgs.parse(b'{"Pod":%s,"Nodes":null,"NodeNames":["n1"]}' % raw).asks()


def test_names_are_taken_when_nodes_are_there_as_well() -> None:
    body = orjson.dumps(
        {"Pod": {}, "Nodes": {"items": [{"metadata": {"name": "n2"}}]}, "NodeNames": ["n1"]}
    )
    assert read(body)[1] == ["n1"]


def test_a_refusal_is_one_unresolvable_entry_in_both_forms() -> None:
    verdict = Refused(reasons.SEAT_LOST, GANG, judged=True)
    for body in (encoded(pod("x")), orjson.dumps({"Pod": pod("x"), "Nodes": {"items": []}})):
        found = go.filter_result(filter_result(verdict, ExtenderArgs.parse(body).offered))
        assert [found.node_names, found.nodes].count([]) == 1
        assert found.unresolvable == {"stowplan": str(reasons.SEAT_LOST)}
        assert found.failed == {}


def test_one_node_goes_out_alone_with_empty_maps() -> None:
    verdict = Placed("b1-r1-x1", GANG, 1, "", None, ())
    found = go.filter_result(filter_result(verdict, ExtenderArgs.parse(encoded({})).offered))
    assert found == go.FilterResult(["b1-r1-x1"], None, {}, {}, "")


def test_an_untouched_pod_gets_everything_with_empty_maps() -> None:
    found = go.filter_result(filter_result(Untouched(), ExtenderArgs.parse(encoded({})).offered))
    assert found == go.FilterResult(list(NAMES), None, {}, {}, "")


@settings(max_examples=50)
@given(hostile_text)
def test_any_text_can_be_told_in_error(text: str) -> None:
    assert go.filter_result(filter_error(text)).error == text


def test_scores_are_integer_literals() -> None:
    assert host_priorities([("a", 10), ("b", 0)]) == (
        b'[{"Host":"a","Score":10},{"Host":"b","Score":0}]'
    )
