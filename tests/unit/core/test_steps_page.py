"""The page of steps says what the code does: names, commit kinds, calls, deadlines, replies, waits.

What a step commits and sends is read off the answers to the small cases; which replies a call can
have is read off the port.
"""

from __future__ import annotations

import re
import typing
from itertools import chain, islice
from pathlib import Path

import pytest

from airflow_dispatch.core import decision
from airflow_dispatch.core.commits import KINDS, Intended, kind_of
from airflow_dispatch.core.record import Call
from airflow_dispatch.core.settlement import kind_of_call
from airflow_dispatch.core.steps import WAITS, Decide, Send, StepName, WaitKind
from airflow_dispatch.core.view import CallKind
from airflow_dispatch.ports.cluster import Cluster
from tests.unit.core import small_cases

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/reference/steps.md"
PROMISES = {
    "authorized-only",
    "cancel-final",
    "nothing-forgotten",
    "no-overlap",
    "no-lock-needed",
    "evidence-only",
    "follows-the-task",
    "no-state-outside",
}


def rows(first: type[StepName | WaitKind]) -> dict[str, list[str]]:
    """The cells of the rows that begin with a member of the enumeration, by its slug."""
    found: dict[str, list[str]] = {}
    title = "## Steps" if first is StepName else "## Waits"
    section = PAGE.read_text(encoding="utf-8").split(f"\n{title}\n")[1].split("\n## ")[0]
    for line in section.splitlines():
        name, *cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        slug = name.strip("` ")
        if line.startswith("| `"):
            assert slug in {member.value for member in first}, slug
            assert slug not in found, f"two rows for {slug}"
            found[slug] = cells
    return found


def name_of(reply: type) -> str:
    """A reply's name in words, as the page has it."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", reply.__name__).lower()


def replies(kind: CallKind) -> list[str]:
    """What a call can come back with: the port's own answers, and that it was not sent."""
    answers = typing.get_args(typing.get_type_hints(getattr(Cluster, kind.value))["return"])
    return [*map(name_of, answers), "not sent"]


@pytest.fixture(scope="module")
def steps() -> dict[str, tuple[str, str, str]]:
    """Commit kind, call and deadline of each step, as seen in the answers to the small cases."""
    seen: dict[str, tuple[str, str, str]] = {}
    families = (small_cases.seeking, small_cases.following, small_cases.cleaning)
    for make in islice(chain.from_iterable(family() for family in families), 0, None, 7):
        case = make()
        taken = decision.next(case.record, case.view, case.context)
        if not isinstance(taken, (Decide, Send)):
            continue
        body, call, deadline = taken.body, "", ""
        if isinstance(body, Intended):
            call = kind_of_call(Call(1, body.intent, 1)).value
            deadline = "yes" if body.deadline is not None else "no"
        found = (kind_of(body), call, deadline)
        assert seen.setdefault(taken.name.value, found) == found
    return seen


def test_every_step_has_one_row(steps: dict[str, tuple[str, str, str]]) -> None:
    """In the order of the code, and the cases reach each of them."""
    assert list(rows(StepName)) == [name.value for name in StepName]
    assert set(steps) == {name.value for name in StepName}


def test_each_row_says_what_its_step_commits_and_sends(
    steps: dict[str, tuple[str, str, str]],
) -> None:
    """Commit kind, call, whether it has a deadline, and what can come back."""
    for name, (condition, commit, call, deadline, coming_back) in rows(StepName).items():
        kind, sent, has_deadline = steps[name]
        assert condition, name
        assert commit == f"`{kind}`", name
        assert call == (f"`{sent}`" if sent else "-"), name
        expected = replies(CallKind(sent)) if sent else []
        assert coming_back == (", ".join(expected) or "-"), name
        assert (deadline == "-") is (has_deadline != "yes"), name


def test_every_commit_kind_is_on_the_page() -> None:
    """Those that no step makes are named as acts, evidence or the beginning."""
    text = PAGE.read_text(encoding="utf-8")
    assert [kind for kind, _ in KINDS.values() if f"`{kind}`" not in text] == []


def test_the_table_of_waits_says_what_the_code_says() -> None:
    """Word for word, in the same order, with the promise that holds the job back."""
    expected = {
        kind.value: [WAITS[kind].text, f"`{WAITS[kind].promise}`" if WAITS[kind].promise else "-"]
        for kind in WaitKind
    }
    found = rows(WaitKind)
    assert list(found) == list(expected)
    assert found == expected


def test_every_wait_has_a_meaning_and_names_a_promise_that_exists() -> None:
    """Or none, where it is the world that takes its time."""
    assert list(WAITS) == list(WaitKind)
    for meaning in WAITS.values():
        assert meaning.text
        assert not meaning.promise or meaning.promise in PROMISES
