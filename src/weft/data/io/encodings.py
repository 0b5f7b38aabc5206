"""The encoding of a text file: named, or detected; what is neither is refused, never read as replacement characters.

In order: a byte-order mark; UTF-16 without one, by its NUL bytes; UTF-8, also where a few bytes of it are damaged; then the encodings
of `DETECTED`, by how the words with bytes above 127 read. A guess counts only where the others read clearly worse.
"""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import NamedTuple

from weft.core.errors import ConfigError, DataError
from weft.data.io.files import show
from weft.data.problems import Problems

BYTE_ORDER_MARKS = ((b"\xff\xfe\x00\x00", "utf-32"), (b"\x00\x00\xfe\xff", "utf-32"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
UTF8_MARK = b"\xef\xbb\xbf"
DETECTED = ("gb18030", "big5", "cp932", "euc_jp", "euc_kr", "cp1251", "koi8_r")
"""Encodings of several bytes a character, and Cyrillic ones, that are told apart by charset-normalizer."""
NAMES = {"cp932": "Shift-JIS", "cp1252": "Windows-1252 (Latin-1)", "cp1251": "Windows-1251", "koi8_r": "KOI8-R", "euc_jp": "EUC-JP"}
"""What people call them, where it is not the codec's name in capitals."""
FOREIGN_WORD = re.compile(rb"(?<!\S)[^\s\x80-\xff]*+[\x80-\xff]\S*")  # read once, however long a word is
HIGH = re.compile(rb"[\x80-\xff]+")
SAMPLE = 1 << 14
"""Bytes of words that are looked at."""
SCAN = 1 << 24
"""Bytes in which those words are looked for."""
WESTERN = re.compile(
    r"[ -~\s\u00a0-\u00bf\u00c0-\u00cf\u00d1-\u00d6\u00d8-\u00dc\u00df-\u00ef\u00f1-\u00f6\u00f8-\u00fc‘’‚“”„†‡•…‰‹›€™–—ˆ˜ŠšŒœŽžŸƒ]*"
)
"""Windows-1252 without the letters of Icelandic, which stand for others in Turkish text."""
MISREAD = re.compile(r"[^\W\d_][\u00a1-\u00a9\u00ab-\u00b4\u00b6-\u00b9\u00bb-\u00bf†‡•…‰€™ˆ˜][^\W\d_]|[a-z][\u00c0-\u00deŠŽŒŸ][a-z]")
"""A sign between letters, or a capital between small ones: text of another single-byte encoding, read as Windows-1252."""
RARE = re.compile(r"[\uff61-\uff9f\u3131-\u318e\ue000-\uf8ff]")
"""Half-width katakana, lone jamo, and characters for private use: what other East Asian text looks like, read as Japanese or Korean."""
SHORT = 20
"""Bytes of such words below which nothing is certain."""
LESS_CHAOS = 0.02
"""How much worse the second-best reading must be, in charset-normalizer's share of implausible characters."""
CONTROLS = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")


PIECE = 1 << 18
"""Bytes that are decoded at once: a string takes up to four for each of them."""


class Guess(NamedTuple):
    """An encoding, and whether nothing else is likely."""

    encoding: str
    certain: bool


def check_encoding(name: str, flag: str = "--data.encoding") -> str:
    """The codec of a name that a user gave, "" for detection."""
    if not name:
        return ""
    try:
        b"a".decode(name, errors="replace")  # refuses codecs that are no encodings of text
        return codecs.lookup(name).name
    except (LookupError, ValueError) as error:
        raise ConfigError(
            f"{flag} {name!r} is no encoding of text; utf-8, utf-16, gb18030, big5, shift_jis and latin-1 are some"
        ) from error


def title(encoding: str) -> str:
    """An encoding as people write it."""
    return NAMES.get(encoding, encoding.upper().replace("_", "-"))


def encoding_of(data: bytes, path: Path, problems: Problems, whole: bool = True) -> str:
    """The encoding of a file; refused where it is not clear. A byte-order mark decides, then the name that the user gave.

    `data` may be the file's beginning, without `whole`. What was detected, and is not Unicode, is said.
    """
    if known := marked(data):
        return known
    if problems.encoding:
        return problems.encoding
    if silent := without_mark(data):
        problems.add(f"files read as {title(silent)}, which has no mark here; --data.encoding names another", show(path))
        return silent
    if is_utf8(data, whole):
        return "utf-8"
    guess = detect(data)
    if not guess.certain:
        raise DataError(refusal(data, path, guess))
    problems.add(f"files read as {title(guess.encoding)}, which was detected; --data.encoding names another", show(path))
    return guess.encoding


def refusal(data: bytes, path: Path, guess: Guess) -> str:
    """Why a file is not read, and what to do."""
    try:
        data.decode()
        where = ""  # it is the beginning of the file that is
    except UnicodeDecodeError as error:
        where = f" (byte {error.start}, line {data.count(10, 0, error.start) + 1})"
    if not guess.encoding:
        return (
            f"{show(path)}: is not UTF-8{where}, nor like another encoding of text; if it is text, name its encoding with --data.encoding"
        )
    return (
        f"{show(path)}: is not UTF-8{where}; it may be {title(guess.encoding)}, but that is not certain: name its encoding, as with "
        f"--data.encoding {guess.encoding} (--data.encoding utf-8 replaces a few damaged bytes)"
    )


def marked(data: bytes) -> str:
    """The encoding that a byte-order mark tells, "" without one."""
    if data.startswith(UTF8_MARK):
        return "utf-8"
    return next((name for bom, name in BYTE_ORDER_MARKS if data.startswith(bom)), "")


def without_mark(data: bytes) -> str:
    """UTF-16 of either byte order, by the NUL bytes of its spaces and line ends, which stand before or behind the other byte of each."""
    sample = data[: 1 << 16]
    sample = sample[: len(sample) // 2 * 2]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if not even + odd or (max(even, odd) * 10 < len(sample) and is_utf8(data[:SCAN], whole=False)):
        return ""  # the second: NUL characters in a text of single bytes
    encoding, other = ("utf-16-be", "utf-16-le") if even > odd else ("utf-16-le", "utf-16-be")
    strange = unprintable(sample, encoding)
    return encoding if strange <= 0.02 and strange < unprintable(sample, other) else ""


def unprintable(data: bytes, encoding: str) -> float:
    """The share of characters that no text holds."""
    text = data.decode(encoding, errors="replace")
    return sum(not (character.isprintable() or character in "\n\r\t\f\ufeff") or character == "\ufffd" for character in text) / len(text)


def is_utf8(data: bytes, whole: bool) -> bool:
    """Whether it is UTF-8, or was before a few of its bytes were damaged: nine characters of several bytes to one that is not."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    view = memoryview(data)
    try:
        for first in range(0, len(data), PIECE):
            decoder.decode(view[first : first + PIECE])
        if whole:
            decoder.decode(b"", final=True)
        return True
    except UnicodeDecodeError:
        pass
    damaged = good = 0
    for first in range(0, len(data), PIECE):
        text = data[first : first + PIECE].decode(errors="replace")
        bad = text.count("\ufffd")
        damaged, good = damaged + bad, good + sum(map(len, re.findall(r"[^\x00-\x7f]+", text))) - bad
    return good >= 9 * damaged


def detect(data: bytes) -> Guess:
    """The encoding of bytes that are not Unicode, by their words with bytes above 127."""
    if CONTROLS.search(data[:SCAN]):
        return Guess("", False)
    sample = foreign_words(data)
    runs = HIGH.findall(sample)
    alone = sum(len(run) == 1 for run in runs)
    if alone >= 0.8 * len(runs):
        return western(sample)
    import charset_normalizer  # only for files that need it

    read = charset_normalizer.from_bytes(sample, steps=1, chunk_size=len(sample), cp_isolation=list(DETECTED))
    matches = [match for match in read if len(RARE.findall(str(match))) * 10 <= len(re.findall(r"[^\x00-\x7f]", str(match)))]
    if not matches:
        return Guess("", False)
    best, others = matches[0], [match for match in matches if match.encoding != matches[0].encoding]
    clear = all(other.chaos >= best.chaos + LESS_CHAOS or best.coherence >= other.coherence + 0.05 for other in others)
    return Guess(best.encoding, clear and len(sample) >= SHORT and decodes(data, best.encoding))


def western(sample: bytes) -> Guess:
    """Windows-1252, of which Latin-1 is a part, where its letters and signs stand where they do in words."""
    try:
        text = sample.decode("cp1252")
    except UnicodeDecodeError:
        return Guess("", False)
    return Guess("cp1252", bool(WESTERN.fullmatch(text)) and not MISREAD.search(text))


def foreign_words(data: bytes) -> bytes:
    """The first words with bytes above 127, up to SAMPLE bytes of them: no character of an encoding crosses a space or line end."""
    words: list[bytes] = []
    size = 0
    for match in FOREIGN_WORD.finditer(data[:SCAN] if HIGH.search(data[:SCAN]) else data):
        words.append(match.group()[: SAMPLE // 2 * 2])
        size += len(words[-1])
        if size >= SAMPLE:
            break
    return b" ".join(words)


def decodes(data: bytes, encoding: str) -> bool:
    """Whether all of the bytes have a meaning in an encoding, but for a character cut off at the end."""
    decoder = codecs.getincrementaldecoder(encoding)()
    view = memoryview(data)
    try:
        for first in range(0, len(data), PIECE):
            decoder.decode(view[first : first + PIECE])
    except UnicodeDecodeError:
        return False
    return True
