"""``stowplan serve``: everything that answers, until SIGTERM."""

import gc
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING

from aiohttp import web

from stowplan.api.errors import InvalidObjectError
from stowplan.api.objects import Object
from stowplan.cli import flags
from stowplan.cli.rules import CLUSTER_RULES
from stowplan.cli.settings import Settings
from stowplan.kube.files import FileSource
from stowplan.serving.listener import Listener
from stowplan.serving.probes import add_probes, probe_application
from stowplan.serving.readiness import Readiness
from stowplan.serving.run import Background, serve
from stowplan.serving.run import run as run_loop
from stowplan.serving.tls import ReloadingCertificate
from stowplan.telemetry import logs, metrics

if TYPE_CHECKING:
    from stowplan.placement.cluster import Cluster

SUMMARY = "Answer kube-scheduler's extender calls; probes and metrics beside them."


def run(argv: Sequence[str]) -> int:
    """Serve until a signal, and return 0."""
    # As the first process of a container, a signal that nobody handles would be lost.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    in_force, _ = flags.read("stowplan serve", SUMMARY, argv, CLUSTER_RULES)
    settings = in_force.settings
    logs.configure(settings.log_format, settings.log_level)
    certificate = _certificate(settings)
    readiness = Readiness()
    application, background = _extender(settings, readiness)
    main = serve(
        _listeners(settings, readiness, application, certificate),
        readiness,
        settings.drain_seconds,
        background=background,
        address_file=settings.address_file,
    )
    run_loop(main)
    return 0


def _extender(
    settings: Settings, readiness: Readiness
) -> tuple[web.Application, Sequence[Background]]:
    """Return the extender over its cluster, and what runs beside it."""
    # Late: it imports the kernels, and a wrong flag should be reported before that.
    from stowplan.cli.policy import policy_of
    from stowplan.placement.cluster import Cluster

    cluster = Cluster(policy_of(settings))
    make = _over_files if settings.from_file else _over_server
    return make(settings, readiness, cluster)


def _over_files(
    settings: Settings, readiness: Readiness, cluster: "Cluster"
) -> tuple[web.Application, Sequence[Background]]:
    from extender import app as extender
    from stowplan.placement.cluster import Objects

    source = FileSource(settings.from_file)
    cluster.replace(Objects.of(source.load()))
    extender.tell_cluster(cluster)
    metrics.mark_state_loaded()
    _keep_what_is_loaded()
    application = extender.build_application(
        cluster,
        body_limit_bytes=settings.body_limit_bytes,
        deadline_seconds=settings.deadline_seconds,
    )
    readiness.not_ready(extender.KERNELS, "being compiled")

    async def take_over(objects: list[Object]) -> None:
        await extender.replace_cluster(cluster, objects)
        metrics.mark_state_loaded()
        metrics.STATE_REFUSED.set(0)
        metrics.child(metrics.STATE_RELOADS_TOTAL, "ok").inc()

    return application, (
        lambda: extender.start_kernels(application, readiness),
        lambda: extender.keep_ledger(cluster),
        lambda: extender.keep_metrics(cluster),
        lambda: source.watch(settings.reload_seconds, take_over, _count_refusal),
    )


def _over_server(
    settings: Settings, readiness: Readiness, cluster: "Cluster"
) -> tuple[web.Application, Sequence[Background]]:
    from extender import app as extender
    from stowplan.cli.access import access_of
    from stowplan.controllers.leading import Leading
    from stowplan.kube.client import Kube
    from stowplan.kube.lease import Terms

    terms = Terms(
        settings.lease_seconds, settings.lease_renew_seconds, settings.lease_retry_seconds
    )
    leading = Leading.of(
        Kube(access_of(settings), timeout_seconds=settings.lease_renew_seconds / 2),
        cluster,
        (settings.lease_namespace, settings.lease_name),
        terms,
        settings.pod_name,
        settings.stale_after_seconds,
    )
    application = extender.build_application(
        cluster,
        body_limit_bytes=settings.body_limit_bytes,
        deadline_seconds=settings.deadline_seconds,
        authority=leading.leader,
    )
    readiness.not_ready(extender.KERNELS, "being compiled")
    readiness.not_ready("cluster", "being listed")

    async def report_synced() -> None:
        await leading.live.synced()
        extender.tell_cluster(cluster)
        _keep_what_is_loaded()
        readiness.ready("cluster")

    return application, (
        lambda: extender.start_kernels(application, readiness),
        lambda: extender.keep_metrics(cluster),
        leading.run,
        report_synced,
    )


def _keep_what_is_loaded() -> None:
    """What was loaded stays; collecting over it would stall the loop longer than a decision."""
    gc.collect()
    gc.freeze()


def _count_refusal(_: InvalidObjectError) -> None:
    metrics.STATE_REFUSED.set(1)
    metrics.child(metrics.STATE_RELOADS_TOTAL, "refused").inc()


def _listeners(
    settings: Settings,
    readiness: Readiness,
    application: web.Application,
    certificate: ReloadingCertificate | None,
) -> list[Listener]:
    keep_alive = settings.keep_alive_seconds
    extender = Listener("extender", application, settings.listen, certificate, keep_alive)
    if settings.probe_listen is None:
        add_probes(application, readiness)
        return [extender]
    return [extender, Listener("probes", probe_application(readiness), settings.probe_listen)]


def _certificate(settings: Settings) -> ReloadingCertificate | None:
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    return ReloadingCertificate(settings.tls_certificate, settings.tls_key, settings.client_ca)
