"""Losses of recognisers: what they are sums of, rows that are missing, and bands that leave nothing out."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core.errors import CapabilityError, ConfigError
from weft.data.base import Batch
from weft.models.audio import conformer, conformer_aed, las, transducer
from weft.objectives.audio import rnnt
from weft.objectives.audio.ctc import CTC, CTCConfig
from weft.objectives.audio.ctc_attention import CTCAttention, CTCAttentionConfig
from weft.objectives.audio.rnnt import RNNT, RNNTConfig

IDS = {"start": 1, "end": 2}


def batch() -> Batch:
    """Three sounds and a row that is missing."""
    target = torch.tensor([[1, 5, 6, 7, 2], [1, 7, 2, 0, 0], [1, 2, 0, 0, 0], [0] * 5])
    lengths = {"source_length": torch.tensor([17, 12, 9, 0]), "target_length": torch.tensor([5, 3, 2, 0])}
    return {"source": torch.randn(4, 17, 8), "target": target, **lengths, "key": torch.arange(4)}


def tiny(module: Any, **changes: Any) -> Any:
    return dataclasses.replace(module.PRESETS["tiny"], **changes).build().eval()


def rows(given: Batch, chosen: list[int]) -> Batch:
    return {name: tensor[chosen] for name, tensor in given.items()}


def parts() -> dict[str, tuple[Any, Any]]:
    return {
        "ctc": (tiny(conformer), CTC(CTCConfig(**IDS))),
        "rnnt": (tiny(transducer), RNNT(RNNTConfig(**IDS))),
        "pruned": (tiny(transducer, additive=True), RNNT(RNNTConfig(band=3, **IDS))),
        "las": (tiny(las), CTCAttention(CTCAttentionConfig(ctc=0.0, **IDS))),
        "aed": (tiny(conformer_aed), CTCAttention(CTCAttentionConfig(ctc=0.3, **IDS))),
    }


@pytest.mark.parametrize("kind", list(parts()))
def test_sums_are_over_rows_and_a_missing_one_counts_for_nothing(kind: str) -> None:
    model, objective = parts()[kind]
    given = batch()
    whole = objective(model, given, "").sums
    each = [objective(model, rows(given, [row]), "").sums for row in range(3)]
    for name, value in whole.items():
        torch.testing.assert_close(value, torch.stack([part[name] for part in each]).sum(), atol=1e-4, rtol=1e-4)
        assert value.isfinite()
    counts, less = objective.counts(given), objective.counts(rows(given, [0, 1, 2]))
    assert all(torch.equal(counts[name], less[name]) for name in counts)
    torch.stack(list(whole.values())).sum().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


def test_ctc_is_that_of_pytorch() -> None:
    model, objective = parts()["ctc"]
    given = rows(batch(), [0, 1, 2])
    log_probs = model(given["source"], given["source_length"]).log_softmax(-1).transpose(0, 1)
    labels, sizes = torch.tensor([[5, 6, 7], [7, 0, 0], [0, 0, 0]]), torch.tensor([3, 1, 0])
    expected = F.ctc_loss(log_probs, labels, torch.tensor([9, 6, 5]), sizes, reduction="sum")
    torch.testing.assert_close(objective(model, given, "").sums["loss"], expected)
    assert objective.counts(given)["loss"].item() == 4


def test_labels_that_do_not_fit_count_for_nothing() -> None:
    model, objective = parts()["ctc"]
    given = rows(batch(), [0, 1])
    given["source_length"] = torch.tensor([4, 12])  # two states for three labels
    found = objective(model, given, "")
    torch.testing.assert_close(found.sums["loss"], objective(model, rows(given, [1]), "").sums["loss"])
    assert found.metrics["impossible"].item() == 1


def test_a_joint_in_parts_and_a_band_as_wide_as_all_labels_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    given, model = batch(), tiny(transducer, additive=True)
    whole = RNNT(RNNTConfig(**IDS))(model, given, "").sums["loss"]
    band = RNNT(RNNTConfig(band=4, **IDS))(model, given, "").sums["loss"]
    torch.testing.assert_close(band, whole)
    narrow = RNNT(RNNTConfig(band=2, **IDS))(model, given, "").sums["loss"]
    assert narrow >= whole
    monkeypatch.setattr(rnnt, "HELD", 4 * 4 * 12 * 2)
    torch.testing.assert_close(RNNT(RNNTConfig(**IDS))(model, given, "").sums["loss"], whole)


@pytest.mark.parametrize("kind", list(parts()))
def test_validation_counts_edits(kind: str) -> None:
    model, objective = parts()[kind]
    found = objective.measure(model, batch())
    assert 0 <= found["exact"].item() <= 3
    assert found["errors"].item() >= 0
    means = {name: value / objective.counts(batch())[name] for name, value in found.items()}
    assert objective.summary(means)["token_error_rate"] == pytest.approx(found["errors"].item() / 4)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 2"):
        RNNT(RNNTConfig(band=1))
    with pytest.raises(ConfigError, match="additive on"):
        RNNT(RNNTConfig(band=3)).bind(tiny(transducer))
    with pytest.raises(ConfigError, match="below 1"):
        CTCAttention(CTCAttentionConfig(ctc=1.0))
    with pytest.raises(CapabilityError, match="EmitsLabels"):
        CTCAttention(CTCAttentionConfig(ctc=0.5)).bind(tiny(las))
    with pytest.raises(ConfigError, match="odd"):
        tiny(conformer, kernel=4)
    with pytest.raises(ConfigError, match="1, 2, 4 or 8"):
        tiny(conformer, subsampling=3)


def test_a_batch_without_sounds_is_zero() -> None:
    model, objective = parts()["ctc"]
    nothing: Batch = rows(batch(), [3])
    assert objective(model, nothing, "").sums["loss"].detach() == 0.0
    assert all(isinstance(value, Tensor) and value >= 1 for value in objective.counts(nothing).values())
