"""Files of word vectors: as gensim reads them to the last bit, written so that it reads them, damage told in one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.cli.conftest import weft_command
from weft.convert.convert import convert
from weft.convert.vectors import files
from weft.convert.vectors.files import WordVectors
from weft.core.errors import CheckpointError
from weft.inference.neighbours import word_table
from weft.runs.load import load

FIXTURES = Path(__file__).parents[2] / "fixtures" / "vectors"


@pytest.fixture(scope="module")
def expected() -> Any:
    return json.loads((FIXTURES / "expected.json").read_text())


def table(text: str, words: int) -> np.ndarray:
    return np.frombuffer(bytes.fromhex(text), dtype="<f4").reshape(words, -1)


@pytest.mark.parametrize("name", ["gensim.bin", "gensim.txt", "glove.txt", "word2vec_c.bin"])
def test_vectors_are_those_that_gensim_reads_to_the_last_bit(name: str, expected: Any) -> None:
    found = files.read(FIXTURES / name)
    assert found.words == expected["words"]
    assert found.vectors.tobytes() == table(expected[name], len(found.words)).tobytes()


@pytest.mark.parametrize("name", ["gensim.bin", "glove.txt", "fasttext.vec"])
@pytest.mark.parametrize("suffix", [".bin", ".txt", ".vec"])
def test_in_and_out_again_changes_no_bit(name: str, suffix: str, tmp_path: Path) -> None:
    theirs = files.read(FIXTURES / name)
    done = convert(str(FIXTURES / name), tmp_path / "run")
    assert (done.family, done.parameters) == ("word vectors", theirs.vectors.size + theirs.vectors.shape[1])
    loaded = load(tmp_path / "run", "cpu")
    words, vectors = word_table(loaded.model, loaded.tokenizer)
    assert words == theirs.words
    assert vectors.numpy().tobytes() == theirs.vectors.tobytes()
    convert(str(tmp_path / "run"), tmp_path / f"out{suffix}")
    again = files.read(tmp_path / f"out{suffix}")
    assert again.words == theirs.words
    assert again.vectors.tobytes() == theirs.vectors.tobytes()


def test_text_holds_every_float32(tmp_path: Path) -> None:
    bits = torch.randint(0, 1 << 31, (400, 5), generator=torch.Generator().manual_seed(0), dtype=torch.int64).to(torch.int32)
    numbers = bits.view(torch.float32).numpy().copy()
    numbers[~np.isfinite(numbers)] = 1.0
    (tmp_path / "v.txt").write_bytes(files.write(tmp_path / "v.txt", WordVectors([f"w{i}" for i in range(400)], numbers)))
    assert files.read(tmp_path / "v.txt").vectors.tobytes() == numbers.tobytes()


def test_words_may_hold_spaces_numbers_and_repeat(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_bytes(b"one 1 2\na b 1 2\n7 3 4\n. . . 5 6\n7 0 0\n\xc2\x85 1 1\nbr\xff 2 2\n")
    found = files.read(tmp_path / "v.txt")
    assert found.words == ["one", "a b", "7", ". . .", "\u0085", "br\ufffd"]
    assert found.vectors[2].tolist() == [3, 4]
    assert found.repeated == ["7"]
    with pytest.raises(CheckpointError, match="'a b' holds a space"):
        files.write(tmp_path / "out.bin", found)


def test_the_vector_of_unknown_words_is_kept(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("cat 1 2\n<unk> 3 4\ndog 5 6\n")
    convert(str(tmp_path / "v.txt"), tmp_path / "run")
    loaded = load(tmp_path / "run", "cpu")
    assert loaded.tokenizer.words == ["<unk>", "cat", "dog"]
    assert loaded.model.centre.weight.tolist() == [[3, 4], [1, 2], [5, 6]]
    assert loaded.tokenizer.encode("dog bird  cat").tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", 'neither with "V D" nor with a word'),
        (b"hello world\n", 'neither with "V D" nor with a word'),
        (b"999999 300\nthe 0.1 0.2\n", "which 23 bytes cannot hold"),
        (b"99999999999 3\n", "tells of 99,999,999,999 vectors"),
        (b"0 3\n", "tells of 0 vectors"),
        (b"2 3\nthe_only_one 1.5 2.5 3.5\n", "it holds 1 vectors, and its first line tells of 2"),
        (b"2 3\nthe 1 2 3\nof_two 1 2\n", "line 3 is not a word and 3 numbers"),
        (b"1 2\nthe 1 nan\n", "the vector of 'the' is not finite"),
        (b"2 2\nthe \0\0\0\0\0\0\0\0of \0\0\0", "vector 2 of 2 is not whole"),
        (b"1 2\nthe \0\0\0\0\0\0\0\0and more", "bytes are left behind the last vector"),
        (b"1 2\nthe \0\0\x80\x7f\0\0\0\0", "the vector of 'the' is not finite"),
    ],
)
def test_damage_is_one_sentence(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "vectors.bin").write_bytes(content)
    done = weft_command("convert", str(tmp_path / "vectors.bin"), str(tmp_path / "run"))
    assert done.code == 1
    assert message in done.err
    assert done.err.startswith("weft: ")
    assert done.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_run_of_vectors_is_written_to_a_file(tmp_path: Path) -> None:
    convert(str(FIXTURES / "gensim.bin"), tmp_path / "run")
    done = weft_command("convert", str(tmp_path / "run"), str(tmp_path / "out"))
    assert "word vectors are written to a file; name it NAME.bin, NAME.txt, NAME.vec" in done.err
    done = weft_command("sample", str(tmp_path / "run"), "does0", "--n", "3")
    assert done.code == 0
    assert done.out.count("\n") == 4
