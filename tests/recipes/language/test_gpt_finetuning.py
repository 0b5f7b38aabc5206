"""From a GPT that continues texts to one that tells of them: its tokens and weights are kept, marks and head are new, and it learns."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import weft
from tests.cli.conftest import Outcome, weft_command
from tests.contracts.tiny import choices_file, labelled_file, text_file
from weft.cli import train
from weft.core.errors import CapabilityError, CheckpointError, ConfigError
from weft.evaluation.evaluate import evaluate
from weft.models.language.gpt import GPT
from weft.runs.assemble import assemble
from weft.runs.run import Run
from weft.training.checkpoint import checkpoint

ONE, TWO = "{text}\t{label}\n", "{text}\t{second}\t{label}\n"
SMALL = {"model.layers": 1, "model.heads": 2, "model.width": 32, "data.context": 48, "train.device": "cpu", "train.batch": 8}
SHORT = ["--data.context", "48", "--data.validation", "0.3", "--train.steps", "60", "--train.eval-every", "30", "--train.device", "cpu"]
Pretrained = Callable[..., Path]


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Pretrained:
    """Makes a run of gpt/text, once for each kind."""
    folder, made = tmp_path_factory.mktemp("pretrained"), dict[str, Path]()

    def make(**changes: Any) -> Path:
        name = "-".join(map(str, changes.values())) or "plain"
        if name not in made:
            settings = {name.replace("__", "."): value for name, value in changes.items()}
            recipe = weft.recipe(
                "gpt/text", SMALL | {"data.path": str(text_file(folder)), "train.steps": 20, "train.eval_every": 0} | settings
            )
            assemble(recipe, folder / name).trainer.fit()
            made[name] = folder / name
        return made[name]

    return make


def started(name: str, path: Path, init: Path, out: Path, *flags: str) -> Run:
    """What `weft train NAME --data.path PATH --init INIT` assembles."""
    recipe, place = train.parse(name, ["--data.path", str(path), *SHORT, "--init", str(init), "--out", str(out), *flags])
    return assemble(recipe, Path(place.out), place.init)


def weights(path: Path) -> dict[str, torch.Tensor]:
    return checkpoint.read(checkpoint.resolve(path)).tensors("model.safetensors")


@pytest.mark.parametrize("tie_embeddings", [True, False])
@pytest.mark.parametrize("unit", ["characters", "bytes", "byte_bpe", "wordpiece"])
def test_old_tokens_are_kept_and_three_new_ones_start_afresh(
    tie_embeddings: bool, unit: str, pretrained: Pretrained, tmp_path: Path
) -> None:
    if unit in ("byte_bpe", "wordpiece"):
        pytest.importorskip("tokenizers")
    init = pretrained(model__tied=tie_embeddings, data__tokenizer=unit, data__vocabulary=300 if unit in ("byte_bpe", "wordpiece") else 0)
    made, old, before = started("gpt/classify", labelled_file(tmp_path, ONE), init, tmp_path / "run"), weft.load(init, "cpu"), weights(init)
    model = made.trainer.model
    assert isinstance(model, GPT)
    size = old.tokenizer.size
    assert model.config.vocabulary == made.data.tokenizer.size == size + 3
    assert model.config.classes == 2
    assert (model.head.weight is model.embed.weight) == tie_embeddings
    own = model.state_dict()
    for name, tensor in before.items():
        assert torch.equal(own[name][: len(tensor)], tensor), name
    assert own.keys() - before.keys() == {"task_head.weight", "task_head.bias"} | ({"head.weight"} if tie_embeddings else set())
    for table in (own["embed.weight"], own["head.weight"]):
        assert 0.01 < float(table[size:].std()) < 0.03, "as GPT-2 begins"
    ids = torch.randint(size, (3, 20), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        model.eval()
        assert torch.equal(model.hidden(ids), old.model.hidden(ids))
        torch.testing.assert_close(model(ids)[..., :size], old.model(ids), atol=1e-6, rtol=1e-6)  # a product of another size
    assert made.data.tokenizer.tokens.inner.to_json() == old.tokenizer.to_json()


def test_a_model_with_rows_to_spare_does_not_grow(pretrained: Pretrained, tmp_path: Path) -> None:
    init = pretrained(model__vocabulary=64)
    made = started("gpt/classify", labelled_file(tmp_path, ONE), init, tmp_path / "run")
    assert made.recipe.model.vocabulary == 64  # type: ignore[attr-defined]
    assert torch.equal(made.trainer.model.embed.weight, weights(init)["embed.weight"])


def test_everything_from_the_command_line(pretrained: Pretrained, tmp_path: Path) -> None:
    path, out = labelled_file(tmp_path, ONE), str(tmp_path / "run")
    words = ["train", "gpt/classify", "--data.path", str(path), "--init", str(pretrained()), "--out", out, *SHORT, "--optim.lr", "3e-3"]
    done: Outcome = weft_command(*words)
    assert done.code == 0, done.err
    assert "added tokens 3" in done.out
    assert "best validation accuracy" in done.out
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000
    assert "is finished" in weft_command(*words).out, "the same command knows its run again"
    measured = weft_command("evaluate", out)
    assert measured.code == 0
    assert all(name in measured.out for name in ("accuracy", "task", "text", "f1", "matthews"))
    sampled = weft_command("sample", out, "the cat", "--max-new-tokens", "20")
    assert (sampled.code, sampled.out.startswith("the cat")) == (0, True)
    assert weft_command("report", out).code == 0
    other = tmp_path / "other.tsv"
    other.write_text("a dog hates rain.\t0\na dog likes rain.\t1\nmy friend hates a tree.\t0\nwhat is this?\tzebra\n")
    result = evaluate(weft.load(out, "cpu"), data=other)
    assert (result.examples, result["accuracy"]) == (3, 1.0)
    assert "other.tsv:4 ('zebra')" in result.problems[0]


@pytest.mark.parametrize("orders", [(), ("--data.both-orders",)])
def test_pairs_are_told_apart(orders: tuple[str, ...], tmp_path: Path) -> None:
    """The class is how many of two texts are favourable; learned from nothing, with words for tokens."""
    chance, verbs = random.Random(0), ("hates", "likes")
    rows = []
    for _ in range(200):
        pair = chance.choice((0, 1)), chance.choice((0, 1))
        texts = "\t".join(f"my {chance.choice(('cat', 'dog'))} {verbs[mood]} {chance.choice(('rain', 'songs'))}." for mood in pair)
        rows.append(f"{texts}\t{('none', 'one', 'both')[sum(pair)]}\n")
    (tmp_path / "pairs.tsv").write_text("".join(rows))
    small = (
        "--model.layers 2 --model.heads 2 --model.width 32 --data.tokenizer words --data.context 24 --data.validation 0.2 --optim.lr 5e-3"
    )
    short = "--train.steps 100 --train.eval-every 50 --train.device cpu"
    words = ["--data.path", str(tmp_path / "pairs.tsv"), "--out", str(tmp_path / "run"), *small.split(), *short.split(), *orders]
    recipe, place = train.parse("gpt/classify", words)
    made = assemble(recipe, Path(place.out))
    made.trainer.fit()
    assert made.validation is not None
    assert made.validation.latest["accuracy"] > 0.9
    if orders:
        batch = made.data.validation.batch(torch.arange(8), torch.arange(8))  # type: ignore[union-attr]
        model, (b, n, t) = made.trainer.model.eval(), batch["ids"].shape
        with torch.no_grad():
            hidden = model.hidden(batch["ids"].flatten(0, 1)).view(b, n, t, -1)  # type: ignore[operator]
            told, swapped = model.class_logits(hidden, batch["lengths"]), model.class_logits(hidden.flip(1), batch["lengths"].flip(1))  # type: ignore[operator]
        torch.testing.assert_close(told, swapped)


def test_choices_and_then_another_task(pretrained: Pretrained, tmp_path: Path) -> None:
    made = started("gpt/choose", choices_file(tmp_path), pretrained(), tmp_path / "choose", "--optim.lr", "3e-3")
    assert tuple(made.trainer.model.task_head.weight.shape) == (1, 32)  # type: ignore[union-attr]
    made.trainer.fit()
    assert made.validation is not None
    assert made.validation.latest.keys() == {"loss", "task", "text", "accuracy"}
    assert made.validation.latest["accuracy"] > 0.9
    assert evaluate(str(tmp_path / "choose"))["accuracy"] > 0.9
    before = weights(tmp_path / "choose")
    again = started("gpt/classify", labelled_file(tmp_path, TWO), tmp_path / "choose", tmp_path / "classify", "--data.both-orders")
    own = again.trainer.model.state_dict()
    assert again.data.tokenizer.tokens.to_json() == made.data.tokenizer.to_json(), "the marks are known already"
    assert torch.equal(own["embed.weight"], before["embed.weight"])
    assert tuple(own["task_head.weight"].shape) == (2, 32)
    text = started("gpt/text", text_file(tmp_path), tmp_path / "choose", tmp_path / "text")
    assert torch.equal(text.trainer.model.embed.weight, before["embed.weight"])
    assert "task_head.weight" not in text.trainer.model.state_dict()


def test_a_model_of_another_size_is_one_sentence(pretrained: Pretrained, tmp_path: Path) -> None:
    path = labelled_file(tmp_path, ONE)
    with pytest.raises(ConfigError, match=r"a context of 48 tokens, but --data\.context 128 makes .*; lower it to 48"):
        started("gpt/classify", path, pretrained(), tmp_path / "run", "--data.context", "128")
    with pytest.raises(CheckpointError, match=r"the weights do not fit the model: other shape"):
        started("gpt/classify", path, pretrained(), tmp_path / "wide", "--model.width", "64")
    words = {"data.tokenizer": "bert_words", "data.context": 32, "model.layers": 1, "model.heads": 2, "model.width": 16, "train.steps": 1}
    assemble(weft.recipe("bert/classify", words | {"data.path": str(path), "train.device": "cpu"}), tmp_path / "bert").trainer.fit()
    with pytest.raises(ConfigError, match=r"a context of 32 tokens, but --data\.context 48 makes .*; lower it to 32"):
        started("bert/classify", path, tmp_path / "bert", tmp_path / "again")


def test_another_kind_of_model_is_refused(tmp_path: Path) -> None:
    changes = SMALL | {"data.path": str(text_file(tmp_path)), "train.steps": 1, "train.eval_every": 0}
    assemble(weft.recipe("llama/text", changes), tmp_path / "llama").trainer.fit()
    with pytest.raises(CapabilityError, match=r"Llama does not offer ClassifiesText \(a model that gives logits to classes and to choices"):
        started("gpt/classify", labelled_file(tmp_path, ONE), tmp_path / "llama", tmp_path / "run")
