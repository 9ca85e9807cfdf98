"""The story of a run in a log: whole lines, without what would move a reader's cursor."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from airflow_dispatch.ports.journal import Level
from airflow_dispatch.surface.journal import LINE_CHARS_MAX, LogJournal


class Kept(logging.Handler):
    """Keeps what was logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.lines.append((record.levelno, record.getMessage()))

    @property
    def text(self) -> list[str]:
        """The messages."""
        return [line for _, line in self.lines]


@pytest.fixture
def kept() -> Iterator[Kept]:
    """The log that `journal` writes."""
    kept = Kept()
    logger = logging.getLogger("tests.journal")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(kept)
    yield kept
    logger.removeHandler(kept)


@pytest.fixture
def journal(kept: Kept) -> LogJournal:
    """A journal into `kept`."""
    return LogJournal(logging.getLogger("tests.journal"))


def test_levels_are_those_of_logging(journal: LogJournal, kept: Kept) -> None:
    """Each level of the story has its level in the log, and a text is never a format."""
    for level in Level:
        journal.tell(level, "100 %s %d")
    assert kept.lines == [
        (number, "100 %s %d") for number in (logging.DEBUG, 20, logging.WARNING, logging.ERROR)
    ]


def test_pieces_cut_anywhere_become_lines(journal: LogJournal, kept: Kept) -> None:
    """A line is told once, when it is whole."""
    for piece in ("epo", "ch 1\nep", "och 2\n", "\nlast"):
        journal.output(piece)
    assert kept.text == ["epoch 1", "epoch 2", ""]
    journal.flush()
    journal.flush()
    assert kept.text == ["epoch 1", "epoch 2", "", "last"]


def test_the_story_does_not_run_into_the_output(journal: LogJournal, kept: Kept) -> None:
    """What was printed before something was decided stands before it."""
    journal.output("50 %")
    journal.tell(Level.INFO, "The run ended.")
    assert kept.text == ["50 %", "The run ended."]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]0;title\x1b\\text", "text"),
        ("10 %\r20 %\r30 %", "30 %"),
        ("windows\r", "windows"),
        ("a\tb", "a\tb"),
        ("nul\0bell\x07", "nul\ufffdbell\ufffd"),
        ("\x1b", "\ufffd"),
        ("größe ✓", "größe ✓"),
    ],
)
def test_a_line_is_shown_as_a_terminal_leaves_it(
    journal: LogJournal, kept: Kept, written: str, shown: str
) -> None:
    """Colours, titles and overwritten progress are gone, other control characters are marked."""
    journal.output(written + "\n")
    assert kept.text == [shown]


def test_a_line_without_end_is_told_in_parts(journal: LogJournal, kept: Kept) -> None:
    """Nothing is held back without bound, and nothing is lost."""
    journal.output("x" * (2 * LINE_CHARS_MAX + 5))
    journal.output("y\n")
    assert [len(line) for line in kept.text] == [LINE_CHARS_MAX, LINE_CHARS_MAX, 6]
    journal.output("z" * LINE_CHARS_MAX + "\n")
    assert len(kept.text) == 4


def test_many_runs_in_one_log_are_told_apart(kept: Kept) -> None:
    """A prefix stands before each line, output too."""
    journal = LogJournal(logging.getLogger("tests.journal"), prefix="abc: ")
    journal.tell(Level.INFO, "Starting.")
    journal.output("epoch 1\n")
    assert kept.text == ["abc: Starting.", "abc: epoch 1"]
