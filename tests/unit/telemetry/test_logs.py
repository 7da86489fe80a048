import ast
import io
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from stowplan.telemetry import log_options, logs


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


def test_json_is_one_object_a_line_with_the_event_and_its_keys() -> None:
    out = io.StringIO()
    logs.configure("json", "info", out)
    structlog.get_logger().info("gang placed", pod="team-a/trainer-0", generation=7)
    written = json.loads(out.getvalue())
    assert written.pop("timestamp").endswith("Z")
    assert written == {
        "event": "gang placed",
        "generation": 7,
        "level": "info",
        "pod": "team-a/trainer-0",
    }


def test_the_console_form_shows_the_event_and_its_keys_without_colours_in_a_pipe() -> None:
    out = io.StringIO()
    logs.configure("console", "info", out)
    structlog.get_logger().info("gang placed", pod="team-a/trainer-0")
    assert "gang placed" in out.getvalue()
    assert "pod=team-a/trainer-0" in out.getvalue()
    assert "\x1b" not in out.getvalue()


def test_logs_go_to_stderr_unless_told_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "info")
    structlog.get_logger().info("state loaded")
    written = capsys.readouterr()
    assert written.out == ""
    assert json.loads(written.err)["event"] == "state loaded"


@pytest.mark.parametrize(
    ("level", "want_events"),
    [
        pytest.param("debug", ["d", "i", "w", "e"], id="debug shows everything"),
        pytest.param("info", ["i", "w", "e"], id="info leaves out debug"),
        pytest.param("warning", ["w", "e"], id="warning leaves out decisions"),
        pytest.param("error", ["e"], id="error shows only what someone must act on"),
    ],
)
def test_a_level_hides_what_is_below_it(level: log_options.Level, want_events: list[str]) -> None:
    out = io.StringIO()
    logs.configure("json", level, out)
    log = structlog.get_logger()
    log.debug("d")
    log.info("i")
    log.warning("w")
    log.error("e")
    assert [json.loads(line)["event"] for line in out.getvalue().splitlines()] == want_events


def test_a_second_call_reaches_loggers_that_were_used_before() -> None:
    first, second = io.StringIO(), io.StringIO()
    log = structlog.get_logger()
    logs.configure("json", "info", first)
    log.info("one")
    logs.configure("json", "info", second)
    log.info("two")
    assert json.loads(first.getvalue())["event"] == "one"
    assert json.loads(second.getvalue())["event"] == "two"


def test_what_libraries_log_leaves_in_the_same_form() -> None:
    out = io.StringIO()
    logs.configure("json", "info", out)
    logging.getLogger("aiohttp.server").info("not our reader's concern")
    logging.getLogger("aiohttp.server").error("Error handling %s", "request")
    written = json.loads(out.getvalue())
    assert written["event"] == "Error handling request"
    assert written["level"] == "error"
    assert written["logger"] == "aiohttp.server"


@pytest.mark.parametrize("form", log_options.FORMATS)
def test_a_traceback_never_shows_the_values_of_variables(form: log_options.Format) -> None:
    out = io.StringIO()
    logs.configure(form, "info", out)
    password = "hunter2 ".strip()
    try:
        raise ValueError(f"{len(password)} characters")
    except ValueError:
        structlog.get_logger().exception("reload failed")
        logging.getLogger("asyncio").error("task failed", exc_info=sys.exc_info())
    assert out.getvalue().count("ValueError: 7 characters") == 2
    assert "'hunter2'" not in out.getvalue()


def test_no_log_call_uses_a_key_that_structlog_writes_itself() -> None:
    root = Path(__file__).parents[3]
    taken = {"level", "event", "timestamp", "logger"}
    for file in (*root.glob("stowplan/**/*.py"), *root.glob("extender/*.py")):
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and ast.unparse(call.func).startswith("log."):
                used = {keyword.arg for keyword in call.keywords}
                assert not used & taken, f"{file.name}:{call.lineno}"
