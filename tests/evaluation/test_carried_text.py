"""A text read as one equals all its tokens at once; dynamic evaluation equals its equations, and leaves the run as it was."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.contracts.tiny import text_file
from weft.core.errors import ConfigError
from weft.data.text.token_windows import TextConfig
from weft.evaluation import carried_text
from weft.evaluation.evaluate import evaluate
from weft.models.language.gpt import TINY
from weft.models.language.rnn import RNNLMConfig
from weft.objectives.language.next_token import NextTokenConfig
from weft.objectives.language.truncated_bptt import TruncatedBPTTConfig
from weft.recipes.base import Recipe
from weft.runs.assemble import assemble
from weft.runs.load import Loaded, load
from weft.training.optimizer.settings import AdamW
from weft.training.settings import Train


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    folder = tmp_path_factory.mktemp("run")
    recipe = Recipe(
        data=TextConfig(path=str(text_file(folder)), context=8, lanes=4),
        model=RNNLMConfig(width=12, embedding_width=8, layers=2, output_dropout=0.5),
        objective=TruncatedBPTTConfig(),
        optim=AdamW(lr=0.01),
        train=Train(steps=20, batch=4, eval_every=20, eval_examples=4, save_every=20, device="cpu"),
    )
    assemble(recipe, folder / "run").trainer.fit()
    return load(folder / "run", "cpu")


def texts(loaded: Loaded) -> tuple[torch.Tensor, torch.Tensor]:
    built = loaded.recipe.data.build_with(loaded.tokenizer)
    return built.validation.tokens.long(), built.train.tokens.long()  # type: ignore[union-attr, attr-defined]


def test_a_text_read_as_one_has_the_loss_of_all_its_tokens_at_once(trained: Loaded) -> None:
    text, _ = texts(trained)
    with torch.no_grad():
        expected = F.cross_entropy(trained.model(text[None, :-1])[0], text[1:]).item()  # type: ignore[operator]
    found = evaluate(trained, "carried").metrics
    assert found == pytest.approx({"carried_loss": expected, "carried_perplexity": math.exp(expected)}, rel=1e-5)
    assert evaluate(trained, "dynamic=0,0")["dynamic_loss"] == pytest.approx(expected, rel=1e-5)


def test_dynamic_evaluation_is_its_equations(trained: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carried_text, "LANES", 3)
    model: Any = trained.model
    text, train = texts(trained)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = evaluate(trained, "dynamic=0.003,0.01")["dynamic_loss"]
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())

    def gradients(rows: torch.Tensor, begin: int, state: Any) -> tuple[float, list[torch.Tensor], Any]:
        end = min(begin + 5, rows.size(1) - 1)
        state = None if state is None else type(state).of({name: held.detach() for name, held in state.tensors.items()})
        if state is None:
            state = model.new_state()
            state.add_rows(len(rows))
        loss = F.cross_entropy(model.head(model.hidden(rows[:, begin:end], state)).flatten(0, 1), rows[:, begin + 1 : end + 1].flatten())
        return loss.item() * (end - begin), list(torch.autograd.grad(loss, weights)), state

    weights, state = list(model.parameters()), None
    rows = train[: len(train) // 3 * 3].view(3, -1)
    squares = []
    for begin in range(0, rows.size(1) - 1, 5):
        _, grads, state = gradients(rows, begin, state)
        squares.append([grad**2 for grad in grads])
    sizes = [torch.stack(of).mean(0).sqrt() for of in zip(*squares, strict=True)]
    mean = sum(float(size.mean()) for size in sizes) / len(sizes)
    origin, total, state = [weight.detach().clone() for weight in weights], 0.0, None
    for begin in range(0, len(text) - 1, 5):
        loss, grads, state = gradients(text[None], begin, state)
        total += loss
        with torch.no_grad():
            for weight, grad, size, first in zip(weights, grads, sizes, origin, strict=True):
                weight += (0.01 * size / mean).clamp(max=1) * (first - weight) - 0.003 * grad / (size + 2e-5)
    model.load_state_dict(before)
    assert found == pytest.approx(total / (len(text) - 1), rel=1e-4)
    assert found != pytest.approx(evaluate(trained, "carried")["carried_loss"], rel=1e-4)


def test_what_cannot_be_is_refused(trained: Loaded, tmp_path: Path) -> None:
    for argument in ("x", "1", "-1,0", "nan,0"):
        with pytest.raises(ConfigError, match="expected a rate and a decay of at least 0, as dynamic=5e-05"):
            evaluate(trained, f"dynamic={argument}")
    with pytest.raises(ConfigError, match="carried=3: it needs to know nothing"):
        evaluate(trained, "carried=3")
    recipe = Recipe(
        data=TextConfig(path=str(text_file(tmp_path)), context=8),
        model=TINY,
        objective=NextTokenConfig(),
        optim=AdamW(),
        train=Train(steps=1, batch=2, save_every=1, device="cpu"),
    )
    assemble(recipe, tmp_path / "gpt").trainer.fit()
    with pytest.raises(ConfigError, match="for recurrent models of text, and GPT has no recurrent state"):
        evaluate(str(tmp_path / "gpt"), "carried")
