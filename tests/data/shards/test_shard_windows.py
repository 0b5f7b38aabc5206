"""Windows of shards: every token once an epoch, validation by the hash of a document, mixtures with known epochs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from weft.core.errors import ConfigError, DataError
from weft.data.base import IGNORE, DataLoader
from weft.data.shards.builder import BuildConfig, build
from weft.data.shards.document_stream import DocumentStream
from weft.data.shards.shard_files import Shards
from weft.data.shards.shard_windows import MixedWindows, ShardsConfig, ValidationWindows
from weft.data.tokenizers.base import ByteTokenizer, Tokenizer
from weft.data.tokenizers.subwords import ByteBPE

CPU = torch.device("cpu")


def made(folder: Path, name: str, documents: list[str], tokenizer: Tokenizer | None = None, **settings: Any) -> str:
    path = folder / f"{name}.txt"
    path.write_text("\n".join(documents))
    config = BuildConfig(split="lines", **{"shard_tokens": 500, **settings})
    return str(build([str(path)], folder / name, tokenizer or ByteTokenizer(), config).folder)


def sentences(number: int, letters: str = "abcdefgh", seed: int = 0) -> list[str]:
    chance = random.Random(seed)
    return ["".join(chance.choice(letters) for _ in range(chance.randrange(5, 40))) for _ in range(number)]


def tokens_of(texts: list[str]) -> bytes:
    return "".join(text + "\n" for text in texts).encode()


def test_windows_are_pieces_of_the_packed_documents(tmp_path: Path) -> None:
    texts = sentences(200)
    data = ShardsConfig(path=(made(tmp_path, "a", texts),), context=16, validation=0.0).build()
    assert len(Shards(tmp_path / "a").shards) > 5
    assert data.validation is None
    ring = tokens_of(texts) * 2
    batch = DataLoader(data.train, 1, CPU).batch(0, 50)
    for ids, targets in zip(batch["ids"].tolist(), batch["targets"].tolist(), strict=True):
        assert bytes(ids) in ring
        assert ids[1:] == targets[:-1]
        assert bytes([*ids, targets[-1]]) in ring


def test_an_epoch_sees_every_token_once_and_the_next_from_another_place(tmp_path: Path) -> None:
    data = ShardsConfig(path=(made(tmp_path, "a", sentences(100)),), context=16, validation=0.0).build()
    assert isinstance(data.train, MixedWindows)
    number, size = len(data.train), data.train.streams[0].tokens
    epochs = [data.train.order(epoch * number, number, 1, True) for epoch in range(2)]
    for starts in epochs:
        covered = np.bincount((starts[:, None] + np.arange(16)).ravel() % size, minlength=size)
        assert covered.max() == 1
        assert covered.sum() == number * 16 > size - 16
    assert set(epochs[0]) != set(epochs[1])
    assert (data.train.order(number // 2, number, 1, True) == np.concatenate(epochs)[number // 2 : number // 2 + number]).all()


def test_held_out_documents_are_never_trained_on(tmp_path: Path) -> None:
    texts = sentences(300)
    path = made(tmp_path, "a", texts + texts[:50])  # copies fall on the same side
    shards = Shards(path)
    train, held = DocumentStream(shards, 0.2, 1.0), DocumentStream(shards, 0.0, 0.2)
    assert train.tokens + held.tokens == shards.manifest["counts"]["tokens"]
    assert train.bytes + held.bytes == shards.manifest["counts"]["bytes"]
    seen, kept = (bytes(stream.window(0, stream.tokens).tolist()).decode().splitlines() for stream in (train, held))
    assert not set(seen) & set(kept)
    assert sorted(seen + kept) == sorted(texts + texts[:50])
    assert 0.1 < len(kept) / 350 < 0.3


def test_validation_covers_every_token_once(tmp_path: Path) -> None:
    paths = made(tmp_path, "a", sentences(40)), made(tmp_path, "b", sentences(30, "xyz"))
    data = ShardsConfig(path=paths, validation_path=paths, context=16).build()
    held = data.validation
    assert isinstance(held, ValidationWindows)
    source = DataLoader(held, 1, CPU, shuffle=False)
    batch = source.batch(0, len(held))
    counted = batch["targets"] != IGNORE
    assert int(counted.sum()) == sum(stream.tokens - 1 for stream in held.streams)
    assert sorted(batch["targets"][counted].tolist()) == sorted(tokens_of(sentences(40))[1:] + tokens_of(sentences(30, "xyz"))[1:])
    first = {chr(letter) for letter in source.batch(0, 20)["ids"].flatten().tolist()}
    assert {"a", "x"} <= first, "the first windows are of both"


def test_a_mixture_has_its_proportions_and_says_its_epochs(tmp_path: Path) -> None:
    letters = ("abcd", "efgh", "ijkl")
    paths = tuple(made(tmp_path, str(number), sentences(50 * (3 - number), own)) for number, own in enumerate(letters))
    data = ShardsConfig(path=paths, weights=(6, 3, 2), context=8, validation=0.0).build()
    draws = 20_000
    batch = DataLoader(data.train, 7, CPU).batch(0, draws)
    text = bytes(batch["ids"][:, 1:7].flatten().tolist()).replace(b"\n", b"")
    shares = data.train.shares(draws, 7)
    for own, share, weight in zip(letters, shares, (6 / 11, 3 / 11, 2 / 11), strict=True):
        assert share["weight"] == pytest.approx(weight)
        assert abs(share["drawn"] / 8 - draws * weight) < 3 * (draws * weight * (1 - weight)) ** 0.5
        assert share["epochs"] == share["drawn"] / share["tokens"]
        assert sum(letter in own.encode() for letter in text) / len(text) == pytest.approx(weight, abs=0.02)
    assert sum(share["drawn"] for share in shares) == draws * 8
    plain = ShardsConfig(path=paths, context=8, validation=0.0).build().train.shares(1 << 16, 7)
    assert {round(share["epochs"], 1) for share in plain} == {round(plain[0]["epochs"], 1)}, "without weights all are seen as often"


def test_weights_may_be_of_any_size(tmp_path: Path) -> None:
    paths = made(tmp_path, "a", sentences(50)), made(tmp_path, "b", sentences(50))
    data = ShardsConfig(path=paths, weights=(1e308, 1e308), context=8, validation=0.0).build()
    assert [share["weight"] for share in data.train.shares(100, 1)] == [0.5, 0.5]


def test_gpt3_table_2_2() -> None:
    """Tokens in billions and epochs of 300 billion tokens: weights in proportion to their product give these epochs back."""
    tokens, epochs = np.array([410, 19, 12, 55, 3]), np.array([0.44, 2.9, 1.9, 0.43, 3.4])

    def stream(size: int) -> Any:
        return type("Stream", (), {"tokens": size * 1000, "kind": np.dtype("<u2"), "path": str(size)})()

    windows = MixedWindows([stream(size) for size in tokens.tolist()], (tokens * epochs).tolist(), 10, None)
    drawn = int((tokens * epochs).sum() * 1000 / 10)
    found = [share["epochs"] for share in windows.shares(drawn, 1)]
    assert found == pytest.approx(epochs, rel=0.05)
    assert windows.shares(drawn, 1)[1]["weight"] == pytest.approx(0.19, abs=0.01), "the paper's rounded 22 % would be 3.4 epochs"


def test_tokens_on_a_device_give_the_same_windows(tmp_path: Path) -> None:
    paths = made(tmp_path, "a", sentences(40)), made(tmp_path, "b", sentences(3, "xyz"))
    data = ShardsConfig(path=paths, weights=(1, 1), context=24, validation=0.0).build()
    assert isinstance(data.train, MixedWindows)
    index = torch.from_numpy(data.train.order(0, 200, 3, True))
    mapped, moved = data.train.batch(index, index), data.train.on_device(CPU).batch(index, index)
    assert all((mapped[name] == moved[name]).all() for name in ("ids", "targets"))
    assert data.train.on_device(CPU).order(0, 200, 3, True).tolist() == index.tolist()


def test_numbers_of_documents(tmp_path: Path) -> None:
    tokenizer = ByteBPE.train("abcdefgh", 300, special_tokens=("end",))
    path = made(tmp_path, "a", sentences(50), tokenizer)
    batch = (
        ShardsConfig(path=(path,), context=64, validation=0.0, document_mask=True).build().train.batch(torch.arange(10), torch.arange(10))
    )
    end = tokenizer.special_tokens["end"]
    for ids, numbers in zip(batch["ids"].tolist(), batch["documents"].tolist(), strict=True):
        assert numbers == [ids[: place + 1].count(end) for place in range(64)]
    assert batch["documents"].max() > 0
    with pytest.raises(ConfigError, match="needs a tokenizer with an end token"):
        ShardsConfig(path=(made(tmp_path, "b", sentences(50)),), document_mask=True).build()


def test_a_short_source_goes_round(tmp_path: Path) -> None:
    data = ShardsConfig(path=(made(tmp_path, "a", ["ab", "cde"]),), context=16, validation=0.0).build()
    assert data.problems.counts == {"sources no longer than one example": 1}
    (ids,) = data.train.batch(torch.tensor([3]), torch.tensor([0]))["ids"].tolist()
    assert bytes(ids) == (b"ab\ncde\n" * 4)[3:19]


def test_what_is_refused(tmp_path: Path) -> None:
    first, second = made(tmp_path, "a", sentences(50)), made(tmp_path, "b", sentences(50), ByteBPE.train("abc", 300))
    for settings, message in (
        ({"path": ()}, "--data.path"),
        ({"path": ("nowhere",)}, "nowhere: no such file or folder"),
        ({"path": (str(tmp_path),)}, "is no folder of shards"),
        ({"path": (first, second)}, "different tokenizers"),
        ({"path": (first, first), "weights": (1.0,)}, "1 numbers for 2 folders"),
        ({"path": (first, first), "weights": (1.0, 0.0)}, "must be above 0"),
        ({"path": (first,), "weights": (-1.0,)}, "must be above 0, not -1.0"),
        ({"path": (first,), "validation": 1.5}, "--data.validation"),
        ({"path": (first,), "context": 0}, "--data.context"),
    ):
        with pytest.raises((ConfigError, DataError), match=message):
            ShardsConfig(**settings).build()  # type: ignore[arg-type]
