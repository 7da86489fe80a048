"""``stowplan place``: where a job would go before it is submitted, or why nowhere."""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import orjson

from stowplan.api.errors import InvalidObjectError, Violation
from stowplan.api.objects import Json
from stowplan.cli import flags
from stowplan.cli.cluster import carried_labels, offered_resources, read_cluster
from stowplan.cli.output import Screen, show
from stowplan.cli.place_json import Answered, document
from stowplan.cli.place_text import MOST_DOMAINS, Text
from stowplan.cli.rules import CLUSTER_RULES
from stowplan.cli.settings import Settings
from stowplan.kube import reading
from stowplan.kube.documents import documents
from stowplan.kube.objects import Collected
from stowplan.placement.answers.answer import Answer, DoesNotFit
from stowplan.placement.answers.ask import ask
from stowplan.placement.cluster import Cluster
from stowplan.placement.jobs.already_there import whole_gang
from stowplan.placement.jobs.expand import Jobs, Wanted, expand
from stowplan.placement.reasons import Reason

SUMMARY = """\
Tell where a job would go before it is submitted, or why nowhere and what would change that.

The job is a file of Kubernetes objects: Pods, Jobs, JobSets, LeaderWorkerSets, Deployments,
ReplicaSets, StatefulSets or ModelDeployments. All pods that they would make are placed, gang by
gang in the order of the file, each beside those before it. Pods of the job that run in the cluster
already keep their nodes and count; those that only wait are replaced by the file.

Exit status: 0 everything fits, 1 something does not, 2 the input cannot be used: a file is broken,
or a gang asks for what no room could give, such as a level that there is not.

examples:
  stowplan place --from-file cluster.json --levels example.com/rack --job job.yaml
  helm template ./chart | stowplan place --from-file cluster.json --levels example.com/rack --job -
"""

KEYS = ("from_file", "kubeconfig", "context", "levels", "packing", "rules", "node_affinity")
_STDIN = "-"
_NOW = 0.0  # nothing was refused before, so no time matters


def run(argv: Sequence[str]) -> int:
    """Print the answers; return 0 when all gangs fit, 1 when one does not, 2 if one never could."""
    in_force, given = flags.read(
        "stowplan place",
        SUMMARY,
        argv,
        CLUSTER_RULES,
        _add_flags,
        _judge_flags,
        KEYS,
        "--from-file PATH... --levels KEY,KEY,... --job FILE... [flags]",
    )
    settings = in_force.settings
    job = _job_objects(given.job, given.namespace)
    cluster, existing = read_cluster(in_force)
    jobs = expand(job, existing, ", ".join(given.job))
    told = None if given.output == "json" else MOST_DOMAINS
    answered = [(wanted, _answer(cluster, jobs, wanted, told)) for wanted in jobs.gangs]
    _require_a_question(answered, cluster.policy.levels.keys)
    show(_written(answered, settings, cluster, given.output))
    misfits = [answer for _, answer in answered if isinstance(answer, DoesNotFit)]
    return 2 if any(answer.refused for answer in misfits) else int(bool(misfits))


def _add_flags(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--job",
        nargs="+",
        action="extend",
        metavar="FILE",
        help="Files or folders of the job, YAML or JSON; - reads standard input. Required.",
    )
    parser.add_argument(
        "-n",
        "--namespace",
        default="default",
        help="Namespace of objects that name none, default default.",
    )
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="How to answer."
    )


def _judge_flags(given: Namespace) -> Iterator[Violation]:
    if not given.job:
        problem = "must name the file of the job"
        yield Violation("--job", "required", None, problem, "add --job FILE, or --job - for stdin")


def _answer(cluster: Cluster, jobs: Jobs, wanted: Wanted, domains: int | None) -> Answer | None:
    """Return where a gang goes, and keep its seats, so that the next is placed beside it.

    Of a gang that does not fit so many ``domains`` are told of; None for all.
    """
    if not wanted.asks:
        return None
    gang = whole_gang(cluster, jobs, wanted, _NOW)
    if isinstance(gang, Reason):
        return DoesNotFit(wanted.gang, len(wanted.pods), gang)
    together = [each.gang for each in jobs.gangs]  # none of them has started, or would end alone
    return ask(cluster, gang, now=_NOW, domains=domains, take=True, stay=together)


def _require_a_question(answered: Sequence[Answered], levels: Sequence[str]) -> None:
    """Refuse a job of which no pod asks for topology: most likely a line is missing."""
    if all(answer is None for _, answer in answered):
        problem = "must ask for topology; without that kube-scheduler places pods one by one"
        remedy = (
            f"annotate its pods with stowplan.dev/required-topology and one of {', '.join(levels)},"
            ' or with stowplan.dev/unconstrained-topology: "true"'
        )
        broken = (
            Violation(wanted.title, "required", None, problem, remedy) for wanted, _ in answered
        )
        raise InvalidObjectError("the job", broken)


def _written(
    answered: Sequence[Answered], settings: Settings, cluster: Cluster, output: str
) -> str:
    if output == "json":
        return orjson.dumps(document(answered), option=orjson.OPT_INDENT_2).decode()
    screen = Screen.of(sys.stdout, os.environ)
    nodes = cluster.state.nodes.values()
    labels, resources = carried_labels(nodes), offered_resources(nodes)
    keys = cluster.policy.levels.keys
    return Text(screen, keys, labels, resources, settings.rules == "kueue").of(answered)


def _job_objects(paths: Sequence[str], namespace: str) -> list[Json]:
    """Return the objects of the job's files, each with a name and a namespace."""
    collected = Collected()
    unnamed = count()
    for file, content in _contents(dict.fromkeys(paths), collected.violations):
        known = len(collected.objects)
        try:
            found = documents(file, content)
            collected.add(file, [_named(each, namespace, unnamed) for each in found])
        except InvalidObjectError as refused:
            collected.violations += refused.violations
            continue
        if len(collected.objects) == known and not collected.violations:
            problem = "must hold an object"
            collected.violations.append(Violation(file, "required", None, problem, "write the job"))
    if collected.violations:
        raise InvalidObjectError("the job", collected.violations)
    return [found.values() for found in collected.objects]


def _contents(paths: Iterable[str], broken: list[Violation]) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each file; what cannot be read is added to ``broken``."""
    for path in paths:
        if path == _STDIN:
            if sys.stdin.isatty():
                print("reading the job from the terminal; end it with Ctrl-D", file=sys.stderr)
            content = sys.stdin.buffer.read()
            yield "stdin.json" if content.lstrip()[:1] in (b"{", b"[") else "stdin.yaml", content
        else:
            version = reading.read([Path(path)])
            broken += version.violations
            yield from version.contents


def _named(found: Any, namespace: str, unnamed: Iterator[int]) -> Any:
    """Return an object, or a list of them, with what kube-apiserver would add for its author.

    That is the namespace, and a name where only the beginning of one is given.
    """
    if not isinstance(found, dict):
        return found
    if isinstance(items := found.get("items"), list):
        return {**found, "items": [_named(item, namespace, unnamed) for item in items]}
    if not isinstance(meta := found.get("metadata"), dict):
        return found
    added = {} if meta.get("namespace") else {"namespace": namespace}
    if "name" not in meta and isinstance(begins := meta.get("generateName"), str):
        added["name"] = f"{begins}*{next(unnamed)}"
    return {**found, "metadata": {**meta, **added}}
