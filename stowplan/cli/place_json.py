"""The answers of ``stowplan place`` as a JSON document; ``docs/commands.md`` describes it.

Keys are added, never changed or taken away.
"""

from collections.abc import Iterable
from typing import Any

from stowplan.placement.answers.answer import (
    Answer,
    Change,
    CoarserLevel,
    DoesNotFit,
    DomainVerdict,
    FewerPods,
    Fits,
    LargerShare,
    LeftOut,
    LevelVerdict,
    MoreRoom,
    Oversized,
    Place,
    WorkloadEnds,
)
from stowplan.placement.gangs import GangId
from stowplan.placement.jobs.expand import Wanted
from stowplan.placement.jobs.templates import shown

Json = dict[str, Any]

Answered = tuple[Wanted, Answer | None]  # None: it asks for no topology, so nobody here places it


def document(answered: Iterable[Answered]) -> Json:
    """Return the answers as a JSON document."""
    gangs = [_gang_document(each) for each in answered]
    return {
        "fits": all(gang["status"] in ("fits", "asks-nothing") for gang in gangs),
        "gangs": gangs,
    }


def _gang_document(answered: Answered) -> Json:
    wanted, answer = answered
    head: Json = {"gang": _gang(wanted.gang), "title": wanted.title, "queue": wanted.queue or None}
    match answer:
        case None:
            return {**head, "status": "asks-nothing", "size": len(wanted.pods)}
        case Fits():
            return {
                **head,
                "status": "fits",
                "size": answer.size,
                "level": answer.level,
                "domain": list(answer.domain),
                "places": [_place(place) for place in answer.places],
            }
        case DoesNotFit():
            return {
                **head,
                "status": "refused" if answer.refused else "does-not-fit",
                "size": answer.size,
                "reason": {
                    "word": answer.reason.word,
                    "text": answer.reason.text,
                    "facts": dict(answer.reason.facts),
                },
                "levels": [_level(each) for each in answer.levels],
                "domains": [_domain(each) for each in answer.domains],
                "left_out": [_left_out(each) for each in answer.left_out],
                "oversized": [_oversized(each) for each in answer.oversized],
                "changes": [_change(each) for each in answer.changes],
            }


def _gang(gang: GangId) -> Json:
    return {"namespace": gang.namespace, "kind": gang.kind, "name": shown(gang.name)}


def _place(place: Place) -> Json:
    return {
        "pod": shown(place.pod) or None,
        "podset": place.podset,
        "rank": place.rank,
        "node": place.node,
        "domain": list(place.domain),
        "new": place.new,
    }


def _level(verdict: LevelVerdict) -> Json:
    return {
        "level": verdict.level,
        "asked": verdict.asked,
        "domains": verdict.domains,
        "holding": verdict.holding,
        "best": list(verdict.best),
        "fits": verdict.fits,
        "needed": verdict.needed,
    }


def _domain(verdict: DomainVerdict) -> Json:
    return {
        "domain": list(verdict.domain),
        "fits": verdict.fits,
        "needed": verdict.needed,
        "short_of": verdict.short_of or None,
        "podset": verdict.podset or None,
        "leader": verdict.leader,
        "left_out": [_left_out(each) for each in verdict.left_out],
    }


def _left_out(left_out: LeftOut) -> Json:
    return {
        "podset": left_out.podset or None,
        "by": left_out.by,
        "what": left_out.what or None,
        "nodes": left_out.nodes,
        "example": left_out.example,
    }


def _oversized(oversized: Oversized) -> Json:
    return {
        "podset": oversized.podset or None,
        "resource": oversized.resource,
        "asked": oversized.asked,
        "most": oversized.most,
    }


def _change(change: Change) -> Json:
    match change:
        case FewerPods(podset, was, to):
            return {"kind": "fewer-pods", "podset": podset, "was": was, "to": to}
        case CoarserLevel(level, coarser):
            return {"kind": "coarser-level", "was": level, "to": coarser}
        case LargerShare(podset, level, was, to):
            return {"kind": "larger-share", "podset": podset, "level": level, "was": was, "to": to}
        case WorkloadEnds(gang, pods):
            return {"kind": "workload-ends", "gang": _gang(gang), "pods": pods}
        case MoreRoom():
            return {
                "kind": "more-room",
                "resource": change.resource,
                "amount": change.amount,
                "beyond": change.beyond,
                "domain": list(change.domain),
                "nodes": [{"node": name, "amount": each} for name, each in change.nodes],
            }
