from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from weft.benchmarks.inference.generation import Numbers
from weft.core.errors import WeftError
from weft.inference.engine import Engine, generate_all
from weft.inference.request import Request, Sampling
from weft.kernels import decode_step
from weft.kernels.cuda import compiler, decode_rows, megakernel
from weft.kernels.decode_step import DecodeStep, parts_of
from weft.kernels.select import decoder
from weft.models.language.gpt import GPTConfig
from weft.models.language.llama import LlamaConfig
from weft.models.mlp import MLPConfig
from weft.nn.state import KVCache

SIZES: dict[str, Any] = {"vocabulary": 500, "context": 512, "layers": 2, "heads": 4, "width": 256}
CONFIGS: dict[str, Any] = {
    "gpt": GPTConfig(**SIZES),
    "rotary, banded": GPTConfig(
        **SIZES, position_embedding="rotary", sliding_window=64, bias=False, tie_embeddings=False, activation="gelu_tanh"
    ),
    "post-norm": GPTConfig(**SIZES, norm="post"),
    "llama": LlamaConfig(**SIZES, kv_heads=2),
}
SINGLE_PROCESS: dict[str, Any] = {
    "gpt": CONFIGS["gpt"],
    "without biases, with a head": GPTConfig(**SIZES, bias=False, tie_embeddings=False, activation="gelu_tanh"),
    "narrow": GPTConfig(**SIZES | {"heads": 2, "width": 64, "ffn_width": 128}, activation="relu"),
    "wide heads": GPTConfig(**SIZES | {"heads": 3, "width": 384, "ffn_width": 384}, activation="silu"),
    "wide": GPTConfig(**SIZES | {"heads": 20, "width": 1280}, activation="squared_relu"),
}
"""Models whose single row has a kernel of its own."""


def built(name: str, dtype: torch.dtype = torch.float32) -> Any:
    torch.manual_seed(0)
    model = (CONFIGS | SINGLE_PROCESS)[name].build()
    for parameter in model.parameters():
        if parameter.ndim == 1:  # norms and biases that do something
            nn.init.normal_(parameter, 1.0, 0.3)
    return model.to("cuda", dtype).eval()


def prompts(number: int) -> list[tuple[int, ...]]:
    draw = torch.Generator().manual_seed(1)
    return [tuple(torch.randint(0, 500, (5 + 9 * i % 270,), generator=draw).tolist()) for i in range(number)]


def tokens(model: Any, asked: list[tuple[int, ...]], batch_invariant: bool = False) -> list[list[int]]:
    engine = Engine(model, Numbers(500), slots=len(asked), batch_invariant=batch_invariant)
    sampling = Sampling(temperature=0.0, max_new_tokens=24)
    return [[token.id for token in answer.tokens] for answer in generate_all(engine, [Request(ids, sampling) for ids in asked])]


def test_products_are_cut_by_their_shape_alone() -> None:
    assert [parts_of(torch.empty(shape, device="meta")) for shape in ((50257, 768), (768, 3072), (32, 100))] == [1, 8, 1]


def test_a_model_on_the_cpu_or_of_other_parts_is_read_as_before() -> None:
    assert decoder(CONFIGS["gpt"].build().eval()) is None
    assert decoder(MLPConfig(features=4, classes=2).build()) is None


@pytest.mark.gpu
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_a_step_gives_what_the_model_gives(name: str, rows: int) -> None:
    model = built(name)
    assert isinstance(decoder(model), DecodeStep)
    lengths = [290 - 7 * row for row in range(rows)]
    with torch.inference_mode():
        ids = torch.randint(0, 500, (rows, 290), device="cuda")
        caches = [model.new_state() for _ in range(2)]
        for cache in caches:
            cache.add_rows(rows)
            model.hidden(ids, cache)
            cache.count(lengths)
        stepping = DecodeStep(model)
        for _ in range(3):
            new = torch.randint(0, 500, (rows,), device="cuda")
            expected: Tensor = model.head(model.hidden(new[:, None], caches[0])[:, -1])
            caches[0].count([1] * rows)
            torch.testing.assert_close(stepping(new, caches[1]), expected, rtol=1e-4, atol=2e-5)
    assert caches[0].lengths == caches[1].lengths


@pytest.mark.gpu
@pytest.mark.parametrize("name", CONFIGS)
def test_a_text_is_the_same_alone_and_beside_others_in_bf16(name: str) -> None:
    model, asked = built(name, torch.bfloat16), prompts(33)
    together = tokens(model, asked, batch_invariant=True)
    assert [tokens(model, [ids], batch_invariant=True)[0] for ids in asked[:12]] == together[:12]


@pytest.mark.gpu
@pytest.mark.parametrize("name", [*CONFIGS, "wide heads", "wide"])
@pytest.mark.parametrize("rows", [1, 20, 40])
def test_kernels_in_cuda_give_what_those_in_triton_give(name: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = built(name, torch.bfloat16)
    if not decode_rows.runs_on(torch.device("cuda", 0)):
        pytest.skip("needs a Hopper GPU")
    found: list[list[Tensor]] = []
    for served in (True, False):
        monkeypatch.setattr(decode_rows, "runs_on", lambda device, served=served: served)
        with torch.inference_mode():
            torch.manual_seed(1)
            ids, cache, stepping = (
                torch.randint(0, 500, (rows, 300), device="cuda"),
                model.new_state(),
                DecodeStep(model, batch_invariant=True),
            )
            cache.add_rows(rows)
            model.hidden(ids[:, :290], cache)
            cache.count([290 - 7 * row for row in range(rows)])
            found.append([stepping(ids[:, 290 + step], cache).float().clone() for step in range(3)])
    for ours, theirs in zip(*found, strict=True):
        assert (ours - theirs).abs().max() < 0.04 * theirs.abs().max()


@pytest.mark.gpu
def test_texts_in_fp32_are_those_of_the_cpu() -> None:
    model, asked = built("gpt"), prompts(9)
    assert tokens(model, asked) == tokens(model.cpu(), asked)


def test_a_kernel_for_one_row_that_fails_is_told_of_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fail(model: Any) -> Any:
        raise WeftError("no compiler is here")

    monkeypatch.setattr(megakernel, "supports", lambda model: True)
    monkeypatch.setattr(decode_step, "Megakernel", fail)
    monkeypatch.setattr(decode_step, "KERNELS", SimpleNamespace(SPLIT=64))
    monkeypatch.setattr(DecodeStep, "_replay", lambda self, bucket, parts, cache: torch.ones(bucket, 500))
    model = CONFIGS["gpt"].build().bfloat16()
    stepping, cache, new = DecodeStep(model), model.new_state(), torch.zeros(1, dtype=torch.int64)
    cache.add_rows(1)
    for _ in range(3):
        assert stepping(new, cache).shape == (1, 500)
    assert cache.lengths == [3]
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == ["no compiler is here"]


class Twins:
    """Steps by the kernel for one row where there is one, and by those for several; two caches that hold the same."""

    def __init__(self, model: Any, *lengths: int):
        self.model, self.stepping = model, [DecodeStep(model), DecodeStep(model, batch_invariant=True)]
        for block in model.blocks:  # what is looked at then counts for more than rounding
            for layer in (block.attention.qkv, block.attention.out):
                layer.weight.mul_(4)
        self.read(*lengths)

    def read(self, *lengths: int) -> None:
        """Begin anew with rows of so many tokens."""
        ids = torch.randint(0, 500, (len(lengths), max(lengths)), device="cuda")
        self.caches = [self.new_cache(ids, lengths) for _ in range(2)]

    def new_cache(self, ids: Tensor, lengths: tuple[int, ...]) -> KVCache:
        cache: KVCache = self.model.new_state()
        cache.add_rows(len(lengths))
        self.model.hidden(ids, cache)
        cache.count(lengths)
        return cache

    def check(self, times: int = 1) -> None:
        """Both give about the same for a new token of each row."""
        for _ in range(times):
            new = torch.randint(0, 500, (len(self.caches[0].lengths),), device="cuda")
            found, expected = (step(new, cache).float() for step, cache in zip(self.stepping, self.caches, strict=True))
            assert found.shape == expected.shape
            assert (found - expected).abs().max() < 0.04 * expected.abs().max()
            assert self.caches[0].lengths == self.caches[1].lengths
        assert self.stepping[0].alone and not self.stepping[1].alone


@pytest.fixture
def _hopper() -> Any:
    if not megakernel.runs_on(torch.device("cuda", 0)):
        pytest.skip("needs a Hopper GPU of its own")
    with torch.inference_mode():
        yield


@pytest.mark.gpu
@pytest.mark.usefixtures("_hopper")
@pytest.mark.parametrize("name", SINGLE_PROCESS)
def test_one_row_gets_what_it_gets_beside_others(name: str) -> None:
    """The first token, a cache that grows, and the last place there is."""
    twins = Twins(built(name, torch.bfloat16), 1)
    twins.check(2)
    for length in (62, 300, 510):
        twins.read(length)
        twins.check(2)
    assert twins.caches[0].lengths == [512]


@pytest.mark.gpu
@pytest.mark.usefixtures("_hopper")
def test_rows_come_and_go_around_a_single_one() -> None:
    twins = Twins(built("gpt", torch.bfloat16), 70)
    twins.check(2)
    more = twins.new_cache(torch.randint(0, 500, (2, 90), device="cuda"), (90, 40))
    for _ in range(2):
        for cache in twins.caches:
            cache.join(more)
        twins.check(3)
        for cache in twins.caches:
            cache.drop(0)
            cache.drop(0)
        twins.check(3)


@pytest.mark.gpu
@pytest.mark.usefixtures("_hopper")
def test_one_row_sees_weights_that_change_or_move() -> None:
    model = built("gpt", torch.bfloat16)
    twins = Twins(model, 40)
    twins.check(2)
    for parameter in model.parameters():
        parameter.mul_(1.1)
    twins.read(40)
    twins.check(2)
    model.load_state_dict({name: tensor * 1.1 for name, tensor in model.state_dict().items()}, assign=True)
    twins.stepping[1] = DecodeStep(model, batch_invariant=True)
    twins.check(2)
    model.blocks[0].norm1.weight = nn.Parameter(model.blocks[0].norm1.weight * 1.1, requires_grad=False)
    twins.stepping[1] = DecodeStep(model, batch_invariant=True)
    twins.read(40)
    twins.check(2)


@pytest.mark.gpu
@pytest.mark.usefixtures("_hopper")
def test_models_and_threads_take_turns() -> None:
    several = [Twins(built(name, torch.bfloat16), 20) for name in ("gpt", "narrow", "gpt")]
    failed: list[BaseException] = []

    def work() -> None:
        try:
            with torch.inference_mode():
                for _ in range(3):
                    for twins in several:
                        twins.check()
        except BaseException as error:
            failed.append(error)

    for _ in range(2):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    work()
    assert not failed


@pytest.mark.gpu
@pytest.mark.usefixtures("_hopper")
@pytest.mark.parametrize("what", ["compiled", "Kernel.__call__"])
def test_without_the_kernel_one_row_is_read_as_several(
    what: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*arguments: Any) -> Any:
        raise WeftError("it cannot be")

    compiler.kernel.cache_clear()
    monkeypatch.setattr(f"weft.kernels.cuda.compiler.{what}", fail)
    monkeypatch.setattr(decode_rows, "BROKEN", set())
    twins = Twins(built("gpt", torch.bfloat16), 30)
    for _ in range(3):
        new = torch.randint(0, 500, (1,), device="cuda")
        assert torch.equal(twins.stepping[0](new, twins.caches[0]), twins.stepping[1](new, twins.caches[1]))
    assert twins.caches[0].lengths == [33]
    assert sum("one row" in record.getMessage() for record in caplog.records) == 1


@pytest.mark.gpu
@pytest.mark.usefixtures("_hopper")
def test_one_row_of_another_model_is_read_as_several() -> None:
    for name in ("post-norm", "llama"):
        model = built(name, torch.bfloat16)
        twins = Twins(model, 30)
        new = torch.randint(0, 500, (1,), device="cuda")
        assert torch.equal(twins.stepping[0](new, twins.caches[0]), twins.stepping[1](new, twins.caches[1]))
        assert twins.stepping[0].alone is None


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_the_likeliest_token_is_the_first_of_equals(kind: torch.dtype) -> None:
    logits = torch.randn(5, 50300, generator=torch.Generator().manual_seed(0)).to("cuda", kind)[:, :50257]
    logits[1, [40, 20_000, 50_256]] = 9.0
    logits[2] = -torch.inf
    logits[3, 50_256] = 9.0
    assert torch.equal(decode_step.KERNELS.likeliest(logits), logits.argmax(-1))
