"""Reads the `[dispatch]` options, typed and checked: a wrong one is named, with what to write.

Defaults and bounds stand in `options`; Airflow knows them from the provider info, in every process.
The address of the database is special: Airflow hides its own setting of it from workers and
triggers, so those need `[dispatch] sql_alchemy_conn`, and everything else may do without.
"""

from __future__ import annotations

import math

from airflow.configuration import conf

from airflow_dispatch.core import quantities
from airflow_dispatch.core.steps import Policy
from airflow_dispatch.errors import InvalidConfiguration, InvalidJob
from airflow_dispatch.supervisor.services import Settings
from airflow_dispatch.surface import options
from airflow_dispatch.surface.options import SECTION, Kind, Option

HIDDEN = "airflow-db-not-allowed"
"""Scheme of the address that Airflow gives to processes which must not reach its database."""


def database_url() -> str:
    """The database with the records, as a SQLAlchemy URL.

    Raises `InvalidConfiguration` where this process cannot know it.
    """
    own = _text(options.SQL_ALCHEMY_CONN)
    url = own or str(conf.get("database", "sql_alchemy_conn"))
    if url.startswith(HIDDEN):
        raise InvalidConfiguration(
            "[dispatch] sql_alchemy_conn is not set, and Airflow hides its own setting of its"
            " database from triggers: where the triggerer is started, run"
            f" {options.SET_SQL_ALCHEMY_CONN} (nothing was launched)"
        )
    return url


def settings() -> Settings:
    """Pace and patience of a supervisor."""
    return Settings(
        lease_seconds=seconds(options.LEASE_SECONDS),
        poll_seconds=seconds(options.POLL_SECONDS),
        repeat_seconds=seconds(options.REPEAT_SECONDS),
        settle_seconds=seconds(options.SETTLE_SECONDS),
        retry_seconds_max=seconds(options.RETRY_SECONDS_MAX),
        policy=Policy(
            call_seconds=math.ceil(seconds(options.CALL_SECONDS)),
            witness_wait_seconds=math.ceil(seconds(options.WITNESS_WAIT_SECONDS)),
        ),
    )


def check() -> None:
    """Raise `InvalidConfiguration` for the first option that is wrong."""
    for option in options.OPTIONS:
        if option.kind is not Kind.TEXT:
            seconds(option)


def seconds(option: Option) -> float:
    """The value of an option that is a time, within its bounds."""
    text = _text(option)
    try:
        value = _number(text) if option.kind is Kind.SECONDS else _duration(option, text)
    except ValueError as error:
        raise _wrong(option, text) from error
    if not option.least <= value <= option.most:
        raise _wrong(option, text)
    return value


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _duration(option: Option, text: str) -> float:
    """A duration with its unit; nothing but `0` may do without."""
    if text == "0":
        return 0.0
    try:
        return float(quantities.duration_seconds(option.name, text))
    except InvalidJob as error:
        raise ValueError(text) from error


def _text(option: Option) -> str:
    return str(conf.get(SECTION, option.name, fallback=option.default) or option.default).strip()


def _wrong(option: Option, text: str) -> InvalidConfiguration:
    how = "a plain number of seconds" if option.kind is Kind.SECONDS else 'text as "90m" or "1d 6h"'
    return InvalidConfiguration(
        f"[{SECTION}] {option.name} = {text!r} must be a time from {option.least:g} to"
        f" {option.most:g} seconds, written as {how}"
    )
