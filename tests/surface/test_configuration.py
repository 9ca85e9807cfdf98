"""The `[dispatch]` options: one table for Airflow, the reader and the documentation."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from airflow.configuration import conf

from airflow_dispatch.core.steps import Policy
from airflow_dispatch.errors import InvalidConfiguration
from airflow_dispatch.supervisor.services import Settings
from airflow_dispatch.surface import configuration, options
from airflow_dispatch.surface.options import OPTIONS, Kind, Option
from tests.surface.conftest import DATABASE, SetOption

PAGE = Path(__file__).parents[2] / "docs/reference/configuration.md"
TIMES = [option for option in OPTIONS if option.kind is not Kind.TEXT]


def test_the_page_lists_exactly_the_options() -> None:
    """Name, default, bounds and meaning, in the order of the table."""
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert rows == [
        (option.name, _default(option), _bounds(option), option.description) for option in OPTIONS
    ]


def _default(option: Option) -> str:
    return f"`{option.default}`" if option.default else "none"


def _bounds(option: Option) -> str:
    if option.kind is Kind.TEXT:
        return "a URL"
    unit = "seconds" if option.kind is Kind.SECONDS else "seconds, written with units"
    return f"{option.least:g} to {option.most:g} {unit}"


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_airflow_knows_each_default(option: Option) -> None:
    """The provider info reaches Airflow's own configuration, in every process."""
    assert conf.get("dispatch", option.name) == option.default


def test_defaults_are_those_of_the_supervisor() -> None:
    """The options and the code that they set do not drift apart."""
    assert configuration.settings() == Settings()
    assert Settings().policy == Policy()


def test_an_option_for_every_setting_that_a_site_may_change() -> None:
    """A setting without an option is one that is decided here."""
    named = {option.name for option in OPTIONS}
    settings = {field.name for field in fields(Settings)} - {"policy", "retry_seconds"}
    assert settings <= named


def test_options_are_read(option: SetOption) -> None:
    """From the environment, as Airflow reads all of its options."""
    option(lease_seconds="120", poll_seconds=" 0.5 ", call_seconds="45.5", witness_wait_seconds="9")
    found = configuration.settings()
    assert (found.lease_seconds, found.poll_seconds) == (120, 0.5)
    assert (found.policy.call_seconds, found.policy.witness_wait_seconds) == (46, 9)


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf", "1e99", "60 seconds"])
@pytest.mark.parametrize("name", [option.name for option in TIMES])
def test_a_wrong_value_is_named_with_what_to_write(option: SetOption, name: str, text: str) -> None:
    """Section, name, value, bounds, how to write it: in one sentence."""
    option(**{name: text})
    with pytest.raises(InvalidConfiguration) as wrong:
        configuration.check()
    assert str(wrong.value).startswith(f"[dispatch] {name} = {text!r} must be a time from")
    assert "\n" not in str(wrong.value)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90m", 5400), ("1d 6h", 108_000), ("0", None), ("90", None)]
)
def test_a_duration_has_a_unit(option: SetOption, text: str, seconds: float | None) -> None:
    """A time limit without a unit could be minutes for one and seconds for another."""
    option(default_time_limit=text)
    if seconds is None:
        with pytest.raises(InvalidConfiguration, match='written as text as "90m"'):
            configuration.seconds(options.DEFAULT_TIME_LIMIT)
    else:
        assert configuration.seconds(options.DEFAULT_TIME_LIMIT) == seconds


def test_no_grace_at_all_is_a_grace(option: SetOption) -> None:
    """0 needs no unit."""
    option(default_grace="0")
    assert configuration.seconds(options.DEFAULT_GRACE) == 0


def test_the_database_is_ours_first(option: SetOption) -> None:
    """`[dispatch] sql_alchemy_conn` wins over Airflow's own."""
    assert configuration.database_url() == DATABASE
    option(sql_alchemy_conn="postgresql://host/airflow")
    assert configuration.database_url() == "postgresql://host/airflow"


def test_a_hidden_database_is_told_with_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a triggerer without our option: the very line to run, and where."""
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "airflow-db-not-allowed:///")
    with pytest.raises(InvalidConfiguration) as missing:
        configuration.database_url()
    line = (
        "export AIRFLOW__DISPATCH__SQL_ALCHEMY_CONN="
        '"$(airflow config get-value database sql_alchemy_conn)"'
    )
    assert f"where the triggerer is started, run {line}" in str(missing.value)
    assert f"\n    {line}\n" in PAGE.read_text()


def test_what_airflow_hides_is_what_we_look_for() -> None:
    """The scheme is Airflow's own; a change of it would show here."""
    from airflow.sdk.execution_time import supervisor

    source = Path(supervisor.__file__).read_text(encoding="utf-8")
    assert f'"{configuration.HIDDEN}:///"' in source


def test_the_address_of_the_database_is_sensitive() -> None:
    """Airflow masks it, and takes it from a command or a secrets backend, too."""
    assert ("dispatch", "sql_alchemy_conn") in conf.sensitive_config_values
