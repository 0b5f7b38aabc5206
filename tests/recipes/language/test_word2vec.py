"""Words that are used alike get vectors that point alike."""

from __future__ import annotations

import random
from pathlib import Path

import weft
from weft.inference.neighbours import neighbours
from weft.runs.assemble import assemble

COMMON = ("the", "and")
GROUPS = {
    "animals": ("cat", "dog", "cow", "hen", "pig", "fox"),
    "tools": ("saw", "axe", "nail", "drill", "screw", "glue"),
    "dishes": ("soup", "rice", "bread", "stew", "cake", "pie"),
}


def corpus(path: Path) -> Path:
    """Each word stands among the other words of its group, and common words everywhere."""
    chance = random.Random(0)
    lines = []
    for _ in range(3000):
        group = GROUPS[chance.choice(list(GROUPS))]
        lines.append(" ".join(chance.choice((*chance.sample(group, 3), *COMMON)) for _ in range(10)))
    path.write_text("\n\n".join(lines))
    return path


def test_clusters_of_a_made_up_text_are_recovered(tmp_path: Path) -> None:
    changes = {"train.device": "cpu", "train.steps": 150, "train.eval_every": 150, "model.width": 16, "data.subsample": 0.0}
    made = weft.recipe("word2vec/source", changes | {"data.path": str(corpus(tmp_path / "text.txt"))})
    done = assemble(made, tmp_path / "run")
    done.trainer.fit()
    assert done.validation is not None
    loaded = weft.load(tmp_path / "run")
    for group in GROUPS.values():
        for near in neighbours(loaded.model, loaded.tokenizer, " ".join(group), 5).values():
            assert {other for other, _ in near} <= {*group, *COMMON}
