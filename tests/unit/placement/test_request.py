"""Annotations -> one request: ours and Kueue's keys alike, every broken rule reported."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.api.errors import InvalidObjectError
from stowplan.placement import keys
from stowplan.placement.request import Layer, Share, TopologyRequest, parse, violations
from tests.build import pod
from tests.strategies import EXAMPLES

BLOCK, RACK = "topology.example.com/block", "topology.example.com/rack"
HOST = "kubernetes.io/hostname"
MEGABYTES = "x" * 10_000_000

TWINS = {
    keys.REQUIRED: (RACK, "", "not a key", MEGABYTES),
    keys.PREFERRED: (RACK, "-"),
    keys.UNCONSTRAINED: ("true", "false", "1", "yes", ""),
    keys.PODSET_GROUP: ("g", "7", ""),
}
values = st.one_of(
    st.sampled_from((RACK, HOST, "true", "0", "1", "4", "-1", "2.5", "9" * 11, "", "٣", "+2")),
    st.text(max_size=6),
)
annotations = st.dictionaries(
    st.sampled_from(
        (
            *keys.REQUIRED,
            *keys.PREFERRED,
            *keys.UNCONSTRAINED,
            *keys.PODSET_GROUP,
            keys.SLICE_LEVEL,
            keys.SLICE_SIZE,
            keys.OUR_SLICES,
            keys.SLICE_LAYERS,
        )
    ),
    st.one_of(
        values,
        st.sampled_from((f"{RACK}=4", f"{RACK}=4,{HOST}=2", f"{RACK}=4,{HOST}=3", "=", ",")),
        st.lists(
            st.fixed_dictionaries({}, optional={"topology": values, "size": st.integers(-1, 9)}),
            max_size=4,
        ).map(json.dumps),
    ),
    max_size=4,
)


@given(annotations, st.integers(0, 9) | st.none(), st.booleans())
@settings(max_examples=5 * EXAMPLES)
def test_what_breaks_no_rule_can_be_read(
    found: dict[str, str], pods: int | None, layers_allowed: bool
) -> None:
    broken = violations(found, pods, layers_allowed)
    for violation in broken:
        assert violation.problem.startswith("must")
        assert violation.remedy
        str(violation)
    if not broken:
        parse(found)


@given(annotations)
@settings(max_examples=5 * EXAMPLES)
def test_reading_gives_a_request_or_says_what_is_wrong(found: dict[str, str]) -> None:
    answer = _read(found)
    assert answer != TopologyRequest()  # that is None
    assert answer != ""


@pytest.mark.parametrize("twins", TWINS)
def test_our_keys_mean_what_kueue_s_mean(twins: tuple[str, str]) -> None:
    ours, kueues = twins
    beside = {keys.REQUIRED[0]: RACK} if twins is keys.PODSET_GROUP else {}
    for value in TWINS[twins]:
        one, other = {ours: value, **beside}, {kueues: value, **beside}
        assert _read(one) == _read(other)
        problems = [[(v.code, v.problem) for v in violations(a)] for a in (one, other)]
        assert problems[0] == problems[1]


def _read(found: dict[str, str]) -> TopologyRequest | str | None:
    try:
        return parse(found)
    except InvalidObjectError as error:
        return error.violations[0].problem


def test_our_slices_mean_what_kueue_s_layers_mean() -> None:
    ours = {keys.OUR_SLICES: f"{RACK}=4,{HOST}=2"}
    layers = [{"topology": RACK, "size": 4}, {"topology": HOST, "size": 2}]
    kueues = {keys.SLICE_LAYERS: json.dumps(layers)}
    want = TopologyRequest(layers=(Layer(RACK, 4), Layer(HOST, 2)))
    assert parse(ours) == parse(kueues) == want
    assert violations(ours, 8) == violations(kueues, 8) == []


def test_one_slice_of_ours_is_kueue_s_plain_slice() -> None:
    ours = parse({keys.OUR_SLICES: f"{RACK}=4"})
    kueues = parse({keys.SLICE_LEVEL: RACK, keys.SLICE_SIZE: "4"})
    assert ours is not None
    assert kueues is not None
    assert ours.slices == kueues.slices == (Layer(RACK, 4),)
    assert ours.mode == kueues.mode == "slices-only"


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "=",
        "rack",
        "rack=",
        "=4",
        "rack=four",
        "rack=-1",
        "rack=0",
        "rack=4=2",
        "rack=4,",
        "rack=4;host=2",
        "rack = 4",
        "rack=4,host=3",
        "rack=4,rack=2",
        "a=8,b=4,c=2,d=1",
        "rack=99999999999",
        "rack=" + "9" * 10_000_000,
        MEGABYTES,
        "rack=1," * 1_000_000,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_our_slices_are_checked_whole(text: str) -> None:
    assert violations({keys.OUR_SLICES: text}, pods=8)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "{}",
        "[]",
        "[1]",
        "[null]",
        '[{"topology": "rack"}]',
        '[{"size": 4}]',
        '[{"topology": "rack", "size": "4"}]',
        '[{"topology": "rack", "size": 4.0}]',
        '[{"topology": "rack", "size": true}]',
        '[{"topology": ["rack"], "size": 4}]',
        '[{"topology": "rack", "size": NaN}]',
        '[{"topology": "rack", "size": 1e400}]',
        '[{"topology": "rack", "size": ' + "9" * 10_000 + "}]",
        "[" * 100_000,
        "[" + "1," * 1_000_000 + "1]",
        MEGABYTES,
    ],
    ids=lambda text: repr(text[:32]),
)
def test_layers_of_kueue_s_are_checked_whole(text: str) -> None:
    assert violations({keys.SLICE_LAYERS: text}, pods=8)


def test_every_broken_rule_is_reported_at_once() -> None:
    found = {
        keys.REQUIRED[1]: "not a key",
        keys.PREFERRED[1]: "-",
        keys.SLICE_SIZE: "0",
        keys.PODSET_GROUP[1]: "7",
    }
    assert [v.path for v in violations(found)] == [
        keys.PREFERRED[1],  # beside required
        keys.REQUIRED[1],
        keys.PREFERRED[1],
        keys.SLICE_LEVEL,  # missing
        keys.SLICE_SIZE,
        keys.PODSET_GROUP[1],  # a number
        keys.PODSET_GROUP[1],  # beside slices
    ]


@pytest.mark.parametrize("key", [*keys.REQUIRED, keys.SLICE_LEVEL, keys.SLICE_SIZE])
def test_ten_megabytes_are_not_repeated_in_a_message(key: str) -> None:
    broken = violations({keys.SLICE_LEVEL: RACK, keys.SLICE_SIZE: "1", key: MEGABYTES})
    assert broken
    assert all(len(str(violation)) < 400 for violation in broken)


def test_required_beats_preferred_beats_unconstrained() -> None:
    found = {keys.REQUIRED[0]: "a", keys.PREFERRED[1]: "b", keys.UNCONSTRAINED[0]: "what"}
    request = parse(found)
    assert request == TopologyRequest(required="a")
    del found[keys.REQUIRED[0]]
    request = parse(found)
    assert request is not None
    assert (request.mode, request.level) == ("preferred", "b")


def test_unconstrained_false_is_still_a_request() -> None:
    request = parse({keys.UNCONSTRAINED[0]: "false"})
    assert request is not None
    assert (request.mode, request.level, request.slices) == ("unconstrained", None, ())


def test_a_slice_larger_than_the_podset_is_refused_only_where_the_count_is_known() -> None:
    found = {keys.OUR_SLICES: "rack=9"}
    assert violations(found) == []
    assert [v.path for v in violations(found, pods=8)] == [f"{keys.OUR_SLICES}[0].size"]


def test_our_key_and_kueue_s_may_say_the_same_and_nothing_else() -> None:
    ours, theirs = keys.REQUIRED
    assert violations({ours: RACK, theirs: RACK}) == []
    assert len(violations({ours: RACK, theirs: HOST})) == 1
    assert len(violations({ours: RACK, theirs: RACK, keys.PREFERRED[1]: RACK})) == 1


@pytest.mark.parametrize("required", keys.REQUIRED)
def test_our_preferred_key_may_stand_beside_a_required_level_and_kueue_s_may_not(
    required: str,
) -> None:
    ours, theirs = keys.PREFERRED
    assert violations({required: BLOCK, ours: RACK}) == []
    assert parse({required: BLOCK, ours: RACK}) == TopologyRequest(required=BLOCK, preferred=RACK)
    assert len(violations({required: BLOCK, theirs: RACK})) == 1
    assert parse({required: BLOCK, theirs: RACK}) == TopologyRequest(required=BLOCK)


@pytest.mark.parametrize(
    ("text", "share"),
    [
        pytest.param(f"{RACK}=4", Share(RACK, pods=4), id="pods"),
        pytest.param(f"{RACK}=50%", Share(RACK, percent=50), id="a percentage"),
    ],
)
def test_a_share_per_domain_is_a_number_of_pods_or_a_percentage(text: str, share: Share) -> None:
    request = parse({keys.MAX_PER_DOMAIN: text})
    assert request == TopologyRequest(share=share)
    assert violations({keys.MAX_PER_DOMAIN: text}) == []


@pytest.mark.parametrize(
    "text", ["", "4", "=4", f"{RACK}=", f"{RACK}=0", f"{RACK}=0%", f"{RACK}=101%", "a b=3", "r=-1"]
)
def test_a_share_that_means_nothing_is_refused(text: str) -> None:
    assert len(violations({keys.MAX_PER_DOMAIN: text})) == 1


@pytest.mark.parametrize(
    ("share", "of_eight"),
    [(Share(RACK, pods=3), 3), (Share(RACK, percent=50), 4), (Share(RACK, percent=1), 1)],
)
def test_a_share_of_the_pods_is_rounded_down_but_at_least_one(share: Share, of_eight: int) -> None:
    assert share.of(8) == of_eight


def test_the_last_slice_may_be_smaller_where_there_are_slices() -> None:
    smaller = {keys.OUR_SLICES: f"{RACK}=4", keys.LAST_SLICE: "smaller"}
    request = parse(smaller)
    assert request is not None
    assert request.last_slice == "smaller"
    assert violations(smaller) == []
    assert len(violations({keys.LAST_SLICE: "smaller"})) == 1
    assert len(violations({**smaller, keys.LAST_SLICE: "half"})) == 1


def test_a_mistyped_key_of_ours_is_refused_with_the_one_that_was_meant() -> None:
    (found,) = violations({"stowplan.dev/required-topolgy": RACK})
    assert str(found) == (
        "stowplan.dev/required-topolgy: must be a key that stowplan knows; "
        "did you mean stowplan.dev/required-topology?"
    )
    assert violations({"stowplan.dev/retry": "3"}) == []
    assert violations({"example.com/required-topolgy": RACK}) == []


def test_a_pod_with_a_mistyped_key_of_ours_asks_and_is_not_passed_over() -> None:
    member = pod("p").annotated(**{"stowplan.dev/required-topolgy": RACK}).record()
    assert member.asks
    assert len(violations(member.annotations)) == 1
