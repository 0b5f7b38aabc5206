"""Conformer: distances, padding, and how many states there are."""

from __future__ import annotations

import pytest
import torch

from weft.nn.audio.conformer import ConformerEncoder, RelativeAttention, Subsampling, by_key, sinusoidal


def test_scores_by_distance_are_put_where_their_keys_are() -> None:
    scores = torch.randn(2, 3, 5, 9)
    expected = torch.stack([scores[:, :, query, 4 - query : 9 - query] for query in range(5)], 2)
    assert torch.equal(by_key(scores), expected)


def test_attention_knows_distances_only() -> None:
    layer = RelativeAttention(8, 2)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    x, t = torch.randn(1, 6, 8), 6
    distances = sinusoidal(torch.arange(t - 1, -t, -1), 8)
    q, k, v = (part.view(t, 2, 4) for part in layer.qkv(x)[0].chunk(3, -1))
    r = layer.position(distances).view(2 * t - 1, 2, 4)
    expected = torch.zeros(t, 2, 4)
    for head in range(2):
        for query in range(t):
            own = q[query, head]
            scores = torch.stack(
                [
                    (own + layer.content_bias.view(2, 4)[head]) @ k[key, head]
                    + (own + layer.position_bias.view(2, 4)[head]) @ r[t - 1 - query + key, head]
                    for key in range(t)
                ]
            )
            expected[query, head] = (scores / 2).softmax(0) @ v[:, head]
    torch.testing.assert_close(layer(x, distances)[0], layer.out(expected.flatten(1)))


@pytest.mark.parametrize("factor", [1, 2, 4, 8])
def test_states_left_of_frames(factor: int) -> None:
    layer = Subsampling(3, 4, factor)
    for frames in (1, 7, 8, 9):
        states, lengths = layer(torch.randn(1, frames, 3), torch.tensor([frames]))
        assert states.size(1) == lengths.item() == layer.lengths(torch.tensor([frames])).item() == -(-frames // factor)


@pytest.mark.parametrize("factor", [1, 2, 4])
def test_padding_reaches_nothing(factor: int) -> None:
    encoder = ConformerEncoder(3, 8, 2, 2, 16, 5, factor).eval()
    x, lengths = torch.randn(2, 21, 3), torch.tensor([21, 10])
    states = encoder(x, lengths)
    x[1, 10:] = float("nan")
    assert torch.equal(encoder(x, lengths), states)
    alone = encoder(x[1:, :10])
    torch.testing.assert_close(states[1, : alone.size(1)], alone[0], atol=1e-5, rtol=1e-5)
    assert not states[1, alone.size(1) :].any()
