"""Speech to text, and speech in one language to text in another."""

from __future__ import annotations

from weft.data.audio.augment import SoundAugment
from weft.data.audio.digit_strings import DigitStrings
from weft.data.audio.speech import SpeechConfig
from weft.models.audio.conformer import ConformerCTCConfig
from weft.models.audio.conformer_aed import ConformerAEDConfig
from weft.models.audio.las import LASConfig
from weft.models.audio.transducer import TransducerConfig
from weft.objectives.audio.ctc import CTCConfig
from weft.objectives.audio.ctc_attention import CTCAttentionConfig
from weft.objectives.audio.rnnt import RNNTConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optimizer.settings import Adam
from weft.training.schedule import Schedule
from weft.training.settings import Train

STRINGS = DigitStrings(number=3000, shortest=1, longest=4, noise=())
AUGMENT = SoundAugment(speeds=(0.9, 1.0, 1.1), masks=1)
ENCODER = {"layers": 3, "heads": 4, "width": 96, "ffn_width": 192, "kernel": 9, "subsampling": 4}
OPTIMIZER = Adam(lr=1.5e-3, clip_norm=5.0, schedule=Schedule(kind="cosine", warmup=60, min_lr_ratio=0.05))
TRAIN = Train(steps=400, batch=32, eval_every=100, eval_examples=100)
PROGRESS = Progress(metric="token_error_rate", goal="min")


def data(language: str = "en") -> SpeechConfig:
    """Strings of one to four digits by made-up voices, of which those to validate on are never heard in training."""
    return SpeechConfig(strings=DigitStrings(**{**vars(STRINGS), "language": language}), augment=AUGMENT)


def ctc_speech() -> Recipe:
    """Conformer with connectionist temporal classification on your own speech with texts; without a path, on single made-up digits.

    Run:      weft train conformer_ctc/speech --data.path my_folder
              weft sample runs/conformer_ctc-speech sound.wav --times
    """
    return Recipe(
        data=SpeechConfig(augment=AUGMENT),
        model=ConformerCTCConfig(**ENCODER),  # type: ignore[arg-type]
        objective=CTCConfig(),
        optim=OPTIMIZER,
        train=TRAIN,
        progress=PROGRESS,
    )


def ctc_digits() -> Recipe:
    """Conformer with connectionist temporal classification: strings of digits to text, of made-up voices
    or put together from your own recordings of single ones.

    Run:      weft train conformer_ctc/digits
              weft sample runs/conformer_ctc-digits seven.wav
    """
    return Recipe(
        data=data(),
        model=ConformerCTCConfig(**ENCODER),
        objective=CTCConfig(),
        optim=OPTIMIZER,
        train=TRAIN,
        progress=PROGRESS,  # type: ignore[arg-type]
    )


def transducer_digits() -> Recipe:
    """Conformer transducer (RNN-T) with a stateless predictor; --model.predictor lstm has a recurrent one.

    Run:      weft train transducer/digits
    """
    return Recipe(
        data=data(),
        model=TransducerConfig(**ENCODER, joint_width=128),  # type: ignore[arg-type]
        objective=RNNTConfig(),
        optim=OPTIMIZER,
        train=TRAIN,
        progress=PROGRESS,
    )


def transducer_pruned() -> Recipe:
    """The same, of which the joint is computed for five labels at each state only: less memory and time for long texts.

    Run:      weft train transducer/pruned
    """
    return Recipe(
        data=data(),
        model=TransducerConfig(**ENCODER, joint_width=128, additive=True),  # type: ignore[arg-type]
        objective=RNNTConfig(band=5),
        optim=OPTIMIZER,
        train=TRAIN,
        progress=PROGRESS,
    )


def las_digits() -> Recipe:
    """Listen, attend and spell: a pyramid of LSTMs, and location-sensitive attention that is guided along the diagonal.

    Run:      weft train las/digits
    """
    return Recipe(
        data=data(),
        model=LASConfig(layers=3, width=128, attention_width=64, kernel=15),
        objective=CTCAttentionConfig(ctc=0.0, guided_attention=1.0),
        optim=OPTIMIZER,
        train=TRAIN,
        progress=PROGRESS,
    )


def aed_digits() -> Recipe:
    """Conformer encoder and Transformer decoder, learned by attention and CTC together.

    Run:      weft train conformer_aed/digits
    """
    return Recipe(
        data=data(),
        model=ConformerAEDConfig(**ENCODER, decoder_layers=2),  # type: ignore[arg-type]
        objective=CTCAttentionConfig(ctc=0.3),
        optim=OPTIMIZER,
        train=TRAIN,
        progress=PROGRESS,
    )


def aed_german() -> Recipe:
    """Speech translation: English digits to German words, without a transcript; --data.strings.language zh gives Chinese ones.

    Run:      weft train conformer_aed/german
    """
    return Recipe(
        data=data("de"),
        model=ConformerAEDConfig(**ENCODER, decoder_layers=2),  # type: ignore[arg-type]
        objective=CTCAttentionConfig(ctc=0.3),
        optim=OPTIMIZER,
        train=TRAIN,
        progress=PROGRESS,
    )
