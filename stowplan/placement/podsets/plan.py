"""A request in terms of level numbers: where to look, what stays together, how domains are filled.

Checked in the order of domain-fit, section 2; then what only our own keys can ask for.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import numpy as np

from stowplan.placement.request import Layer, Profile, Share, TopologyRequest
from stowplan.placement.rules import Rules
from stowplan.topology.choose import Style
from stowplan.topology.fit import NEVER, Slicing
from stowplan.topology.levels import Levels

FailureKind = Literal[
    "none-fit",
    "partial-fit",
    "layers-no-fit",
    "leader-no-fit",
    "no-domains",
    "level-unknown",
    "slice-level-unknown",
    "slice-level-above",
    "slice-size-missing",
    "slice-size-indivisible",
    "preferred-not-finer",
    "share-not-finer",
    "slices-leave-a-rest",
    "kept-apart",
    "stale",
]


@dataclass(frozen=True, slots=True)
class LayerShortage:
    """How many slices of one layer fit in the best domain, and how many are needed."""

    level: str
    fits: int
    needed: int


@dataclass(frozen=True, slots=True)
class NoFit:
    """Why a podset was not placed; ``fits`` and ``needed`` count slices when there are any.

    Of "slices-leave-a-rest" they count pods: those of whole slices, and all.

    Attributes:
        level: the level that is concerned; of "none-fit" and the like the last one that was tried.
        slice_level: where two levels contradict each other, the second of them.
        top: the domain that came closest; -1 where none was looked at.
    """

    kind: FailureKind
    level: str = ""
    fits: int = 0
    needed: int = 0
    unit: Literal["pod", "slice"] = "pod"
    slice_level: str = ""
    layers: tuple[LayerShortage, ...] = ()
    top: int = -1


@dataclass(frozen=True, slots=True)
class Plan:
    """A request in terms of level numbers.

    Attributes:
        level: where to begin.
        stop: the coarsest level to try.
        required: one domain or nothing.
        balanced: even shares are wanted, if there are any.
        slicing: what stays together.
        share_level: level of ``share``.
        share: at most a share per domain.
        style: how domains are filled.
        layers: slices as asked.
    """

    level: int
    stop: int
    required: bool
    balanced: bool
    slicing: Slicing
    share_level: int
    share: Share | None
    style: Style
    layers: tuple[Layer, ...]


@lru_cache(maxsize=1024)
def plan_of(
    levels: Levels, request: TopologyRequest, profile: Profile, use_affinity: bool, rules: Rules
) -> Plan | NoFit:
    """Check the request against the levels and return it in numbers."""
    keys = levels.keys
    if any(layer.size < 1 for layer in request.slices):
        return NoFit("slice-size-missing")
    for key in filter(None, (request.preferred, request.required)):
        if key not in keys:
            return NoFit("level-unknown", key)
    asked = request.required is not None or request.preferred is not None
    few = not asked and not rules.unconstrained_scatters
    level, stop = _ends(request, keys, rules)
    if level < stop or (level == stop and request.preferred and request.required):
        return NoFit("preferred-not-finer", request.preferred or "", slice_level=keys[stop])
    # Without a level asked for by name, slices may be coarser: then the search begins with them.
    slicing = _slicing(request.slices, keys, 0 if few else level)
    if isinstance(slicing, NoFit):
        return slicing
    share_level = _share_level(request, keys)
    if isinstance(share_level, NoFit):
        return share_level
    if few:
        level = min(level, slicing.level)
    return Plan(
        level=level,
        stop=stop,
        required=request.required is not None,
        balanced=profile == "balanced" and request.mode == "preferred",
        slicing=slicing,
        share_level=share_level,
        share=request.share,
        style=_style(profile, asked, use_affinity, len(keys), rules),
        layers=request.slices,
    )


def _ends(request: TopologyRequest, keys: tuple[str, ...], rules: Rules) -> tuple[int, int]:
    """Return the level to begin with and the coarsest one to try."""
    finest = len(keys) - 1
    if request.required is not None:
        stop = keys.index(request.required)
        return stop if request.preferred is None else keys.index(request.preferred), stop
    if request.preferred is not None:
        return keys.index(request.preferred), 0
    if not rules.unconstrained_scatters:
        return max(finest - 1, 0), 0
    level = 0 if request.mode == "slices-only" else finest
    return level, level


def _style(profile: Profile, asked: bool, use_affinity: bool, depth: int, rules: Rules) -> Style:
    if asked or profile == "best-fit":
        fill_from = depth
    else:
        fill_from = 0 if rules.unconstrained_scatters else depth - 1
    return Style(fill_from, use_affinity, not rules.small_hosts_first)


def _share_level(request: TopologyRequest, keys: tuple[str, ...]) -> int | NoFit:
    share = request.share
    if share is None:
        return NEVER
    if share.level not in keys:
        return NoFit("level-unknown", share.level)
    at = keys.index(share.level)
    if request.required is not None and at <= keys.index(request.required):
        return NoFit("share-not-finer", share.level, slice_level=request.required)
    return at


def _slicing(layers: tuple[Layer, ...], keys: tuple[str, ...], level: int) -> Slicing | NoFit:
    if not layers:
        return Slicing.none(len(keys))
    outer = layers[0]
    if outer.level not in keys:
        return NoFit("slice-level-unknown", outer.level)
    at = keys.index(outer.level)
    if at < level:
        return NoFit("slice-level-above", keys[level], slice_level=outer.level)
    ends = np.zeros(len(keys), dtype=np.int64)
    slicing = Slicing(at, outer.size, np.ones(len(keys), dtype=np.int64), ends=ends)
    for before, layer in pairwise(layers):
        if layer.level not in keys:
            return NoFit("slice-level-unknown", layer.level)
        inner = keys.index(layer.level)
        if inner <= at:
            return NoFit("slice-level-above", before.level, slice_level=layer.level)
        if before.size % layer.size:
            return NoFit("slice-size-indivisible", layer.level)
        slicing.unit_at[at + 1 : inner + 1] = layer.size
        ends[inner] = 1
        at = inner
    return slicing
