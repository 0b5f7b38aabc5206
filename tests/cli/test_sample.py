"""`weft sample`: text, images, neighbours, and a clear answer where a model offers none of them."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import weft
from tests.cli.conftest import Outcome
from tests.contracts.tiny import table_file


def small_run(folder: Path, name: str, **changes: object) -> Path:
    settings = {"train.steps": 3, "train.eval_examples": 16, "train.batch": 8, **changes}
    weft.train(weft.recipe(name, settings), out=folder)
    return folder


def test_text_continues_a_prompt_the_same_way_each_time(command: Callable[..., Outcome], text_run: Path) -> None:
    words = ["sample", str(text_run), "the ", "--max-new-tokens", "20", "--seed", "3"]
    first, second = command(*words), command(*words[:2], *words[3:], words[2])
    assert first.code == second.code == 0
    assert first.out == second.out
    assert first.out.startswith("the ")
    assert len(first.out.rstrip("\n")) <= 24
    assert "20 tokens, ended by length; seed 3" in first.err
    assert command(*words[:-1], "4").out != first.out


@pytest.mark.parametrize("unit", ["characters", "byte_bpe"])
def test_a_chinese_text_is_learned_and_continued(command: Callable[..., Outcome], tmp_path: Path, unit: str) -> None:
    if unit == "byte_bpe":
        pytest.importorskip("tokenizers")
    poem = "床前明月光，疑是地上霜。举头望明月，低头思故乡。"
    (tmp_path / "诗.txt").write_text(f"{poem}\n" * 60, encoding="utf-8")
    flags = f"--data.tokenizer {unit} --data.context 32 --model.layers 1 --model.heads 2 --model.width 32 --train.steps 80 --train.batch 16"
    rest = ["--optim.lr", "1e-2", "--optim.schedule.warmup", "5", "--train.device", "cpu", "--train.precision", "fp32"]
    done = command("train", "gpt/text", "--data.path", str(tmp_path / "诗.txt"), "--out", str(tmp_path / "run"), *flags.split(), *rest)
    assert done.code == 0, done.err
    said = command("sample", str(tmp_path / "run"), "床前明月光", "--temperature", "0", "--max-new-tokens", "40")
    assert said.out.startswith(poem), said.out


def test_text_may_go_to_a_file(command: Callable[..., Outcome], text_run: Path, tmp_path: Path) -> None:
    target = tmp_path / "text.txt"
    done = command("sample", f"{text_run}@last", "fox", "--n", "2", "--max-new-tokens", "5", "--out", str(target))
    assert done.code == 0
    assert target.read_text().count("fox") >= 2


def test_the_likeliest_texts_of_a_beam(command: Callable[..., Outcome], text_run: Path) -> None:
    words = ["sample", str(text_run), "the ", "--max-new-tokens", "6", "--beams", "4"]
    done = command(*words, "--n", "3", "--length-penalty", "0")
    assert done.code == 0, done.err
    assert len(done.out.split("\n\n---\n\n")) == 3
    assert done.err.count("log-probability") == 3
    loaded = weft.load(text_run)
    best = loaded.generate("the ", beams=4, length_penalty=0.0, max_new_tokens=6)
    assert f"log-probability {best.logprob:.5f}, score {best.score:.5f}" in done.err
    ids = loaded.tokenizer.encode("the " + best.text).tolist()
    given = torch.tensor([ids[:-1]], device=next(loaded.model.parameters()).device)
    logits = loaded.model(given).detach()[0, 3:].log_softmax(-1)
    assert best.logprob == pytest.approx(float(logits[torch.arange(6), ids[4:]].sum()), abs=1e-5)
    for more, said in (
        (["--n", "5"], "n must not be above beams"),
        (["--stop", "x"], "no stop sequences"),
        (["--draft", str(text_run)], "no draft"),
    ):
        refused = command(*words, *more)
        assert refused.code == 2
        assert said in refused.err
    assert "has no source to cover" in command(*words, "--coverage-penalty", "1").err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["two", "words"], "put it into quotes"),
        (["--temperature", "-1"], "temperature must be from 0"),
        (["--top-p", "0"], "top_p must be above 0"),
        (["--max-new-tokens", "0"], "at least 1"),
        (["--beams", "2", "--temperature", "0.5"], "--temperature changes what is drawn, and --beams draws nothing"),
        (["--beams", "2", "--temperature", "0", "--top-k", "3"], "--top-k changes what is drawn"),
        (["--length-penalty", "1"], "--length-penalty needs beam search, and there is none without --beams"),
        (["--iterations", "2"], "--iterations is for models that make all tokens of an answer at once"),
    ],
)
def test_what_cannot_be_sampled_is_one_line(command: Callable[..., Outcome], text_run: Path, words: list[str], said: str) -> None:
    done = command("sample", str(text_run), *words)
    assert done.code == 2
    assert said in done.err
    assert done.err.startswith("weft: ")


def test_images_become_a_png_of_tiles(command: Callable[..., Outcome], tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("sklearn")
    run = small_run(tmp_path / "vae", "vae/digits")
    assert command("sample", str(run), "--n", "6").code == 0
    drawn = image.open(io.BytesIO((run / "samples" / "00000003-seed0.png").read_bytes()))
    assert drawn.size == (3 * 68 + 4, 2 * 68 + 4)  # three columns of 8 pixels enlarged eightfold
    assert "takes no prompt" in command("sample", str(run), "seven").err


def test_images_of_a_class_and_walks(command: Callable[..., Outcome], tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("sklearn")
    run = small_run(tmp_path / "vae", "vae/conditional_digits", **{"model.hidden": (16,)})
    assert command("sample", str(run), "--label", "3", "--n", "4").code == 0
    assert command("sample", str(run), "--latents", "interpolate", "--n", "20").code == 0
    assert command("sample", str(run), "--latents", "traverse", "--n", "30").code == 0
    sizes = {path.name: image.open(io.BytesIO(path.read_bytes())).size for path in (run / "samples").iterdir()}
    wide = 10 * 68 + 4
    assert sizes["00000003-3-seed0.png"] == (2 * 68 + 4, 2 * 68 + 4)
    assert sizes["00000003-interpolate-seed0.png"] == (wide, 2 * 68 + 4)
    assert sizes["00000003-traverse-seed0.png"] == (wide, 3 * 68 + 4)
    assert "is none of the classes" in command("sample", str(run), "--label", "12").err
    assert "do not go together" in command("sample", str(run), "--label", "1", "--latents", "traverse").err
    plain = small_run(tmp_path / "plain", "vae/digits", **{"model.hidden": (16,)})
    assert "does not offer SamplesClass" in command("sample", str(plain), "--label", "3").err


def test_word_vectors_give_neighbours(command: Callable[..., Outcome], tmp_path: Path) -> None:
    text = tmp_path / "words.txt"
    text.write_text("the cat sat on the mat. the dog sat on the log.\n" * 60)
    run = small_run(tmp_path / "w2v", "word2vec/source", **{"data.path": str(text), "model.width": 8})
    done = command("sample", str(run), "cat dog", "--n", "3")
    assert done.code == 0
    assert done.out.splitlines()[0] == "cat"
    assert len(done.out.splitlines()) == 8
    assert "'zebra' is not among" in command("sample", str(run), "zebra").err
    assert command("sample", str(run)).code == 2


def test_a_classifier_of_images_tells_their_class(command: Callable[..., Outcome], tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("sklearn")
    run = small_run(tmp_path / "mlp", "classifier/digits")
    image.new("RGB", (30, 20), (200, 10, 10)).save(tmp_path / "one.png")
    done = command("sample", str(run), str(tmp_path / "one.png"))
    assert done.code == 0
    assert done.out.splitlines()[0] == str(tmp_path / "one.png")
    assert len(done.out.splitlines()) == 6
    asked = command("sample", str(run))
    assert asked.code == 2
    assert "must be asked, for example: weft sample CKPT picture.png" in asked.err


def test_a_classifier_of_rows_says_what_is_missing(command: Callable[..., Outcome], tmp_path: Path) -> None:
    done = command("sample", str(small_run(tmp_path / "mlp", "classifier/table", **{"data.path": str(table_file(tmp_path))})))
    assert done.code == 2
    assert "MLP (classifier/table) has nothing to sample" in done.err
    assert "NextTokenLogits" in done.err
    assert "Samples" in done.err


@pytest.mark.parametrize("weights", ["bf16", "int8"])
def test_weights_may_be_kept_in_fewer_bits(command: Callable[..., Outcome], text_run: Path, weights: str) -> None:
    words = ["sample", str(text_run), "the ", "--max-new-tokens", "20", "--device", "cpu", "--precision", weights]
    done = command(*words)
    assert done.code == 0, done.err
    assert done.out.startswith("the ")
    assert command(*words).out == done.out
