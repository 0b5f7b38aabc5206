"""GPT finetuned for a task with the paper's settings: three epochs, the text learned beside the task (Radford et al., 2018).

Finetuning starts from a model with `--init`, a run of another gpt recipe or one that `weft convert` brought in. Without it the
small model of these recipes learns from the task alone.
"""

from __future__ import annotations

from weft.core.config import override
from weft.data.annotated.gpt_finetuning import GPTFinetuningChoicesConfig, GPTFinetuningTextsConfig
from weft.data.base import DataConfig
from weft.models.language.gpt import GPTConfig
from weft.objectives.finetuning import FinetuningConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optimizer.settings import AdamW
from weft.training.schedule import Schedule
from weft.training.settings import Train


def finetuned(data: DataConfig) -> Recipe:
    return Recipe(
        data=data,
        model=GPTConfig(layers=4, heads=4, width=128, position_embedding="rotary", residual_dropout=0.1),
        objective=FinetuningConfig(),
        optim=AdamW(lr=6.25e-5, weight_decay=0.01, clip_norm=1.0, schedule=Schedule(kind="linear", warmup=2)),
        train=Train(steps=900, batch=32, log_every=50, eval_every=300, save_every=300, keep_checkpoints=1),
        progress=Progress(metric="accuracy", goal="max"),
    )


def classify() -> Recipe:
    """The class of your own texts, or pairs of texts: a TSV, CSV or JSONL file with a label on each row.

    Run:      weft train gpt/classify --data.path mine.tsv --init GPT
              weft train gpt/classify --data.path alike.tsv --data.both-orders --init GPT
    """
    return finetuned(GPTFinetuningTextsConfig())


def choose() -> Recipe:
    """The right one among several ways to go on: JSON lines with context, choices and label.

    Run:      weft train gpt/choose --data.path mine.jsonl --init GPT
    """
    return override(finetuned(GPTFinetuningChoicesConfig()), {"model.classes": 1, "train.batch": 16})
