from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from weft.benchmarks.generation import Numbers
from weft.generation.engine import Engine, answer_all
from weft.generation.request import Request, Sampling
from weft.generation.steps import Steps, fits, parts_of
from weft.models.gpt import GPTConfig
from weft.models.llama import LlamaConfig
from weft.models.mlp import MLPConfig

SIZES: dict[str, Any] = {"vocabulary": 500, "context": 512, "layers": 2, "heads": 4, "width": 256}
CONFIGS: dict[str, Any] = {
    "gpt": GPTConfig(**SIZES),
    "rotary, banded": GPTConfig(**SIZES, position="rotary", window=64, bias=False, tied=False, activation="gelu_tanh"),
    "post-norm": GPTConfig(**SIZES, norm="post"),
    "llama": LlamaConfig(**SIZES, groups=2),
}


def built(name: str, dtype: torch.dtype = torch.float32) -> Any:
    torch.manual_seed(0)
    model = CONFIGS[name].build()
    for parameter in model.parameters():
        if parameter.ndim == 1:  # norms and biases that do something
            nn.init.normal_(parameter, 1.0, 0.3)
    return model.to("cuda", dtype).eval()


def prompts(number: int) -> list[tuple[int, ...]]:
    draw = torch.Generator().manual_seed(1)
    return [tuple(torch.randint(0, 500, (5 + 9 * i % 270,), generator=draw).tolist()) for i in range(number)]


def tokens(model: Any, asked: list[tuple[int, ...]], invariant: bool = False) -> list[list[int]]:
    engine = Engine(model, Numbers(500), slots=len(asked), invariant=invariant)
    sampling = Sampling(temperature=0.0, max_new_tokens=24)
    return [[token.id for token in answer.tokens] for answer in answer_all(engine, [Request(ids, sampling) for ids in asked])]


def test_products_are_cut_by_their_shape_alone() -> None:
    assert parts_of(50257, 768) == 1
    assert parts_of(768, 3072) == 8
    assert parts_of(32, 100) == 1


def test_a_model_on_the_cpu_or_of_other_parts_is_read_as_before() -> None:
    assert not fits(CONFIGS["gpt"].build())
    assert not fits(MLPConfig(features=4, classes=2).build())


@pytest.mark.gpu
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_a_step_gives_what_the_model_gives(name: str, rows: int) -> None:
    model = built(name)
    assert fits(model)
    lengths = [290 - 7 * row for row in range(rows)]
    with torch.inference_mode():
        ids = torch.randint(0, 500, (rows, 290), device="cuda")
        caches = [model.new_cache() for _ in range(2)]
        for cache in caches:
            cache.add_rows(rows)
            model.hidden(ids, cache)
            cache.count(lengths)
        steps = Steps(model)
        for _ in range(3):
            new = torch.randint(0, 500, (rows,), device="cuda")
            expected: Tensor = model.head(model.hidden(new[:, None], caches[0])[:, -1])
            caches[0].count([1] * rows)
            torch.testing.assert_close(steps(new, caches[1]), expected, rtol=1e-4, atol=2e-5)
    assert caches[0].lengths == caches[1].lengths


@pytest.mark.gpu
@pytest.mark.parametrize("name", CONFIGS)
def test_a_text_is_the_same_alone_and_beside_others_in_bf16(name: str) -> None:
    model, asked = built(name, torch.bfloat16), prompts(33)
    together = tokens(model, asked, invariant=True)
    assert [tokens(model, [ids], invariant=True)[0] for ids in asked[:12]] == together[:12]


@pytest.mark.gpu
def test_texts_in_fp32_are_those_of_the_cpu() -> None:
    model, asked = built("gpt"), prompts(9)
    assert tokens(model, asked) == tokens(model.cpu(), asked)
