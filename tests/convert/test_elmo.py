"""Weights of bilm-tf through their files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import weft
from tests.models.language.test_elmo import OPTIONS, SENTENCES, batch_of, converted, layers, theirs
from weft.convert import hdf5
from weft.convert.convert import convert
from weft.core.errors import CheckpointError
from weft.data.tokenizers.word_characters import BOS, EOS

h5py = pytest.importorskip("h5py")
FIXTURE = os.environ.get("WEFT_ELMO_FIXTURE", "")
"""The folder test_fixtures/elmo of allenai/allennlp (Apache-2.0), which is too large to lie here."""


def written(folder: Path) -> Path:
    """A model as bilm-tf leaves it."""
    folder.mkdir()
    (folder / "options.json").write_text(json.dumps(OPTIONS))
    with h5py.File(folder / "lm_weights.hdf5", "w") as file:
        for name, value in theirs().items():
            file[name] = value
    return folder


def test_a_converted_model_is_the_same_and_can_be_trained_further(tmp_path: Path) -> None:
    done = convert(str(written(tmp_path / "theirs")), tmp_path / "run")
    assert (done.family, done.fresh) == ("elmo", ["softmax"])
    loaded: Any = weft.load(tmp_path / "run")
    ids, lengths = batch_of(SENTENCES)
    torch.testing.assert_close(loaded.model.hidden(ids, lengths=lengths), converted().hidden(ids, lengths=lengths), rtol=0, atol=1e-6)
    assert loaded.tokenizer.encode("a b").tolist() == [259, 98, 259, 99]
    with pytest.raises(CheckpointError, match="writes no HDF5"):
        convert(str(tmp_path / "run"), tmp_path / "back")


@pytest.mark.parametrize("kind", ["link", "external", "integers", "rubbish", "huge"])
def test_what_is_no_plain_tensor_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "lm_weights.hdf5"
    with h5py.File(path, "w") as file:
        if kind == "link":
            file["a"] = h5py.ExternalLink("/etc/passwd", "a")
        elif kind == "external":
            file.create_dataset("a", (4,), "f4", external=[("/etc/passwd", 0, 16)])
        elif kind == "huge":
            file.create_dataset("a", (1 << 30, 1 << 10), "f4")
        else:
            file["a"] = np.arange(4)
    if kind == "rubbish":
        path.write_bytes(path.read_bytes()[:600])
    with pytest.raises(CheckpointError, match=r"HDF5|own|larger|link|truncated"):
        hdf5.read(path)


def test_the_layers_of_a_folder_are_those_of_the_equations(tmp_path: Path) -> None:
    convert(str(written(tmp_path / "theirs")), tmp_path / "run")
    model: Any = weft.load(tmp_path / "run").model
    ids, lengths = batch_of(SENTENCES[:1])
    with torch.no_grad():
        for ours, expected in zip(model.layers_of(ids, lengths)[0], layers(theirs(), SENTENCES[0]), strict=True):
            np.testing.assert_allclose(ours[0].numpy(), expected, atol=1e-5)


@pytest.mark.skipif(not FIXTURE, reason="WEFT_ELMO_FIXTURE names no folder")
def test_the_published_files_give_the_recorded_layers(tmp_path: Path) -> None:
    """The last layer of 30 sentences, and the vectors of 456 words by themselves, as TensorFlow computed them."""
    folder = Path(FIXTURE)
    convert(FIXTURE, tmp_path / "run")
    loaded: Any = weft.load(tmp_path / "run")
    model, tokenizer = loaded.model, loaded.tokenizer
    sentences = json.loads((folder / "sentences.json").read_text())
    recorded = [h5py.File(folder / f"lm_embeddings_{number}.hdf5") for number in range(len(sentences))]
    state = None
    with torch.no_grad():
        for number in range(10):
            rows = [[BOS, *tokenizer.encode(texts[number]).tolist(), EOS] for texts in sentences]
            longest = max(map(len, rows))
            ids, lengths = torch.tensor([row + [0] * (longest - len(row)) for row in rows]), torch.tensor([len(row) for row in rows])
            found, words, state = model.layers_of(ids, lengths, state)
            for row, file in enumerate(recorded):
                expected = np.concatenate(list(file[str(number)][...]), axis=-1)
                np.testing.assert_allclose(found[-1][row, 1 : int(words.lengths[row]) - 1], expected, atol=1e-5)
        vocabulary = (folder / "vocab_test.txt").read_text().split()
        ids = torch.tensor([[BOS, *tokenizer.encode(" ".join(vocabulary)).tolist(), EOS]])
        vectors = model.layers_of(ids)[0][0][0, 1:-1, : model.config.projection]
    expected = h5py.File(folder / "elmo_token_embeddings.hdf5")["embedding"][...]
    ordinary = [index for index, word in enumerate(vocabulary) if word not in ("<S>", "</S>")]
    np.testing.assert_allclose(vectors[ordinary], expected[ordinary], atol=1e-5)
