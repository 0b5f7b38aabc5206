"""ELMo against its equations, written out in NumPy over weights as bilm-tf lays them out."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from weft.convert.elmo import FAMILY
from weft.core.errors import CheckpointError, ConfigError
from weft.data.base import IGNORE
from weft.data.tokenizers import word_characters as tokens
from weft.models.language.elmo import ELMo, ELMoConfig
from weft.nn.characters import words as word_characters
from weft.nn.characters.words import split_words
from weft.objectives.language.bilm import BiLMConfig
from weft.training.checkpoint.checkpoint import load_weights

P, H, E, FILTERS, LAYERS = 6, 10, 3, ((1, 2), (2, 3), (3, 4)), 2
OPTIONS: dict[str, Any] = {
    "lstm": {"cell_clip": 0.3, "proj_clip": 0.2, "use_skip_connections": True, "n_layers": LAYERS, "projection_dim": P, "dim": H},
    "char_cnn": {
        "embedding": {"dim": E},
        "filters": [list(pair) for pair in FILTERS],
        "n_highway": 1,
        "n_characters": 262,
        "max_characters_per_token": 50,
        "activation": "relu",
    },
}
SENTENCES = (("the", "unreadable", "caf\u00e9"), ("x" * 60, "ran"), ("a", "b", "c", "d"))


def theirs() -> dict[str, np.ndarray]:
    """Random weights in bilm-tf's layout, large enough that both clips bind."""
    chance, f = np.random.default_rng(0), sum(number for _, number in FILTERS)

    def draw(*shape: int) -> np.ndarray:
        return chance.normal(0, 0.7, shape).astype(np.float32)

    weights = {"char_embed": draw(261, E), "CNN_proj/W_proj": draw(f, P), "CNN_proj/b_proj": draw(P)}
    for i, (width, number) in enumerate(FILTERS):
        weights |= {f"CNN/W_cnn_{i}": draw(1, width, E, number), f"CNN/b_cnn_{i}": draw(number)}
    for kind in ("transform", "carry"):
        weights |= {f"CNN_high_0/W_{kind}": draw(f, f), f"CNN_high_0/b_{kind}": draw(f)}
    for direction in range(2):
        for layer in range(LAYERS):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            weights |= {f"{cell}/W_0": draw(2 * P, 4 * H), f"{cell}/B": draw(4 * H), f"{cell}/W_P_0": draw(H, P)}
    return weights


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


def word_vector(w: dict[str, np.ndarray], characters: list[int]) -> np.ndarray:
    """Fifty characters by their ids in bilm-tf -> the vector of the word."""
    x = w["char_embed"][characters]  # (50, E)
    found = []
    for i, (width, _) in enumerate(FILTERS):
        kernel = w[f"CNN/W_cnn_{i}"][0]  # (width, E, F)
        each = [np.einsum("we,wef->f", x[t : t + width], kernel) + w[f"CNN/b_cnn_{i}"] for t in range(51 - width)]
        found.append(np.maximum(np.max(each, axis=0), 0))
    y = np.concatenate(found)
    gate = sigmoid(y @ w["CNN_high_0/W_carry"] + w["CNN_high_0/b_carry"])
    y = gate * np.maximum(y @ w["CNN_high_0/W_transform"] + w["CNN_high_0/b_transform"], 0) + (1 - gate) * y
    return np.asarray(y @ w["CNN_proj/W_proj"] + w["CNN_proj/b_proj"])


def lstm(w: dict[str, np.ndarray], cell: str, inputs: np.ndarray) -> np.ndarray:
    """inputs (T, P) -> outputs (T, P): gates i, g, f, o, and clips before and after the projection."""
    h, c, outputs = np.zeros(P), np.zeros(H), []
    for x in inputs:
        i, g, f, o = np.split(np.concatenate([x, h]) @ w[f"{cell}/W_0"] + w[f"{cell}/B"], 4)
        c = np.clip(sigmoid(f + 1) * c + sigmoid(i) * np.tanh(g), -0.3, 0.3)
        h = np.clip((sigmoid(o) * np.tanh(c)) @ w[f"{cell}/W_P_0"], -0.2, 0.2)
        outputs.append(h)
    return np.array(outputs)


def layers(w: dict[str, np.ndarray], sentence: tuple[str, ...]) -> list[np.ndarray]:
    """The three layers of a sentence with its two ends, (T + 2, 2P) each."""

    def padded(inner: list[int]) -> list[int]:
        return [258, *inner, 259] + [260] * (48 - len(inner))

    words = [padded([256]), *(padded(list(word.encode()[:48])) for word in sentence), padded([257])]
    forward = backward = np.array([word_vector(w, word) for word in words])
    found = [np.concatenate([forward, backward], axis=1)]
    for layer in range(LAYERS):
        ahead = lstm(w, f"RNN_0/RNN/MultiRNNCell/Cell{layer}/LSTMCell", forward)
        behind = lstm(w, f"RNN_1/RNN/MultiRNNCell/Cell{layer}/LSTMCell", backward[::-1])[::-1]
        forward, backward = (ahead + forward, behind + backward) if layer else (ahead, behind)
        found.append(np.concatenate([forward, backward], axis=1))
    return found


def converted() -> ELMo:
    config = FAMILY.settings(OPTIONS)
    model = config.build()
    assert isinstance(model, ELMo)
    own = FAMILY.table(config).to_own({name: torch.from_numpy(value) for name, value in theirs().items()})
    fresh = {name: value for name, value in model.state_dict().items() if name.startswith(FAMILY.fresh)}
    load_weights(model, own | fresh, "theirs")
    return model.eval()


def batch_of(sentences: tuple[tuple[str, ...], ...]) -> tuple[torch.Tensor, torch.Tensor]:
    tokenizer = tokens.WordCharacters()
    rows = [[tokens.BOS, *tokenizer.encode(" ".join(sentence)).tolist(), tokens.EOS] for sentence in sentences]
    longest = max(map(len, rows))
    return torch.tensor([row + [0] * (longest - len(row)) for row in rows]), torch.tensor([len(row) for row in rows])


def test_all_layers_are_those_of_the_equations() -> None:
    model, (ids, lengths), weights = converted(), batch_of(SENTENCES), theirs()
    with torch.no_grad():
        found, words, _ = model.layers_of(ids, lengths)
    assert words.lengths.tolist() == [len(sentence) + 2 for sentence in SENTENCES]
    for row, sentence in enumerate(SENTENCES):
        for ours, expected in zip(found, layers(weights, sentence), strict=True):
            np.testing.assert_allclose(ours[row, : len(sentence) + 2].numpy(), expected, atol=1e-5)


def test_the_state_goes_on_from_text_to_text_as_in_bilm_tf() -> None:
    """The first layer, read ahead, of a text in two pieces is that of the whole; read behind, each piece ends where it begins."""
    model, (ids, lengths) = converted(), batch_of((("a", "b", "c"),))
    with torch.no_grad():
        whole, _, _ = model.layers_of(ids, lengths)
        first, _, state = model.layers_of(ids[:, :3])
        second, _, _ = model.layers_of(ids[:, 3:], None, state)
    torch.testing.assert_close(torch.cat([first[1], second[1]], 1)[..., :P], whole[1][..., :P])


def test_shapes_that_know_no_numbers_give_the_same() -> None:
    model, (ids, lengths) = converted(), batch_of(SENTENCES)
    with torch.no_grad():
        expected = model.hidden(ids, lengths=lengths)
        model.static_shapes = True
        torch.testing.assert_close(model.hidden(ids, lengths=lengths), expected)


def test_a_word_is_its_marks_and_its_bytes() -> None:
    words = split_words(torch.tensor([[257, 259, 98, 99, 259, 100, 258, 0, 0]]), window=2)
    assert words.characters.tolist() == [[[259, 257, 260, 261, 261, 261], [259, 98, 99, 260, 261, 261], [259, 100, 260, 261, 261, 261],
                                         [259, 258, 260, 261, 261, 261]]]  # fmt: skip
    assert words.word.tolist() == [[0, 1, 1, 1, 2, 2, 3, -1, -1]]
    for name in ("BOS", "EOS", "BOW", "EOW", "PAD_CHARACTER", "CHARACTERS", "LONGEST"):
        assert getattr(tokens, name) == getattr(word_characters, name)
    tokenizer = tokens.WordCharacters()
    assert tokenizer.decode(tokenizer.encode("le  caf\u00e9 \ud800").tolist()) == "le caf\u00e9 \ufffd"


def test_the_loss_is_that_of_both_neighbours() -> None:
    """Against log-softmaxes picked by hand; a sentence's ends are predicted from one side only."""
    torch.manual_seed(0)
    model, (ids, lengths) = dataclasses.replace(FAMILY.settings(OPTIONS), words=7).build().eval(), batch_of((("a", "b"), ("c",)))
    words = torch.tensor([[1, 3, 4, 2], [1, 0, 2, IGNORE]])
    batch = {"ids": ids, "lengths": lengths, "words": words}
    objective = BiLMConfig().build()
    with torch.no_grad():
        top = model.layers_of(ids, lengths)[0][-1]  # type: ignore[operator]
        terms = objective(model, batch, "")
        ahead, behind = (model.softmax(part).log_softmax(-1) for part in top.split(P, -1))  # type: ignore[operator]
    forward = -sum(float(ahead[r, t, words[r, t + 1]]) for r, t in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1)))
    backward = -sum(float(behind[r, t, words[r, t - 1]]) for r, t in ((0, 1), (0, 2), (0, 3), (1, 1), (1, 2)))
    assert float(terms.sums["loss"]) == pytest.approx(forward + backward, rel=1e-5)
    assert float(terms.metrics["forward_loss"]) == pytest.approx(forward, rel=1e-5)
    assert {name: float(value) for name, value in objective.counts(batch).items()} == {"loss": 10, "forward_loss": 5, "backward_loss": 5}


def tagging(**settings: Any) -> ELMo:
    base = FAMILY.settings(OPTIONS)
    model = dataclasses.replace(base, task="tag", classes=4, tagger_width=5, tagger_dropout=0.0, **settings).build()
    assert isinstance(model, ELMo)
    return model


def test_a_frozen_model_learns_only_the_tagger_and_the_mix() -> None:
    model, (ids, lengths) = tagging(dropout=0.5), batch_of(SENTENCES)
    assert {name.partition(".")[0] for name, p in model.named_parameters() if p.requires_grad} == {"mix", "tagger"}
    model.train()
    assert torch.equal(model.tag(ids, lengths=lengths), model.tag(ids, lengths=lengths)), "frozen features have no dropout"
    model = tagging(frozen=False)
    model.tag(ids, lengths=lengths).sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


def test_a_task_takes_the_mix_the_last_layer_or_no_context() -> None:
    ids, lengths = batch_of(SENTENCES)
    with torch.no_grad():
        found = tagging().layers_of(ids, lengths)[0]
        model = tagging()
        assert torch.allclose(model.features(ids, lengths)[0], torch.stack(model.layers_of(ids, lengths)[0]).mean(0), atol=1e-6)
        for representation, layer in (("last", -1), ("token", 0)):
            model = tagging(representation=representation)
            assert torch.equal(model.features(ids, lengths)[0], model.layers_of(ids, lengths)[0][layer])
    assert len(found) == LAYERS + 1


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="as many numbers"):
        dataclasses.replace(FAMILY.settings(OPTIONS), kernels=(1,)).build()  # type: ignore[call-arg]
    with pytest.raises(CheckpointError, match="activation is 'tanh'"):
        FAMILY.settings({**OPTIONS, "char_cnn": {**OPTIONS["char_cnn"], "activation": "tanh"}})
    with pytest.raises(CheckpointError, match="use_skip_connections"):
        FAMILY.settings({**OPTIONS, "lstm": {**OPTIONS["lstm"], "use_skip_connections": False}})
    assert ELMoConfig.of_task[0] == "task"
