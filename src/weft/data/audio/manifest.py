"""Which sound says what: folders in the layouts that speech data come in, tables of paths and texts, and archives.

In this order: a table (TSV, CSV, JSONL) with a column of paths; LibriSpeech (*.trans.txt); Common Voice (clips/ and train.tsv, dev.tsv);
LJSpeech (metadata.csv with | between); a .txt beside each sound; digits by their file names (7_theo_32.wav, 7_01_12.flac: digit, speaker,
take, as the Free Spoken Digit Dataset and AudioMNIST have them); a folder for each class.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from weft.core.errors import ConfigError, DataError
from weft.core.registry import nearest
from weft.data.audio.sound_files import SUFFIXES
from weft.data.base import Problems
from weft.data.io.archives import is_archive, read_members
from weft.data.io.files import locate, show, walk
from weft.data.io.records import Records, number, read_records
from weft.data.io.text import read_text

TABLES = (".tsv", ".csv", ".jsonl", ".ndjson")
PATHS = ("path", "file", "audio", "audio_filepath", "filename", "wav", "clip")
TEXTS = ("text", "sentence", "transcript", "transcription", "translation", "label", "class")
SPEAKERS = ("speaker", "speaker_id", "client_id")
DIGIT = re.compile(r"([0-9])_([^_]+)_[0-9]+")
TRANSCRIPT, COMMON_VOICE = ".trans.txt", ("train.tsv", "validated.tsv")


@dataclass(frozen=True)
class Utterance:
    """A sound, or a part of one, and what is said; speaker is empty where it is not known."""

    place: Path | bytes
    name: str
    text: str
    speaker: str = ""
    start: float = 0.0
    seconds: float = 0.0
    """0 to the end of the sound."""


def read_utterances(path: str, problems: Problems, text_column: str = "", split: str = "train") -> list[Utterance]:
    """What lies at a path; `split` is train or dev, of a layout that has parts. Those without a text are counted and left out."""
    if "," in path and not Path(path).exists():
        return [each for one in path.split(",") for each in read_utterances(one.strip(), problems, text_column, split)]
    place = locate(path)
    if place.is_file() and not is_archive(place):
        if not place.name.lower().removesuffix(".gz").endswith(TABLES):
            raise DataError(
                f"{show(place)}: is a file; name a folder or an archive of sounds, or a table ({', '.join(TABLES)}) with their paths"
            )
        found = of_table(place, problems, text_column)
    else:
        found = of_folder(place, problems, text_column, split)
    with_text = [each for each in found if each.text.strip()]
    for each in found:
        if not each.text.strip():
            problems.add("sounds without a text, left out", each.name)
    if not with_text:
        raise DataError(
            f"{show(place)}: none of its sounds has a text or a class; give a table with columns path and text, a .txt beside each sound, "
            f"or a folder for each class{problems.summary()}"
        )
    return with_text


def of_folder(folder: Path, problems: Problems, text_column: str, split: str) -> list[Utterance]:
    if folder.is_dir():
        names = {entry.name for entry in folder.iterdir()}
        if "clips" in names and names & set(COMMON_VOICE):
            return of_table(folder / common_voice_part(names, split), problems, text_column)
        if "metadata.csv" in names and "wavs" in names:
            return of_ljspeech(folder)
        tables = [name for name in sorted(names) if name.lower().endswith(TABLES)]
        if len(tables) == 1:
            return of_table(folder / tables[0], problems, text_column)
    sounds: list[tuple[Path, Path | bytes]]
    if folder.is_dir():
        files = walk(folder, (*SUFFIXES, ".txt"), problems)
        sounds = [(file, file) for file in files if file.suffix.lower() in SUFFIXES]
        if transcripts := [file for file in files if file.name.endswith(TRANSCRIPT)]:
            return of_librispeech(transcripts, {file.stem: file for file, _ in sounds}, problems)
        texts = {file.with_suffix(""): file for file in files if file.suffix.lower() == ".txt"}
    else:
        sounds, texts = list(read_members(folder, SUFFIXES, problems)), {}
    if not sounds:
        raise DataError(f"{show(folder)}: holds no sound file ({', '.join(SUFFIXES)})")
    beside = any(file.with_suffix("") in texts for file, _ in sounds)
    found = []
    for file, place in sounds:
        if beside:
            own = texts.get(file.with_suffix(""))
            found.append(Utterance(place, show(file), read_text(str(own), problems).strip() if own else ""))
        elif digit := DIGIT.fullmatch(file.stem):
            found.append(Utterance(place, show(file), digit[1], digit[2]))
        else:
            parts = file.relative_to(folder).parts
            found.append(Utterance(place, show(file), show(parts[0]) if len(parts) > 1 else ""))
    return found


def common_voice_part(names: set[str], split: str) -> str:
    wanted = ("dev.tsv", "test.tsv") if split == "dev" else COMMON_VOICE
    return next((name for name in wanted if name in names), next(name for name in COMMON_VOICE if name in names))


def has_parts(path: str) -> bool:
    """Whether a path has sounds to validate on of its own."""
    if "," in path and not Path(path).exists():
        return False
    place = locate(path)
    return place.is_dir() and (place / "clips").is_dir() and (place / "train.tsv").is_file() and (place / "dev.tsv").is_file()


def of_table(table: Path, problems: Problems, text_column: str) -> list[Utterance]:
    """A row for each sound; paths are relative to the table, or to clips/ beside it."""
    rows = read_records(str(table), problems, header_name=text_column)
    columns = {wanted[0]: column_of(rows, wanted) for wanted in (PATHS, TEXTS, SPEAKERS, ("start",), ("end",))}
    path = columns["path"] if columns["path"] is not None else 0
    text = rows.column(text_column, "--data.text") if text_column else columns["text"]
    if text is None:
        text = 1 if len(rows.names) > 1 and rows.names[1].isdecimal() else None
    if text is None:
        raise ConfigError(f"--data.text: which column of {show(table)} holds the texts{nearest('text', rows.names)}")
    folders = [table.parent / "clips", table.parent]
    found = []
    for row, cells in enumerate(rows.cells):
        place = next((file for folder in folders if (file := folder / Path(cells[path]).expanduser()).is_file()), None)
        if place is None:
            problems.add("rows whose sound there is not, left out", f"{rows.location(row)} ({show(cells[path])[:80]})")
            continue
        part = part_of_row(cells, columns["start"], columns["end"])
        if part is None:
            problems.add("rows whose start and end are no stretch of time, left out", rows.location(row))
            continue
        speaker = cells[columns["speaker"]] if columns["speaker"] is not None else ""
        found.append(Utterance(place, rows.location(row), cells[text].strip(), speaker, *part))
    if not found:
        raise DataError(f"{show(table)}: none of the sounds that it names can be found{problems.summary()}")
    return found


def column_of(rows: Records, wanted: tuple[str, ...]) -> int | None:
    lower = [name.lower() for name in rows.names]
    return next((lower.index(name) for name in wanted if name in lower), None)


def part_of_row(cells: list[str], start: int | None, end: int | None) -> tuple[float, float] | None:
    """Start and seconds; None where they make no sense."""
    first = number(cells[start] or "0") if start is not None else 0.0
    last = number(cells[end] or "0") if end is not None else 0.0
    if first is None or last is None or first < 0 or (last and last <= first):
        return None
    return first, last - first if last else 0.0


def of_librispeech(transcripts: list[Path], sounds: dict[str, Path], problems: Problems) -> list[Utterance]:
    """Lines of an utterance's name, which begins with the number of its speaker, and its text."""
    found = []
    for file in transcripts:
        for line in read_text(str(file), problems).splitlines():
            name, _, text = line.strip().partition(" ")
            if name in sounds:
                found.append(Utterance(sounds[name], show(sounds[name]), text.strip(), name.partition("-")[0]))
            elif name:
                problems.add("lines whose sound there is not, left out", f"{show(file)} ({show(name)[:80]})")
    if not found:
        raise DataError(f"{show(transcripts[0])}: none of the sounds that it names lies below the folder{problems.summary()}")
    return found


def of_ljspeech(folder: Path) -> list[Utterance]:
    """Lines of name|text|text as it is spoken."""
    found = []
    for line in read_text(str(folder / "metadata.csv"), Problems()).splitlines():
        cells = line.split("|")
        file = folder / "wavs" / f"{cells[0]}.wav"
        if len(cells) > 1 and file.is_file():
            found.append(Utterance(file, show(file), cells[-1].strip(), "one"))
    if not found:
        raise DataError(f"{show(folder / 'metadata.csv')}: none of the sounds that it names lies in wavs/")
    return found
