from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import pytest
import torch

from weft.core.errors import ConfigError, DataError
from weft.data.base import IGNORE, DataLoader, Problems
from weft.data.io import text as io_text
from weft.data.io.text import Text, read_text
from weft.data.text.sentence_pairs import SentencePairsConfig
from weft.data.text.span_corruption import SpanCorruptionConfig
from weft.data.text.token_windows import TextConfig, TokenWindows, Unit, language_data


def write(path: Path, content: str | bytes) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


@pytest.mark.parametrize("length", [2, 3, 8, 9, 10, 17, 40])
def test_training_windows_start_everywhere(length: int) -> None:
    tokens = torch.arange(length, dtype=torch.uint8)
    windows = TokenWindows(tokens, 8, overlapping=True)
    assert len(windows) == max(1, length - 8)
    index = torch.arange(len(windows))
    batch = windows.batch(index, index)
    seen = batch["targets"] != IGNORE
    assert torch.equal(batch["ids"][seen] + 1, batch["targets"][seen])
    assert torch.equal(batch["ids"][:, 0], index)
    assert seen.all() if length > 8 else seen.sum() == length - 1


@pytest.mark.parametrize("length", [2, 8, 9, 10, 17, 40])
def test_validation_windows_predict_each_token_once(length: int) -> None:
    windows = TokenWindows(torch.arange(length, dtype=torch.uint8), 8, overlapping=False)
    index = torch.arange(len(windows))
    targets = windows.batch(index, index)["targets"]
    assert targets[targets != IGNORE].tolist() == list(range(1, length))
    assert windows.batch(index, index)["ids"].shape == (len(windows), 8)


def test_a_text_in_one_command(tmp_path: Path) -> None:
    data = TextConfig(path=write(tmp_path / "a.txt", "hello world\n" * 50), context=16).build()
    batch = DataLoader(data.train, 0, torch.device("cpu")).batch(0, 5)
    assert batch["ids"].shape == (5, 16)
    assert data.info["vocabulary"] == len(set("hello world\n"))
    assert (data.info["training_tokens"], data.info["validation_tokens"]) == (540, 60)


@pytest.mark.parametrize("content", ["", " \n\t ", b"\xef\xbb\xbf", b"\xff\xfe"])
def test_an_empty_file_is_one_sentence(tmp_path: Path, content: str | bytes) -> None:
    with pytest.raises(DataError, match=r"a\.txt: holds no text"):
        TextConfig(path=write(tmp_path / "a.txt", content)).build()


def test_a_text_of_one_character(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not at least 2"):
        TextConfig(path=write(tmp_path / "a.txt", "x")).build()


@pytest.mark.parametrize("content", ["ab", "abc", "hello there"])
@pytest.mark.parametrize("unit", ["characters", "bytes"])
def test_a_text_shorter_than_the_context_works_and_says_so(tmp_path: Path, content: str, unit: str) -> None:
    data = TextConfig(path=write(tmp_path / "a.txt", content), tokenizer=unit, validation=0.0, context=64).build()  # type: ignore[arg-type]
    assert data.validation is None
    assert "no longer than one example" in data.problems.lines()[0]
    batch = DataLoader(data.train, 0, torch.device("cpu")).batch(0, 3)
    assert batch["ids"].shape == (3, 64)
    assert ((batch["targets"] != IGNORE).sum(1) == len(content) - 1).all()


def test_a_context_far_beyond_the_text_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "One two. Three four.\n\nFive six. Seven eight.\n\nNine ten. Eleven.\n" * 20)
    with pytest.raises(ConfigError, match=r"--data.context 1,000,000 is longer than the whole training text of 1,152 tokens; lower it to"):
        TextConfig(path=path, context=1_000_000).build()
    for source in (SentencePairsConfig(path=path, context=1_000_000), SpanCorruptionConfig(path=path, context=1_000_000)):
        with pytest.raises(ConfigError, match="lower it to"):
            source.build()


def test_a_validation_share_too_small_to_predict_anything(tmp_path: Path) -> None:
    data = TextConfig(path=write(tmp_path / "a.txt", "abcdefgh"), context=2, validation=0.1).build()
    assert data.validation is None
    assert data.info["validation_tokens"] == 0
    assert data.info["bytes_per_token"] == 1
    assert "validation text too short" in data.problems.lines()[0]


@pytest.mark.parametrize("wrong", [{"validation": 1.0}, {"validation": -0.5}, {"context": 0}, {"vocabulary": -3}, {"vocabulary": 1}])
def test_settings_that_make_no_sense(tmp_path: Path, wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"--data.{next(iter(wrong))}"):
        TextConfig(path=write(tmp_path / "a.txt", "some text " * 9), **wrong).build()  # type: ignore[arg-type]


def test_words_are_limited(tmp_path: Path) -> None:
    text = " ".join(f"w{i} w0 w1" for i in range(100))
    data = TextConfig(path=write(tmp_path / "a.txt", text), tokenizer="words", vocabulary=3, context=4).build()
    assert data.info["vocabulary"] == 3
    assert data.tokenizer.words == ["<unk>", "w0", "w1"]


def test_line_ends_are_one_kind_but_bytes_are_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", b"one\r\ntwo\rthree\n\xff caf\xe9\r\n")
    problems = Problems(encoding="utf-8")
    assert read_text(path, problems) == "one\ntwo\nthree\n\ufffd caf\ufffd\n"
    assert problems.lines() == [f"2 × bytes that are not UTF-8, replaced by U+FFFD: {path}:3 (byte 15)"]
    data = TextConfig(path=path, tokenizer="bytes", context=4, validation=0.0).build()
    assert bytes(data.train.tokens.tolist()) == Path(path).read_bytes()  # type: ignore[attr-defined]
    assert list(data.problems.counts) == []


def test_nul_characters_are_told(tmp_path: Path) -> None:
    data = TextConfig(path=write(tmp_path / "a.txt", "ab\nc\0\0d" + "a few words more\n" * 40), context=4).build()
    assert data.problems.lines() == [f"2 × NUL characters, kept; is this text?: {tmp_path / 'a.txt'}:2"]


def test_a_folder_skips_what_it_cannot_read_and_says_so(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "first " * 20)
    write(tmp_path / "b.txt.gz", gzip.compress(b"second " * 20))
    write(tmp_path / "c.txt.gz", b"broken")
    write(tmp_path / "d.txt", "")
    write(tmp_path / "e.png", b"\x89PNG")
    (tmp_path / "loop").symlink_to(tmp_path)
    problems = Problems()
    text = read_text(str(tmp_path), problems)
    assert text.startswith("first")
    assert "second" in text
    told = "\n".join(problems.lines())
    for name in ("c.txt.gz", "d.txt", "e.png", "loop"):
        assert name in told


def test_a_folder_without_text(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no text file"):
        read_text(str(tmp_path), Problems())


def test_characters_a_given_tokenizer_does_not_have_are_named(tmp_path: Path) -> None:
    first = TextConfig(path=write(tmp_path / "a.txt", "abc" * 30), context=4).build()
    again = TextConfig(path=write(tmp_path / "b.txt", "cba" * 30), context=4).build_with(first.tokenizer)
    assert again.info["vocabulary"] == 3
    other = TextConfig(path=write(tmp_path / "c.txt", "abzé" * 30), context=4, validation=0.0).build_with(first.tokenizer)
    assert other.tokenizer.decode(other.train.tokens.tolist()) == "ab" * 30  # type: ignore[attr-defined]
    assert other.info["unknown_per_token"] == 1.0 and other.info["bytes_per_token"] == 2.5
    assert other.problems.lines() == ["60 × characters that the model does not know, left out: 'z' (U+007A), 'é' (U+00E9), …"]
    with pytest.raises(DataError, match=r"has 0 tokens .*\(30 × characters that the model does not know, left out: 'z' \(U\+007A\), …\)"):
        TextConfig(path=write(tmp_path / "c.txt", "z" * 30), context=4, validation=0.0).build_with(first.tokenizer)


def test_a_limited_vocabulary_of_characters_learns_an_unknown_token(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "abc" * 30 + "d" + "abe" * 4)
    data = TextConfig(path=path, vocabulary=4, context=4, validation=0.0).build()
    assert data.tokenizer.characters == "abc\ufffd"
    assert data.tokenizer.decode(data.tokenizer.encode("aébd").tolist()) == "a\ufffdb\ufffd"
    assert data.problems.counts == {"characters that the model does not know, read as its unknown token": 5}
    assert data.info["unknown_per_token"] == 0.0, "the model itself is charged for them"
    assert TextConfig(path=path, vocabulary=9, context=4).build().tokenizer.characters == "abcde"


@pytest.mark.parametrize("tokenizer", ["characters", "bytes"])
@pytest.mark.parametrize("line", ["the quick brown fox\n", "‘the’ quick brown fox 😀\n", "学而时习之，不亦说乎？\n", "the fox\r\n"])
def test_memory_is_a_few_times_the_text_whatever_its_characters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, tokenizer: Unit
) -> None:
    monkeypatch.setattr(io_text, "PIECE", 1 << 14)
    path = tmp_path / "a.txt"
    path.write_bytes(line.encode() * ((1 << 20) // len(line.encode())))
    tracemalloc.start()
    data = TextConfig(path=str(path), tokenizer=tokenizer, context=8).build()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(data.train) > 100_000
    assert peak < 4 * path.stat().st_size


def test_two_texts_under_one_tokenizer() -> None:
    data = language_data(Text(b"abab" * 5), Text(b"acac" * 5), "characters", 0, 4, Problems())
    assert data.info["vocabulary"] == 3
    assert data.validation is not None


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    windows = TokenWindows(torch.randint(0, 200, (5000,), dtype=torch.uint8), 33, overlapping=True)
    index = torch.randint(0, len(windows), (64,))
    here, there = windows.batch(index, index), windows.to(torch.device("cuda")).batch(index.cuda(), index.cuda())
    assert all(torch.equal(here[name], there[name].cpu()) for name in here)


def test_validation_may_read_longer_windows_than_training() -> None:
    texts = Text(b"ab" * 40), Text(b"ba" * 20)
    for asked, got in ((0, 4), (16, 16), (1000, 39)):
        data = language_data(*texts, "characters", 0, 4, Problems(), None, 2, asked)
        assert data.train.batch(torch.tensor([0]), torch.tensor([0]))["ids"].size(1) == 4
        assert data.validation is not None
        windows = data.validation.batch(torch.arange(len(data.validation)), torch.tensor([0]))["targets"]
        assert windows.size(1) == got and (windows >= 0).sum() == 39
    with pytest.raises(ConfigError, match="validation_context must be at least 1, not -1"):
        language_data(*texts, "characters", 0, 4, Problems(), None, 2, -1)
