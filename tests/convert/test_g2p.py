"""g2p-en's arrays: phonemes as its equations give them, written out here with numpy, from random weights in its layout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import weft
from weft.convert.g2p import PHONEMES, TARGET_ROWS
from weft.core.errors import CheckpointError
from weft.inference.translate import answer
from weft.runs.load import load

WIDTH, EMBEDDING, LONGEST = 12, 7, 9
GRAPHEMES = ["<pad>", "<unk>", "</s>", *"abcdefghijklmnopqrstuvwxyz"]
Arrays = dict[str, NDArray[np.float64]]


def arrays(seed: int = 0) -> Arrays:
    chance = np.random.default_rng(seed)
    shapes = {"enc_emb": (29, EMBEDDING), "dec_emb": (74, EMBEDDING), "fc_w": (74, WIDTH), "fc_b": (74,)}
    for side in ("enc", "dec"):
        shapes |= {f"{side}_w_ih": (3 * WIDTH, EMBEDDING), f"{side}_w_hh": (3 * WIDTH, WIDTH)}
        shapes |= {f"{side}_b_{part}": (3 * WIDTH,) for part in ("ih", "hh")}
    made = {name: chance.normal(0, 0.7, shape).astype(np.float32).astype(np.float64) for name, shape in shapes.items()}
    made["fc_b"][:3] = -20.0  # neither padding nor unknown is said, nor a start
    return made


def gru(x: NDArray[np.float64], h: NDArray[np.float64], w: Arrays, side: str) -> NDArray[np.float64]:
    """Gates r and z, then the candidate with r behind the product."""
    inward, back = w[f"{side}_w_ih"] @ x + w[f"{side}_b_ih"], w[f"{side}_w_hh"] @ h + w[f"{side}_b_hh"]
    r, z = (1 / (1 + np.exp(-(inward[part] + back[part]))) for part in (slice(0, WIDTH), slice(WIDTH, 2 * WIDTH)))
    n = np.tanh(inward[2 * WIDTH :] + r * back[2 * WIDTH :])
    step: NDArray[np.float64] = (1 - z) * n + z * h
    return step


def by_hand(word: str, w: Arrays) -> tuple[list[int], NDArray[np.float64]]:
    """The greedy phonemes of a word, in the numbers of the file, and the logits of each step."""
    h = np.zeros(WIDTH)
    for letter in [*word, "</s>"]:
        h = gru(w["enc_emb"][GRAPHEMES.index(letter) if letter in GRAPHEMES else 1], h, w, "enc")
    said, logits = [2], []
    while len(said) <= LONGEST and said[-1] != 3:
        h = gru(w["dec_emb"][said[-1]], h, w, "dec")
        logits.append(w["fc_w"] @ h + w["fc_b"])
        said.append(int(logits[-1].argmax()))
    return said, np.stack(logits)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    np.savez(tmp_path / "checkpoint.npz", **{name: each.astype(np.float32) for name, each in arrays().items()})  # type: ignore[arg-type]
    return tmp_path / "checkpoint.npz"


def test_logits_are_those_of_its_equations(path: Path, tmp_path: Path) -> None:
    done = weft.convert(str(path), tmp_path / "run")  # type: ignore[operator]
    assert (done.family, done.tokenizer) == ("g2p-en", True)
    loaded = load(tmp_path / "run", "cpu")
    model = loaded.model.double()
    for word in ("weft", "o'clock", "q"):
        said, logits = by_hand(word, arrays())
        source = torch.tensor([[*loaded.tokenizer.encode(word).tolist(), loaded.tokenizer.end]])
        target = torch.tensor([[TARGET_ROWS[number] for number in said[:-1]]])
        with torch.no_grad():
            found = model(source, torch.tensor([source.size(1)]), target)[0]
        np.testing.assert_allclose(found[:, TARGET_ROWS], logits, atol=1e-9)
        chances = found.softmax(-1)
        assert float(chances[:, TARGET_ROWS].sum(-1).min()) == pytest.approx(1.0), "no letter is ever said"


def test_words_become_phonemes(path: Path, tmp_path: Path) -> None:
    weft.convert(str(path), tmp_path / "run")  # type: ignore[operator]
    loaded = load(tmp_path / "run", "cpu")
    words = ["tensor", "gradient", "abc"]
    for word, text in zip(words, answer(loaded.model, loaded.tokenizer, words, beams=1), strict=True):
        expected = [PHONEMES[number - 4] for number in by_hand(word, arrays())[0][1:] if number > 3]
        assert text.split()[: len(expected)] == expected


def test_phonemes_are_in_the_order_of_the_file() -> None:
    assert len(PHONEMES) == 70
    assert PHONEMES[:4] == ["AA0", "AA1", "AA2", "AE0"]
    assert PHONEMES[18:22] == ["B", "CH", "D", "DH"]
    assert PHONEMES[-10:] == ["UH2", "UW", "UW0", "UW1", "UW2", "V", "W", "Y", "Z", "ZH"]


def test_other_files_of_arrays_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", weight=np.zeros(3))
    np.savez(tmp_path / "pickled.npz", **{"enc_emb": np.array([{}], dtype=object)})
    (tmp_path / "broken.npz").write_bytes(b"PK no archive")
    cut = {name: each[:-1] if name == "fc_w" else each for name, each in arrays().items()}
    np.savez(tmp_path / "cut.npz", **cut)  # type: ignore[arg-type]
    messages = {
        "other": "knows that of g2p-en only",
        "pickled": "no file of arrays",
        "broken": "no file of arrays",
        "cut": "head.weight has 73 rows",
    }
    for name, message in messages.items():
        with pytest.raises(CheckpointError, match=message):
            weft.convert(str(tmp_path / f"{name}.npz"), tmp_path / "run")  # type: ignore[operator]


def test_pairs_train_it_further_with_its_own_letters_and_phonemes(path: Path, tmp_path: Path) -> None:
    weft.convert(str(path), tmp_path / "run")  # type: ignore[operator]
    (tmp_path / "words.tsv").write_text("word\tsaid\n" + "weft\tW EH1 F T\n" * 20)
    recipe = weft.recipe("rnn_seq2seq/pairs", {"data.path": str(tmp_path / "words.tsv"), "data.validation": 0.5})
    data = recipe.data.build_with(load(tmp_path / "run", "cpu").tokenizer)
    assert data.validation is not None
    batch = data.validation.batch(torch.arange(1), torch.zeros(1, dtype=torch.int64))
    assert data.tokenizer is not None
    assert data.tokenizer.decode(batch["target"][0].tolist()) == "W EH1 F T"
    assert data.tokenizer.decode(batch["source"][0].tolist()) == "weft"
