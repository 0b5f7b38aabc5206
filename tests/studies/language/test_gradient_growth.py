"""Gradients through time grow by the spectral radius in a linear network, and by the ordered product of slopes and matrix under tanh."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from weft.core.errors import ConfigError
from weft.studies.language.gradient_growth import Settings, jacobians, layer, norms, rate, states, study

SMALL = Settings(width=8, steps=12)


def test_the_ordered_product_is_the_jacobian_of_the_layer() -> None:
    """And W^T times the product of all slopes, as some texts have it, is not (E233)."""
    made = layer(SMALL, 1.1)
    noise = torch.randn(1, 12, 8, generator=torch.Generator().manual_seed(0), dtype=torch.double)

    def last(h: torch.Tensor) -> torch.Tensor:
        return made(SMALL.inputs * noise, state={"h": h[None]})[1]["h"][0]  # type: ignore[no-any-return]

    expected = torch.autograd.functional.jacobian(last, torch.zeros(8, dtype=torch.double))
    slopes = 1 - states(made, SMALL).square()
    torch.testing.assert_close(jacobians(made.weight_hh, slopes)[-1], expected)
    commuted = torch.linalg.matrix_power(made.weight_hh, 12).detach() * slopes.prod(0)[:, None]
    assert (commuted - expected).abs().max() > 0.1 * expected.abs().max()


@pytest.mark.parametrize("radius", [0.9, 1.0, 1.1])
def test_a_linear_network_multiplies_by_its_spectral_radius(radius: float) -> None:
    linear, tanh = (norms(Settings(width=16), radius, kind) for kind in (True, False))
    assert rate(linear) == pytest.approx(radius, rel=0.02)
    assert rate(tanh) < radius
    assert all(one < 5 * other for one, other in zip(tanh, linear, strict=True))


def test_states_stay_where_gradients_explode() -> None:
    settings = Settings(width=16, inputs=0.0)
    assert norms(settings, 1.1, linear=False)[-1] > 1000
    assert states(layer(Settings(width=16), 1.1), Settings(width=16)).abs().max() <= 1


def test_the_page(tmp_path: Path) -> None:
    finding = study(SMALL)
    assert len(finding.rows) == 6
    finding.write(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().count('class="chart tall') == 2
    with pytest.raises(ConfigError, match="radii above 0"):
        study(Settings(radii=(0.0,)))
