"""What a pod's annotations ask for: one topology request, ours and Kueue's keys alike.

``parse`` reads as Kueue does: what is broken in a way that Kueue passes over is passed over.
``violations`` judges as Kueue's admission does, and reports every broken rule (domain-fit, section
2).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, get_args

from stowplan.api.errors import InvalidObjectError, Violation
from stowplan.placement import keys
from stowplan.topology.levels import label_key_problem

Mode = Literal["required", "preferred", "unconstrained", "slices-only", "none"]
LastSlice = Literal["whole", "smaller"]
Profile = Literal["mixed", "best-fit", "balanced"]

MOST_LAYERS = 3
_PROFILES: tuple[Profile, ...] = get_args(Profile)
_TRUE = ("1", "t", "T", "TRUE", "true", "True")
_FALSE = ("0", "f", "F", "FALSE", "false", "False")


@dataclass(frozen=True, slots=True)
class Layer:
    """``size`` pods stay in one domain of ``level``."""

    level: str
    size: int


@dataclass(frozen=True, slots=True)
class Share:
    """At most so many pods of the podset in one domain of ``level``; one of both is given.

    Attributes:
        pods: how many.
        percent: of the podset's count.
    """

    level: str
    pods: int | None = None
    percent: int | None = None

    def of(self, count: int) -> int:
        """Return how many of ``count`` pods one domain may have: rounded down, at least 1."""
        if self.pods is not None:
            return self.pods
        return max(count * (self.percent or 0) // 100, 1)


@dataclass(frozen=True, slots=True)
class TopologyRequest:
    """What one podset asks of the topology.

    Attributes:
        required: level whose one domain must hold all pods.
        preferred: level whose one domain should; beside a required level only a finer one.
        unconstrained: as written; False is still a request (quirk of Kueue's).
        slice_level: level of plain slices; only with ``slice_size``.
        slice_size: pods of one plain slice.
        layers: nested slices, outermost first.
        last_slice: whether pods that fill no whole slice make a smaller one.
        share: at most a share of the pods in one domain.
        group: podset group, only with required or preferred.
        index_label: label that holds a pod's rank.
        subgroup_index_label: label that holds the rank of its job.
        subgroup_count: how many jobs.
    """

    required: str | None = None
    preferred: str | None = None
    unconstrained: bool | None = None
    slice_level: str | None = None
    slice_size: int | None = None
    layers: tuple[Layer, ...] = ()
    last_slice: LastSlice = "whole"
    share: Share | None = None
    group: str | None = None
    index_label: str | None = None
    subgroup_index_label: str | None = None
    subgroup_count: int | None = None

    @property
    def mode(self) -> Mode:
        """Required beats preferred beats unconstrained."""
        if self.required is not None:
            return "required"
        if self.preferred is not None:
            return "preferred"
        if self.unconstrained is not None:
            return "unconstrained"
        return "slices-only" if self.slices else "none"

    @property
    def level(self) -> str | None:
        """The level that is asked for by name."""
        return self.required if self.required is not None else self.preferred

    @property
    def slices(self) -> tuple[Layer, ...]:
        """All layers of slices, outermost first; plain slices are one layer."""
        if self.layers:
            return self.layers
        if self.slice_level is not None and self.slice_size is not None:
            return (Layer(self.slice_level, self.slice_size),)
        return ()

    @property
    def levels(self) -> tuple[str, ...]:
        """Every level that is named, whatever is asked of it."""
        share = (self.share.level,) if self.share else ()
        named = (self.required, self.preferred, *(each.level for each in self.slices), *share)
        return tuple(dict.fromkeys(level for level in named if level is not None))

    @property
    def inner_size(self) -> int:
        """How many pods the layer below the outer one keeps together; finer ones divide it."""
        return self.slices[1].size if len(self.slices) > 1 else 1

    @property
    def together(self) -> "str | TopologyRequest":
        """What podsets of one gang have in common that share a domain: group, else all of it."""
        return self.group if self.group is not None else self


def parse(
    annotations: Mapping[str, str],
    index_label: str | None = None,
    subgroup_index_label: str | None = None,
    subgroup_count: int | None = None,
) -> TopologyRequest | None:
    """Return the request, or None when nothing is asked.

    Raises:
        InvalidObjectError: a boolean, a number or a list of layers cannot be read.
    """
    required = _either(annotations, keys.REQUIRED)
    beside = keys.PREFERRED[:1] if required is not None else keys.PREFERRED
    preferred = _either(annotations, beside)  # Kueue knows no preferred level beside a required one
    unconstrained = None
    if required is None and preferred is None:
        unconstrained = _boolean(annotations, keys.UNCONSTRAINED)
    layers = _layers(annotations)
    level = annotations.get(keys.SLICE_LEVEL)
    size = None if level is None else _whole_number(annotations, keys.SLICE_SIZE)
    if layers or size is None:
        level = size = None
    asked = required is not None or preferred is not None
    request = TopologyRequest(
        required=required,
        preferred=preferred,
        unconstrained=unconstrained,
        slice_level=level,
        slice_size=size,
        layers=layers,
        last_slice="smaller" if annotations.get(keys.LAST_SLICE) == "smaller" else "whole",
        share=_share(annotations),
        group=_either(annotations, keys.PODSET_GROUP) if asked else None,
        index_label=index_label,
        subgroup_index_label=subgroup_index_label,
        subgroup_count=subgroup_count,
    )
    return None if request == TopologyRequest() else request


def violations(
    annotations: Mapping[str, str], pods: int | None = None, layers_allowed: bool = True
) -> list[Violation]:
    """Return every rule that the annotations break, in the order of the rules.

    Args:
        annotations: of the pod template.
        pods: count of the podset, where it is known.
        layers_allowed: whether nested slices are switched on.
    """
    return [
        *_key_violations(annotations),
        *_mode_violations(annotations),
        *_slice_violations(annotations, pods),
        *_layer_violations(annotations, pods, layers_allowed),
        *_last_slice_violations(annotations),
        *_share_violations(annotations),
        *_group_violations(annotations),
        *_packing_violations(annotations),
    ]


def profile_of(annotations: Mapping[str, str]) -> Profile | None:
    """Return the profile that the annotations name, if they name one that there is."""
    return next((each for each in _PROFILES if each == annotations.get(keys.PACKING)), None)


def group_violations(podsets: Sequence[tuple[str, int, TopologyRequest]]) -> list[Violation]:
    """Return what is wrong with podset groups; ``podsets`` are (name, count, request)."""
    groups: dict[str, list[tuple[str, int, TopologyRequest]]] = {}
    for podset in podsets:
        if podset[2].group is not None:
            groups.setdefault(podset[2].group, []).append(podset)
    found: list[Violation] = []
    for group, members in groups.items():
        if len(members) != 2:
            problem, remedy = "must be a group of exactly two podsets", "name another group"
        elif all(count > 1 for _, count, _ in members):
            problem, remedy = (
                "must have one podset of a single pod, the leader",
                "set its count to 1",
            )
        elif len({(r.mode, r.level) for _, _, r in members}) > 1:
            problem, remedy = "must ask for the same mode and level", "make the requests equal"
        else:
            continue
        found += (Violation(name, "invalid", group, problem, remedy) for name, _, _ in members)
    return found


def _either(annotations: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((annotations[name] for name in names if name in annotations), None)


def _refusal(path: str, value: object, problem: str, remedy: str) -> InvalidObjectError:
    return InvalidObjectError(
        "topology request", [Violation(path, "invalid", value, problem, remedy)]
    )


def _boolean(annotations: Mapping[str, str], names: tuple[str, ...]) -> bool | None:
    for name in names:
        if (text := annotations.get(name)) is not None:
            if text in _TRUE or text in _FALSE:
                return text in _TRUE
            raise _refusal(name, text, "must be true or false", "write true, or remove it")
    return None


def _whole_number(annotations: Mapping[str, str], name: str) -> int | None:
    text = annotations.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.removeprefix("-").isdigit() or len(text) > 10:
        raise _refusal(name, text, "must be a whole number", "write one of 1 or more")
    return int(text)


def _layers(annotations: Mapping[str, str]) -> tuple[Layer, ...]:
    """Read nested slices of either spelling; the form is checked, sizes and levels are not."""
    if (ours := annotations.get(keys.OUR_SLICES)) is not None:
        entries: object = [
            {"topology": level, "size": size}
            for level, _, size in (part.partition("=") for part in ours.split(","))
        ]
        return _read_layers(keys.OUR_SLICES, ours, entries)
    text = annotations.get(keys.SLICE_LAYERS)
    if text is None:
        return ()
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        raise _refusal(
            keys.SLICE_LAYERS, text, "must be a JSON list", 'write [{"topology": KEY, "size": N}]'
        ) from None
    return _read_layers(keys.SLICE_LAYERS, text, entries)


def _read_layers(name: str, text: str, entries: object) -> tuple[Layer, ...]:
    if not isinstance(entries, list) or not 1 <= len(entries) <= MOST_LAYERS:
        raise _refusal(name, text, f"must list 1 to {MOST_LAYERS} layers", "shorten the list")
    layers = []
    for entry in entries:
        level, size = (
            (entry.get("topology"), entry.get("size")) if isinstance(entry, dict) else (0, 0)
        )
        if isinstance(size, str) and size.isascii() and size.isdigit() and len(size) <= 10:
            size = int(size) if name == keys.OUR_SLICES else size
        if not isinstance(level, str) or not isinstance(size, int) or isinstance(size, bool):
            raise _refusal(name, text, "must give each layer a level and a size", "add what lacks")
        layers.append(Layer(level, size))
    return tuple(layers)


def _share(annotations: Mapping[str, str]) -> Share | None:
    """Read ``<level>=<pods>`` or ``<level>=<percent>%``."""
    text = annotations.get(keys.MAX_PER_DOMAIN)
    if text is None:
        return None
    level, _, amount = text.rpartition("=")
    number = amount.removesuffix("%")
    if not level or not (number.isascii() and number.isdigit() and len(number) < 10):
        raise _refusal(
            keys.MAX_PER_DOMAIN,
            text,
            "must be a level and a number of pods or a percentage",
            "write <level>=4 or <level>=50%",
        )
    if amount.endswith("%"):
        return Share(level, percent=int(number))
    return Share(level, pods=int(number))


def _key_violations(annotations: Mapping[str, str]) -> Iterator[Violation]:
    """A mistyped key of ours would silently mean nothing, and the gang would be scattered."""
    for key in filter(keys.is_mistyped, annotations):
        close = get_close_matches(key, keys.OUR_ANNOTATIONS, n=1)
        remedy = f"did you mean {close[0]}?" if close else "remove it"
        yield Violation(_shown(key), "forbidden", None, "must be a key that stowplan knows", remedy)


def _shown(key: str) -> str:
    return key if len(key) <= 100 else f"{key[:100]}..."


def _mode_violations(annotations: Mapping[str, str]) -> Iterator[Violation]:
    given: list[str] = []
    for names in (keys.REQUIRED, keys.PREFERRED, keys.UNCONSTRAINED):
        spelled = [name for name in names if name in annotations]
        same = (
            len({annotations[name] for name in spelled}) == 1
        )  # ours and Kueue's, saying one thing
        given += spelled[:1] if same else spelled
    if given == [next((n for n in keys.REQUIRED if n in annotations), ""), keys.PREFERRED[0]]:
        given = []  # ours alone: one domain of a coarse level, and a finer one if possible
    if len(given) > 1:
        problem = f"must not stand beside {given[0]}"
        yield Violation(given[1], "forbidden", annotations[given[1]], problem, "keep one of them")
    for name in (*keys.REQUIRED, *keys.PREFERRED):
        if name in annotations:
            yield from _key_violation(name, annotations[name])
    try:
        _boolean(annotations, keys.UNCONSTRAINED)
    except InvalidObjectError as error:
        yield from error.violations


def _key_violation(path: str, key: str) -> Iterator[Violation]:
    if problem := label_key_problem(key):
        yield Violation(path, "invalid", key, problem, "name a level of the topology")


def _slice_violations(annotations: Mapping[str, str], pods: int | None) -> Iterator[Violation]:
    level, size = annotations.get(keys.SLICE_LEVEL), annotations.get(keys.SLICE_SIZE)
    if level is not None:
        yield from _key_violation(keys.SLICE_LEVEL, level)
        if size is None:
            problem = f"must be there with {keys.SLICE_LEVEL}"
            yield Violation(keys.SLICE_SIZE, "required", None, problem, "add it, or remove both")
    if size is None:
        return
    if level is None:
        problem = f"must be there with {keys.SLICE_SIZE}"
        yield Violation(keys.SLICE_LEVEL, "required", None, problem, "add it, or remove both")
    try:
        number = _whole_number(annotations, keys.SLICE_SIZE)
    except InvalidObjectError as error:
        yield from error.violations
        return
    if number is not None:
        yield from _size_violation(keys.SLICE_SIZE, number, pods)


def _size_violation(path: str, size: int, pods: int | None) -> Iterator[Violation]:
    if size < 1:
        yield Violation(path, "invalid", size, "must be 1 or more", "raise it")
    elif pods is not None and size > pods:
        problem = f"must not be larger than the podset's {pods} pods"
        yield Violation(path, "invalid", size, problem, "lower it")


def _layer_violations(
    annotations: Mapping[str, str], pods: int | None, allowed: bool
) -> Iterator[Violation]:
    name = keys.OUR_SLICES if keys.OUR_SLICES in annotations else keys.SLICE_LAYERS
    if name not in annotations:
        return
    if not allowed:
        yield Violation(name, "forbidden", None, "must not be used while it is off", "remove it")
        return
    for other in (keys.SLICE_LEVEL, keys.SLICE_SIZE):
        if other in annotations:
            yield Violation(other, "forbidden", None, f"must not stand beside {name}", "remove it")
    try:
        layers = _layers(annotations)
    except InvalidObjectError as error:
        yield from error.violations
        return
    seen: set[str] = set()
    for i, layer in enumerate(layers):
        path = f"{name}[{i}]"
        yield from _key_violation(f"{path}.topology", layer.level)
        if layer.level in seen:
            yield Violation(
                f"{path}.topology", "duplicate", layer.level, "must be listed once", "remove it"
            )
        seen.add(layer.level)
        yield from _size_violation(f"{path}.size", layer.size, pods if i == 0 else None)
        outer = layers[i - 1].size if i else 0
        if i and layer.size > 0 and outer % layer.size:
            problem = f"must divide the size before it, {outer}"
            yield Violation(f"{path}.size", "invalid", layer.size, problem, "choose a divisor")


def _last_slice_violations(annotations: Mapping[str, str]) -> Iterator[Violation]:
    text = annotations.get(keys.LAST_SLICE)
    if text is None:
        return
    if text not in get_args(LastSlice):
        problem = "must be whole or smaller"
        yield Violation(keys.LAST_SLICE, "invalid", text, problem, "choose one of them")
    if not any(n in annotations for n in (keys.OUR_SLICES, keys.SLICE_LAYERS, keys.SLICE_SIZE)):
        problem = "must stand beside slices"
        yield Violation(keys.LAST_SLICE, "forbidden", text, problem, "add slices, or remove it")


def _share_violations(annotations: Mapping[str, str]) -> Iterator[Violation]:
    try:
        share = _share(annotations)
    except InvalidObjectError as error:
        yield from error.violations
        return
    if share is None:
        return
    text = annotations[keys.MAX_PER_DOMAIN]
    yield from _key_violation(keys.MAX_PER_DOMAIN, share.level)
    if share.pods == 0 or (share.percent is not None and not 1 <= share.percent <= 100):
        problem = "must be at least one pod, or 1% to 100%"
        yield Violation(keys.MAX_PER_DOMAIN, "invalid", text, problem, "correct the number")


def _group_violations(annotations: Mapping[str, str]) -> Iterator[Violation]:
    name = next((n for n in keys.PODSET_GROUP if n in annotations), None)
    if name is None:
        return
    group = annotations[name]
    if group.isascii() and group.isdigit():
        yield Violation(name, "invalid", group, "must be text, not a number", "choose a word")
    if not any(n in annotations for n in (*keys.REQUIRED, *keys.PREFERRED)):
        problem = "must stand beside a required or preferred level"
        yield Violation(name, "forbidden", group, problem, "add a level, or remove it")
    for other in (keys.SLICE_LEVEL, keys.SLICE_SIZE, keys.SLICE_LAYERS, keys.OUR_SLICES):
        if other in annotations:
            yield Violation(name, "forbidden", group, f"must not stand beside {other}", "remove it")


def _packing_violations(annotations: Mapping[str, str]) -> Iterator[Violation]:
    text = annotations.get(keys.PACKING)
    if text is not None and text not in _PROFILES:
        problem = "must be mixed, best-fit or balanced"
        yield Violation(keys.PACKING, "invalid", text, problem, "choose one of them")
