"""Texts of any encoding: read right, or refused with one sentence; and large ones, which stay UTF-8 in memory."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.errors import ConfigError, DataError
from weft.data.base import Problems
from weft.data.io import text as io_text
from weft.data.io.encodings import check_encoding, foreign_words
from weft.data.io.text import Text, decode, read_whole

CHINESE = "学而时习之，不亦说乎？有朋自远方来，不亦乐乎？人不知而不愠，不亦君子乎？\n"
TRADITIONAL = "學而時習之，不亦說乎？有朋自遠方來，不亦樂乎？人不知而不慍，不亦君子乎？\n"
JAPANESE = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。\n"
FRENCH = "Longtemps, je me suis couché de bonne heure. Parfois, à peine ma bougie éteinte, mes yeux se fermaient si vite.\n"
ENGLISH = "It was the best of times, it was the worst of times, it was the age of wisdom.\n"
CASES = {
    "utf-8": CHINESE + FRENCH,
    "utf-8-sig": FRENCH,
    "utf-16": CHINESE,
    "utf-16-le": CHINESE,
    "utf-16-be": CHINESE,
    "utf-32": FRENCH,
    "gb18030": CHINESE,
    "big5": TRADITIONAL,
    "latin-1": FRENCH,
    "cp1252": "“It was the best of times” — it wasn’t.\n",
    "shift_jis": JAPANESE,
}


@pytest.mark.parametrize("size", ["short", "long", "mixed"])
@pytest.mark.parametrize("encoding", CASES)
def test_every_encoding_is_read_right(encoding: str, size: str) -> None:
    own = CASES[encoding]
    text = {"short": own, "long": own * 500, "mixed": (ENGLISH * 5 + own) * 50}[size]
    problems = Problems()
    assert decode(text.encode(encoding), Path("my.txt"), problems) == text
    detected = [line for line in problems.lines() if "--data.encoding names another: my.txt" in line]
    assert len(detected) == len(problems.counts) == (0 if encoding.startswith("utf") and encoding[-2:] not in ("le", "be") else 1)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_of_letters_alone_is_valid_utf8_and_known_all_the_same(encoding: str) -> None:
    assert decode(ENGLISH.encode(encoding), Path("my.txt"), Problems()) == ENGLISH
    assert decode("a b".encode(encoding), Path("my.txt"), Problems()) == "a b"


@pytest.mark.parametrize(
    "data",
    [
        "天地".encode("gb18030"),  # as good a reading in four other encodings
        "猫で".encode("shift_jis"),
        "Все счастливые".encode("cp1251"),
        "Zażółć gęślą jaźń.".encode("cp1250"),
        "İstanbul’da şeker, ağaç".encode("cp1254"),
        "naïve résumé".encode("mac-roman"),
        b"\xff\xfb\x90\x44" + bytes(range(256)) * 9,
    ],
)
def test_what_is_not_certain_is_one_sentence_that_names_file_guess_and_flag(data: bytes) -> None:
    with pytest.raises(DataError, match=r"^my\.txt: is not UTF-8 .*name its encoding,? (as )?with --data\.encoding") as caught:
        decode(data, Path("my.txt"), Problems())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("encoding", ["gb18030", "big5", "shift_jis", "euc_jp", "latin-1", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("mixed", [False, True])
def test_any_piece_of_a_text_is_read_right_or_refused_never_wrong(encoding: str, mixed: bool) -> None:
    whole = {"big5": TRADITIONAL, "shift_jis": JAPANESE, "euc_jp": JAPANESE, "latin-1": FRENCH}.get(encoding, CHINESE).replace("\n", "") * 2
    right = 0
    for start in range(len(whole) // 2):
        piece = whole[start : start + 24]
        text = f"{ENGLISH}{piece}\n{ENGLISH}" if mixed else piece
        try:
            assert decode(text.encode(encoding), Path("my.txt"), Problems()) == text
            right += 1
        except DataError:
            pass
    assert right >= (0 if encoding.startswith("utf-16") and not mixed else 0.5 * len(whole) // 2), "without a line end UTF-16 shows little"


def test_a_named_encoding_is_taken_but_not_where_much_has_no_meaning_in_it() -> None:
    assert decode("天地".encode("gb18030"), Path("my.txt"), Problems(encoding=check_encoding("GB18030"))) == "天地"
    assert decode(b"caf\xe9", Path("my.txt"), Problems(encoding=check_encoding("latin-1"))) == "café"
    assert decode("ab".encode("utf-16"), Path("my.txt"), Problems(encoding="latin-1")) == "ab", "a byte-order mark says more"
    with pytest.raises(DataError, match=r"my\.txt: 1,0\d\d of its [\d,]+ characters are not UTF-8, the first in line 1 .*--data\.encoding"):
        decode("é à ".encode("latin-1") * 512, Path("my.txt"), Problems(encoding="utf-8"))
    for wrong in ("klingon", "hex", "a b", "\0"):
        with pytest.raises(ConfigError, match=r"--data\.encoding .* is no encoding of text"):
            check_encoding(wrong)


def test_a_few_damaged_bytes_of_utf8_are_counted() -> None:
    problems = Problems()
    assert decode(CHINESE.encode() * 3 + b"\xe5\xad\n", Path("my.txt"), problems) == CHINESE * 3 + "\ufffd\n"
    assert problems.lines() == ["1 × bytes that are not UTF-8, replaced by U+FFFD: my.txt:4 (byte 327)"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_encodings_with_a_mark_are_read(encoding: str) -> None:
    problems = Problems()
    assert decode("naïve Ω 😀\n".encode(encoding), Path("x"), problems) == "naïve Ω 😀\n"
    assert not problems.counts


def test_foreign_bytes_are_counted_and_named() -> None:
    problems = Problems(encoding="utf-8")
    text = decode("one\ncafé, déjà\n\ufffd\n".encode("latin-1", errors="replace").replace(b"?", "\ufffd".encode()), Path("a.txt"), problems)
    assert text == "one\ncaf\ufffd, d\ufffdj\ufffd\n\ufffd\n"
    assert problems.lines() == ["3 × bytes that are not UTF-8, replaced by U+FFFD: a.txt:2 (byte 7)"]


def test_a_damaged_utf16_file_is_counted() -> None:
    problems = Problems()
    decode("ab\n".encode("utf-16") + b"\x00\xd8a\x00b", Path("a.txt"), problems)
    assert next(iter(problems.counts)).startswith("bytes that are not UTF-16")
    assert "a.txt:2" in problems.lines()[0]


def test_exact_text_keeps_every_byte() -> None:
    data = bytes(range(256))
    assert decode(data, Path("x"), Problems(), exact=True).encode("utf-8", errors="surrogateescape") == data


@given(st.text(st.sampled_from("ab \n\r\0é学😀"), max_size=60), st.floats(0, 0.99), st.integers(4, 20))
def test_a_text_in_pieces_is_the_text(text: str, share: float, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(io_text, "PIECE", piece)
        whole = Text(text.encode())
        assert str(whole) == text and whole.characters == len(text) and whole.size == len(text.encode())
        cut = int(len(text) * (1 - share))
        assert tuple(map(str, whole.split(share))) == (text[:cut], text[cut:])
        assert np.array_equal(whole.split(share)[1].array(), np.frombuffer(text[cut:].encode(), np.uint8))


def test_line_ends_and_several_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\r")
    (tmp_path / "b.txt").write_bytes("drei\r\n".encode("utf-16"))
    (tmp_path / "c.txt").write_bytes("猫で".encode("shift_jis"))
    problems = Problems()
    assert str(read_whole(str(tmp_path), problems)) == "one\ntwo\n\ndrei\n"
    (line,) = problems.lines()
    assert line.startswith("1 × files that cannot be read: ") and "c.txt: is not UTF-8" in line


def test_long_words_are_read_once() -> None:
    """A damaged table may hold words of 100,000 letters, and one byte that is no UTF-8."""
    data = b"x" * 3_000_000 + b" caf\xe9 " + b"y" * 3_000_000
    started = time.process_time()
    assert foreign_words(data) == b"caf\xe9"
    assert time.process_time() - started < 2
