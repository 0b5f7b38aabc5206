from __future__ import annotations

from pathlib import Path

import pytest
import torch

from weft.api import train
from weft.core.errors import CapabilityError, DataError
from weft.recipes.base import recipe
from weft.studies.generative.flow_interpolation import Settings, study
from weft.visual.latent_sheet import between_corners

pytest.importorskip("PIL")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("flow") / "run"
    small = {"model.width": 4, "model.blocks": 0, "train.steps": 3, "train.eval_every": 3, "train.eval_examples": 8}
    train(recipe("realnvp/digits", small), out=out)
    return out


def test_a_sheet_between_four_images(trained: Path) -> None:
    found = study(Settings(run=str(trained), images=(0, 5, 7, 9), side=3))
    assert "data:image/png;base64," in found.figure
    assert [row[0] for row in found.rows][:4] == ["image 0", "image 5", "image 7", "image 9"]


def test_images_that_are_not_there_are_refused(trained: Path) -> None:
    with pytest.raises(DataError, match="validation images"):
        study(Settings(run=str(trained), images=(0, 1, 2, 100_000)))


def test_a_model_without_an_inverse_is_refused(tmp_path: Path) -> None:
    train(recipe("pixelcnn/digits", {"model.width": 4, "model.layers": 0, "train.steps": 1, "train.eval_every": 0}), out=tmp_path / "run")
    with pytest.raises(CapabilityError, match="Inverts"):
        study(Settings(run=str(tmp_path / "run")))


def test_lengths_stay_where_the_four_are_orthogonal_and_equal() -> None:
    corners = 3 * torch.linalg.qr(torch.randn(10, 4, dtype=torch.float64)).Q.mT  # rows at right angles, of length 3
    sheet = between_corners(corners, 5, 7)
    torch.testing.assert_close(sheet.norm(dim=2), torch.full((5, 7), 3.0, dtype=torch.float64))
    for number, place in enumerate(((0, 0), (0, -1), (-1, 0), (-1, -1))):
        torch.testing.assert_close(sheet[place], corners[number])
