from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stowplan.api.errors import InvalidObjectError, Violation
from stowplan.cli.rules import CLUSTER_RULES, RULES
from stowplan.cli.settings import KEYS
from stowplan.cli.sources import InForce, resolve


def resolved(
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    config: Path | None = None,
) -> InForce:
    return resolve(flags or {}, environment or {}, config, RULES)


def refused(
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    config: Path | None = None,
) -> list[str]:
    with pytest.raises(InvalidObjectError, match="the configuration is refused") as error:
        resolve(flags or {}, environment or {}, config, RULES)
    root = f"{config.parent}/" if config else "\0"
    return [str(violation).replace(root, "") for violation in error.value.violations]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "stowplan.yaml"


def test_a_flag_beats_a_variable_beats_the_file_beats_the_default(config: Path) -> None:
    config.write_text("packing: best-fit\nreload_seconds: 30\ndrain_seconds: 30\n")
    environment = {"STOWPLAN_RELOAD_SECONDS": "20", "STOWPLAN_DRAIN_SECONDS": "20"}
    in_force = resolved({"drain_seconds": "10"}, environment, config)
    found = {
        key: (getattr(in_force.settings, key), str(in_force.provenance[key]))
        for key in ("drain_seconds", "reload_seconds", "packing", "log_level")
    }
    assert found == {
        "drain_seconds": (10.0, "flag --drain-seconds"),
        "reload_seconds": (20.0, "environment STOWPLAN_RELOAD_SECONDS"),
        "packing": ("best-fit", f"file {config}"),
        "log_level": ("info", "default"),
    }
    assert set(in_force.provenance) == set(KEYS)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("a.json", '{"levels": ["zone", "rack"]}', id="JSON"),
        pytest.param("a.yaml", "levels:\n- zone\n- rack\n", id="YAML"),
        pytest.param("a.yml", "levels: zone,rack\n", id="levels as one text"),
    ],
)
def test_the_file_may_be_json_or_yaml(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    assert resolved(config=tmp_path / name).settings.levels == ("zone", "rack")


def test_a_variable_may_name_the_file_and_a_flag_another(config: Path, tmp_path: Path) -> None:
    config.write_text("log_level: debug")
    other = tmp_path / "other.yaml"
    other.write_text("log_level: error")
    environment = {"STOWPLAN_CONFIG": str(config)}
    assert resolved(environment=environment).settings.log_level == "debug"
    assert resolved(environment=environment, config=other).settings.log_level == "error"


@pytest.mark.parametrize("content", ["", "# nothing yet\n", "log_level:\n", "{}"])
def test_a_file_that_sets_nothing_changes_nothing(content: str, config: Path) -> None:
    config.write_text(content)
    in_force = resolved(config=config)
    assert {str(each) for each in in_force.provenance.values()} == {"default"}


def test_an_empty_variable_is_not_set() -> None:
    in_force = resolved(environment={"STOWPLAN_LISTEN": ""})
    assert str(in_force.provenance["listen"]) == "default"


def test_variables_that_kubernetes_makes_for_services_are_passed_over() -> None:
    resolved(
        environment={
            "STOWPLAN_PORT": "tcp://10.0.0.1:8888",
            "STOWPLAN_SERVICE_HOST": "10.0.0.1",
            "STOWPLAN_EXTENDER_SERVICE_PORT": "8888",
            "STOWPLAN_KERNEL_CACHE": "/opt/stowplan/kernels",
            "STOWPLAN_JIT": "0",
        }
    )


def test_all_that_is_wrong_in_all_sources_is_said_at_once_in_the_words_of_its_author(
    config: Path,
) -> None:
    config.write_text("lisen: 0.0.0.0:1\nreload_seconds: soon\nclient_ca: ca.crt\ntls_key: a.key\n")
    environment = {"STOWPLAN_LEVEL": "rack", "STOWPLAN_PACKING": "tight"}
    flags = {"levels": "rack,rack,a rack", "drain_seconds": "-1"}
    assert refused(flags, environment, config) == [
        "stowplan.yaml: lisen: must be a known key; did you mean listen?",
        "STOWPLAN_LEVEL: must be a known variable; did you mean STOWPLAN_LEVELS?",
        "stowplan.yaml: reload_seconds: must be a valid number, unable to parse string as a number "
        "(got 'soon'); write a value such as 2.0",
        "STOWPLAN_PACKING: must be 'mixed', 'best-fit' or 'balanced' (got 'tight'); "
        "write a value such as mixed",
        "--drain-seconds: must be greater than or equal to 0 (got '-1'); write a value such as 5.0",
        "--levels[2]: must be a label key: a name of 1 to 63 letters, digits, '-', '_' or '.' "
        "(got 'a rack'); write a key that nodes carry, such as topology.kubernetes.io/zone",
        "--levels[1]: must be listed once; first listed at --levels[0] (got 'rack'); "
        "remove this entry",
        "--tls-certificate: must be set together with stowplan.yaml: tls_key; set both or neither",
        "--probe-listen: must be set with stowplan.yaml: client_ca: probes have no client "
        "certificate; set it to an address of its own, such as 0.0.0.0:8889",
    ]


def test_a_rule_is_not_judged_on_a_value_that_is_broken_by_itself() -> None:
    flags = {
        "client_ca": "ca.crt",
        "tls_certificate": "a.crt",
        "tls_key": "a.key",
        "probe_listen": "8889",
    }
    assert refused(flags) == [
        "--probe-listen: must be HOST:PORT; 0.0.0.0:PORT listens everywhere (got '8889'); "
        "write a value such as 0.0.0.0:8889"
    ]


def test_serving_needs_files_and_says_what_to_type() -> None:
    with pytest.raises(InvalidObjectError, match="add --from-file cluster"):
        resolve({}, {}, None, CLUSTER_RULES)


def test_what_is_already_known_to_be_wrong_is_reported_with_the_rest() -> None:
    known = Violation("--level", "invalid", None, "must be a known flag", "did you mean --levels?")
    with pytest.raises(InvalidObjectError) as error:
        resolve({"packing": "tight"}, {}, None, RULES, [known])
    assert len(error.value.violations) == 2
    assert error.value.violations[0] is known


@pytest.mark.parametrize(
    ("name", "content", "want"),
    [
        pytest.param("a.toml", "", "must have a name that ends in .json or", id="another kind"),
        pytest.param("a.yaml", None, "must be a file that we can read: No such", id="no file"),
        pytest.param("a.yaml", "a: [", "must be YAML", id="broken YAML"),
        pytest.param("a.json", "{", "must be JSON", id="broken JSON"),
        pytest.param("a.yaml", "- levels", "must be one object", id="a list"),
        pytest.param("a.yaml", "{}\n---\n{}", "must be one object", id="two documents"),
        pytest.param("a.yaml", "levels: a\nlevels: b", "'levels' must be written once", id="twice"),
        pytest.param(
            "a.yaml", "reload-seconds: 1", "did you mean reload_seconds?", id="a flag as key"
        ),
        pytest.param("a.yaml", "colour: red", "stowplan config lists them all", id="nothing like"),
        pytest.param("a.yaml", "levels: [a, 2]", "levels[1]: must be a valid string", id="type"),
        pytest.param("a.yaml", "drain_seconds: yes", "must not be true or false", id="a switch"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_reason(
    name: str, content: str | None, want: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    if content is not None:
        file.write_text(content)
    [found] = refused(config=file)
    assert found.startswith(name)
    assert want in found
