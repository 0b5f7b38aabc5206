"""Classes of sounds."""

from __future__ import annotations

from weft.data.audio.augment import SoundAugment
from weft.data.audio.clips import ClipsConfig
from weft.data.audio.spoken_digits import SpokenDigits
from weft.models.audio.audio_classifier import AudioClassifierConfig
from weft.objectives.classification import ClassificationConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optimizer.settings import AdamW
from weft.training.schedule import Schedule
from weft.training.settings import Train


def digits() -> Recipe:
    """Which digit is said, by made-up voices that were never heard in training, or the classes of your own sounds.

    Run:      weft train audio_classifier/digits
              weft train audio_classifier/digits --data.path my_folder    (a folder for each class)
              weft predict runs/audio_classifier-digits FOLDER --out told.csv
    """
    return Recipe(
        data=ClipsConfig(
            made_up=SpokenDigits(voices=24, takes=4), augment=SoundAugment(speeds=(0.9, 1.0, 1.1), noise=(10.0, 40.0), masks=1)
        ),
        model=AudioClassifierConfig(),
        objective=ClassificationConfig(inputs=("source", "source_length")),
        optim=AdamW(lr=2e-3, weight_decay=0.05, clip_norm=1.0, schedule=Schedule(kind="cosine", warmup=50)),
        train=Train(steps=600, batch=32, eval_every=100),
        progress=Progress(metric="accuracy", goal="max"),
    )
