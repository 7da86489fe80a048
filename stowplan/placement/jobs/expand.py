"""The objects of a job file -> the gangs of pods that their controllers would make.

Nothing of it need exist. How large a gang is comes from the file: an owner in it states the count,
and all pods of the count are made at once. Reading goes on past a defect, so that all are told.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from stowplan.api.errors import InvalidObjectError, Violation
from stowplan.api.models import core, jobs
from stowplan.api.models.wire import read
from stowplan.api.objects import Json, Object
from stowplan.placement import keys
from stowplan.placement.gangs import GangId, gang_of
from stowplan.placement.jobs import model_deployments
from stowplan.placement.jobs.controllers import MAKERS, TEMPLATES, replica_set_name, replicas_of
from stowplan.placement.jobs.templates import Defects, shown
from stowplan.placement.records import OwnerRecord, PodRecord

# They come with jobs and make no pods.
_BESIDE_JOBS = frozenset(
    (
        ("", "ConfigMap"),
        ("", "Namespace"),
        ("", "PersistentVolumeClaim"),
        ("", "Secret"),
        ("", "Service"),
        ("", "ServiceAccount"),
        ("networking.k8s.io", "NetworkPolicy"),
        ("policy", "PodDisruptionBudget"),
        (keys.API_GROUPS["PodGroup"], "PodGroup"),
        (model_deployments.GROUP, "InstanceType"),
    )
)

# Kubernetes serves these groups' kinds in one version; add-ons are still changing theirs.
_ONLY_V1 = frozenset(("", "apps", "batch"))


@dataclass(frozen=True, slots=True)
class Wanted:
    """A gang that a job file asks for.

    Attributes:
        gang: which one; without a uid, for nothing of it need exist.
        title: names it by the object that makes it: ``Job default/train``.
        pods: all of them.
        queue: Kueue's queue that it is sent to; empty for none.
    """

    gang: GangId
    title: str
    pods: tuple[PodRecord, ...]
    queue: str

    @property
    def asks(self) -> bool:
        """Whether any of its pods asks for topology; else kube-scheduler places it alone."""
        return any(pod.asks for pod in self.pods)


@dataclass(frozen=True, slots=True)
class Jobs:
    """What a job file asks for.

    Attributes:
        gangs: in the order of the file.
        owners: what states their sizes.
        assumed: what states them unless the cluster knows better.
    """

    gangs: tuple[Wanted, ...]
    owners: tuple[OwnerRecord, ...]
    assumed: tuple[OwnerRecord, ...]


def expand(
    objects: Sequence[Json], cluster: Iterable[Object | Json] = (), source: str = "(all objects)"
) -> Jobs:
    """Return what the controllers of ``objects`` would make.

    Args:
        objects: of the job file, each with kind, apiVersion and name.
        cluster: objects that exist; those are looked up that a job refers to.
        source: where the objects are from, for a person to find them.

    Raises:
        InvalidObjectError: with all that is wrong, in every object.
    """
    types = model_deployments.types_among((*objects, *cluster)) if _serves(objects) else {}
    batches: list[_Batch] = []
    owners: list[OwnerRecord] = []
    broken: list[Violation] = []
    for obj in objects:
        defects = Defects(_what(obj))
        with defects.gathered():
            batches += _made_by(obj, types, defects)
            owners += _owner_of(obj)
        broken += defects.found
    gangs = _grouped(batches)
    if not gangs and not broken:
        problem = f"must hold an object that makes pods: {_known_kinds()}"
        broken.append(Violation(source, "required", None, problem, "add one"))
    if broken:
        raise InvalidObjectError("the job", broken)
    return Jobs(tuple(gangs), tuple(owners), tuple(_unstated(gangs)))


@dataclass(frozen=True, slots=True)
class _Batch:
    """Pods of one gang that one object makes."""

    title: str
    pods: Sequence[PodRecord]
    queue: str


def _grouped(batches: Iterable[_Batch]) -> list[Wanted]:
    """Return the gangs; several objects may make pods of one, by a group label."""
    found: dict[GangId, list[_Batch]] = {}
    for batch in batches:
        if batch.pods:
            found.setdefault(gang_of(batch.pods[0]), []).append(batch)
    return [
        Wanted(
            gang=gang,
            title=of[0].title if len(of) == 1 else f"pod group {gang}",
            pods=tuple(pod for batch in of for pod in batch.pods),
            queue=next((batch.queue for batch in of if batch.queue), ""),
        )
        for gang, of in found.items()
    ]


def _unstated(gangs: Iterable[Wanted]) -> Iterator[OwnerRecord]:
    """Yield each PodGroup that pods name: as large as they are many, where nothing else says."""
    for gang, pods in ((each.gang, each.pods) for each in gangs if each.gang.kind == "PodGroup"):
        spec = core.OwnerSpec(min_member=len(pods))
        meta = core.Metadata(name=gang.name, namespace=gang.namespace)
        yield OwnerRecord.of(gang.kind, core.Owner(metadata=meta, spec=spec))


def _made_by(
    obj: Json, types: Mapping[str, jobs.InstanceType], defects: Defects
) -> Iterable[_Batch]:
    kind = (_group(obj), obj["kind"])
    queue = _queue(obj)
    if kind == (model_deployments.GROUP, "ModelDeployment"):
        deployment = read(jobs.ModelDeployment, obj, defects.what)
        groups = model_deployments.groups_of(deployment, _namespace(obj), types, defects)
        return [_Batch(f"{defects.what}, {part}", pods, _queue_of(pods)) for part, pods in groups]
    served = "/".join(filter(None, (kind[0], "v1")))
    if kind[0] in _ONLY_V1 and obj["apiVersion"] != served:
        problem = f"must be {served}: no cluster serves another version any more"
        defects.note("apiVersion", "invalid", obj["apiVersion"], problem, f"write {served}")
        return ()
    if kind in MAKERS:
        made = MAKERS[kind](obj, _namespace(obj), defects)
        if obj["kind"] in TEMPLATES and not any(pod.asks for _, pods in made for pod in pods):
            _note_misplaced(obj, defects)
        return [
            _Batch(f"{defects.what}{part}", pods, queue or _queue_of(pods)) for part, pods in made
        ]
    if kind not in _BESIDE_JOBS:
        problem = f"must be a kind whose pods are known: {_known_kinds()}"
        given, remedy = f"{obj['apiVersion']} {obj['kind']}", "write the pods it makes in its place"
        defects.note("kind", "invalid", given, problem, remedy)
    return ()


def _note_misplaced(obj: Json, defects: Defects) -> None:
    """Note a request on the object itself, where no pod has it, when no pod of it asks."""
    annotations = obj["metadata"].get("annotations")
    for key in annotations if isinstance(annotations, Mapping) else ():
        if key in keys.REQUEST_KEYS:
            at = TEMPLATES[obj["kind"]]
            problem = "must stand on the pods' template: nobody copies it there"
            remedy = f"move it to {at}.metadata.annotations"
            defects.note(f"metadata.annotations[{key}]", "forbidden", None, problem, remedy)


def _known_kinds() -> str:
    kinds = [*(kind for _, kind in MAKERS), "ModelDeployment"]
    return f"{', '.join(kinds)} (each of its own API group)"


def _owner_of(obj: Json) -> Iterator[OwnerRecord]:
    """Yield what states the size of the object's gang: what is asked, not how far it has come."""
    kind, group = obj["kind"], _group(obj)
    if (group, kind) == ("apps", "Deployment"):
        record = OwnerRecord.of(kind, read(core.Owner, obj, _what(obj)))
        desired = str(replicas_of(record.spec.replicas))
        name = replica_set_name(obj)
        yield replace(record, kind="ReplicaSet", name=name, uid="", desired=desired)
    elif group == keys.API_GROUPS.get(kind):
        record = OwnerRecord.of(kind, read(core.Owner, obj, _what(obj)))
        yield replace(record, uid="", status=core.OwnerStatus())


def _serves(objects: Iterable[Json]) -> bool:
    return any(obj["kind"] == "ModelDeployment" for obj in objects)


def _queue(obj: Json) -> str:
    """Return the queue that stands on the object itself; its pods may carry it, too."""
    labels = obj["metadata"].get("labels")
    value = labels.get(keys.HELD_LABELS[0]) if isinstance(labels, Mapping) else None
    return value if isinstance(value, str) else ""


def _queue_of(pods: Sequence[PodRecord]) -> str:
    return pods[0].labels.get(keys.HELD_LABELS[0], "") if pods else ""


def _group(obj: Json) -> str:
    return str(obj["apiVersion"]).rpartition("/")[0]


def _namespace(obj: Json) -> str:
    return obj["metadata"].get("namespace") or "default"


def _what(obj: Json) -> str:
    return f"{obj['kind']} {_namespace(obj)}/{shown(obj['metadata']['name'])}"
