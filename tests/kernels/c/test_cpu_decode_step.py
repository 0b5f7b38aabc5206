from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.gpt_configs import gpt_config
from tests.kernels.test_decode_step import CONFIGS, SIZES, prompts, tokens
from weft.core.errors import ConfigError
from weft.data.text.python_source import python_files
from weft.inference.quantize import Precision, quantize_model
from weft.inference.runner import ModelRunner
from weft.kernels.c import compiler, cpu_decode_step, decode_stack
from weft.kernels.c.cpu_decode_step import FEW, CPUDecodeStep
from weft.kernels.select import choose_decoder, decoder
from weft.models.language.gpt import GPTConfig
from weft.models.mlp import MLPConfig

KINDS: list[Precision] = ["int8", "bf16"]


def built(name: str, kind: Precision) -> tuple[Any, Any]:
    """A model as it is, and with its weights kept in fewer bits."""
    torch.manual_seed(0)
    model = CONFIGS[name].build().eval()
    for parameter in model.parameters():
        if parameter.ndim == 1:  # norms and biases that do something
            nn.init.normal_(parameter, 1.0, 0.3)
    kept = copy.deepcopy(model)
    quantize_model(kept, kind)
    return model, kept


def last(model: Any, ids: tuple[int, ...]) -> Tensor:
    with torch.inference_mode():
        logits: Tensor = model(torch.tensor([ids]))[0, -1].float()
    return logits


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 3, FEW + 2])
def test_a_step_gives_what_the_model_gives(name: str, kind: Precision, rows: int) -> None:
    model, kept = built(name, kind)
    asked = prompts(12)[-rows:]
    runner = ModelRunner(kept)
    assert isinstance(runner.decode_step, CPUDecodeStep)
    runner.add_rows(rows)
    runner.prefill([ids[:-1] for ids in asked])
    found = runner.decode(torch.tensor([ids[-1] for ids in asked])).float()
    for row, ids in enumerate(asked):
        own, wanted = last(kept, ids), last(model, ids)
        assert (found[row] - own).norm() < (1e-3 if kind == "int8" else 0.03) * own.norm()
        assert (found[row] - wanted).norm() < 0.03 * wanted.norm()


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_the_same_alone_and_beside_others(kind: Precision) -> None:
    _, kept = built("llama", kind)
    batch_invariant = kind == "bf16"  # sums of 8 bits do not depend on their order
    asked = prompts(4)
    assert tokens(kept, asked, batch_invariant=batch_invariant) == [
        tokens(kept, [ids], batch_invariant=batch_invariant)[0] for ids in asked
    ]


def test_what_does_not_fit() -> None:
    assert decoder(CONFIGS["gpt"].build().eval()) is None
    model = MLPConfig(features=4, classes=2).build()
    assert decoder(model) is None
    quantize_model(model, "fp32")
    with pytest.raises(ConfigError, match="--precision int8 is for GPT, Llama"):
        quantize_model(model, "int8")


def test_eight_bits_cost_less_than_a_hundredth_of_the_perplexity() -> None:
    data = torch.tensor(list(b"".join(file.read_bytes() for file in python_files()[:8])[:200_000]))
    torch.manual_seed(0)
    model = GPTConfig(vocabulary=256, context=64, layers=2, heads=2, width=64).build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def loss(at: Tensor) -> Tensor:
        ids = data[at[:, None] + torch.arange(65)]
        return nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())

    for _ in range(120):
        optimizer.zero_grad()
        loss(torch.randint(len(data) - 65, (16,))).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    held = torch.randint(len(data) - 65, (64,))
    with torch.no_grad():
        before = loss(held).item()
        quantize_model(model, "int8")
        after = loss(held).item()
    assert before < 3.5, "it has learned something"
    assert math.exp(after - before) < 1.01


def test_a_step_that_was_traced_serves_other_rows_and_lengths() -> None:
    _, kept = built("rotary, banded", "bf16")
    runner = ModelRunner(kept)
    for ids in ([3, 4, 5], [7, 8, 9, 10, 11], [1] * 80):  # rows come, and are of several lengths
        runner.add_rows(1)
        runner.prefill([*[[]] * (len(runner) - 1), ids])
        for number in (20, 30):
            found = runner.decode(torch.full((len(runner),), number)).float()
            runner.ids = [[*row, number] for row in runner.ids]
            for row, read in enumerate(runner.ids):
                own = last(kept, tuple(read))
                assert (found[row] - own).norm() < 0.03 * own.norm()


@pytest.mark.parametrize("kind", KINDS)
def test_pages_are_left_alone_where_the_weights_are_few(kind: Precision, monkeypatch: pytest.MonkeyPatch) -> None:
    _, kept = built("gpt", kind)
    asked: list[int] = []
    monkeypatch.setattr(cpu_decode_step, "use_large_pages", lambda: asked.append(1))
    tokens(kept, prompts(1))
    assert not asked
    monkeypatch.setattr(cpu_decode_step, "MANY", cpu_decode_step.weights(kept))
    tokens(kept, prompts(1))
    assert asked


MORE: dict[str, Any] = {
    **CONFIGS,
    "silu": GPTConfig(**SIZES, activation="silu"),
    "squared": gpt_config(**SIZES, activation="squared_relu", bias=False, embedding_norm=True),
    "odd sizes": GPTConfig(vocabulary=501, context=300, layers=3, heads=3, width=66, ffn_width=130, activation="relu", sliding_window=5),
}


def in_c(kept: Any) -> ModelRunner:
    """Its step must be in C."""
    runner = ModelRunner(kept)
    if runner.decode_step.native is None:
        pytest.skip("nothing compiles it here")
    return runner


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MORE)
def test_the_step_in_c_gives_what_torch_gives(name: str, kind: Precision, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONFIGS, name, MORE[name])
    _, kept = built(name, kind)
    readers = [in_c(kept), in_c(kept), ModelRunner(kept)]
    readers[2].decode_step.native = None
    for runner in readers:
        runner.add_rows(1)
        runner.prefill([prompts(12)[4]])
    for number in range(66):  # a cache grows by fewer places
        found = []
        for threads, runner in zip((1, 3, 1), readers, strict=True):
            monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
            found.append(runner.decode(torch.tensor([number])))
        assert torch.equal(found[0], found[1])
        assert (found[0] - found[2]).norm() < 1e-3 * found[2].norm()
    assert all(runner.state and runner.state.lengths == [len(prompts(12)[4]) + 66] for runner in readers)


def test_in_c_weights_that_change_in_place_are_seen() -> None:
    _, kept = built("gpt", "bf16")
    runner = in_c(kept)
    runner.add_rows(1)
    runner.prefill([[1, 2, 3]])
    runner.decode(torch.tensor([4]))
    with torch.no_grad():
        for parameter in kept.parameters():
            parameter.mul_(0.5)
    runner.rewind(0, 0, None)
    runner.prefill([[1, 2, 3]])
    found, own = runner.decode(torch.tensor([4]))[0], last(kept, (1, 2, 3, 4))
    assert (found - own).norm() < 0.03 * own.norm()


def test_blocks_that_differ_are_no_matter_for_c() -> None:
    model = built("gpt", "bf16")[1]
    model.blocks[1].feedforward.activation = "relu"
    assert ("C decode step", "the blocks differ") in choose_decoder(model).reasons
    assert decode_stack.compiled(model) is None


def test_without_a_compiler_torch_takes_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "load", lambda _: None)
    _, kept = built("gpt", "int8")
    runner = ModelRunner(kept)
    runner.add_rows(1)
    runner.prefill([[1, 2, 3]])
    found, own = runner.decode(torch.tensor([4]))[0], last(kept, (1, 2, 3, 4))
    assert runner.decode_step.native is None
    assert (found - own).norm() < 1e-3 * own.norm()
