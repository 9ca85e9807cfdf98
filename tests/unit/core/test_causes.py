"""Causes: every one has a meaning and an act, and the page of causes says what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_dispatch import limits
from airflow_dispatch.core.causes import MEANINGS, Cause, CauseKind
from airflow_dispatch.errors import InvariantBroken

PAGE = Path(__file__).parents[3] / "docs/reference/causes.md"


def test_every_cause_has_its_row() -> None:
    """None is only a word: each says in one line what it means and what to do."""
    assert list(MEANINGS) == list(CauseKind)
    texts = [text for meaning in MEANINGS.values() for text in (meaning.text, meaning.act)]
    assert all(texts)
    assert not [text for text in texts if "\n" in text or text.endswith(".") or "|" in text]
    assert len({meaning.text for meaning in MEANINGS.values()}) == len(MEANINGS)


def test_no_retry_is_spent_where_none_can_help() -> None:
    """What the cluster can never give, refused for good, or an unusable image ends the task."""
    hopeless = {kind for kind in CauseKind if not MEANINGS[kind].retry_helps}
    assert hopeless == {CauseKind.NO_CAPACITY, CauseKind.REJECTED, CauseKind.IMAGE}
    assert not Cause(CauseKind.REJECTED).retry_helps
    assert Cause(CauseKind.UNKNOWN).retry_helps


@pytest.mark.parametrize("kind", list(CauseKind))
def test_a_number_goes_with_exit_and_signal_only(kind: CauseKind) -> None:
    """An exit without its code, or a preemption with one, cannot be built."""
    numbered = kind in (CauseKind.EXIT, CauseKind.SIGNAL)
    assert Cause(kind, 9 if numbered else None).kind is kind
    with pytest.raises(InvariantBroken, match="a number goes with"):
        Cause(kind, None if numbered else 9)


def test_a_detail_is_bounded() -> None:
    """Whoever quotes a scheduler cuts what it said."""
    Cause(CauseKind.REJECTED, detail="x" * limits.DETAIL_CHARS_MAX)
    with pytest.raises(InvariantBroken, match="cut by whoever makes it"):
        Cause(CauseKind.REJECTED, detail="x" * (limits.DETAIL_CHARS_MAX + 1))


def test_a_cause_reads_as_a_slug_with_its_number_and_words() -> None:
    """As events and the command line show it."""
    assert str(Cause(CauseKind.EXIT, 3)) == "exit(3)"
    assert str(Cause(CauseKind.EXIT, 0, "said so")) == "exit(0): said so"
    assert str(Cause(CauseKind.PREEMPTED)) == "preempted"


def rows() -> list[str]:
    """The rows that the page of causes must have."""
    return [
        f"| `{kind.value}` | {meaning.text} | {meaning.act} | "
        f"{'yes' if meaning.retry_helps else 'no'} |"
        for kind, meaning in MEANINGS.items()
    ]


def test_the_page_of_causes_says_what_the_code_says() -> None:
    """`docs/reference/causes.md` has one row for each cause, word for word, in the same order."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("| `")] == rows()
