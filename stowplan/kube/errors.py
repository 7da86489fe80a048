"""What kube-apiserver says when it does not do what it was asked.

StowplanError
|- RefusedError        it understood and said no; asking again would not help
|  |- NotFoundError    no such object, or no such kind
|  |- ConflictError    somebody was faster: the object exists already, or is another version by now
|  `- ExpiredError     the version that a list or a watch went on from is too old, or from elsewhere
`- UnavailableError    it is down, slow or busy; ask again later
   `- BusyError        and it said when
"""

from stowplan.api.errors import StowplanError, UnavailableError


class RefusedError(StowplanError):
    """kube-apiserver refused a request.

    Attributes:
        status: of HTTP.
        reason: the one word of its answer, such as ``Forbidden`` or ``Invalid``; empty for none.
    """

    def __init__(self, what: str, status: int, reason: str, message: str) -> None:
        """Say in ``what`` which request it was; ``message`` is the server's."""
        self.status, self.reason = status, reason
        super().__init__(f"{what}: {status} {reason}: {message}" if reason else f"{what}: {status}")


class NotFoundError(RefusedError):
    """There is no such object, or the server does not know its kind."""


class ConflictError(RefusedError):
    """The object exists already, or it is not the version that was to be changed."""


class ExpiredError(RefusedError):
    """A list or a watch cannot go on from its version: everything must be listed again."""


class BusyError(UnavailableError):
    """The server asks us to come back later.

    Attributes:
        retry_after_seconds: when; 0 where it did not say.
    """

    def __init__(self, message: str, retry_after_seconds: float) -> None:
        """Keep what the server said."""
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message)


_BY_STATUS: dict[int, type[RefusedError]] = {
    404: NotFoundError,
    409: ConflictError,
    410: ExpiredError,
}
_LATER = frozenset((429, 500, 502, 503, 504))
_TOO_LARGE = "Too large resource version"  # after a fail-over or a restore (fact C4)


def error_of(
    what: str, status: int, reason: str, message: str, retry_after_seconds: float = 0.0
) -> StowplanError:
    """Return the error that an answer with ``status`` stands for; ``what`` names the request."""
    if status == 504 and _TOO_LARGE in message:
        return ExpiredError(what, status, reason, message)
    if status in _LATER:
        return BusyError(f"{what}: {status} {reason}: {message}", retry_after_seconds)
    return _BY_STATUS.get(status, RefusedError)(what, status, reason, message)
