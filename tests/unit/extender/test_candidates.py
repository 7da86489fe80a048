"""Candidates answer for single names, and go back in the form that they came in."""

import orjson
import pytest

from extender.candidates import NameList, NodeList, Offered, UnreadNames, node_map
from extender.wire import ExtenderArgs
from stowplan.api.errors import WireError
from tests.unit.extender.served import four_nodes

TEXT = b'["n1","n2","n10"]'
NODES = [{"metadata": {"name": name}, "spec": {"x": name}} for name in ("n1", "n2", "n10")]


def forms() -> list[object]:
    return [
        pytest.param(UnreadNames(TEXT + b"}", 1), id="bytes"),
        pytest.param(NameList(["n1", "n2", "n10"]), id="names"),
        pytest.param(NodeList(node_map({"items": NODES})), id="nodes"),
    ]


@pytest.mark.parametrize("offered", forms())
def test_every_form_knows_its_names(offered: Offered) -> None:
    assert list(offered.names()) == ["n1", "n2", "n10"]
    assert len(offered) == 3
    assert ["n1" in offered, "n10" in offered, "n" in offered, "n11" in offered] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("offered", forms())
def test_every_form_goes_back_whole_alone_and_empty(offered: Offered) -> None:
    def members(text: bytes) -> dict[str, object]:
        found: dict[str, object] = orjson.loads(b"{%s}" % text)
        assert found.keys() == {"NodeNames", "Nodes"}
        return found

    if offered.whole_nodes:
        want = [{"metadata": {}, "items": part} for part in (NODES, NODES[1:2], [])]
        key, other = "Nodes", "NodeNames"
    else:
        want = [["n1", "n2", "n10"], ["n2"], []]  # type: ignore[list-item]
        key, other = "NodeNames", "Nodes"
    answers = [members(part) for part in (offered.all(), offered.only("n2"), offered.none())]
    assert [answer[key] for answer in answers] == want
    assert [answer[other] for answer in answers] == [None, None, None]


def test_bytes_go_back_without_being_encoded_again() -> None:
    assert UnreadNames(TEXT + b"}\n", 1).all() == b'"NodeNames":%s,"Nodes":null' % TEXT


@pytest.mark.parametrize("text", [b'["n1",2]', b'["n1","n2]', b'[n1","n2"]', b'["n1""n2"]'])
def test_bytes_that_are_no_names_do_not_go_back(text: bytes) -> None:
    with pytest.raises(WireError):
        ExtenderArgs.parse(b'{"Pod":{},"Nodes":null,"NodeNames":%s}' % text).offered.all()


def test_no_names_are_none_in_every_form() -> None:
    for offered in (UnreadNames(b"[]}", 1), NameList([]), NodeList({})):
        assert (len(offered), list(offered.names()), "n1" in offered) == (0, [], False)
        assert offered.all() == offered.none()


def test_nodes_go_back_with_all_that_they_came_with() -> None:
    nodes = four_nodes()
    offered = NodeList(node_map({"metadata": {}, "items": nodes}))
    found = orjson.loads(b"{%s}" % offered.only("b1-r1-x2"))
    assert found["Nodes"]["items"] == [nodes[1]]
