"""Attention: the explicit and the fused form agree, masks hide, and a row that may see nothing is zero."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from weft.kernels.select import use_attention
from weft.nn.attention import SelfAttention, explicit_attention, fused_attention, safe_sdpa_backends

B, H, T, K = 2, 3, 7, 8


def inputs(queries: int = T, keys: int = T) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    sizes = (queries, keys, keys)
    q, k, v = (torch.randn(B, H, size, K, generator=generator).requires_grad_() for size in sizes)
    return q, k, v


def masks() -> dict[str, Tensor | None]:
    left = torch.ones(B, 1, 1, T, dtype=torch.bool)
    left[0, ..., :3] = False  # padding on the left: the first rows see nothing under a causal mask
    right = torch.ones(B, 1, 1, T, dtype=torch.bool)
    right[1, ..., 4:] = False
    random = torch.rand(B, 1, T, T, generator=torch.Generator().manual_seed(1)) > 0.4
    random[0, :, 2] = False
    return {"none": None, "left": left, "right": right, "random": random, "nothing": torch.zeros(B, 1, T, T, dtype=torch.bool)}


def by_hand(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """Attention by loops over queries."""
    out = torch.zeros_like(q)
    for b in range(B):
        for t in range(q.size(2)):
            seen = [s for s in range(k.size(2)) if not causal or s <= t + k.size(2) - q.size(2)]
            if mask is not None:
                seen = [s for s in seen if bool(mask.expand(B, 1, q.size(2), k.size(2))[b, 0, t, s])]
            if seen:
                scores = torch.einsum("hk,hsk->hs", q[b, :, t], k[b][:, seen]) / math.sqrt(K)
                out[b, :, t] = torch.einsum("hs,hsk->hk", scores.softmax(-1), v[b][:, seen])
    return out


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", list(masks()))
@pytest.mark.parametrize("attend", [explicit_attention, fused_attention])
def test_both_forms_are_the_definition(attend: object, name: str, causal: bool) -> None:
    q, k, v = inputs()
    mask = masks()[name]
    expected = by_hand(*(x.detach() for x in (q, k, v)), mask, causal)
    out = attend(q, k, v, mask, causal, 0.0)  # type: ignore[operator]
    torch.testing.assert_close(out, expected, atol=1e-6, rtol=1e-5)
    gradients = torch.autograd.grad(out.square().sum(), [q, k, v])
    assert all(torch.isfinite(g).all() for g in gradients)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", ["left", "right", "random", "nothing"])
@pytest.mark.parametrize("attend", [explicit_attention, fused_attention])
def test_what_no_query_sees_need_not_be_a_number(attend: object, name: str, causal: bool, wrong: float) -> None:
    mask = masks()[name]
    assert mask is not None
    mask[1, ..., 4] = False  # of the random one too, a key that no query sees
    seen = mask.expand(B, 1, T, T)
    padding = ~(seen & torch.ones(T, T, dtype=torch.bool).tril() if causal else seen).any(-2).unsqueeze(-1)  # (B, 1, S, 1)
    results = []
    for fill in (0.0, wrong):
        q, k, v = (x.detach() for x in inputs())
        given = [q, k.masked_fill(padding, fill), v.masked_fill(padding, fill)]
        given = [x.requires_grad_() for x in given]
        out = attend(*given, mask, causal)  # type: ignore[operator]
        results.append([out.detach(), *torch.autograd.grad(out.square().sum(), given)])
    for right, found in zip(*results, strict=True):
        assert torch.equal(right, found)


@torch.no_grad()
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", list(masks()))
@pytest.mark.parametrize("attend", [explicit_attention, fused_attention])
def test_weights_are_shares_of_what_is_seen(attend: object, name: str, causal: bool) -> None:
    """With the unit vectors for values, what comes out are the weights: they sum to 1, or to 0 where nothing is seen."""
    q, k, _ = inputs()
    weights = attend(q, k, torch.eye(T).expand(B, H, T, T), masks()[name], causal)  # type: ignore[operator]
    seen = torch.ones(T, T, dtype=torch.bool).tril() if causal else torch.ones(T, T, dtype=torch.bool)
    mask = masks()[name]
    seen = (seen if mask is None else seen & mask).expand(B, H, T, T)
    assert (weights >= 0).all() and (weights[~seen] == 0).all()
    torch.testing.assert_close(weights.sum(-1), seen.any(-1).float())


@torch.no_grad()
@pytest.mark.parametrize("name", ["none", "left", "right", "random"])
def test_the_explicit_form_is_pytorchs_own(name: str) -> None:
    """Rows that see nothing, for which PyTorch may give no number, are left out."""
    (q, k, v), mask = inputs(), masks()[name]
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    rows = torch.ones(B, 1, T, dtype=torch.bool) if mask is None else mask.expand(B, 1, T, T).any(-1)
    torch.testing.assert_close(explicit_attention(q, k, v, mask).transpose(1, 2)[rows[:, 0]], expected.transpose(1, 2)[rows[:, 0]])


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", list(masks()))
def test_both_forms_have_the_same_gradients(name: str, causal: bool) -> None:
    results = []
    for attend in (explicit_attention, fused_attention):
        q, k, v = inputs()
        out = attend(q, k, v, masks()[name], causal, 0.0)
        results.append([out, *torch.autograd.grad(out.square().sum(), [q, k, v])])
    for first, second in zip(*results, strict=True):
        torch.testing.assert_close(first, second, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_scores_times_zero_would_still_be_looked_at() -> None:
    """Why a mask adds minus infinity: a score of 0 has the weight e⁰, so the future would be seen."""
    q, k, v = inputs()
    past = torch.ones(T, T, dtype=torch.bool).tril()
    scores = q @ k.mT / math.sqrt(K)
    wrong, right = (scores * past).softmax(-1), scores.masked_fill(~past, -torch.inf).softmax(-1)
    assert float(wrong[..., 0, 1:].min()) > 0
    assert float(right[..., ~past].abs().max()) == 0
    torch.testing.assert_close(right @ v, fused_attention(q, k, v, None, True), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@torch.no_grad()
def test_heads_are_a_loop_and_cost_the_same_however_many(kv_heads: int) -> None:
    """Each head projects, attends and is projected back by its part of the last matrix; fewer groups share keys and values."""
    torch.manual_seed(0)
    layer, x = SelfAttention(12, 4, causal=False, kv_heads=kv_heads), torch.randn(2, 5, 12)
    q, k, v = layer.qkv(x).split([12, 3 * kv_heads, 3 * kv_heads], -1)
    total = layer.out.bias.clone()
    for head in range(4):
        mine, theirs = slice(3 * head, 3 * head + 3), slice(3 * (head * kv_heads // 4), 3 * (head * kv_heads // 4) + 3)
        weights = (q[..., mine] @ k[..., theirs].mT / math.sqrt(3)).softmax(-1)
        total = total + weights @ v[..., theirs] @ layer.out.weight[:, mine].T
    torch.testing.assert_close(layer(x), total, atol=1e-5, rtol=1e-5)
    costs = set()
    for heads in (1, 2, 4, 12):
        with FlopCounterMode(display=False) as counter:
            several = SelfAttention(12, heads, causal=False)
            use_attention(several, "explicit")
            several(x)
        costs.add(counter.get_total_flops())
    assert len(costs) == 1


@torch.no_grad()
def test_one_head_is_attention_over_the_whole_width() -> None:
    torch.manual_seed(0)
    layer, x = SelfAttention(12, 1, causal=False), torch.randn(2, 5, 12)
    q, k, v = layer.qkv(x).chunk(3, -1)
    torch.testing.assert_close(layer(x), layer.out((q @ k.mT / math.sqrt(12)).softmax(-1) @ v), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("queries", "keys"), [(1, 7), (3, 7)])
@pytest.mark.parametrize("attend", [explicit_attention, fused_attention])
def test_queries_may_be_the_last_of_a_longer_sequence(attend: object, queries: int, keys: int) -> None:
    q, k, v = (x.detach() for x in inputs(queries, keys))
    torch.testing.assert_close(attend(q, k, v, None, True, 0.0), by_hand(q, k, v, None, True), atol=1e-6, rtol=1e-5)  # type: ignore[operator]


@pytest.mark.parametrize("attend", [explicit_attention, fused_attention])
def test_dropout_keeps_the_expectation(attend: object) -> None:
    torch.manual_seed(0)
    q, k, v = (x.detach()[:1].repeat(3000, 1, 1, 1) for x in inputs())
    mean = attend(q, k, v, None, True, 0.3).mean(0)  # type: ignore[operator]
    torch.testing.assert_close(mean, attend(q, k, v, None, True, 0.0)[0], atol=0.1, rtol=0)  # type: ignore[operator]


def test_dropout_only_acts_in_training() -> None:
    layer = SelfAttention(16, 2, causal=True, dropout=0.5)
    x = torch.randn(2, 5, 16)
    layer.eval()
    assert torch.equal(layer(x), layer(x))
    layer.train()
    assert not torch.equal(layer(x), layer(x))


def test_a_mask_made_while_sampling_serves_training() -> None:
    layer = SelfAttention(16, 2, causal=True)
    use_attention(layer, "explicit")
    with torch.inference_mode():
        layer(torch.randn(1, 23, 16))
    layer(torch.randn(1, 23, 16)).sum().backward()
    assert layer.qkv.weight.grad is not None


@pytest.mark.gpu
@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("length", [5, 64, 127, 128, 200])
def test_bf16_on_a_gpu_agrees_with_fp32(length: int, rotary: bool) -> None:
    """Whichever kernel the layer picks, it stays within bf16 rounding of the explicit form in fp32, gradients too."""
    from weft.nn.position import rope_table as table

    torch.manual_seed(0)
    layer = SelfAttention(128, 4, causal=True).cuda()
    turns = table(length, 32).cuda() if rotary else None
    x = torch.randn(3, length, 128, device="cuda")
    results = []
    for backend, bf16 in (("explicit", False), ("fused", True)):
        use_attention(layer, backend)
        given = x.clone().requires_grad_()
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=bf16):
            out = layer(given, rotary=turns).float()
        results.append((out.detach(), torch.autograd.grad(out.square().sum(), given)[0]))
    for exact, rounded in zip(*results, strict=True):
        assert float((exact - rounded).norm() / exact.norm()) < 0.02


@pytest.mark.gpu
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("length", [64, 128, 192])
def test_scores_far_below_zero_have_finite_gradients_under_a_mask(length: int, compiled: bool) -> None:
    """Softmax does not mind a number added to all scores of a query, so training may move them anywhere."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 2, length, 32, device="cuda", dtype=torch.bfloat16) * 0.1 for _ in range(3))
    q[..., 0], k[..., 0] = 1.0, -120 * 32**0.5  # every score is about -120
    mask = (torch.arange(length, device="cuda") < torch.tensor([[length], [length - 3]], device="cuda"))[:, None, None]
    attend = torch.compile(fused_attention, dynamic=False) if compiled else fused_attention
    results = []
    for run in (explicit_attention, attend):
        given = [x.clone().requires_grad_() for x in (q, k, v)]
        results.append(torch.autograd.grad(run(*given, mask).float().square().sum(), given))
    for exact, found in zip(*results, strict=True):
        assert bool(found.isfinite().all())
        torch.testing.assert_close(found, exact, atol=0.05, rtol=0.05)


def test_cudnn_attends_under_a_mask_only_in_full_tiles() -> None:
    class Pretended:
        is_cuda = True

        def __init__(self, length: int):
            self.length = length

        def size(self, _: int) -> int:
            return self.length

    def allowed(queries: int, keys: int) -> bool:
        with safe_sdpa_backends(Pretended(queries), Pretended(keys)):  # type: ignore[arg-type]
            return torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-any-return]

    before = torch.backends.cuda.cudnn_sdp_enabled()
    assert [allowed(64, 64), allowed(128, 64), allowed(1, 128), allowed(128, 512)] == [False, False, False, before]
    assert torch.backends.cuda.cudnn_sdp_enabled() == before


@pytest.mark.gpu
def test_dropout_of_short_sequences_on_a_gpu_keeps_the_expectation() -> None:
    torch.manual_seed(0)
    layer = SelfAttention(64, 2, causal=True, dropout=0.4).cuda()
    x = torch.randn(2, 33, 64, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16), torch.no_grad():
        mean = torch.stack([layer(x).float() for _ in range(1000)]).mean(0)
        layer.eval()
        torch.testing.assert_close(mean, layer(x).float(), atol=0.06, rtol=0)
