"""A pod template of a job file -> its pods, as they will stand in the cluster.

Pods get what a decision reads of them: name, owner, rank, and the labels and annotations of
``keys``. A ``*`` in a name stands for what the pod's controller draws; the number behind it only
tells such names apart, and ``shown`` leaves it out.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from stowplan.api.errors import Code, InvalidObjectError, Violation
from stowplan.api.models import core
from stowplan.api.models.jobs import Template
from stowplan.placement import keys
from stowplan.placement.records import OwnerLink, PodRecord
from stowplan.placement.request import violations

_DRAWN = re.compile(r"\*\d+")
_NONE: Mapping[str, str] = {}


def shown(name: str) -> str:
    """Return a name for people: a ``*`` for what nobody can know yet."""
    return _DRAWN.sub("*", name)


@dataclass(slots=True)
class Defects:
    """What is wrong with one object of a file; collected, so that all of it is told at once.

    Attributes:
        what: names the object.
        found: so far.
    """

    what: str
    found: list[Violation] = field(default_factory=list)

    def note(self, path: str, code: Code, value: object, problem: str, remedy: str) -> None:
        """Add one."""
        self.found.append(Violation(f"{self.what}: {path}", code, value, problem, remedy))

    @contextmanager
    def gathered(self, at: str = "") -> Iterator[None]:
        """Add what an InvalidObjectError carries; ``at`` goes before its paths."""
        try:
            yield
        except InvalidObjectError as error:
            for each in error.violations:
                self.note(f"{at}{each.path}", each.code, each.value, each.problem, each.remedy)


@dataclass(frozen=True, slots=True)
class Pods:
    """Makes pods of one template.

    Attributes:
        record: a pod without a name.
        at: where the template's fields stand, with a dot behind: ``spec.template.``.
    """

    record: PodRecord
    at: str

    @classmethod
    def of(cls, template: Template, at: str, namespace: str, defects: Defects) -> "Pods | None":
        """Read a template; None when a quantity in it is none."""
        meta = template.metadata or core.Metadata()
        note_misspelt(meta.annotations, at, defects)
        named = core.Metadata(
            name="*", namespace=namespace, labels=meta.labels, annotations=meta.annotations
        )
        with defects.gathered(at):
            return cls(PodRecord.of(core.Pod(metadata=named, spec=template.spec)), at)
        return None

    def judge(self, pods: int | None, defects: Defects) -> None:
        """Note every rule that the template's request breaks; ``pods`` are those of the gang."""
        for each in violations(self.record.annotations, pods):
            key, bracket, rest = each.path.partition("[")
            path = f"{self.at}metadata.annotations[{key}]{bracket}{rest}"
            defects.note(path, each.code, each.value, each.problem, each.remedy)

    def made(
        self,
        name: str,
        owner: OwnerLink,
        rank: int | None = None,
        labels: Mapping[str, str] = _NONE,
        annotations: Mapping[str, str] = _NONE,
    ) -> PodRecord:
        """Return one pod, with what its controller adds."""
        return replace(
            self.record,
            name=name,
            owner=owner,
            rank=self.record.rank if rank is None else rank,
            labels={**self.record.labels, **labels},
            annotations={**self.record.annotations, **annotations},
        )


def note_misspelt(annotations: Mapping[str, str] | None, at: str, defects: Defects) -> None:
    """Note each key that is most likely a misspelt one of Kueue's: it would ask for nothing."""
    for key in annotations or ():
        if likely := keys.meant(key):
            path, problem = f"{at}metadata.annotations[{key}]", "must be a key that Kueue reads"
            defects.note(path, "forbidden", None, problem, f"did you mean {likely}?")
