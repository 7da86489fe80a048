"""Log set-up: constant events with keys on stderr, as JSON or for a person's eyes.

Every module takes its logger with ``structlog.get_logger()``. What libraries such as aiohttp write
through ``logging`` leaves in the same form.
"""

import logging
import sys
from typing import TextIO

import structlog
from structlog.typing import Processor

from stowplan.telemetry.log_options import Format, Level


def configure(format: Format, level: Level, stream: TextIO | None = None) -> None:
    """Write every event of at least ``level`` as ``format`` to ``stream`` (default: stderr).

    Tracebacks are plain: the decorated ones show local variables, and those may hold secrets.
    """
    out = sys.stderr if stream is None else stream
    threshold = logging.getLevelNamesMapping()[level.upper()]
    keys: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    written = _writers(format, out)
    structlog.configure(
        processors=[*keys, *written],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(out),
        cache_logger_on_first_use=False,  # a second call to configure() must reach every logger
    )
    _adopt_library_logs(keys, written, threshold, out)


def _writers(format: Format, out: TextIO) -> list[Processor]:
    match format:
        case "json":
            return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        case "console":
            plain = structlog.dev.plain_traceback
            return [structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=plain)]


def _adopt_library_logs(
    keys: list[Processor], written: list[Processor], threshold: int, out: TextIO
) -> None:
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*keys, structlog.stdlib.add_logger_name],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *written],
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [handler]
    # Libraries speak of their own insides at INFO; only what went wrong concerns our reader.
    root.setLevel(threshold if threshold == logging.DEBUG else max(threshold, logging.WARNING))
