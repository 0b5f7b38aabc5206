"""Text files as one stream of tokens, cut into windows for next-token prediction."""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from weft import registry
from weft.data.base import IGNORE, Batch, Data, DataConfig, Dataset, Problems
from weft.data.tokenizers import Tokenizer
from weft.errors import DataError

Unit = Literal["characters", "bytes", "words"]


def locate(path: str) -> Path:
    """A file or folder by its path, or by its path below the folder $WEFT_DATA."""
    if not path:
        raise DataError("no data was given; name a file or folder with --data.path")
    found = Path(path).expanduser()
    root = os.environ.get("WEFT_DATA")
    if not found.exists() and root and (Path(root) / path).exists():
        found = Path(root) / path
    if not found.exists():
        where = f" (nor below WEFT_DATA={root})" if root else " (and WEFT_DATA, a folder of data sets, is not set)"
        raise DataError(f"{path}: no such file or folder{where}; name one with --data.path")
    return found


def read_bytes(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix == ".gz" else data
    except (OSError, EOFError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error


def decode(data: bytes, path: Path, problems: Problems) -> str:
    """UTF-8, or UTF-16 where a byte-order mark says so; bytes that are neither are counted and become U+FFFD."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", errors="replace")
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        text = data.decode("utf-8", errors="replace")
        line = data.count(b"\n", 0, error.start) + 1
        bad = max(1, text.count("\ufffd") - data.count(b"\xef\xbf\xbd"))
        problems.add("bytes that are not UTF-8, replaced by U+FFFD", f"{path}:{line} (byte {error.start})", bad)
        return text


def read_text(path: str, problems: Problems, suffixes: tuple[str, ...] = (".txt", ".md", ".gz")) -> str:
    """One file, or every text file of a folder in the order of its path."""
    place = locate(path)
    files = [place]
    if place.is_dir():
        files = sorted(p for p in place.rglob("*") if p.is_file() and p.suffix in suffixes)
        if not files:
            raise DataError(f"{place}: the folder holds no text file ({', '.join(suffixes)})")
    parts = []
    for file in files:
        text = decode(read_bytes(file), file, problems)
        if not text.strip():
            problems.add("empty files", str(file))
        parts.append(text)
    whole = "\n".join(parts) if len(parts) > 1 else parts[0]
    if not whole.strip():
        raise DataError(f"{place}: the text is empty")
    return whole


class TokenWindows(Dataset):
    """Windows of a token stream. In training every start is an example; in order, windows meet and cover each token once."""

    def __init__(self, tokens: Tensor, context: int, overlapping: bool):
        self.tokens, self.context, self.overlapping = tokens, context, overlapping

    def __len__(self) -> int:
        predicted = len(self.tokens) - 1
        return max(1, predicted - self.context + 1) if self.overlapping else -(-predicted // self.context)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        start = index if self.overlapping else index * self.context
        place = start[:, None] + torch.arange(self.context + 1, device=index.device)  # (B, T + 1)
        last = len(self.tokens) - 1
        window = self.tokens[place.clamp(max=last)].long()
        targets = window[:, 1:]
        if not self.overlapping or last < self.context:
            targets = targets.masked_fill(place[:, 1:] > last, IGNORE)
        return {"ids": window[:, :-1], "targets": targets}

    def to(self, device: torch.device) -> Dataset:
        return TokenWindows(self.tokens.to(device), self.context, self.overlapping)

    @property
    def device(self) -> torch.device:
        return self.tokens.device


def as_tensor(ids: np.ndarray, size: int) -> Tensor:
    """Tokens in the smallest type that holds them."""
    kind = np.uint8 if size <= 256 else np.int16 if size <= 32768 else np.int32
    return torch.from_numpy(np.ascontiguousarray(ids).astype(kind))


def language_data(train: str, validation: str, unit: Unit, vocabulary: int, context: int, problems: Problems) -> Data:
    """Training and validation windows of two texts under one tokenizer."""
    tokenizer: Tokenizer = registry.find("tokenizers", unit).train(train + validation if unit == "characters" else train, vocabulary)
    first, second = tokenizer.encode(train), tokenizer.encode(validation)
    for name, ids in (("training", first), ("validation", second)):
        if len(ids) < 2:
            raise DataError(f"the {name} text has {len(ids)} tokens; at least 2 are needed")
    info = {
        "vocabulary": tokenizer.size,
        "context": context,
        "tokens": context,
        "bytes_per_token": len(validation.encode("utf-8", errors="replace")) / len(second),
        "training_tokens": len(first),
        "validation_tokens": len(second),
    }
    return Data(
        TokenWindows(as_tensor(first, tokenizer.size), context, overlapping=True),
        TokenWindows(as_tensor(second, tokenizer.size), context, overlapping=False),
        info,
        tokenizer,
        problems,
    )


@dataclass(frozen=True, kw_only=True)
class TextConfig(DataConfig):
    path: str = ""
    """A text file (plain or .gz) or a folder of them; a path below $WEFT_DATA may be given relative to it."""
    validation_path: str = ""
    """Text to validate on; by default the end of `path`."""
    validation: float = 0.1
    """Share at the end of `path` kept for validation where no validation_path is given."""
    unit: Unit = "characters"
    """What a token is."""
    vocabulary: int = 0
    """Largest number of words; 0 is 10,000. Bytes and characters need no limit."""
    context: int = 256
    """Tokens per example."""

    def build(self) -> Data:
        problems = Problems()
        text = read_text(self.path, problems)
        if self.validation_path:
            return language_data(text, read_text(self.validation_path, problems), self.unit, self.vocabulary, self.context, problems)
        cut = int(len(text) * (1 - self.validation))
        return language_data(text[:cut], text[cut:], self.unit, self.vocabulary, self.context, problems)
