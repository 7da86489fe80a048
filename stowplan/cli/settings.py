"""The one list of settings: each field is a flag, an environment variable and a key of the file.

``listen`` is ``--listen``, ``STOWPLAN_LISTEN`` and ``listen:``. A description is its flag's help.
Rules that need more than the value's own type are in ``rules``.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, field_validator

from stowplan.serving.address import Address
from stowplan.telemetry.log_options import Format, Level

ENVIRONMENT_PREFIX = "STOWPLAN_"


def _address(value: Any) -> Address:
    if isinstance(value, Address):
        return value
    if not isinstance(value, str):
        raise ValueError("must be HOST:PORT")
    return Address.parse(value)


def _not_empty(value: Any) -> Any:
    if value == "":  # as a path it would name the working directory
        raise ValueError("must not be empty")
    return value


def _split(separator: str) -> Callable[[Any], Any]:
    """Return what makes a list of one text: flags and variables cannot hold lists."""

    def split(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return [part.strip() for part in value.split(separator)] if value else []

    return split


def _log_format() -> Format:
    return "console" if sys.stderr.isatty() else "json"


Place = Annotated[Address, PlainValidator(_address)]
File = Annotated[Path, BeforeValidator(_not_empty)]
Paths = Annotated[tuple[File, ...], BeforeValidator(_split(os.pathsep))]
Keys = Annotated[tuple[str, ...], BeforeValidator(_split(","))]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Settings(BaseModel):
    """Everything that can be set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    listen: Place = Field(
        Address("127.0.0.1", 8888),
        description="Where kube-scheduler reaches the extender; port 0 takes any free port.",
        examples=["127.0.0.1:8888"],
    )
    probe_listen: Place | None = Field(
        None,
        description="Where probes and metrics are served apart from the extender.",
        examples=["0.0.0.0:8889"],
    )
    address_file: File | None = Field(
        None,
        description="File that receives the bound addresses, one a line, the extender's first.",
        examples=["/tmp/stowplan.address"],
    )
    from_file: Paths = Field(
        (),
        description="Files or folders of Kubernetes objects, as kubectl get -o json prints them.",
        examples=["cluster.json"],
    )
    kubeconfig: Paths = Field(
        (),
        description="Kubeconfig of the cluster to follow; in a pod its service account serves.",
        examples=["/etc/stowplan/kubeconfig"],
    )
    context: str | None = Field(
        None,
        min_length=1,
        description="Which context of the kubeconfig; the current one without it.",
        examples=["production"],
    )
    stale_after_seconds: Seconds = Field(
        30.0,
        description="How long kube-apiserver may be silent before pods that ask are put off.",
    )
    lease_namespace: str = Field(
        "stowplan-system",
        min_length=1,
        description="Namespace of our own pods, and of the Lease of the one that decides.",
    )
    pod_name: str | None = Field(
        None,
        min_length=1,
        description="Name of our own pod, which gets the role label while it decides.",
        examples=["stowplan-0"],
    )
    lease_name: str = Field(
        "stowplan", min_length=1, description="Name of that Lease; one for each set of replicas."
    )
    lease_seconds: float = Field(
        15.0,
        ge=1,
        allow_inf_nan=False,
        description="How long a Lease lasts: after a crash nobody decides for as long.",
    )
    lease_renew_seconds: Seconds = Field(
        10.0, description="After how long without an answer its holder gives up; less than that."
    )
    lease_retry_seconds: Seconds = Field(
        2.0, description="How often it is renewed, and asked for by the others."
    )
    reload_seconds: Seconds = Field(
        2.0, description="How often those files are looked at for a new version."
    )
    levels: Keys = Field(
        (),
        description="Label keys of the topology, coarse to fine; the host level is implied.",
        examples=["topology.kubernetes.io/zone,example.com/rack"],
    )
    packing: Literal["mixed", "best-fit", "balanced"] = Field(
        "mixed", description="How a domain is chosen for pods that do not say."
    )
    rules: Literal["stowplan", "kueue"] = Field(
        "stowplan", description="Whose placement rules: ours, or Kueue's with its quirks."
    )
    node_affinity: Literal["ignore", "weigh"] = Field(
        "ignore", description="Whether preferred node affinity counts when domains are compared."
    )
    reservation_seconds: Seconds = Field(
        60.0, description="How long a seat is kept for a pod that is not bound."
    )
    reservation_with_claims_seconds: Seconds = Field(
        660.0, description="The same for a pod with volumes or resource claims, which bind slowly."
    )
    exclude_seconds: Seconds = Field(
        600.0, description="How long a node that lost a gang's seat is left out for that gang."
    )
    body_limit_bytes: int = Field(
        16 << 20, gt=0, description="The largest request body that is read."
    )
    deadline_seconds: Seconds = Field(
        0.5,
        description="After this a call is answered with Error; keep it below the httpTimeout.",
    )
    keep_alive_seconds: float = Field(
        3600.0,
        gt=90,
        allow_inf_nan=False,
        description="How long a connection may idle; kube-scheduler itself gives up after 90.",
    )
    drain_seconds: float = Field(
        5.0,
        ge=0,
        allow_inf_nan=False,
        description="How long peers have to leave between SIGTERM and the end.",
    )
    tls_certificate: File | None = Field(
        None,
        description="PEM certificate of the extender; it is loaded again when it changes.",
        examples=["/etc/stowplan/tls.crt"],
    )
    tls_key: File | None = Field(
        None, description="PEM key of that certificate.", examples=["/etc/stowplan/tls.key"]
    )
    client_ca: File | None = Field(
        None,
        description="PEM certificates of the CA that clients of the extender must be proven by.",
        examples=["/etc/stowplan/ca.crt"],
    )
    log_format: Format = Field(
        default_factory=_log_format,
        description="How logs are written to stderr; console at a terminal, else json.",
        examples=["json"],
    )
    log_level: Level = Field("info", description="The least of what is logged.")

    @field_validator("*", mode="before")
    @classmethod
    def _no_switches(cls, value: Any) -> Any:
        """Refuse what would pass for 1 or 0; no setting is a switch."""
        if isinstance(value, bool):
            raise ValueError("must not be true or false")
        return value


KEYS = tuple(Settings.model_fields)


def flag_of(key: str) -> str:
    """Return the flag that sets ``key``."""
    return f"--{key.replace('_', '-')}"


def variable_of(key: str) -> str:
    """Return the environment variable that sets ``key``."""
    return f"{ENVIRONMENT_PREFIX}{key.upper()}"


def example_of(key: str) -> str:
    """Return a value as one could type it."""
    field = Settings.model_fields[key]
    return str(field.examples[0] if field.examples else field.get_default())
