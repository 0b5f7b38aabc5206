"""English text for word vectors, pooled from data sets found through WEFT_DATA: 9.3 million words in lower case.

A line has 1000 words, with an empty one behind it, so that weft (whose documents are paragraphs) and gensim (whose are lines) cut the text
in the same places.
"""

from __future__ import annotations

import gzip
import json
import re
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from weft.data.io.files import locate
from weft.data.text.cooccurrence import words

LINE = 1000
"""Words of a line."""
ARTICLE = re.compile(r"^</?doc\b[^>\n]*>$", re.MULTILINE)


def novels() -> Iterator[str]:
    with tarfile.open(locate("novels/novels_18.tar.xz")) as archive:
        for member in sorted((one for one in archive if one.isfile()), key=lambda one: one.name):
            stream = archive.extractfile(member)
            assert stream
            yield stream.read().decode()


def brown() -> Iterator[str]:
    """The words of the tagged corpus without their tags."""
    with zipfile.ZipFile(locate("nltk/brown.zip")) as archive:
        for name in sorted(archive.namelist()):
            if re.fullmatch(r"brown/c[a-r]\d\d", name):
                yield " ".join(pair.rpartition("/")[0] for pair in archive.read(name).decode().split())


def records(path: str, *fields: str) -> Iterator[str]:
    with gzip.open(locate(path), "rt", encoding="utf-8") as lines:
        for line in lines:
            yield "\n".join(json.loads(line).get(field) or "" for field in fields)


def text(path: str) -> Iterator[str]:
    with gzip.open(locate(path), "rt", encoding="utf-8") as stream:
        yield ARTICLE.sub("", stream.read())


def sources() -> dict[str, Iterator[str]]:
    return {
        "novels": novels(),
        "Reuters": records("reuters21578/reuters21578.jsonl.gz", "title", "body"),
        "Brown": brown(),
        "Wikipedia": text("wikipedia_sample/wiki.utf8.txt.gz"),
        "BBC": records("bbc_summary/bbc_summary.jsonl.gz", "article"),
        "War and Peace": text("war_and_peace/warandpeace.txt.gz"),
        "WikiText-2, validation": text("wikitext2_valid_test/valid.txt.gz"),
        "Penn Treebank, training": text("ptb/ptb.train.txt.gz"),
    }


def write(path: Path, texts: dict[str, Iterator[str]]) -> None:
    """The file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with part.open("w", encoding="utf-8") as out:
        for parts in texts.values():
            found = [word for one in parts for word in words(one)]
            out.writelines(" ".join(found[first : first + LINE]) + "\n\n" for first in range(0, len(found), LINE))
    part.replace(path)


def pooled(folder: Path) -> Path:
    """The file of the pool, written where it is not there yet."""
    path = folder / "pool.txt"
    if not path.exists():
        write(path, sources())
    return path
