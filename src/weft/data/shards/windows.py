"""Windows of token shards that `weft data build` made, mapped into memory, of one folder or of several in given proportions.

Documents follow one another without gaps. A folder is a ring of tokens: an epoch cuts it into windows that meet, from another place
each time. Documents are held out by the hash of their text, so no copy of one that validates is ever trained on.

Batch: ids (B, T), targets (B, T); with `documents`, also documents (B, T), the number of the document of each token in its window.
The mark that ends a document counts with the next, as what that begins with. A model that is to look at nothing but the document of
a token makes its mask from them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError, DataError
from weft.data.base import IGNORE, Batch, Data, DataConfig, Dataset, Problems
from weft.data.io.files import locate, show
from weft.data.shards.files import Shards
from weft.data.shards.mixture import Mixture, proportions
from weft.data.split import check_share
from weft.data.text.token_stream import Stream
from weft.data.text.windows import check_sizes, refuse_padding


class ShardWindows(Dataset):
    """What windows of several streams have in common. An example is addressed by the token it begins with, counted over all streams."""

    def __init__(self, streams: Sequence[Stream], context: int, mark: int | None):
        """mark: the token behind each document, where the numbers of documents are wanted."""
        self.streams, self.context, self.mark = streams, context, mark
        self.sizes = np.array([stream.tokens for stream in streams], dtype=np.int64)
        self.firsts = np.cumsum(self.sizes) - self.sizes

    def place(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The stream of an address, and the token there."""
        stream = np.searchsorted(self.firsts, index, side="right") - 1
        return stream, index - self.firsts[stream]

    def windows(self, index: Tensor) -> Tensor:
        """Tokens (B, T + 1) from each address (B,) on."""
        streams, places = self.place(index.numpy())
        rows = [self.streams[s].window(p, self.context + 1) for s, p in zip(streams.tolist(), places.tolist(), strict=True)]
        return torch.from_numpy(np.stack(rows).astype(np.int64))

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        window = self.windows(index)
        batch = {"ids": window[:, :-1], "targets": window[:, 1:]}
        if self.mark is not None:
            batch["documents"] = (batch["ids"] == self.mark).cumsum(1)
        return batch


class MixedWindows(ShardWindows):
    """Windows to train on: of each stream every epoch all, from another place on."""

    def __init__(self, streams: Sequence[Stream], weights: Sequence[float], context: int, mark: int | None):
        super().__init__(streams, context, mark)
        self.mixture, self.weights = Mixture(weights), weights
        self.numbers = np.maximum(1, self.sizes // context)
        self.resident: tuple[Tensor, Tensor, Tensor] | None = None

    def __len__(self) -> int:
        return int(self.numbers.sum())

    def order(self, first: int, count: int, seed: int, shuffle: bool) -> np.ndarray:
        sources, turns = self.mixture.draws(first, count, seed)
        epochs = turns // self.numbers[sources]
        together = np.lexsort((epochs, sources))
        changes = np.diff(sources[together]) | np.diff(epochs[together])
        index = np.empty(count, dtype=np.int64)
        for own in np.split(together, np.flatnonzero(changes) + 1):
            source, epoch = int(sources[own[0]]), int(epochs[own[0]])
            number = int(self.numbers[source])
            place = random.permute(turns[own] % number, number, random.seed_of(seed, "order", source, epoch))
            shift = random.seed_of(seed, "shift", source, epoch) % int(self.sizes[source])
            index[own] = self.firsts[source] + (place * self.context + shift) % self.sizes[source]
        return index

    def shares(self, draws: int, seed: int) -> list[dict[str, Any]]:
        counts = self.mixture.counts(draws, seed)
        return [
            {
                "source": show(stream.path),
                "tokens": stream.tokens,
                "weight": float(weight),
                "drawn": int(count) * self.context,
                "epochs": int(count) * self.context / stream.tokens,
            }
            for stream, weight, count in zip(self.streams, proportions(self.weights), counts, strict=True)
        ]

    def to(self, device: torch.device) -> Dataset:
        """All tokens on a GPU, where they take no more than a quarter of what is free; else windows travel one by one."""
        size = int(self.sizes.sum()) * self.streams[0].kind.itemsize
        return self.moved(device) if device.type == "cuda" and size <= torch.cuda.mem_get_info(device)[0] // 4 else self

    def moved(self, device: torch.device) -> MixedWindows:
        """The same windows, of tokens that lie on a device."""
        made = MixedWindows(self.streams, self.weights, self.context, self.mark)
        whole = np.concatenate([stream.window(0, stream.tokens) for stream in self.streams])
        signed = torch.from_numpy(whole.view(np.int16 if whole.itemsize == 2 else np.int32))  # few operations know unsigned numbers
        made.resident = signed.to(device), torch.from_numpy(self.firsts).to(device), torch.from_numpy(self.sizes).to(device)
        return made

    def windows(self, index: Tensor) -> Tensor:
        if self.resident is None:
            return super().windows(index)
        tokens, firsts, sizes = self.resident
        stream = torch.searchsorted(firsts, index, right=True) - 1
        place = (index - firsts[stream])[:, None] + torch.arange(self.context + 1, device=index.device)
        return tokens[place % sizes[stream][:, None] + firsts[stream][:, None]].long() & (0xFFFF if tokens.itemsize == 2 else 0xFFFFFFFF)

    @property
    def device(self) -> torch.device:
        return self.resident[0].device if self.resident else torch.device("cpu")


class HeldWindows(ShardWindows):
    """Windows to validate on: they meet, and cover every token once. Their order is fixed and mixes the streams."""

    def __init__(self, streams: Sequence[Stream], context: int, mark: int | None):
        super().__init__(streams, context, mark)
        self.numbers = -(-(self.sizes - 1) // context)
        self.before = np.cumsum(self.numbers) - self.numbers

    def __len__(self) -> int:
        return int(self.numbers.sum())

    def order(self, first: int, count: int, seed: int, shuffle: bool) -> np.ndarray:
        size = len(self)
        window = random.permute(np.arange(first, first + count) % size, size, random.seed_of("held", size))
        stream = np.searchsorted(self.before, window, side="right") - 1
        return np.asarray(self.firsts[stream] + (window - self.before[stream]) * self.context)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        batch = super().batch(index, key)
        stream, place = self.place(index.numpy())
        room = torch.from_numpy(self.sizes[stream] - place)[:, None]
        beyond = torch.arange(1, self.context + 1) >= room
        return {**batch, "targets": batch["targets"].masked_fill(beyond, IGNORE)}


@dataclass(frozen=True, kw_only=True)
class ShardsConfig(DataConfig):
    path: tuple[str, ...] = ()
    """Folders that `weft data build` made, with the same tokenizer; relative to $WEFT_DATA, too."""
    weights: tuple[float, ...] = ()
    """How much to take of each folder; they need not add up to 1. Without them as much as each has tokens."""
    validation_path: tuple[str, ...] = ()
    """Folders to validate on; by default documents held out of `path`."""
    validation: float = 0.005
    """Share of the documents held out by the hash of their text where no validation_path is given; 0 for none."""
    context: int = 1024
    """Tokens per example."""
    documents: bool = False
    """Put the number of each token's document into the batch, for a model that looks at one document at a time."""

    def build(self) -> Data:
        check_share(self.validation)
        check_sizes(self.context, 0)
        share = 0.0 if self.validation_path else self.validation
        opened = [Shards(locate(path)) for path in self.path or ("",)]
        others = [Shards(locate(path)) for path in self.validation_path]
        tokenizer, problems = refuse_others([*opened, *others]), Problems()
        train = [Stream(shards, share, 1.0) for shards in opened]
        held = [Stream(shards, 0.0, 1.0) for shards in others] or [Stream(shards, 0.0, share) for shards in opened if share]
        for stream in train:
            if not stream.tokens:
                raise DataError(f"{show(stream.path)}: no document is left to train on; lower --data.validation {self.validation}")
            if stream.tokens <= self.context:
                problems.add("sources no longer than one example", f"{show(stream.path)} ({stream.tokens} tokens)")
        refuse_padding(self.context, max(stream.tokens for stream in train))
        held = [stream for stream in held if stream.tokens > 1]
        if share and not held:
            problems.add("too few documents to keep any for validation", f"{sum(stream.documents for stream in train)} in all")
        mark = self.mark(opened[0])
        measured = held or train
        info = {
            "vocabulary": tokenizer.size,
            "context": self.context,
            "tokens": self.context,
            "bytes_per_token": sum(stream.bytes for stream in measured) / sum(stream.tokens for stream in measured),
            "training_tokens": sum(stream.tokens for stream in train),
            "validation_tokens": sum(stream.tokens for stream in held),
        }
        windows = MixedWindows(train, self.checked_weights(train), self.context, mark)
        return Data(windows, HeldWindows(held, self.context, mark) if held else None, info, tokenizer, problems)

    def checked_weights(self, streams: list[Stream]) -> list[float]:
        if not all(0.0 < weight < math.inf for weight in self.weights):
            raise ConfigError(
                f"--data.weights must be above 0, not {' '.join(map(str, self.weights))}; leave out a folder not to draw from it"
            )
        if len(streams) == 1 or not self.weights:  # a run of several folders may be evaluated on one
            return [float(stream.tokens) for stream in streams]
        if len(self.weights) != len(streams):
            raise ConfigError(
                f"--data.weights has {len(self.weights)} numbers for {len(streams)} folders of --data.path; give one for each"
            )
        return list(self.weights)

    def mark(self, shards: Shards) -> int | None:
        if not self.documents:
            return None
        if getattr(shards.tokenizer, "marks", {}).get("end") is None:
            raise ConfigError("--data.documents needs a tokenizer with a mark for the end of a document; these shards have none")
        return shards.end[0]


def refuse_others(opened: list[Shards]) -> Any:
    """The tokenizer of some folders, which must all have the same."""
    for shards in opened[1:]:
        if shards.manifest["tokenizer"]["sha256"] != opened[0].manifest["tokenizer"]["sha256"]:
            raise DataError(
                f"{show(shards.folder)} and {show(opened[0].folder)} were built with different tokenizers; build them with the same"
            )
    return opened[0].tokenizer
