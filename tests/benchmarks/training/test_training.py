"""The bench of training: nanoGPT's names of our parameters, and the settings that a variant names."""

from __future__ import annotations

from types import SimpleNamespace

from weft.benchmarks.training import ceiling, kernels, training
from weft.benchmarks.training.nanogpt import translated
from weft.kernels import chunked_cross_entropy
from weft.training import execution
from weft.training.settings import Train


def test_names() -> None:
    names = [translated(name) for name, _ in training.model_of("tiny").build().named_parameters()]
    assert {"transformer.wte.weight", "transformer.wpe.weight", "transformer.ln_f.bias"} <= {*names}
    assert {"transformer.h.1.attn.c_attn.weight", "transformer.h.0.mlp.c_proj.bias", "transformer.h.1.ln_2.weight"} <= {*names}
    assert len({*names}) == len(names)


def test_a_variant_holds_only_while_it_is_open() -> None:
    before = chunked_cross_entropy.CHUNK, dict(execution.COMPILER)
    with training.variant("attention=fused,chunk=20,pieces=norm+feed,inductor.combo_kernels=off") as settings:
        assert settings == {"attention": "fused", "pieces": "norm+feed"}
        assert chunked_cross_entropy.CHUNK == 1 << 20
        assert not execution.COMPILER["combo_kernels"]
    assert before == (chunked_cross_entropy.CHUNK, execution.COMPILER)


def test_pieces_of_the_cuda_block_are_taken_away_from_one_trainer_only() -> None:
    model, train = training.model_of("tiny"), Train(device="cpu", steps=1, batch=2)
    pieces = [training.make(model, train, training.noise(301), training.OPTIM, given).plan.use.parts for given in ("norm+feed", "")]
    assert pieces == [{"norm", "feed"}, {"norm", "feed", "attention", "products"}]


def test_waiting_is_what_lies_between_kernels() -> None:
    spans = [(0, 4), (3, 5), (9, 10), (10, 12)]
    events = [SimpleNamespace(time_range=SimpleNamespace(start=a, end=b), device_time_total=b - a) for a, b in spans]
    assert kernels.idle(events) == 4


def test_parameters_of_gpt2_without_positions() -> None:
    assert training.parameters(training.model_of("gpt2")) == 124_439_808 - 1024 * 768


def test_once_takes_time() -> None:
    assert ceiling.once(lambda: sum(range(100)), seconds=0.001) > 0
