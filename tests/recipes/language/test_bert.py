"""Both terms of the objective are learned, in a shortened run on a made-up text."""

from __future__ import annotations

import random
from pathlib import Path

import weft
from weft.runs.assemble import assemble

SUBJECTS, VERBS, OBJECTS = ("cat", "dog", "hen"), ("sees", "likes", "hears"), ("moon", "rain", "song")


def corpus(path: Path) -> Path:
    """Paragraphs that open with a question and go on with answers, whose verb tells their object."""
    chance = random.Random(0)
    paragraphs = []
    for _ in range(400):
        sentences = ["what does the animal do?"]
        for _ in range(2):
            verb = chance.randrange(3)
            sentences.append(f"the {chance.choice(SUBJECTS)} {VERBS[verb]} the {OBJECTS[verb]}.")
        paragraphs.append(" ".join(sentences))
    path.write_text("\n\n".join(paragraphs))
    return path


def test_tokens_and_pairs_are_both_learned(tmp_path: Path) -> None:
    changes = {"train.device": "cpu", "train.steps": 150, "train.eval_every": 150, "model.layers": 1, "optim.schedule.warmup": 20}
    made = weft.recipe("bert/pairs", changes | {"data.path": str(corpus(tmp_path / "text.txt"))})
    done = assemble(made, tmp_path / "run")
    done.trainer.fit()
    assert done.validation is not None
    assert done.validation.latest["token_accuracy"] > 0.6
    assert done.validation.latest["pair_accuracy"] > 0.6
