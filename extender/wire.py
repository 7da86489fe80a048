"""What travels between kube-scheduler and us: extender/v1, whose Go types have no JSON tags.

So names go out capitalised and come in in any case (facts E8, E9). A request of 15,000 names is
0.65 MB, and a decision needs one of them; so the pod is cut out of the body and parsed, and the
names stay bytes. Whatever does not look like kube-scheduler's own encoding is parsed whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import orjson

from extender.candidates import (
    NameList,
    NodeList,
    Offered,
    UnreadNames,
    loads,
    node_map,
    node_names,
)
from stowplan.api.errors import WireError
from stowplan.api.models import core
from stowplan.api.models.wire import decode, decoder, read
from stowplan.api.objects import Json
from stowplan.placement.decide import Placed, Refused, Untouched, Verdict
from stowplan.placement.rank import Ranking
from stowplan.placement.reasons import Reason
from stowplan.placement.records import PodRecord, asks_for_topology

_POD = b'{"Pod":'
_CUT = b',"Nodes":null,"NodeNames":['
_REFUSAL_KEY = "stowplan"  # need not be a node: one entry carries the whole explanation (fact V11)


@dataclass(frozen=True, slots=True)
class ExtenderArgs:
    """The request of filter and prioritize.

    Attributes:
        raw_pod: the pod as it came.
        offered: the candidates.
        head: of the pod, where it was read already; most pods need no more.
    """

    raw_pod: Json | memoryview
    offered: Offered
    head: core.PodHead | None = None

    @classmethod
    def parse(cls, body: bytes) -> "ExtenderArgs":
        """Read a body.

        Raises:
            WireError: it is no ExtenderArgs; the message says what is wrong.
        """
        if body.startswith(_POD):
            # Inside a JSON string the quotes of the mark would be escaped, so the first one ends
            # the pod, if what stands before it is one whole value.
            cut = body.find(_CUT)
            if cut > 0 and body[-8:].rstrip().endswith(b"]}"):
                pod = memoryview(body)[len(_POD) : cut]
                try:
                    head = decoder(core.PodHead).decode(pod)
                except msgspec.DecodeError:
                    pass
                else:
                    unread = UnreadNames(body, cut + len(_CUT))
                    if unread.looks_plain():
                        return cls(pod, unread, head)
        return cls._parse_whole(body)

    @classmethod
    def _parse_whole(cls, body: bytes) -> "ExtenderArgs":
        args = loads(body)
        if not isinstance(args, dict):
            raise WireError("the body must be an object with Pod and NodeNames")
        members = {key.lower(): value for key, value in args.items()}
        if not isinstance(members.get("pod"), dict):
            raise WireError("Pod must be an object")
        names, nodes = members.get("nodenames"), members.get("nodes")
        if names is not None:
            return cls(members["pod"], NameList(node_names(names)))
        if nodes is not None:
            return cls(members["pod"], NodeList(node_map(nodes)))
        raise WireError("the body must have NodeNames, or Nodes")

    def asks(self) -> bool:
        """Whether the pod asks for topology, judged by its metadata alone."""
        head = self.head or read(core.PodHead, self.raw_pod, "Pod")
        return asks_for_topology(head.metadata.annotations)

    def pod(self) -> PodRecord:
        """Return the pod.

        Raises:
            InvalidObjectError: with every field that is wrong.
            WireError: it is no JSON.
        """
        if not isinstance(self.raw_pod, memoryview):
            return PodRecord.of(read(core.Pod, self.raw_pod, "Pod"))
        try:
            return PodRecord.of(decode(core.Pod, self.raw_pod, "Pod"))
        except msgspec.DecodeError as error:  # what the head passed over: text that is not UTF-8
            raise WireError(f"Pod must be JSON: {error}") from error


def filter_result(verdict: Verdict, offered: Offered) -> bytes:
    """Return an ExtenderFilterResult.

    One name with empty maps makes kube-scheduler skip its own scoring and our Prioritize (V15). A
    refusal is one unresolvable entry: evicting others would not cure it (E46), and one entry is an
    order of magnitude cheaper than one per node (V16).
    """
    match verdict:
        case Untouched():
            return _result(offered.all(), {})
        case Placed(node=node):
            return filter_node(node, offered)
        case Refused(reason=reason):
            return _result(offered.none(), {_REFUSAL_KEY: str(reason)})


def filter_node(node: str, offered: Offered) -> bytes:
    """Return the ExtenderFilterResult of a pod whose node was settled before."""
    return _result(offered.only(node), {})


def filter_error(problem: str | Reason) -> bytes:
    """Return the ExtenderFilterResult that says we cannot answer now; it is tried again (E19)."""
    return _result(b'"NodeNames":null,"Nodes":null', {}, str(problem))


def host_priorities(ranking: Ranking) -> bytes:
    """Return a HostPriorityList; scores are whole numbers, or all of them would be lost (E10)."""
    return orjson.dumps([{"Host": node, "Score": int(score)} for node, score in ranking])


def _result(nodes: bytes, unresolvable: Mapping[str, str], error: str = "") -> bytes:
    tail = orjson.dumps(
        {"FailedNodes": {}, "FailedAndUnresolvableNodes": unresolvable, "Error": error}
    )
    return b"{%s,%s" % (nodes, tail[1:])
