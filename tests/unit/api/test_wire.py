"""What is wrong in a peer's JSON is told field by field, whichever way it was read."""

from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.errors import InvalidObjectError
from stowplan.api.models import core
from stowplan.api.models.wire import Wire, decode, read
from stowplan.api.objects import Object

scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(0, 3) | st.text(max_size=3)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


def fields(model: type[Wire]) -> st.SearchStrategy[Any]:
    """Draw objects with the model's field names, and any value in each."""
    names = [field.encode_name for field in msgspec.structs.fields(model)]
    return st.dictionaries(st.sampled_from(names), values, max_size=len(names))


containers = st.fixed_dictionaries({}, optional={"resources": fields(core.Resources)}) | values
pods = st.fixed_dictionaries(
    {"metadata": fields(core.Metadata) | values},
    optional={
        "spec": fields(core.PodSpec)
        | st.fixed_dictionaries(
            {
                "containers": st.lists(containers, max_size=3),
                "tolerations": st.lists(fields(core.Toleration), max_size=2),
            }
        ),
        "status": fields(core.PodStatus) | values,
    },
)


def outcome(way: Any) -> object:
    try:
        return way()
    except InvalidObjectError as error:
        return [(v.path, v.code) for v in error.violations], str(error)


@given(pods)
def test_bytes_and_values_read_alike(pod: Any) -> None:
    document = orjson.dumps(pod)
    from_values = outcome(lambda: read(core.Pod, pod, "Pod"))
    assert outcome(lambda: decode(core.Pod, document, "Pod")) == from_values


@given(pods)
def test_each_field_that_is_told_is_wrong_and_without_them_the_rest_is_right(pod: Any) -> None:
    for _ in range(40):
        try:
            read(core.Pod, pod, "Pod")
        except InvalidObjectError as error:
            told = {
                v.path.rpartition(".")[0] if v.code == "required" else v.path
                for v in error.violations
            }
            assert told
            pod = without(pod, "", told)
        else:
            return
    pytest.fail(f"never right: {pod}")


def without(value: Any, path: str, told: set[str]) -> Any:
    """Return a value without the parts that were told, but with the metadata that it must have."""
    if path and path in told:
        return None
    if isinstance(value, dict):
        inside = {}
        for name, each in value.items():
            where = f"{path}.{name}" if name.isidentifier() else f"{path}[{name}]"
            if where.removeprefix(".") not in told:
                inside[name] = without(each, where.removeprefix("."), told)
        return inside if path else {"metadata": {}, **inside}
    if isinstance(value, list):
        items = [(f"{path}[{at}]", each) for at, each in enumerate(value)]
        return [without(each, where, told) for where, each in items if where not in told]
    return value


@pytest.mark.parametrize(
    ("model", "value", "told"),
    [
        (core.Taint, {}, "key: must be present; add it"),
        (core.Taint, {"key": 1}, "key: must be a string (got 1)"),
        (core.Taint, [], "(the whole object): must be an object (got [])"),
        (core.NodeSpec, {"unschedulable": "yes"}, "unschedulable: must be true or false"),
        (core.NodeSpec, {"taints": {}}, "taints: must be a list (got {})"),
        (core.NodeSpec, {"taints": [{"key": "a"}, None]}, "taints[1]: must be an object"),
        (core.Resources, {"limits": {"example.com/a": []}}, "limits[example.com/a]: must be a qua"),
        (core.OwnerSpec, {"parallelism": 1.5}, "parallelism: must be a whole number (got 1.5)"),
    ],
)
def test_the_wording(model: type[Wire], value: object, told: str) -> None:
    with pytest.raises(InvalidObjectError) as error:
        read(model, value, "X")
    assert told in str(error.value)


def test_an_object_that_is_no_json_is_told_by_its_name() -> None:
    broken = Object("v1", "Node", "", "n1", msgspec.Raw(b'{"metadata":'))
    with pytest.raises(InvalidObjectError, match=r"Node n1 is refused:\s+.*must be JSON"):
        broken.read(core.Node)


def test_unread_content_gives_the_values_of_its_json() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "x"}}
    unread = Object("v1", "Pod", "x", "a", msgspec.Raw(orjson.dumps(pod)))
    assert unread.values() == Object.of(pod).values() == pod
    assert unread.identity == Object.of(pod).identity == ("", "Pod", "x", "a")
    assert unread.title == "Pod x/a"
