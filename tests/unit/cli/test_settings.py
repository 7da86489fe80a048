from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from stowplan.cli.settings import KEYS, Settings, example_of, flag_of, variable_of
from stowplan.serving.address import Address


@pytest.mark.parametrize("key", KEYS)
def test_every_setting_has_a_sentence_of_help_and_an_example_that_is_valid(key: str) -> None:
    description = Settings.model_fields[key].description
    assert description is not None
    assert description.endswith(".")
    value: Any = example_of(key)
    assert getattr(Settings.model_validate({key: value}), key) is not None


@pytest.mark.parametrize("key", KEYS)
def test_flag_and_variable_are_made_from_the_key(key: str) -> None:
    assert flag_of(key).lstrip("-").replace("-", "_") == key
    assert variable_of(key).removeprefix("STOWPLAN_").lower() == key


def test_the_defaults_are_those_of_the_contract() -> None:
    assert dict(Settings(log_format="json")) == {
        "listen": Address("127.0.0.1", 8888),
        "probe_listen": None,
        "address_file": None,
        "from_file": (),
        "kubeconfig": (),
        "context": None,
        "stale_after_seconds": 30.0,
        "lease_namespace": "stowplan-system",
        "pod_name": None,
        "lease_name": "stowplan",
        "lease_seconds": 15.0,
        "lease_renew_seconds": 10.0,
        "lease_retry_seconds": 2.0,
        "reload_seconds": 2.0,
        "levels": (),
        "packing": "mixed",
        "rules": "stowplan",
        "node_affinity": "ignore",
        "reservation_seconds": 60.0,
        "reservation_with_claims_seconds": 660.0,
        "exclude_seconds": 600.0,
        "body_limit_bytes": 16 * 1024 * 1024,
        "deadline_seconds": 0.5,
        "keep_alive_seconds": 3600.0,
        "drain_seconds": 5.0,
        "tls_certificate": None,
        "tls_key": None,
        "client_ca": None,
        "log_format": "json",
        "log_level": "info",
    }


def test_settings_do_not_change_once_they_are_made() -> None:
    with pytest.raises(ValidationError):
        Settings().listen = Address("0.0.0.0", 1)  # type: ignore[misc]  # that is the point


@pytest.mark.parametrize(
    ("key", "value", "want"),
    [
        pytest.param("listen", "0.0.0.0:1", Address("0.0.0.0", 1), id="an address as text"),
        pytest.param("levels", "zone, rack", ("zone", "rack"), id="levels as one text"),
        pytest.param("levels", ["zone", "rack"], ("zone", "rack"), id="levels as a list"),
        pytest.param("levels", "", (), id="no levels"),
        pytest.param("from_file", "a.json:b", (Path("a.json"), Path("b")), id="paths as one text"),
        pytest.param("drain_seconds", "0", 0.0, id="a number as text"),
        pytest.param("reload_seconds", 1, 1.0, id="a whole number for seconds"),
    ],
)
def test_a_value_is_read_from_text_or_from_its_own_type(key: str, value: Any, want: Any) -> None:
    assert getattr(Settings.model_validate({key: value}), key) == want


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param("keep_alive_seconds", 90, id="no longer than kube-scheduler's patience"),
        pytest.param("keep_alive_seconds", "inf", id="for ever"),
        pytest.param("drain_seconds", -1, id="negative"),
        pytest.param("reload_seconds", 0, id="zero"),
        pytest.param("reload_seconds", "nan", id="no number"),
        pytest.param("reload_seconds", True, id="true for one"),
        pytest.param("body_limit_bytes", 0, id="no bytes"),
        pytest.param("body_limit_bytes", 1.5, id="half a byte"),
        pytest.param("body_limit_bytes", "16MiB", id="a size with its unit"),
        pytest.param("listen", 8888, id="a port alone"),
        pytest.param("levels", [1], id="a number for a level"),
        pytest.param("levels", {"zone": 1}, id="a mapping for levels"),
        pytest.param("from_file", [""], id="an empty path"),
        pytest.param("tls_key", "", id="an empty file name"),
        pytest.param("log_level", "loud", id="an unknown level"),
        pytest.param("packing", "even", id="an unknown packing"),
        pytest.param("colour", "red", id="an unknown key"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(key: str, value: Any) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate({key: value})
