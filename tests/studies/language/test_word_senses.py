"""Context tells two meanings of a word apart; vectors of words by themselves cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.core.errors import ConfigError
from weft.studies.language.word_senses import WORD, Settings, sentences, study


def test_contextual_vectors_tell_the_meanings_apart_and_static_ones_do_not(tmp_path: Path) -> None:
    finding = study(Settings(steps=80))
    numbers = {row[0]: [float(cell.removesuffix(" %")) for cell in row[1:]] for row in finding.rows}
    assert numbers["words alone"] == [1.0, 1.0, pytest.approx(50, abs=5)], "one vector for both, so that any use is as near"
    for layer, apart in (("layer 1", 0.02), ("layer 2", 0.1)):  # layer 2 reads what layer 1 made of the neighbours
        within, across, nearest = numbers[layer]
        assert within - across > apart
        assert nearest > 90
    finding.write(tmp_path / "page.html")
    assert "words alone" in (tmp_path / "page.html").read_text()


def test_the_sentences_that_tell_are_not_learned_from() -> None:
    learned, held = sentences(Settings())
    assert not {use.sentence for use in held} & set(learned)
    assert {use.meaning for use in held} == {"noun", "verb"}
    assert all(WORD in use.sentence.split() for use in held)
    assert sum(WORD in text.split() for text in learned) >= 10
    with pytest.raises(ConfigError, match="between 0 and 1"):
        sentences(Settings(held_out=1.0))
