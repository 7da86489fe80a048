"""Every label, annotation and gate that placement reads, by the names that users type."""

from difflib import get_close_matches

KUEUE = "kueue.x-k8s.io/"
OURS = "stowplan.dev/"

# A request: ours and Kueue's spelling mean the same.
REQUIRED = (OURS + "required-topology", KUEUE + "podset-required-topology")
PREFERRED = (OURS + "preferred-topology", KUEUE + "podset-preferred-topology")
UNCONSTRAINED = (OURS + "unconstrained-topology", KUEUE + "podset-unconstrained-topology")
PACKING = OURS + "packing"
OUR_SLICES = OURS + "slices"
LAST_SLICE = OURS + "last-slice"
MAX_PER_DOMAIN = OURS + "max-per-domain"
SLICE_LEVEL = KUEUE + "podset-slice-required-topology"
SLICE_SIZE = KUEUE + "podset-slice-size"
SLICE_LAYERS = KUEUE + "podset-slice-required-topology-constraints"
PODSET_GROUP = (OURS + "podset-group", KUEUE + "podset-group-name")

_KUEUES_REQUEST = frozenset(
    (
        REQUIRED[1],
        PREFERRED[1],
        UNCONSTRAINED[1],
        SLICE_LEVEL,
        SLICE_SIZE,
        SLICE_LAYERS,
        PODSET_GROUP[1],
    )
)
_VERY_MUCH_LIKE = 0.9

# An extended resource that sends a pod to us at filter time; no node offers or spends it.
MARKER = OURS + "filter-time"

# A gang named by Kueue's plain-pod labels.
POD_GROUP_NAME = KUEUE + "pod-group-name"
POD_GROUP_COUNT = KUEUE + "pod-group-total-count"
POD_GROUP_INDEX = KUEUE + "pod-group-pod-index"
ROLE_HASH = KUEUE + "role-hash"

# Held by Kueue: such a pod is placed and pinned by Kueue, never by us.
PODSET = KUEUE + "podset"
HELD_LABELS = (KUEUE + "queue-name", PODSET, KUEUE + "managed")
HELD_ANNOTATION = KUEUE + "workload"

# What a gated pod waits behind, and what Kueue tells of its place in a workload.
RETRY = OURS + "retry"  # changed to wake a refused pod; its value means nothing
ROLE = OURS + "role"  # label of our own pods
LEADER = "leader"
OUR_GATE = OURS + "topology"
KUEUE_GATE = KUEUE + "topology"
INDEX_OFFSET = KUEUE + "pod-index-offset"
WORKLOAD_SLICE = KUEUE + "workload-slice-name"

# Other ways to name a gang, and the rank of a pod in it.
COSCHEDULING_GROUP = "scheduling.x-k8s.io/pod-group"
LWS = "leaderworkerset.sigs.k8s.io/"
LWS_NAME = LWS + "name"
LWS_GROUP = LWS + "group-index"
LWS_SIZE = LWS + "size"
LWS_RANK = LWS + "worker-index"
JOBSET = "jobset.sigs.k8s.io/"
JOBSET_NAME = JOBSET + "jobset-name"
JOBSET_JOB = JOBSET + "replicatedjob-name"
JOBSET_JOB_INDEX = JOBSET + "job-index"
JOBSET_UID = JOBSET + "jobset-uid"
JOB_INDEX = "batch.kubernetes.io/job-completion-index"
STATEFULSET_INDEX = "apps.kubernetes.io/pod-index"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"

# A pod that carries one of these asks for topology.
REQUEST_KEYS = frozenset(
    (
        *REQUIRED,
        *PREFERRED,
        *UNCONSTRAINED,
        OUR_SLICES,
        MAX_PER_DOMAIN,
        SLICE_LEVEL,
        SLICE_SIZE,
        SLICE_LAYERS,
    )
)

# On an owner: its followers wait for a scheduled leader, so a gang is never seen complete.
EXCLUSIVE = (
    "alpha.jobset.sigs.k8s.io/exclusive-topology",
    "leaderworkerset.sigs.k8s.io/exclusive-topology",
)

# The owners whose counts are read, with their API group: others have kinds of the same names.
API_GROUPS = {
    "Job": "batch",
    "JobSet": "jobset.x-k8s.io",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io",
    "PodGroup": "scheduling.x-k8s.io",
    "ReplicaSet": "apps",
    "StatefulSet": "apps",
}

RANKS = (POD_GROUP_INDEX, LWS_RANK, JOB_INDEX, STATEFULSET_INDEX)

# What a record keeps of a pod's metadata; the rest is dropped when it is read.
LABELS_KEPT = frozenset(
    (
        *HELD_LABELS,
        POD_GROUP_NAME,
        POD_GROUP_INDEX,
        COSCHEDULING_GROUP,
        LWS_NAME,
        LWS_GROUP,
        LWS_RANK,
        JOBSET_NAME,
        JOBSET_JOB,
        JOBSET_JOB_INDEX,
        JOBSET_UID,
        JOB_INDEX,
        STATEFULSET_INDEX,
    )
)
ANNOTATIONS_KEPT = frozenset(
    (
        *REQUIRED,
        *PREFERRED,
        *UNCONSTRAINED,
        PACKING,
        OUR_SLICES,
        LAST_SLICE,
        MAX_PER_DOMAIN,
        SLICE_LEVEL,
        SLICE_SIZE,
        SLICE_LAYERS,
        *PODSET_GROUP,
        POD_GROUP_COUNT,
        ROLE_HASH,
        HELD_ANNOTATION,
        LWS_SIZE,
        JOB_INDEX,
    )
)

# Every annotation under our prefix that means something, now or once a pod is released.
OUR_ANNOTATIONS = frozenset(
    OURS + name
    for name in (
        "required-topology",
        "preferred-topology",
        "unconstrained-topology",
        "slices",
        "last-slice",
        "max-per-domain",
        "podset-group",
        "packing",
        "pin",
        "hold-for",
        "relax-after",
        "placement",
        "node",
        "domain",
        "retry",
    )
)


def is_mistyped(annotation: str) -> bool:
    """Whether a key stands under our prefix and means nothing: a typo must not go unnoticed."""
    return annotation.startswith(OURS) and annotation not in OUR_ANNOTATIONS


def meant(annotation: str) -> str | None:
    """Return the key of Kueue's that a misspelt one most likely stands for.

    Kueue may have keys that we do not know, so only what is very much like a request is judged, and
    only where a person can look at it: before a job is submitted.
    """
    if not annotation.startswith(KUEUE) or annotation in ANNOTATIONS_KEPT:
        return None
    likely = get_close_matches(annotation, sorted(_KUEUES_REQUEST), n=1, cutoff=_VERY_MUCH_LIKE)
    return likely[0] if likely else None
