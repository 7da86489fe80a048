"""One function per verb: parse, decide, respond."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import structlog
from aiohttp import web

from extender import wire
from extender.authority import Authority
from extender.candidates import Offered
from stowplan.api.errors import InvalidObjectError, WireError
from stowplan.placement import decide, reasons
from stowplan.placement.cluster import Cluster
from stowplan.placement.gangs import GangId, gang_of
from stowplan.placement.rank import rank_nodes
from stowplan.placement.reasons import Reason
from stowplan.placement.records import PodRecord
from stowplan.telemetry import metrics

log = structlog.get_logger()

CLUSTER = web.AppKey("cluster", Cluster)
STARTED = web.AppKey("started", asyncio.Event)  # kernels are compiled
WARNED = web.AppKey("warned", list[str])  # what was warned of already: once a process is enough
DEADLINE_SECONDS = web.AppKey("deadline_seconds", float)

AUTHORITY = web.AppKey("authority", Authority)


class Answer(NamedTuple):
    """What goes back.

    Attributes:
        outcome: for metrics.
        body: of the response.
        leaves: whoever asked should ask another replica: the connection is closed.
    """

    outcome: metrics.Outcome
    body: bytes
    leaves: bool = False


Handler = Callable[[web.Request], Awaitable[web.Response]]
Decider = Callable[[web.Application, bytes], Awaitable[Answer]]


def answers(verb: metrics.Verb, trouble: Callable[[str], bytes]) -> Callable[[Decider], Handler]:
    """Turn a function from body to answer into a handler that always answers 200 (facts E2, E4).

    Args:
        verb: for metrics and logs.
        trouble: makes the answer that tells what kept us from answering.
    """

    def decorate(decider: Decider) -> Handler:
        async def handler(request: web.Request) -> web.Response:
            began = time.perf_counter()
            try:
                async with asyncio.timeout(request.app[DEADLINE_SECONDS]):
                    body = await _read(request)
                metrics.child(metrics.REQUEST_BODY_BYTES, verb).observe(len(body))
                began = time.perf_counter()
                answer = await decider(request.app, body)
            except Exception as error:  # the outermost loop of one request
                answer = Answer("failed", trouble(_trouble(verb, error)))
            spent = time.perf_counter() - began
            metrics.child(metrics.DECISION_DURATION_SECONDS, verb, answer.outcome).observe(spent)
            metrics.child(metrics.DECISIONS_TOTAL, verb, answer.outcome).inc()
            response = web.Response(body=answer.body, content_type="application/json")
            if answer.leaves:
                response.force_close()
            return response

        return handler

    return decorate


@answers("filter", trouble=wire.filter_error)
async def filter_nodes(app: web.Application, body: bytes) -> Answer:
    """Keep the one candidate on which the pod's whole gang lands in one domain."""
    args = _parse(app, body)
    if not args.asks():  # such a pod never gets an error, whatever state we are in
        return Answer("untouched", wire.filter_result(decide.Untouched(), args.offered))
    pod = args.pod()
    if not decide.needs_decision(pod):
        return Answer("untouched", wire.filter_result(decide.Untouched(), args.offered))
    if not app[STARTED].is_set():
        return _unable(reasons.STARTING)
    if (problem := app[AUTHORITY].unable()) is not None:
        node = app[AUTHORITY].promised(pod)
        if node is None or node not in args.offered:
            return _unable(problem)
        return Answer("placed", wire.filter_node(node, args.offered))
    return await _decided(app, pod, args.offered)


async def _decided(app: web.Application, pod: PodRecord, offered: Offered) -> Answer:
    """Decide, and tell it once it is written down."""
    cluster, gang = app[CLUSTER], gang_of(pod)
    # The first call of a gang decides for all its pods, so those that call meanwhile wait, too.
    if (problem := await _written(app, gang)) is not None:
        return _unable(problem)
    verdict = decide.filter_nodes(cluster, pod, offered, time.monotonic())
    if _is_news(verdict) and decide.looks_sampled(len(offered), len(cluster.state.nodes)):
        metrics.LIST_LOOKS_SAMPLED_TOTAL.inc()
    _tell(pod.key, verdict)
    app[AUTHORITY].decided(pod, verdict)
    if (problem := await _written(app, gang)) is not None:
        return _unable(problem)
    return Answer(verdict.outcome, wire.filter_result(verdict, offered))


async def _written(app: web.Application, gang: GangId) -> Reason | None:
    """Wait until what was decided is written down, as long as the scheduler's patience allows."""
    authority = app[AUTHORITY]
    if not authority.unwritten(gang):
        return None
    try:
        async with asyncio.timeout(app[DEADLINE_SECONDS]):
            return await authority.written_down(gang)
    except TimeoutError:
        return reasons.NOT_WRITTEN


def _unable(problem: Reason) -> Answer:
    """Answer that we cannot answer now; another replica may, or we ourselves a little later."""
    metrics.child(metrics.REFUSALS_TOTAL, problem.word).inc()
    return Answer("failed", wire.filter_error(problem), leaves=True)


def _is_news(verdict: decide.Verdict) -> bool:
    """Whether something was decided; counting names would cost an answer from memory too much."""
    match verdict:
        case decide.Placed():
            return bool(verdict.committed or verdict.left)
        case decide.Refused():
            return verdict.judged
        case decide.Untouched():
            return False


async def _read(request: web.Request) -> bytes:
    """Return the body: joined once, where ``request.read`` copies as it grows (a third faster)."""
    limit = request.client_max_size
    chunks = []
    size = 0
    async for chunk in request.content.iter_any():
        size += len(chunk)
        if size > limit:
            raise web.HTTPRequestEntityTooLarge(max_size=limit, actual_size=size)
        chunks.append(chunk)
    return b"".join(chunks)


def _no_scores(problem: str) -> bytes:
    """Return no scores: a HostPriorityList has no place for an error (E30)."""
    return wire.host_priorities([])


@answers("prioritize", trouble=_no_scores)
async def prioritize_nodes(app: web.Application, body: bytes) -> Answer:
    """Score the candidates so that pods pack and whole domains stay free."""
    args = _parse(app, body)
    if not app[STARTED].is_set():
        return Answer("failed", wire.host_priorities([]))
    ranking = rank_nodes(app[CLUSTER], args.pod(), args.offered.names())
    return Answer("ranked", wire.host_priorities(ranking))


def _parse(app: web.Application, body: bytes) -> wire.ExtenderArgs:
    args = wire.ExtenderArgs.parse(body)
    if args.offered.whole_nodes:
        metrics.NODE_OBJECTS_RECEIVED_TOTAL.inc()
        if not app[WARNED]:
            app[WARNED].append("nodes")
            log.warning("whole nodes received", remedy="set nodeCacheCapable: true")
    return args


def _trouble(verb: metrics.Verb, error: Exception) -> str:
    """Return what to tell the peer, and count or log what it is no business of."""
    match error:
        case WireError() | InvalidObjectError():
            metrics.child(metrics.WIRE_ERRORS_TOTAL, verb).inc()
            return "stowplan: " + "; ".join(map(str.strip, str(error).splitlines()))
        case web.HTTPRequestEntityTooLarge():
            metrics.child(metrics.WIRE_ERRORS_TOTAL, verb).inc()
            return "stowplan: the body is larger than body_limit_bytes; raise it"
        case ConnectionError() | web.RequestPayloadError():
            metrics.child(metrics.WIRE_ERRORS_TOTAL, verb).inc()
            return "stowplan: the body broke off, or its encoding is broken"
        case TimeoutError():
            return "stowplan: the body did not arrive within deadline_seconds"
        case _:
            log.exception("answer failed", verb=verb, exc_info=error)
            return "stowplan: internal error, see our log"


def _tell(pod: str, verdict: decide.Verdict) -> None:
    """Count refusals, and log what was decided; an answer from memory is no decision."""
    match verdict:
        case decide.Placed(committed=committed) if committed:
            log.info(
                "gang placed",
                pod=pod,
                gang=str(verdict.gang),
                seats=committed,
                topology_level=verdict.level,
                domain="/".join(verdict.domain),
                node=verdict.node,
            )
        case decide.Placed(left=left) if left:
            log.info(
                "seat moved", pod=pod, gang=str(verdict.gang), node=verdict.node, left_node=left
            )
        case decide.Refused(reason=reason):
            metrics.child(metrics.REFUSALS_TOTAL, reason.word).inc()
            if verdict.judged:
                log.info(
                    "gang refused",
                    pod=pod,
                    gang=str(verdict.gang),
                    reason=str(reason),
                    **dict(reason.facts),
                )
        case _:
            pass
