import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.errors import InvalidObjectError
from stowplan.kube.documents import documents


def yaml(text: str) -> object:
    [document] = documents("nodes.yaml", text.encode())
    return document


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z", id="a timestamp is text"),
        pytest.param("2024-01-01", "2024-01-01", id="a date is text"),
        pytest.param("22:22", "22:22", id="no number to the base of 60"),
        pytest.param("1:30.5", "1:30.5", id="no fraction to the base of 60"),
        pytest.param("1e3", "1e3", id="an exponent without a point is text"),
        pytest.param("0.5", 0.5, id="a fraction"),
        pytest.param("1.5e+3", 1500.0, id="a fraction with an exponent"),
        pytest.param(".inf", math.inf, id="infinity"),
        pytest.param("8", 8, id="a number"),
        pytest.param("-3", -3, id="a negative number"),
        pytest.param("0x1f", 31, id="a number to the base of 16"),
        pytest.param("010", 8, id="a number to the base of 8"),
        pytest.param("08", "08", id="no number to the base of 8"),
        pytest.param("'8'", "8", id="text in quotes"),
        pytest.param("yes", True, id="yes is true, as YAML 1.1 has it"),
        pytest.param("~", None, id="nothing"),
    ],
)
def test_a_yaml_value_is_what_kubernetes_reads(text: str, want: object) -> None:
    assert yaml(f"value: {text}") == {"value": want}


def test_a_yaml_file_may_hold_several_documents_some_of_them_empty() -> None:
    content = b"# nodes\n---\na: 1\n---\n---\nb: 2\n---\n"
    assert documents("nodes.yml", content) == [{"a": 1}, {"b": 2}]


def test_a_merged_key_may_be_written_again() -> None:
    assert yaml("<<: {a: 1, b: 1}\na: 2") == {"a": 2, "b": 1}


def test_a_byte_order_mark_means_nothing() -> None:
    assert documents("a.json", b"\xef\xbb\xbf{}") == [{}]
    assert documents("a.yaml", b"\xef\xbb\xbfa: 1") == [{"a": 1}]


DEEP = 100_000


@pytest.mark.parametrize(
    ("file", "content", "want"),
    [
        pytest.param("a.json", b"", "must be JSON: .*empty", id="JSON that is empty"),
        pytest.param("a.json", b'{"a": 1', "must be JSON: .*line 1 column", id="JSON cut short"),
        pytest.param("a.json", b"{}\n{}", "must be JSON: .*line 2 column 1", id="two values"),
        pytest.param("a.json", b"kind: Node", "must be JSON", id="YAML under the name of JSON"),
        pytest.param("a.json", b'{"a":"\xc3("}', "must be UTF-8; byte 6", id="JSON not in UTF-8"),
        pytest.param("a.json", b"\xff\xfe{\x00", "must be UTF-8; byte 0", id="JSON in UTF-16"),
        pytest.param("a.json", b"[" * DEEP, "must be JSON: depth", id="JSON nested too deep"),
        pytest.param("a.yaml", b"a: [1,\nb", "must be YAML: .* at line 3 column", id="cut YAML"),
        pytest.param("a.yaml", b"\xff\xfea\x00", "must be UTF-8; byte 0", id="YAML in UTF-16"),
        pytest.param("a.yaml", b"a: \x00", "must be YAML: .*control", id="a control character"),
        pytest.param("a.yaml", b"[" * DEEP, "must be YAML: .*nest", id="YAML nested too deep"),
        pytest.param(
            "a.yaml",
            b"{<<: " * 970 + b"{}" + b"}" * 970,
            "must not be nested",
            id="merged too deep",
        ),
        pytest.param(
            "a.yaml", b"a: 1\nb: 2\na: 3", "'a' must be written once at line 3", id="a key twice"
        ),
        pytest.param(
            "a.yaml", b"0x1: a\n1: b", "'1' must be written once", id="a key twice, spelt apart"
        ),
        pytest.param("a.yaml", b"1: x", "key 1 must be a string", id="a number as key"),
        pytest.param("a.yaml", b"? [1]\n: x", "unhashable", id="a list as key"),
        pytest.param("a.yaml", b"a: !!set {b}", "constructor for the tag", id="a set"),
        pytest.param("a.yaml", b"a: !!int b", "must be YAML: invalid literal", id="no number"),
        pytest.param(
            "a.yaml", b"a: !!python/object:os.system x", "constructor for the tag", id="code"
        ),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_place(
    file: str, content: bytes, want: str
) -> None:
    with pytest.raises(InvalidObjectError, match=want) as refused:
        documents(file, content)
    [violation] = refused.value.violations
    assert violation.path == file
    assert "\n" not in str(violation)


@given(st.binary(), st.sampled_from(["a.json", "a.yaml"]))
def test_any_bytes_are_read_or_refused(content: bytes, file: str) -> None:
    with suppress(InvalidObjectError):
        documents(file, content)


@given(st.text(alphabet="ab:-{}[],'\"\n &*!|>#?%@01.", max_size=60))
def test_any_text_of_yaml_punctuation_is_read_or_refused(text: str) -> None:
    with suppress(InvalidObjectError):
        documents("a.yaml", text.encode())
