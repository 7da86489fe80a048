"""YAML -> the values in it, as kube-apiserver would have read them."""

import re
from typing import Any

import yaml

from stowplan.kube.documents import refused, require_utf8

_MERGE = "tag:yaml.org,2002:merge"


def read(file: str, content: bytes) -> list[Any]:
    """Return every document of ``content``; ``file`` names it.

    Raises:
        InvalidObjectError: when it cannot be read, with the line and column.
    """
    require_utf8(file, content)
    try:
        found = list(yaml.load_all(content, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" at line {mark.line + 1} column {mark.column + 1}" if mark else ""
        raise refused(file, f"must be YAML: {error.problem}{where}", "mend it there") from error
    except (yaml.YAMLError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise refused(file, f"must be YAML: {reason}", "mend it there") from error
    except RecursionError as error:
        raise refused(file, "must not be nested this deep", "write it flat") from error
    return [document for document in found if document is not None]  # `---` may end a file


class _Loader(yaml.CSafeLoader):
    """Reads YAML into what JSON can say, as Kubernetes does.

    So a timestamp stays a string, ``22:22`` is no number to the base of 60, keys are strings, and
    sets or bytes do not exist. A key that is written twice is refused: the first would be lost.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        pairs = len(node.value)
        merges = any(key.tag == _MERGE for key, _ in node.value)
        mapping = super().construct_mapping(node, deep)
        if not merges and len(mapping) != pairs:
            raise _repeated(node)
        for key in mapping:
            if not isinstance(key, str):
                problem = f"key {key!r} must be a string; put it in quotes"
                raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return mapping


def _repeated(node: yaml.MappingNode) -> yaml.constructor.ConstructorError:
    seen: set[str] = set()
    for key, _ in node.value:
        if key.value in seen:
            break
        seen.add(key.value)
    problem = f"key {key.value!r} must be written once"
    return yaml.constructor.ConstructorError(None, None, problem, key.start_mark)


def _resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """Return the resolvers of YAML 1.1 without timestamps and numbers to the base of 60."""
    left_out = {f"tag:yaml.org,2002:{name}" for name in ("timestamp", "int", "float")}
    kept = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in left_out]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }
    for tag, pattern, firsts in (
        ("int", r"[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]+|0|[1-9][0-9_]*)$", "-+0123456789"),
        ("float", r"([-+]?([0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?"
                  r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$", "-+0123456789."),
    ):  # fmt: skip
        for first in firsts:
            kept.setdefault(first, []).append((f"tag:yaml.org,2002:{tag}", re.compile(pattern)))
    return kept


_NOT_JSON = {
    f"tag:yaml.org,2002:{name}" for name in ("binary", "omap", "pairs", "set", "timestamp")
}
_Loader.yaml_implicit_resolvers = _resolvers()
_Loader.yaml_constructors = {
    tag: construct
    for tag, construct in yaml.CSafeLoader.yaml_constructors.items()
    if tag not in _NOT_JSON
}
