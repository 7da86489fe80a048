"""What settings must obey beyond their types: one table, all of it checked every time."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from stowplan.api.errors import Violation
from stowplan.cli.settings import Settings
from stowplan.serving.address import Address
from stowplan.topology.levels import HOSTNAME, MOST_LEVELS, label_key_problem

WRITE_CLUSTER = (
    "run: kubectl get nodes,pods,jobs,replicasets,statefulsets -A -o json > cluster.json, "
    "then add --from-file cluster.json"
)

Spelled = Callable[[str], str]  # a key -> what its author typed: --levels, STOWPLAN_LEVELS, ...


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        name: stable; tests refer to it.
        keys: the settings that it reads; it is left out while one of them is broken by itself.
        check: yields what is broken.
        accepts: an example that keeps it.
        refuses: an example that breaks it.
    """

    name: str
    keys: tuple[str, ...]
    check: Callable[[Settings, Spelled], Iterator[Violation]]
    accepts: Settings
    refuses: Settings


def _levels_are_label_keys(settings: Settings, spelled: Spelled) -> Iterator[Violation]:
    for i, key in enumerate(settings.levels):
        if problem := label_key_problem(key):
            remedy = "write a key that nodes carry, such as topology.kubernetes.io/zone"
            yield Violation(f"{spelled('levels')}[{i}]", "invalid", key, problem, remedy)


def _levels_once(settings: Settings, spelled: Spelled) -> Iterator[Violation]:
    for i, key in enumerate(settings.levels):
        first = settings.levels.index(key)
        if first < i:
            at = spelled("levels")
            problem = f"must be listed once; first listed at {at}[{first}]"
            yield Violation(f"{at}[{i}]", "duplicate", key, problem, "remove this entry")


def _host_is_last(settings: Settings, spelled: Spelled) -> Iterator[Violation]:
    for i, key in enumerate(settings.levels[:-1]):
        if key == HOSTNAME:
            problem = "must be the last level: nothing is finer than a host"
            remedy = "remove it; it is implied"
            yield Violation(f"{spelled('levels')}[{i}]", "invalid", key, problem, remedy)


def _levels_are_few(settings: Settings, spelled: Spelled) -> Iterator[Violation]:
    implied = settings.levels[-1:] != (HOSTNAME,)
    count = len(settings.levels) + implied
    if count > MOST_LEVELS:
        problem = f"must be at most {MOST_LEVELS} levels, the host level included"
        yield Violation(spelled("levels"), "invalid", count, problem, "leave some out")


def _certificate_and_key(settings: Settings, spelled: Spelled) -> Iterator[Violation]:
    for given, absent in (("tls_certificate", "tls_key"), ("tls_key", "tls_certificate")):
        if getattr(settings, given) and not getattr(settings, absent):
            problem = f"must be set together with {spelled(given)}"
            yield Violation(spelled(absent), "required", None, problem, "set both or neither")


def _client_ca_needs_tls(settings: Settings, spelled: Spelled) -> Iterator[Violation]:
    if settings.client_ca and not (settings.tls_certificate or settings.tls_key):
        problem = "must be set: client certificates exist only over TLS"
        remedy = f"set it and {spelled('tls_key')}, or remove {spelled('client_ca')}"
        yield Violation(spelled("tls_certificate"), "required", None, problem, remedy)


def _client_ca_needs_probes_apart(settings: Settings, spelled: Spelled) -> Iterator[Violation]:
    if settings.client_ca and settings.probe_listen is None:
        problem = f"must be set with {spelled('client_ca')}: probes have no client certificate"
        remedy = "set it to an address of its own, such as 0.0.0.0:8889"
        yield Violation(spelled("probe_listen"), "required", None, problem, remedy)


def _addresses_differ(settings: Settings, spelled: Spelled) -> Iterator[Violation]:
    if settings.probe_listen == settings.listen and settings.listen.port != 0:
        problem = f"must differ from {spelled('listen')}"
        remedy = "choose another port, or remove it to serve both on one"
        value = str(settings.probe_listen)
        yield Violation(spelled("probe_listen"), "duplicate", value, problem, remedy)


def _one_cluster(settings: Settings, spelled: Spelled) -> Iterator[Violation]:
    if settings.from_file and settings.kubeconfig:
        problem = f"must not be set together with {spelled('from_file')}: it is another cluster"
        value = str(settings.kubeconfig[0])
        yield Violation(spelled("kubeconfig"), "forbidden", value, problem, "remove one of them")


def _lease_times_fall(settings: Settings, spelled: Spelled) -> Iterator[Violation]:
    names = ("lease_seconds", "lease_renew_seconds", "lease_retry_seconds")
    for longer, shorter in pairwise(names):
        least, value = getattr(settings, longer), getattr(settings, shorter)
        if value >= least:
            problem = f"must be less than {spelled(longer)}, which is {least:g}"
            remedy = "lower it: its holder must stop before others may begin"
            yield Violation(spelled(shorter), "invalid", value, problem, remedy)


def _context_needs_kubeconfig(settings: Settings, spelled: Spelled) -> Iterator[Violation]:
    if settings.context and not settings.kubeconfig:
        problem = f"must be set: {spelled('context')} is a part of it"
        remedy = "name the file, such as ~/.kube/config"
        yield Violation(spelled("kubeconfig"), "required", None, problem, remedy)


def _cluster_given(settings: Settings, spelled: Spelled) -> Iterator[Violation]:
    if not (settings.from_file or settings.kubeconfig or in_a_pod()):
        problem = "must name a cluster: files of Kubernetes objects, or use "
        problem += spelled("kubeconfig")
        yield Violation(spelled("from_file"), "required", None, problem, WRITE_CLUSTER)


def _server_given(settings: Settings, spelled: Spelled) -> Iterator[Violation]:
    if not (settings.kubeconfig or in_a_pod()):
        problem = "must name the kubeconfig of a live cluster"
        remedy = "name the file, such as ~/.kube/config"
        yield Violation(spelled("kubeconfig"), "required", None, problem, remedy)


def in_a_pod() -> bool:
    """Whether Kubernetes told this process where its kube-apiserver is."""
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST"))


_PAIR = {"tls_certificate": Path("tls.crt"), "tls_key": Path("tls.key")}
_KUBECONFIG = Path("kubeconfig")
_APART = Address("0.0.0.0", 8889)

RULES = (
    Rule(
        name="levels-are-label-keys",
        keys=("levels",),
        check=_levels_are_label_keys,
        accepts=Settings(levels=("topology.kubernetes.io/zone", "rack")),
        refuses=Settings(levels=("zone", "a rack")),
    ),
    Rule(
        name="levels-once",
        keys=("levels",),
        check=_levels_once,
        accepts=Settings(levels=("zone", "rack")),
        refuses=Settings(levels=("zone", "rack", "zone")),
    ),
    Rule(
        name="host-is-last",
        keys=("levels",),
        check=_host_is_last,
        accepts=Settings(levels=("rack", HOSTNAME)),
        refuses=Settings(levels=(HOSTNAME, "rack")),
    ),
    Rule(
        name="levels-are-few",
        keys=("levels",),
        check=_levels_are_few,
        accepts=Settings(levels=tuple(f"level-{i}" for i in range(MOST_LEVELS - 1))),
        refuses=Settings(levels=tuple(f"level-{i}" for i in range(MOST_LEVELS))),
    ),
    Rule(
        name="certificate-and-key",
        keys=("tls_certificate", "tls_key"),
        check=_certificate_and_key,
        accepts=Settings(**_PAIR),
        refuses=Settings(tls_key=Path("tls.key")),
    ),
    Rule(
        name="client-ca-needs-tls",
        keys=("client_ca", "tls_certificate", "tls_key"),
        check=_client_ca_needs_tls,
        accepts=Settings(client_ca=Path("ca.crt"), probe_listen=_APART, **_PAIR),
        refuses=Settings(client_ca=Path("ca.crt"), probe_listen=_APART),
    ),
    Rule(
        name="client-ca-needs-probes-apart",
        keys=("client_ca", "probe_listen"),
        check=_client_ca_needs_probes_apart,
        accepts=Settings(client_ca=Path("ca.crt"), probe_listen=_APART, **_PAIR),
        refuses=Settings(client_ca=Path("ca.crt"), **_PAIR),
    ),
    Rule(
        name="addresses-differ",
        keys=("listen", "probe_listen"),
        check=_addresses_differ,
        accepts=Settings(listen=Address("::", 8888), probe_listen=_APART),
        refuses=Settings(listen=_APART, probe_listen=_APART),
    ),
    Rule(
        name="one-cluster",
        keys=("from_file", "kubeconfig"),
        check=_one_cluster,
        accepts=Settings(kubeconfig=(_KUBECONFIG,)),
        refuses=Settings(from_file=(Path("cluster.json"),), kubeconfig=(_KUBECONFIG,)),
    ),
    Rule(
        name="lease-times-fall",
        keys=("lease_seconds", "lease_renew_seconds", "lease_retry_seconds"),
        check=_lease_times_fall,
        accepts=Settings(lease_seconds=2, lease_renew_seconds=1.5, lease_retry_seconds=0.5),
        refuses=Settings(lease_seconds=10, lease_renew_seconds=10),
    ),
    Rule(
        name="context-needs-kubeconfig",
        keys=("context", "kubeconfig"),
        check=_context_needs_kubeconfig,
        accepts=Settings(context="production", kubeconfig=(_KUBECONFIG,)),
        refuses=Settings(context="production"),
    ),
)

LIVE_RULES = (
    *RULES,
    Rule(
        name="server-given",
        keys=("kubeconfig",),
        check=_server_given,
        accepts=Settings(kubeconfig=(_KUBECONFIG,)),
        refuses=Settings(),
    ),
)

# Whoever decides needs a cluster; `stowplan config` also answers without one.
CLUSTER_RULES = (
    *RULES,
    Rule(
        name="cluster-given",
        keys=("from_file", "kubeconfig"),
        check=_cluster_given,
        accepts=Settings(from_file=(Path("cluster.json"),)),
        refuses=Settings(),
    ),
)
