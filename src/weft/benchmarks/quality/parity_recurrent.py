"""Outputs of recurrent models of others beside those of their own code, from their own weights, in fp32 and fp64 on a CPU.

Run: python -m weft bench parity-recurrent [--elmo FOLDER] [--record results/parity-recurrent.json]
g2p-en (GRUs from letters to phonemes) and Resemblyzer (three LSTMs over frames of sound) are fetched from a package index with pip; what
their networks compute, in numpy and by nn.LSTM, runs as it is, without the packages that prepare texts and sound for them. --elmo names a
folder of AllenNLP's repository, test_fixtures/elmo, with weights and with what TensorFlow made of them in fp32. There two orders of adding
up are some units of the last place apart, which of large numbers is more than of small ones, so the largest number is told too; in fp64 a
difference beyond 1e-5 is an error.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import torch

from weft.benchmarks.arguments import Arguments
from weft.benchmarks.record import Row, measurements, write_record
from weft.convert import pypi
from weft.convert.convert import convert
from weft.convert.g2p import TARGET_ROWS
from weft.core.errors import WeftError, require
from weft.data.tokenizers.word_characters import BOS, EOS
from weft.inference.translate import answer
from weft.runs.load import load

TOLERANCE = 1e-5
WORDS = (
    "activationist",
    "tensor",
    "gradient",
    "weft",
    "o'clock",
    "q",
    "rhythm",
    "synchronous",
    "thoroughbred",
    "pneumatic",
    "xylophone",
    "backpropagation",
    "encoder",
    "wuzzle",
    "flimbertigast",
    "zyx",
    "queueing",
    "aaaa",
    "translator",
    "mississippi",
)
MOST = 20
"""Phonemes that g2p-en says at most."""
UNNEEDED = ("nltk", "nltk.corpus", "nltk.tokenize", "inflect", "resemblyzer.audio")
"""What prepares texts and sound for the networks."""


@contextmanager
def imported(folder: Path, name: str) -> Iterator[Any]:
    """A module of a package that lies in a folder, with nothing behind the names of what it prepares its inputs with."""
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    stand_ins = {each: MagicMock() for each in UNNEEDED if each not in sys.modules}
    sys.modules.update(stand_ins)
    try:
        yield importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))
        for each in set(sys.modules) - before:
            if each in stand_ins or each.partition(".")[0] == name.partition(".")[0]:
                del sys.modules[each]


Compared = dict[str, list[tuple[Any, Any]]]
"""By the name of a layer, what weft and the others have for it."""


def rows_of(about: Row, precision: str, compared: Compared) -> list[Row]:
    """The largest difference of each layer, and the largest number."""
    rows = []
    for layer, pairs in compared.items():
        arrays = [(np.asarray(ours), np.asarray(theirs)) for ours, theirs in pairs]
        apart = max(float(np.abs(ours - theirs).max()) for ours, theirs in arrays)
        largest = max(float(np.abs(theirs).max()) for _, theirs in arrays)
        rows.append({**about, "layer": layer, "precision": precision, "largest_difference": apart, "largest_number": largest})
    return rows


@torch.no_grad()
def g2p(folder: Path) -> list[Row]:
    """g2p-en: the encoder's last state, the logits behind each phoneme that it says, and the phonemes."""
    with pypi.fetched("g2p-en") as (path, origin), imported(path.parent.parent, "g2p_en.g2p") as module:
        theirs = module.G2p()
        convert(str(path), folder / "g2p")
        loaded = load(folder / "g2p", "cpu")
        expected = [theirs.predict(word) for word in WORDS]
        said = answer(loaded.model, loaded.tokenizer, WORDS, beams=1)
        about = {"model": origin["wheel"].removesuffix("-py3-none-any.whl"), "examples": len(WORDS)}
        same = sum(mine.split()[:MOST] == each for mine, each in zip(said, expected, strict=True))
        rows: list[Row] = [{**about, "layer": "phonemes", "exact": same / len(WORDS)}]
        for precision, kind in (("fp32", np.float32), ("fp64", np.float64)):
            for name in (*(f"{side}_{part}" for side in ("enc", "dec") for part in (*PARTS, "emb")), "fc_w", "fc_b"):
                setattr(theirs, name, theirs.variables[name].astype(kind))
            model = loaded.model.to(torch.float32 if precision == "fp32" else torch.float64)
            rows += rows_of(about, precision, g2p_layers(theirs, model, loaded.tokenizer, expected))
    return rows


PARTS = ("w_ih", "w_hh", "b_ih", "b_hh")


def g2p_layers(theirs: Any, model: Any, tokenizer: Any, phonemes: list[list[str]]) -> Compared:
    found: Compared = {"encoder": [], "logits": []}
    encoder, decoder = ([getattr(theirs, f"{side}_{part}") for part in PARTS] for side in ("enc", "dec"))
    for word, said in zip(WORDS, phonemes, strict=True):
        h = np.zeros((1, encoder[1].shape[1]), encoder[1].dtype)
        for letter in theirs.encode(word)[0]:
            h = theirs.grucell(letter[None], h, *encoder)
        source = torch.tensor([[*tokenizer.encode(word).tolist(), tokenizer.end]])
        lengths, read = torch.tensor([source.size(1)]), [2, *(theirs.p2idx[phoneme] for phoneme in said)]  # 2 is <s>
        found["encoder"].append((model.encode(source, lengths)[0, 0], h[0]))
        ours = model(source, lengths, torch.tensor([[TARGET_ROWS[number] for number in read]]))[0]
        for step, number in enumerate(read):
            h = theirs.grucell(np.take(theirs.dec_emb, [number], axis=0), h, *decoder)
            found["logits"].append((ours[step, TARGET_ROWS], (h @ theirs.fc_w.T + theirs.fc_b)[0]))
    return found


@torch.no_grad()
def resemblyzer(folder: Path) -> list[Row]:
    """Resemblyzer: the states of its three LSTMs at the last frame, and the vector of length 1."""
    with pypi.fetched("resemblyzer") as (path, origin), imported(path.parent, "resemblyzer.voice_encoder") as module:
        theirs = module.VoiceEncoder("cpu", verbose=False).eval()
        convert(str(path), folder / "resemblyzer")
    model: Any = load(folder / "resemblyzer", "cpu").model
    about, rows = {"model": origin["wheel"].removesuffix("-py3-none-any.whl"), "examples": 4}, []
    for precision, kind in (("fp32", torch.float32), ("fp64", torch.float64)):
        torch.manual_seed(0)
        frames = torch.rand(4, 160, 40).to(kind) * 0.1  # as long, and about as loud, as those that it was trained on
        theirs, model = theirs.to(kind), model.to(kind)
        _, (hidden, cell) = theirs.lstm(frames)
        _, ours = model.lstm(frames)
        found: Compared = {}
        for layer in range(len(hidden)):
            found[f"LSTM {layer + 1}, h"] = [(ours["h"][:, layer], hidden[layer])]
            found[f"LSTM {layer + 1}, c"] = [(ours["c"][:, layer], cell[layer])]
        rows += rows_of(about, precision, {**found, "vector": [(model(frames), theirs(frames))]})
    return rows


@torch.no_grad()
def elmo(fixture: Path, folder: Path) -> list[Row]:
    """AllenNLP's fixture: vectors of words by themselves, and the last layer of three texts of ten sentences, with the state carried on."""
    h5py: Any = require("h5py", "hf")
    convert(str(fixture), folder / "elmo")
    loaded: Any = load(folder / "elmo", "cpu")
    model, tokenizer = loaded.model, loaded.tokenizer
    texts = json.loads((fixture / "sentences.json").read_text())
    recorded = [h5py.File(fixture / f"lm_embeddings_{number}.hdf5") for number in range(len(texts))]
    state: Any = None
    found: Compared = {"words": [], "last": []}
    for number in range(len(texts[0])):
        rows = [[BOS, *tokenizer.encode(text[number]).tolist(), EOS] for text in texts]
        longest = max(map(len, rows))
        ids, lengths = torch.tensor([row + [0] * (longest - len(row)) for row in rows]), torch.tensor([len(row) for row in rows])
        layers, words, state = model.layers_of(ids, lengths, state)
        for row, file in enumerate(recorded):
            expected = np.concatenate(list(file[str(number)][...]), axis=-1)
            found["last"].append((layers[-1][row, 1 : int(words.lengths[row]) - 1], expected))
    vocabulary = (fixture / "vocab_test.txt").read_text().split()
    ids = torch.tensor([[BOS, *tokenizer.encode(" ".join(vocabulary)).tolist(), EOS]])
    vectors = model.layers_of(ids)[0][0][0, 1:-1, : model.config.projection]
    ordinary = [index for index, word in enumerate(vocabulary) if word not in ("<S>", "</S>")]
    found["words"] = [(vectors[ordinary], h5py.File(fixture / "elmo_token_embeddings.hdf5")["embedding"][...][ordinary])]
    return rows_of({"model": "AllenNLP test_fixtures/elmo"}, "fp32", found)


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__, "parity-recurrent")
    parser.add_argument("--elmo", type=Path, help="AllenNLP's test_fixtures/elmo")
    parser.add_argument("--record", type=Path, help="file to write the record to")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="weft-") as temporary:
        folder = Path(temporary)
        rows = [*g2p(folder), *resemblyzer(folder), *(elmo(options.elmo, folder) if options.elmo else [])]
    for row in rows:
        print("  ".join(f"{key} {value:.2g}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items()))
    if options.record:
        write_record(options.record, measurements(rows, of=("model", "layer", "precision")), **parser.run(options))
    for precision in ("fp32", "fp64"):
        worst = max(row["largest_difference"] for row in rows if row.get("precision") == precision)
        print(f"largest difference in {precision} {worst:.1e}")
    if worst > TOLERANCE:
        raise WeftError(f"parity-recurrent: {worst:.1e} apart in fp64, more than {TOLERANCE:.0e}")


if __name__ == "__main__":
    main()
