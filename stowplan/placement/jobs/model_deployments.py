"""ModelDeployments of a job file -> the pods that GPUStack's operator would make of them.

Each replica of a role is a Kueue pod group of its own, of ``size`` pods (topology, section 7.4).
Cpu, memory and the accelerator's resource are not written in a role: they come from its
InstanceType, which must be among the objects. What interfaces and parts of an accelerator add to a
pod is not known here, so a role with them is refused rather than guessed at; local storage is left
out.
"""

from collections.abc import Iterable, Iterator, Mapping

from stowplan.api.errors import InvalidObjectError
from stowplan.api.models import core, jobs
from stowplan.api.models.wire import Quantity, text_of
from stowplan.api.objects import Json, Object
from stowplan.placement import keys
from stowplan.placement.jobs.templates import Defects, Pods
from stowplan.placement.records import OwnerLink, PodRecord
from stowplan.topology import capacity
from stowplan.topology.levels import HOSTNAME, label_key_problem

GROUP = "worker.gpustack.ai"

_ACCELERATOR_LABEL = "acceleratable.feature.gpustack.ai/"
_MANAGED = "gpustack.ai/managed"

# The resource of a whole accelerator, by manufacturer.
_RESOURCES = {
    "amd": "amd.com/gpu",
    "ascend": "huawei.com/npu",
    "cambricon": "cambricon.com/mlu",
    "hygon": "hygon.com/dcu",
    "iluvatar": "iluvatar.com/gpu",
    "metax": "metax-tech.com/gpu",
    "mthreads": "mthreads.com/gpu",
    "nvidia": "nvidia.com/gpu",
    "thead": "alibabacloud.com/ppu",
}

_FNV_OFFSET, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3

Types = Mapping[str, jobs.InstanceType]
Requests = dict[str, Quantity]


def types_among(objects: Iterable[Object | Json]) -> dict[str, jobs.InstanceType]:
    """Return the InstanceTypes among ``objects`` by name, the first of each name.

    Raises:
        InvalidObjectError: with every field that is wrong, in every one.
    """
    found: dict[str, jobs.InstanceType] = {}
    defects = Defects("")
    for obj in map(Object.of, objects):
        if (obj.kind, obj.group) != ("InstanceType", GROUP):
            continue
        defects.what = f"InstanceType {obj.name}"
        with defects.gathered():
            found.setdefault(obj.name, obj.read(jobs.InstanceType))
    if defects.found:
        raise InvalidObjectError("the job", defects.found)
    return found


def groups_of(
    deployment: jobs.ModelDeployment, namespace: str, types: Types, defects: Defects
) -> Iterator[tuple[str, list[PodRecord]]]:
    """Yield each replica of each role: what names it, and its pods; note what is wrong."""
    name = deployment.metadata.name
    for at, role in enumerate(deployment.spec.roles):
        path = f"spec.roles[{at}]"
        spec = _pod_spec(role, path, types, defects)
        annotations = _asked(role, path, defects)
        if spec is None:
            continue
        entrance = _entrance(types[role.instance_type])
        made = core.Pod(metadata=core.Metadata(name="*", namespace=namespace), spec=spec)
        pods = Pods(PodRecord.of(made), f"{path}.")
        for ordinal in range(role.replicas or 1):
            group = group_name(f"{namespace}/{name}/{role.name}/{ordinal}")
            labels = {keys.POD_GROUP_NAME: group} | entrance
            yield (
                f"role {role.name}, replica {ordinal}",
                [
                    pods.made(
                        _name(name, role, ordinal, member),
                        OwnerLink("ModelDeployment", name, ""),
                        labels=labels,
                        annotations=annotations,
                    )
                    for member in range(role.size or 1)
                ],
            )


def group_name(identity: str) -> str:
    """Return the name of the pod group of ``namespace/deployment/role/ordinal``."""
    digest = _FNV_OFFSET
    for byte in identity.encode():
        digest = (digest ^ byte) * _FNV_PRIME % (1 << 64)
    return f"gpustack-fnv64-{digest:016x}"


def _name(deployment: str, role: jobs.ModelRole, ordinal: int, member: int) -> str:
    """Return a pod's name; a replica of one pod gets its from kube-apiserver."""
    if (role.size or 1) > 1:
        return f"{deployment}-{role.name}-r{ordinal}-m{member}"
    return f"{deployment}-{role.name}-*{ordinal}"


def _asked(role: jobs.ModelRole, path: str, defects: Defects) -> dict[str, str]:
    """Return the annotations of every pod of a role (topology, sections 7.3 and 7.4)."""
    found = {keys.POD_GROUP_COUNT: str(role.size or 1), keys.ROLE_HASH: role.name}
    level = role.topology.required_level if role.topology else ""
    if not level:
        return found
    at = f"{path}.topology.requiredLevel"
    if problem := label_key_problem(level):
        defects.note(at, "invalid", level, problem, "name a level of the topology")
    elif level == HOSTNAME:
        remedy = "leave it out for no level; that does not keep pods on one node either"
        defects.note(at, "forbidden", level, "must not be the host level", remedy)
    return found | {keys.REQUIRED[1]: level}


def _entrance(of: jobs.InstanceType) -> dict[str, str]:
    queue = of.status.entrance if of.status else ""
    return {keys.HELD_LABELS[0]: queue} if queue else {}


def _pod_spec(
    role: jobs.ModelRole, path: str, types: Types, defects: Defects
) -> core.PodSpec | None:
    """Return what a pod of the role asks for, and of which nodes; None when that is not known."""
    of = types.get(role.instance_type)
    if of is None:
        problem = "must be an InstanceType that is known: it says what each pod asks for"
        remedy = (
            "add it to the job file, or to those of the cluster: "
            "kubectl get instancetypes.worker.gpustack.ai -o json"
        )
        defects.note(f"{path}.instanceType", "required", role.instance_type, problem, remedy)
        return None
    noted = len(defects.found)
    requests = _requests(role, of, path, defects)
    if len(defects.found) > noted:
        return None
    container = core.Container(name=role.name, resources=core.Resources(requests=requests))
    return core.PodSpec(containers=[container], node_selector=_selector(of.spec))


def _selector(spec: jobs.InstanceTypeSpec) -> dict[str, str]:
    """Return which nodes Kueue's flavors of the type have in common (topology, section 6.2)."""
    found = {_MANAGED: "true", "kubernetes.io/os": spec.os, "kubernetes.io/arch": spec.arch}
    if spec.acceleratable and spec.accelerator_group:
        found[f"{_ACCELERATOR_LABEL}{spec.accelerator_group}"] = "true"
    return {key: value for key, value in found.items() if value}


def _requests(role: jobs.ModelRole, of: jobs.InstanceType, path: str, defects: Defects) -> Requests:
    """Return requests: as much cpu and memory as goes with the accelerators, and those."""
    asked = role.resources or jobs.RoleResources()
    _refuse_what_is_not_known(asked, path, defects)
    cards = 0
    if of.spec.acceleratable:
        cards = _whole(asked.accelerator, f"{path}.resources.accelerator", defects)
    unit, what = of.spec.unit_resources, f"InstanceType {of.metadata.name}: spec.unitResources"
    found: Requests = {
        "cpu": f"{_times(unit.cpu, capacity.CPU, cards, f'{what}.cpu', defects)}m",
        "memory": str(_times(unit.ram, "memory", cards, f"{what}.ram", defects)),
    }
    if cards:
        manufacturer = (of.status and of.status.detail and of.status.detail.manufacturer) or (
            of.spec.accelerator_group.partition("-")[0]
        )
        if manufacturer in _RESOURCES:
            found[_RESOURCES[manufacturer]] = str(cards)
        else:
            problem = f"must name a manufacturer that is known: {', '.join(_RESOURCES)}"
            at = f"InstanceType {of.metadata.name}: status.detail.manufacturer"
            defects.note(at, "invalid", manufacturer or None, problem, "wait until it is seen")
    return found


def _refuse_what_is_not_known(asked: jobs.RoleResources, path: str, defects: Defects) -> None:
    for field, value in (
        ("acceleratorSlicedMemoryPercentage", asked.accelerator_sliced_memory_percentage),
        ("acceleratorSlicedCoresPercentage", asked.accelerator_sliced_cores_percentage),
        ("acceleratorPartitionedProfile", asked.accelerator_partitioned_profile),
        ("interface", asked.interface if asked.interface not in (0, "0") else None),
    ):
        if value:
            problem = "must not be set: what it adds to a pod is not known here"
            remedy = "write the pods themselves instead"
            defects.note(f"{path}.resources.{field}", "forbidden", value, problem, remedy)


def _whole(quantity: Quantity | None, path: str, defects: Defects) -> int:
    """Return the number of accelerators; 1 where it is not set, as admission has it."""
    if quantity is None:
        return 1
    text = text_of(quantity)
    if text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    defects.note(path, "invalid", text, "must be a whole number", "correct it")
    return 0


def _times(quantity: Quantity, resource: str, cards: int, path: str, defects: Defects) -> int:
    """Return base units of a quantity for so many accelerators, and for one where there is none."""
    text = text_of(quantity)
    try:
        return capacity.requested(resource, text) * max(cards, 1)
    except capacity.QuantityError as error:
        defects.note(path, "invalid", text, str(error), "correct this quantity")
        return 0
