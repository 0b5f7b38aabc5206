"""Corpora as they are downloaded, where WEFT_DATA has them."""

from __future__ import annotations

import pytest

from weft.core.errors import DataError
from weft.data.audio.clips import ClipsConfig
from weft.data.audio.manifest import read_utterances
from weft.data.base import Problems
from weft.data.io.files import locate


@pytest.mark.parametrize(
    ("path", "clips", "speakers"),
    [("fsdd/recordings.tar.gz", 2500, 5), ("audiomnist/audiomnist_8k_48_speakers.tar", 5760, 48)],
)
def test_digits_and_their_speakers(path: str, clips: int, speakers: int) -> None:
    try:
        locate(path)
    except DataError:
        pytest.skip(f"WEFT_DATA has no {path}")
    found = read_utterances(path, Problems())
    assert (len(found), len({each.speaker for each in found})) == (clips, speakers)
    assert {each.text for each in found} == {str(digit) for digit in range(10)}
    if clips < 3000:
        data = ClipsConfig(path=path, validation_speakers=("theo",)).build()
        assert (data.info["training_examples"], data.info["validation_examples"]) == (2000, 500)
        assert not data.problems.counts
