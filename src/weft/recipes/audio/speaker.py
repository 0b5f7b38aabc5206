"""Speaker encoders."""

from __future__ import annotations

from weft.data.audio.voices import VoicesConfig
from weft.models.audio.speaker_encoder import SpeakerEncoderConfig
from weft.objectives.classification import ClassificationConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optimizer.settings import Adam
from weft.training.settings import Train


def voices() -> Recipe:
    """Vectors of voices, learned by telling made-up speakers apart, or those of your own folders of sound files.

    Run:      weft train speaker/voices
              weft train speaker/voices --data.path my_folder
    """
    return Recipe(
        data=VoicesConfig(seconds=0.5),
        model=SpeakerEncoderConfig(width=64, layers=1, embedding=64),
        objective=ClassificationConfig(inputs=("frames",)),
        optim=Adam(lr=3e-3, clip_norm=3.0),
        train=Train(steps=200, batch=32, eval_every=50),
        progress=Progress(metric="accuracy", goal="max"),
    )
