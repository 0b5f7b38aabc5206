"""Binary cross-entropy of labels, and F1 of what is told, against scikit-learn and by hand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from weft.core.errors import ConfigError
from weft.evaluation.answer_rows import AnswerRow
from weft.evaluation.label_sets import scores
from weft.objectives.multi_label import MultiLabelConfig
from weft.training.means import Means


class Said:
    training = False

    def classify(self, logits: torch.Tensor) -> torch.Tensor:
        return logits


def measured(logits: torch.Tensor, label: torch.Tensor, cut: int, **settings: float) -> dict[str, float]:
    objective = MultiLabelConfig(inputs=("logits",), **settings).build()  # type: ignore[arg-type]
    means = Means(objective)
    for some in (slice(0, cut), slice(cut, None)):
        batch = {"logits": logits[some], "label": label[some]}
        means.add("", objective(Said(), batch, ""), objective.counts(batch))
    return means.read()


def test_f1_is_that_of_scikit_learn_however_batches_are_cut() -> None:
    f1_score = pytest.importorskip("sklearn.metrics").f1_score
    generator = torch.Generator().manual_seed(0)
    logits, label = torch.randn(60, 7, generator=generator), (torch.rand(60, 7, generator=generator) < 0.3).float()
    found = measured(logits, label, 17)
    told = logits >= 0
    assert found["loss"] == pytest.approx(float(F.binary_cross_entropy_with_logits(logits, label, reduction="sum")) / 60, rel=1e-5)
    for name in ("micro", "macro"):
        assert found[f"{name}_f1"] == pytest.approx(f1_score(label, told, average=name), abs=1e-6)
    assert found["set_f1"] == pytest.approx(f1_score(label, told, average="samples", zero_division=1.0), abs=1e-6)
    assert found["exact"] == pytest.approx(float((told == label.bool()).all(1).float().mean()))
    assert measured(logits, label, 30) == pytest.approx(found)
    for k in (1, 2, 3):
        best = torch.zeros_like(label).scatter(1, logits.topk(k).indices, 1)
        assert found[f"top{k}_set_f1"] == pytest.approx(f1_score(label, best, average="samples", zero_division=1.0), abs=1e-6)


def test_a_threshold() -> None:
    logits, label = torch.tensor([[1.0, 3.0]]), torch.tensor([[0.0, 1.0]])
    assert measured(logits, label, 1, threshold=0.9)["exact"] == 1.0
    assert measured(logits, label, 1)["exact"] == 0.0
    with pytest.raises(ConfigError, match="threshold must be above 0"):
        MultiLabelConfig(threshold=1.0).build()


def test_written_sets_by_hand() -> None:
    rows = [AnswerRow("", said, (right,)) for said, right in (("a; b", "a"), ("", "b"), ("b; a", "a; b"), ("c", "a"))]
    found = scores(rows, None).metrics
    assert found["set_f1"] == pytest.approx((2 / 3 + 0 + 1 + 0) / 4)
    assert found["micro_f1"] == pytest.approx(2 * 3 / (5 + 5))
    assert found["macro_f1"] == pytest.approx((2 * 2 / 5 + 2 * 1 / 4) / 2)
    assert found["exact"] == 0.25 and found["commonest_set_f1"] == pytest.approx((1 + 0 + 2 / 3 + 1) / 4)
