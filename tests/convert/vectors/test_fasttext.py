"""fastText's files: vectors as gensim and fastText tell them, predictions as fastText's, damage told in one sentence."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cli.conftest import weft_command
from tests.convert.vectors.test_files import FIXTURES, table
from tests.convert.vectors.written import fasttext
from weft.convert.convert import convert
from weft.convert.vectors import fasttext_file
from weft.core.errors import CheckpointError, DataError
from weft.inference.neighbours import neighbours, vector_of, word_table
from weft.models.language.fasttext import FastTextConfig
from weft.nn.huffman import huffman, paths
from weft.runs.load import load


@pytest.fixture(scope="module")
def expected() -> Any:
    return json.loads((FIXTURES / "expected.json").read_text())


@pytest.fixture(scope="module")
def skipgram(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("skipgram")
    assert convert(str(FIXTURES / "skipgram.bin"), folder / "run").family == "word vectors"
    return load(folder / "run", "cpu")


def test_words_with_n_grams_are_those_of_gensim_to_the_last_bit(skipgram: Any, expected: Any) -> None:
    words, vectors = word_table(skipgram.model, skipgram.tokenizer)
    assert words == expected["skipgram"]["words"]
    assert vectors.numpy().tobytes() == table(expected["skipgram"]["vectors"], len(words)).tobytes()


def test_words_that_were_never_seen_have_the_vectors_of_their_n_grams(skipgram: Any, expected: Any) -> None:
    for word, vector in expected["out_of_vocabulary"].items():
        assert vector_of(skipgram.model, skipgram.tokenizer, word).numpy().tobytes() == bytes.fromhex(vector), word
    assert len(neighbours(skipgram.model, skipgram.tokenizer, "kingly", 3)["kingly"]) == 3
    skipgram.tokenizer.buckets = 0
    skipgram.tokenizer.subwords.cache_clear()
    with pytest.raises(DataError, match="'kingly' is not among the"):
        vector_of(skipgram.model, skipgram.tokenizer, "kingly")


@pytest.mark.parametrize("name", ["softmax.bin", "hierarchical.bin", "quantized.ftz"])
def test_predictions_are_those_of_fasttext(name: str, expected: Any, tmp_path: Path) -> None:
    done = convert(str(FIXTURES / name), tmp_path / "run")
    assert (done.family, done.classes) == ("fasttext", 5)
    texts, theirs = expected["texts"], expected["classifiers"][name]
    own = load(tmp_path / "run", "cpu").predict([text for text in texts if text])
    for text, said in zip([text for text in texts if text], own, strict=True):
        wanted = dict(theirs[texts.index(text)])
        assert said["prediction"] == max(wanted, key=wanted.__getitem__)
        assert said["probabilities"] == pytest.approx(wanted, abs=1e-6)


def test_each_class_for_itself(tmp_path: Path) -> None:
    (tmp_path / "it.bin").write_bytes(fasttext(["</s>", "cat", "dog"], [("pet", 2), ("wild", 1)], loss="one_vs_all", buckets=0))
    convert(str(tmp_path / "it.bin"), tmp_path / "run")
    loaded = load(tmp_path / "run", "cpu")
    [said] = loaded.predict(["the cat"])
    mean = loaded.model.embedding.weight[[0, 1]].mean(0)
    torch.testing.assert_close(torch.tensor(list(said["probabilities"].values())), (loaded.model.head.weight @ mean).sigmoid())


def test_probabilities_of_a_tree_sum_to_one_and_frequent_leaves_are_near() -> None:
    counts = [90, 80, 9, 4, 1]
    tree = huffman(counts)
    nodes, turns = paths(tree, 5)
    depth = (turns != 0).sum(1).tolist()
    assert depth == sorted(depth)
    assert sum(2.0**-each for each in depth) == 1.0
    assert int(nodes.max()) == 3
    model = FastTextConfig(vocabulary=7, classes=5, width=4, output="hierarchical_softmax", tree=tree).build()
    torch.nn.init.normal_(model.head.weight)
    logits = model.classify(torch.tensor([[1, 2, 3], [4, 0, 0]]), torch.zeros(2, 3), torch.tensor([3, 1]))
    torch.testing.assert_close(model.probabilities(logits).sum(-1), torch.ones(2))
    assert huffman([1]) == ()
    assert paths((), 1)[1].tolist() == [[0]]


def test_settings_that_no_file_of_this_size_can_have_are_refused(tmp_path: Path) -> None:
    honest = fasttext(["</s>", "cat"], [("pet", 2)], dim=4)
    for place, value in ((8, 1 << 30), (40, 1 << 30), (40, -5), (64, 1 << 28), (64, -2), (4, 13)):
        (tmp_path / "it.bin").write_bytes(honest[:place] + int.to_bytes(value & 0xFFFFFFFF, 4, "little") + honest[place + 4 :])
        with pytest.raises(CheckpointError):
            fasttext_file.read(tmp_path / "it.bin")


def test_damaged_files_end_in_one_sentence(tmp_path: Path) -> None:
    chance = random.Random(0)
    for number in range(40):
        data = bytearray((FIXTURES / ("quantized.ftz" if number % 2 else "hierarchical.bin")).read_bytes())
        if number % 4 < 2:
            data = data[: chance.randrange(4, len(data))]
        for _ in range(3):
            data[chance.randrange(4, min(len(data), 900))] = chance.randrange(256)
        (tmp_path / f"{number}.bin").write_bytes(bytes(data))
        try:
            convert(str(tmp_path / f"{number}.bin"), tmp_path / f"run{number}")
        except CheckpointError as error:
            assert "\n" not in str(error)


def test_the_command_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "it.ftz").write_bytes((FIXTURES / "quantized.ftz").read_bytes()[:5000])
    done = weft_command("convert", str(tmp_path / "it.ftz"), str(tmp_path / "run"))
    assert done.code == 1
    assert done.err.startswith(f"weft: {tmp_path}/it.ftz: is damaged")
    assert done.err.count("\n") == 1
