"""Windows of token shards that `weft data build` made, mapped into memory, of one folder or of several in given proportions.

Documents are concatenated without gaps. A folder is a ring of tokens: each epoch cuts it into adjacent windows from another offset.
Documents are held out by the hash of their text, so no copy of a validation document is ever trained on.

Batch: ids (B, T), targets (B, T); with `documents`, also documents (B, T), the index of each token's document in its window.
The token that ends a document counts with the next, as its first. A model that attends only within documents builds its mask from them.
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
from weft.data.shards.document_stream import DocumentStream
from weft.data.shards.mixture import Mixture, proportions
from weft.data.shards.shard_files import Shards
from weft.data.split import check_share
from weft.data.text.token_windows import check_sizes, refuse_padding


class ShardWindows(Dataset):
    """Windows of several streams. The index of an example is that of its first token, counted over all streams."""

    def __init__(self, streams: Sequence[DocumentStream], context: int, end_token: int | None):
        """end_token: the token after each document, where the batch has document numbers."""
        self.streams, self.context, self.end_token = streams, context, end_token
        self.sizes = np.array([stream.tokens for stream in streams], dtype=np.int64)
        self.firsts = np.cumsum(self.sizes) - self.sizes

    def stream_position(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The stream of each index (B,), and the position in it."""
        stream = np.searchsorted(self.firsts, index, side="right") - 1
        return stream, index - self.firsts[stream]

    def windows(self, index: Tensor) -> Tensor:
        """Tokens (B, T + 1) from each index (B,) on."""
        streams, positions = self.stream_position(index.numpy())
        rows = [self.streams[s].window(p, self.context + 1) for s, p in zip(streams.tolist(), positions.tolist(), strict=True)]
        return torch.from_numpy(np.stack(rows).astype(np.int64))

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        window = self.windows(index)
        batch = {"ids": window[:, :-1], "targets": window[:, 1:]}
        if self.end_token is not None:
            batch["documents"] = (batch["ids"] == self.end_token).cumsum(1)
        return batch


class MixedWindows(ShardWindows):
    """Training windows: every epoch covers each stream, from another offset."""

    def __init__(self, streams: Sequence[DocumentStream], weights: Sequence[float], context: int, end_token: int | None):
        super().__init__(streams, context, end_token)
        self.mixture, self.weights = Mixture(weights), weights
        self.window_counts = np.maximum(1, self.sizes // context)
        self.resident: tuple[Tensor, Tensor, Tensor] | None = None

    def __len__(self) -> int:
        return int(self.window_counts.sum())

    def order(self, first: int, count: int, seed: int, shuffle: bool) -> np.ndarray:
        sources, turns = self.mixture.draws(first, count, seed)
        epochs = turns // self.window_counts[sources]
        grouped = np.lexsort((epochs, sources))
        changes = np.diff(sources[grouped]) | np.diff(epochs[grouped])
        index = np.empty(count, dtype=np.int64)
        for group in np.split(grouped, np.flatnonzero(changes) + 1):
            source, epoch = int(sources[group[0]]), int(epochs[group[0]])
            number = int(self.window_counts[source])
            window = random.permute(turns[group] % number, number, random.seed_of(seed, "order", source, epoch))
            shift = random.seed_of(seed, "shift", source, epoch) % int(self.sizes[source])
            index[group] = self.firsts[source] + (window * self.context + shift) % self.sizes[source]
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
        """All tokens on the GPU if they take at most a quarter of its free memory; else windows are copied batch by batch."""
        size = int(self.sizes.sum()) * self.streams[0].dtype.itemsize
        return self.on_device(device) if device.type == "cuda" and size <= torch.cuda.mem_get_info(device)[0] // 4 else self

    def on_device(self, device: torch.device) -> MixedWindows:
        """The same windows, with all tokens on a device."""
        windows = MixedWindows(self.streams, self.weights, self.context, self.end_token)
        whole = np.concatenate([stream.window(0, stream.tokens) for stream in self.streams])
        signed = torch.from_numpy(whole.view(np.int16 if whole.itemsize == 2 else np.int32))  # few operations know unsigned numbers
        windows.resident = signed.to(device), torch.from_numpy(self.firsts).to(device), torch.from_numpy(self.sizes).to(device)
        return windows

    def windows(self, index: Tensor) -> Tensor:
        if self.resident is None:
            return super().windows(index)
        tokens, firsts, sizes = self.resident
        stream = torch.searchsorted(firsts, index, right=True) - 1
        position = (index - firsts[stream])[:, None] + torch.arange(self.context + 1, device=index.device)
        return tokens[position % sizes[stream][:, None] + firsts[stream][:, None]].long() & (0xFFFF if tokens.itemsize == 2 else 0xFFFFFFFF)

    @property
    def device(self) -> torch.device:
        return self.resident[0].device if self.resident else torch.device("cpu")


class ValidationWindows(ShardWindows):
    """Validation windows: adjacent, each token once, in a fixed order that mixes the streams."""

    def __init__(self, streams: Sequence[DocumentStream], context: int, end_token: int | None):
        super().__init__(streams, context, end_token)
        self.window_counts = -(-(self.sizes - 1) // context)
        self.first_windows = np.cumsum(self.window_counts) - self.window_counts

    def __len__(self) -> int:
        return int(self.window_counts.sum())

    def order(self, first: int, count: int, seed: int, shuffle: bool) -> np.ndarray:
        size = len(self)
        window = random.permute(np.arange(first, first + count) % size, size, random.seed_of("held", size))
        stream = np.searchsorted(self.first_windows, window, side="right") - 1
        return np.asarray(self.firsts[stream] + (window - self.first_windows[stream]) * self.context)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        batch = super().batch(index, key)
        stream, position = self.stream_position(index.numpy())
        room = torch.from_numpy(self.sizes[stream] - position)[:, None]
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
    document_mask: bool = False
    """Attend within documents only: the batch tells which document each token is of."""

    def build(self) -> Data:
        check_share(self.validation)
        check_sizes(self.context, 0)
        share = 0.0 if self.validation_path else self.validation
        train_shards = [Shards(locate(path)) for path in self.path or ("",)]
        validation_shards = [Shards(locate(path)) for path in self.validation_path]
        tokenizer, problems = common_tokenizer([*train_shards, *validation_shards]), Problems()
        train = [DocumentStream(shards, share, 1.0) for shards in train_shards]
        validation = [DocumentStream(shards, 0.0, 1.0) for shards in validation_shards] or [
            DocumentStream(shards, 0.0, share) for shards in train_shards if share
        ]
        for stream in train:
            if not stream.tokens:
                raise DataError(f"{show(stream.path)}: no document is left to train on; lower --data.validation {self.validation}")
            if stream.tokens <= self.context:
                problems.add("sources no longer than one example", f"{show(stream.path)} ({stream.tokens} tokens)")
        refuse_padding(self.context, max(stream.tokens for stream in train))
        validation = [stream for stream in validation if stream.tokens > 1]
        if share and not validation:
            problems.add("too few documents to hold any out for validation", f"{sum(stream.documents for stream in train)} in all")
        end_token = self.document_end(train_shards[0])
        measured = validation or train
        info = {
            "vocabulary": tokenizer.size,
            "context": self.context,
            "tokens": self.context,
            "bytes_per_token": sum(stream.bytes for stream in measured) / sum(stream.tokens for stream in measured),
            "training_tokens": sum(stream.tokens for stream in train),
            "validation_tokens": sum(stream.tokens for stream in validation),
        }
        windows = MixedWindows(train, self.checked_weights(train), self.context, end_token)
        return Data(windows, ValidationWindows(validation, self.context, end_token) if validation else None, info, tokenizer, problems)

    def checked_weights(self, streams: list[DocumentStream]) -> list[float]:
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

    def document_end(self, shards: Shards) -> int | None:
        if not self.document_mask:
            return None
        if getattr(shards.tokenizer, "special_tokens", {}).get("end") is None:
            raise ConfigError("--data.document_mask needs a tokenizer with an end token; these shards have none")
        return shards.end[0]


def common_tokenizer(train_shards: list[Shards]) -> Any:
    """The tokenizer of all folders, which must be the same."""
    for shards in train_shards[1:]:
        if shards.manifest["tokenizer"]["sha256"] != train_shards[0].manifest["tokenizer"]["sha256"]:
            raise DataError(
                f"{show(shards.folder)} and {show(train_shards[0].folder)} were built with different tokenizers; build them with the same"
            )
    return train_shards[0].tokenizer
