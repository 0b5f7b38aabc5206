from __future__ import annotations

from weft.report.cells import cells


def test_a_square_for_every_number_and_a_frame() -> None:
    drawn = cells("a <title>", [[0.0, 1.0], [0.5, 2.0]], framed=(1, 0))
    assert drawn.count("<rect") == 5
    assert 'fill-opacity="1.000"' in drawn
    assert 'fill-opacity="0.060"' in drawn
    assert "a &lt;title&gt;" in drawn
