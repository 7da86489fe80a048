"""The answers of ``stowplan place`` for people."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from stowplan.cli.output import Screen, amount, counted, domain, runs
from stowplan.cli.place_json import Answered
from stowplan.cli.spelling import closest, did_you_mean
from stowplan.placement import keys
from stowplan.placement.answers.answer import (
    Change,
    CoarserLevel,
    DoesNotFit,
    FewerPods,
    Fits,
    LargerShare,
    LeftOut,
    MoreRoom,
    Oversized,
    Place,
    WorkloadEnds,
)
from stowplan.placement.jobs.expand import Wanted
from stowplan.placement.jobs.templates import shown
from stowplan.placement.reasons import Reason
from stowplan.placement.request import TopologyRequest, parse
from stowplan.topology.levels import HOSTNAME

MOST_DOMAINS = 5  # of the asked level, that are told of
_MOST_NODES = 4  # of a change, likewise


@dataclass(frozen=True, slots=True)
class Text:
    """Writes answers down.

    Attributes:
        screen: what it is written for.
        levels: the label keys of the topology, the host last.
        labels: the keys of all labels that nodes carry.
        resources: the names of all that nodes offer.
        by_kueues_rules: the answers were found by Kueue's rules, quirks included.
    """

    screen: Screen
    levels: tuple[str, ...]
    labels: frozenset[str]
    resources: frozenset[str]
    by_kueues_rules: bool

    def of(self, answered: Iterable[Answered]) -> str:
        """Return all answers, an empty line between each two."""
        each = [*answered]
        told = ["\n".join(self._one(*one)) for one in each]
        asking = [answer for _, answer in each if answer is not None]
        placed = sum(isinstance(answer, Fits) for answer in asking)
        if len(asking) < len(each):
            all_told = f"{placed:,} of {len(asking):,} gangs that ask for topology fit."
            told.append(self.screen.bold(all_told))
        elif 0 < placed < len(each):
            told.append(self.screen.bold(f"{placed:,} of {len(each):,} gangs fit."))
        return "\n\n".join(told)

    def _one(self, wanted: Wanted, answer: Fits | DoesNotFit | None) -> Iterator[str]:
        match answer:
            case None:
                yield from self._asks_nothing(wanted)
            case Fits():
                yield from self._fits(wanted, answer)
            case DoesNotFit():
                yield from self._does_not_fit(wanted, answer)
        if wanted.queue and answer is not None:
            exactly = "" if self.by_kueues_rules else "; --rules kueue places as Kueue does"
            yield f"Kueue admits it (queue {wanted.queue}): quota is not looked at here{exactly}."

    def _asks_nothing(self, wanted: Wanted) -> Iterator[str]:
        yield f"{self.screen.bold(wanted.title)} is not placed here: it asks for no topology."
        yield (
            f"kube-scheduler places its pods one by one. To keep them together, annotate them with "
            f"{keys.REQUIRED[0]}: <level>"
        )
        yield f'or {keys.UNCONSTRAINED[0]}: "true". The levels are {", ".join(self.levels)}.'

    def _fits(self, wanted: Wanted, answer: Fits) -> Iterator[str]:
        screen = self.screen
        pods = counted(answer.size, "pod")
        runs_already = sum(not place.new for place in answer.places)
        running = f" ({runs_already:,} of them run already)" if runs_already else ""
        where = "in no one domain"
        if answer.level is not None:
            where = f"in {answer.level} {self._named(answer.domain)}"
        yield f"{screen.bold(wanted.title)} {screen.good('fits')}: {pods}{running} {where}"
        yield ""
        yield from self._places(answer.places)

    def _named(self, path: Sequence[str]) -> str:
        """Return a domain; a host goes by its name alone."""
        return path[-1] if len(path) == len(self.levels) and path[-1] else domain(path)

    def _places(self, places: Sequence[Place]) -> Iterator[str]:
        """Yield the nodes with their pods, below the domain that they are in."""
        ordered = sorted(places, key=lambda place: (place.domain, place.node))
        by_domain = [
            (path, list(there)) for path, there in groupby(ordered, lambda p: p.domain[:-1])
        ]
        name = max((len(place.node) for place in places), default=0)
        count = len(str(len(places)))
        for path, there in by_domain:
            nodes = [(node, list(pods)) for node, pods in groupby(there, lambda p: p.node)]
            if path:
                both = f"{counted(len(there), 'pod')} on {counted(len(nodes), 'node')}"
                yield f"  {self.screen.bold(domain(path))}  {self.screen.faint(both)}"
            for node, pods in nodes:
                start = f"    {node:{name}}  {len(pods):>{count}}  "
                yield from self.screen.listed(start, _pods(pods))

    def _does_not_fit(self, wanted: Wanted, answer: DoesNotFit) -> Iterator[str]:
        screen = self.screen
        verdict = "is refused" if answer.refused else "does not fit"
        yield f"{screen.bold(wanted.title)} {screen.bad(verdict)}"
        yield f"{answer.reason}{_in_numbers(answer.reason)}"
        yield from self._meant(wanted, answer)
        yield from (self._oversized(each) for each in answer.oversized)
        if answer.levels:
            yield ""
            yield from self._levels(answer)
        if answer.domains and len(answer.domains[0].domain) > 0:
            yield ""
            yield from self._domains(answer)
        if answer.left_out:
            yield ""
            yield "Nodes that take none of its pods:"
            yield from self._left_out(answer.left_out)
        if changes := [change for change in answer.changes if not _is_idle(change, answer)]:
            yield ""
            yield screen.bold("It would fit, if you do one of these:")
            for change in changes:
                yield from screen.listed("  - ", [self._advice(change, answer)])

    def _meant(self, wanted: Wanted, answer: DoesNotFit) -> Iterator[str]:
        """Yield what was probably meant by a level that is not there, and where levels are set."""
        if answer.reason.word != "LevelUnknown":
            return
        if self.levels == (HOSTNAME,):
            yield "Levels are set by --levels, as in --levels topology.kubernetes.io/zone"
        requests = {parse(pod.annotations) or TopologyRequest() for pod in wanted.pods}
        asked = {level for request in requests for level in request.levels}
        for level in sorted(asked.difference(self.levels)):
            if level in self.labels:
                yield f"Nodes carry the label {level}: add it to --levels, from coarse to fine."
            elif meant := closest(level, self.levels):
                yield f"Did you mean {meant}?"

    def _oversized(self, oversized: Oversized) -> str:
        """Say that room which is freed helps nothing, since no node is large enough."""
        resource = oversized.resource
        if oversized.most:
            whose = f" of {oversized.podset}" if oversized.podset else ""
            asked, most = amount(resource, oversized.asked, True), amount(resource, oversized.most)
            return f"A pod{whose} asks for {asked} {resource}; no usable node has more than {most}."
        none = f"No usable node offers {resource}"
        if resource in self.resources:
            return f"{none}; nodes that do are left out, as told below."
        others = f"nodes offer {', '.join(sorted(self.resources))}."
        return f"{none}; {did_you_mean(resource, self.resources, others)}"

    def _levels(self, answer: DoesNotFit) -> list[str]:
        rows = [
            (
                f"{each.level} (asked)" if each.asked else each.level,
                f"{each.holding:,} of {each.domains:,}",
                self._named(each.best) if each.best else "-",
                _out_of(each.fits, each.needed),
            )
            for each in answer.levels
        ]
        headings = ("LEVEL", "DOMAINS THAT HOLD ALL", "BEST DOMAIN", "PODS THAT FIT THERE")
        return self.screen.table(headings, rows)

    def _domains(self, answer: DoesNotFit) -> Iterator[str]:
        told = answer.domains[:MOST_DOMAINS]
        there = answer.levels[len(told[0].domain) - 1].domains
        rows = [
            (
                self._named(each.domain),
                _out_of(each.fits, each.needed),
                each.short_of
                + (f" (for {_whom(each.podset, each.leader)})" if each.podset else ""),
            )
            for each in told
        ]
        yield from self.screen.table(("DOMAIN", "PODS THAT FIT", "SHORT OF"), rows)
        if there > len(told):
            yield self.screen.faint(f"and {there - len(told):,} more; -o json tells of all")

    def _left_out(self, left_out: Sequence[LeftOut]) -> list[str]:
        rows = [
            (
                f"{each.nodes:,}",
                why(each) + (f" (for {each.podset})" if each.podset else ""),
                each.example,
            )
            for each in left_out
        ]
        return self.screen.table(("NODES", "WHY", "ONE OF THEM"), rows, right={0}, indent="  ")

    def _advice(self, change: Change, answer: DoesNotFit) -> str:
        match change:
            case FewerPods(podset, was, to):
                which = "" if was == answer.size else f" in {podset}"
                return f"ask for {counted(to, 'pod')} instead of {was:,}{which}"
            case CoarserLevel(_, None):
                return f'ask for no level: {keys.UNCONSTRAINED[0]}: "true"'
            case CoarserLevel(was, to):
                return f"ask for {to} instead of {was}"
            case LargerShare(podset, level, was, to):
                whose = f" of {podset}" if podset else ""
                return (
                    f"let one {level} domain hold {counted(to, 'pod')}{whose} instead of {was:,}: "
                    f"{keys.MAX_PER_DOMAIN}: {level}={to}"
                )
            case WorkloadEnds(gang, pods):
                kind = "pod group" if gang.kind in ("pod-group", "PodGroup") else gang.kind
                return f"wait until {kind} {gang} ends, which has {counted(pods, 'pod')} here"
            case MoreRoom():
                return self._more_room(change)

    def _more_room(self, change: MoreRoom) -> str:
        each = [f"{amount(change.resource, n, True)} on {name}" for name, n in change.nodes]
        rest = len(each) - _MOST_NODES
        more = f" and {counted(rest, 'more node')}" if rest > 0 else ""
        where = f" in {self._named(change.domain)}" if change.domain else ""
        listed = f"{', '.join(each[:_MOST_NODES])}{more}"
        total = amount(change.resource, change.amount, True)
        if change.beyond == change.amount:  # no end of anything could free it
            return f"add {total} {change.resource}{where}: {listed}"
        added = ""
        if change.beyond:
            added = f"; {amount(change.resource, change.beyond, True)} of it must be added"
        return f"have {total} more {change.resource} free{where}: {listed}{added}"


def _is_idle(change: Change, answer: DoesNotFit) -> bool:
    """Whether a change is told already: that no node has enough of a resource."""
    oversized = {each.resource for each in answer.oversized}
    return isinstance(change, MoreRoom) and change.resource in oversized


def _pods(places: Sequence[Place]) -> list[str]:
    """Return the pods on one node by rank: those that run, then those to come."""
    words: list[str] = []
    for new in (False, True):
        here = [place for place in places if place.new is new]
        names = runs(shown(place.pod) for place in here if place.pod)
        unnamed = sum(not place.pod for place in here)
        names += [f"{unnamed:,} unnamed"] if unnamed else []
        words += names if new else [f"{name} (runs)" for name in names]
    return words


def _in_numbers(reason: Reason) -> str:
    """Return what kube-scheduler is not told, since it may change from call to call."""
    match dict(reason.facts):
        case {"there": there, "needed": needed}:
            return f" ({there:,} there, {needed:,} needed)"
        case {"least": least, "most": most}:
            return f" (from {least:,} to {most:,})"
        case _:
            return ""


def _out_of(fits: int, needed: int) -> str:
    """Return how many of the pods fit; that there is room for more of them says nothing."""
    return f"{min(fits, needed):,} of {needed:,}"


def _whom(podset: str, leader: bool) -> str:
    return f"the leader {podset}" if leader else podset


def why(left_out: LeftOut) -> str:
    """Return what keeps pods off those nodes."""
    match left_out.by:
        case "no-level-label":
            return f"no label {left_out.what}"
        case "not-ready":
            return "not ready"
        case "cordoned":
            return "cordoned"
        case "taint":
            return f"taint {left_out.what}, which is not tolerated"
        case "node-selector":
            return f"not {left_out.what}, as the node selector asks"
        case "node-affinity":
            return "not as the node affinity requires"
        case "excluded":
            return "refused for this gang a short while ago"
        case "too-small":
            return f"too small: less {left_out.what} than a pod asks for"
        case "resource":
            return f"too little {left_out.what} left"
