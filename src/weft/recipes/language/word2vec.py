"""Word vectors."""

from __future__ import annotations

from weft.data.text.cooccurrence import CooccurrenceConfig
from weft.data.text.passages import PassagesConfig
from weft.models.language.word2vec import Word2VecConfig
from weft.objectives.base import ObjectiveConfig
from weft.objectives.language.full_softmax import FullSoftmaxConfig
from weft.objectives.language.hierarchical_softmax import HierarchicalSoftmaxConfig
from weft.objectives.language.nce import NCEConfig
from weft.objectives.language.negative_sampling import NegativeSamplingConfig
from weft.recipes.base import Recipe
from weft.training.optimizer.settings import SGD, Adam
from weft.training.schedule import Schedule
from weft.training.settings import Train


def source() -> Recipe:
    """Skip-gram word vectors on the docstrings and comments of Python's standard library, or on your own text.

    Run:      weft train word2vec/source
              weft train word2vec/source --data.path my.txt
    """
    return Recipe(
        data=CooccurrenceConfig(),
        model=Word2VecConfig(width=64),
        objective=NegativeSamplingConfig(negatives=5),
        optim=Adam(lr=1e-2, schedule=Schedule(kind="linear")),
        train=Train(steps=2000, batch=256, eval_every=250, eval_examples=4096),
    )


def text() -> Recipe:
    """Skip-gram word vectors as word2vec trains them, on all cores and the same with any number of them; about five epochs of a
    million words. A longer text takes more --train.steps, each of 64,000 words.

    Run:      weft train word2vec/text --data.path my.txt
              weft train word2vec/text --objective.type hierarchical_softmax
    """
    return _passages(NegativeSamplingConfig(centres=64), lr=0.025)


def cbow() -> Recipe:
    """Continuous-bag-of-words (CBOW) vectors as word2vec trains them, but with the exact gradient of a mean, hence the higher rate.

    Run:      weft train word2vec/cbow --data.path my.txt
    """
    return _passages(NegativeSamplingConfig(architecture="cbow", centres=64), lr=0.1)


def hierarchical() -> Recipe:
    """CBOW vectors by hierarchical softmax, a path of decisions through Huffman's tree of words.

    Run:      weft train word2vec/hierarchical --data.path my.txt
    """
    return _passages(HierarchicalSoftmaxConfig(architecture="cbow", centres=64), lr=0.1)


def nce() -> Recipe:
    """CBOW vectors by noise-contrastive estimation; validation tells perplexity, log Z and its square.

    Run:      weft train word2vec/nce
              weft train word2vec/nce --data.path my.txt
    """
    return _examples(NCEConfig(architecture="cbow"))


def softmax() -> Recipe:
    """CBOW vectors by a softmax over all words.

    Run:      weft train word2vec/softmax
              weft train word2vec/softmax --data.path my.txt
    """
    return _examples(FullSoftmaxConfig(architecture="cbow"))


def _passages(objective: ObjectiveConfig, lr: float) -> Recipe:
    return Recipe(
        data=PassagesConfig(),
        model=Word2VecConfig(width=100),
        objective=objective,
        optim=SGD(lr=lr, schedule=Schedule(kind="linear", min_lr_ratio=1e-4)),
        train=Train(steps=100, batch=64, eval_every=50, eval_examples=64, save_every=100),
    )


def _examples(objective: ObjectiveConfig) -> Recipe:
    return Recipe(
        data=CooccurrenceConfig(vocabulary=5000),
        model=Word2VecConfig(width=64),
        objective=objective,
        optim=Adam(lr=1e-2, schedule=Schedule(kind="linear")),
        train=Train(steps=1000, batch=256, eval_every=250, eval_examples=4096),
    )
