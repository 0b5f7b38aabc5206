"""What the command line says of warnings and failures, and how much of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from weft.cli import console


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    """The library's log, as it was before."""
    found = logging.getLogger("weft")
    before = list(found.handlers)
    yield found
    for name in ("weft", "uvicorn.error", "asyncio"):
        other = logging.getLogger(name)
        other.handlers = before if name == "weft" else [one for one in other.handlers if not isinstance(one, console.Stderr)]


def test_a_failure_is_logged_with_where_it_happened(log: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    console.show_log()
    try:
        raise ZeroDivisionError("of all things")
    except ZeroDivisionError as error:
        log.error("a request failed", exc_info=error)
    said = capsys.readouterr().err
    assert said.startswith("weft: a request failed")
    assert "ZeroDivisionError: of all things" in said
    assert "test_a_failure_is_logged_with_where_it_happened" in said


def test_a_line_that_repeats_itself_is_shown_a_few_times(log: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    console.show_log()
    for number in range(10_000):
        log.warning("bad request %d %s", number, "x" * 20_000)
    log.warning("something else")
    said = capsys.readouterr().err
    assert len(said) < 100_000
    assert [f"bad request {number} " in said for number in (0, 4, 5)] == [True, True, False]
    assert "more like it are not shown for 60 seconds" in said
    assert "something else" in said


def test_what_was_left_out_is_counted() -> None:
    repeats = console.Repeats(most=2, seconds=60.0)
    found = []
    for second in (0, 1, 2, 3, 61):
        record = logging.LogRecord("weft", logging.WARNING, "a.py", 1, "said %d", (second,), None)
        record.created = float(second)
        found.append((repeats.filter(record), record.getMessage() + getattr(record, "repeats", "")))
    assert [shown for shown, _ in found] == [True, True, False, False, True]
    assert found[-1][1] == "said 61 (2 more like it were not shown)"


def test_warnings_of_other_commands_are_all_shown(log: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    console.show_log()
    console.show_warnings()
    for number in range(20):
        log.warning("line %d", number)
    assert len(capsys.readouterr().err.splitlines()) == 20
