"""The bodies of the filter bench: a pod of about 4.3 kB, and every node's name behind it."""

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from bench.clusters import RACK, Json, encoded, node_name, pod_object

GANG_SIZE = 8
FRESH = "fresh"  # prefix of gangs that are complete and wait for their first call
SEATED = "seated"  # the gang whose seats are known
HOPELESS = "hopeless"  # the gang that wants a rack's hosts whole: no rack has all of them free


@dataclass(frozen=True, slots=True)
class Call:
    """One filter call.

    Attributes:
        pod: the pod, encoded.
        names: the names, encoded, with all that follows.
    """

    pod: bytes
    names: bytes

    def body(self) -> bytes:
        """Return it as kube-scheduler writes it."""
        return b'{"Pod":%s,"Nodes":null,"NodeNames":[%s' % (self.pod, self.names)


def names(nodes: int) -> list[str]:
    """Return all names in an order that is not that of the tree, as a scheduler would send them."""
    step = 7_919  # a prime that divides no size in use
    return [node_name(at * step % nodes) for at in range(nodes)]


def with_name_at(all_names: Sequence[str], name: str, share: float) -> list[str]:
    """Return the names with ``name`` at a place: 0 is the start, 1 the end."""
    others = [other for other in all_names if other != name]
    others.insert(round(share * len(others)), name)
    return others


def encoded_names(all_names: Sequence[str]) -> bytes:
    """Return the names and the brackets that end a body."""
    return orjson.dumps(list(all_names))[1:] + b"}\n"


def gang_pod(gang: str, number: int) -> Json:
    """Return one pod of a gang of ``GANG_SIZE``."""
    return pod_object(f"{gang}-{number}", gang, GANG_SIZE, RACK)


def hopeless_pod() -> Json:
    """Return the first pod of a gang that fits nowhere; the others are in the cluster."""
    return pod_object(f"{HOPELESS}-0", HOPELESS, 16, RACK, gpus=8)


def plain_pod() -> bytes:
    """Return a pod that asks for nothing."""
    return encoded(pod_object("plain-0", None, 1))
