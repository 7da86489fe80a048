"""Whether this process wants requests, and if not, what it waits for."""

from stowplan.telemetry import metrics


class Readiness:
    """What ``/readyz`` answers: yes once every part is ready, until draining starts."""

    def __init__(self, *parts: str) -> None:
        """Wait for each of ``parts``, such as ``kernels`` and ``state``, to be reported ready."""
        self._waiting_for = dict.fromkeys(parts, "not ready yet")
        self._draining = False

    def ready(self, part: str) -> None:
        """Take ``part`` off what is waited for."""
        self._waiting_for.pop(part, None)

    def not_ready(self, part: str, reason: str) -> None:
        """Wait for ``part``, because of ``reason``."""
        self._waiting_for[part] = reason

    def start_draining(self) -> None:
        """Refuse readiness from now on, whatever the parts report."""
        self._draining = True
        metrics.SERVER_DRAINING.set(1)

    @property
    def draining(self) -> bool:
        """Whether peers are asked to go elsewhere."""
        return self._draining

    @property
    def problem(self) -> str | None:
        """One line that says why requests are not wanted; None when they are."""
        if self._draining:
            return "draining"
        reasons = (f"{part}: {reason}" for part, reason in self._waiting_for.items())
        return " ".join("; ".join(reasons).split()) or None
