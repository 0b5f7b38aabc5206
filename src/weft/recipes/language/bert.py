"""BERT on pairs of sentences, and finetuned for what can be told of a text or of two, of its words, or found or chosen in it.

Finetuning starts from a model with `--init`, a run of bert/pairs or one that `weft convert` brought in. Without it the small
model of these recipes learns from the task alone.
"""

from __future__ import annotations

from weft.core.config import override
from weft.data.annotated.choices import ChoicesConfig
from weft.data.annotated.labelled_texts import LabelledTextsConfig
from weft.data.annotated.spans import SpansConfig
from weft.data.annotated.tagged import TaggedConfig
from weft.data.base import DataConfig
from weft.data.text.sentence_pairs import SentencePairsConfig
from weft.models.language.bert import BERTConfig
from weft.objectives.base import ObjectiveConfig
from weft.objectives.classification import ClassificationConfig
from weft.objectives.language.extractive_qa import ExtractiveQAConfig
from weft.objectives.language.mlm_nsp import MLMNSPConfig
from weft.objectives.language.multiple_choice import MultipleChoiceConfig
from weft.objectives.language.token_classification import TokenClassificationConfig
from weft.objectives.regression import RegressionConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optimizer.settings import AdamW
from weft.training.schedule import Schedule
from weft.training.settings import Train


def pairs() -> Recipe:
    """Masked tokens and sentence pairs on the docstrings of Python's standard library, or on your own text.

    Run:      weft train bert/pairs
              weft train bert/pairs --data.path my.txt
    """
    return Recipe(
        data=SentencePairsConfig(context=32, vocabulary=2000),
        model=BERTConfig(layers=2, heads=4, width=64, dropout=0.0, attention_dropout=0.0, init_std=0.1),
        objective=MLMNSPConfig(),
        optim=AdamW(lr=3e-3, clip_norm=1.0, schedule=Schedule(kind="linear", warmup=100)),
        train=Train(steps=2000, batch=32, eval_every=250, eval_examples=1024),
    )


SMALL = BERTConfig(task="classify", layers=6, heads=12, width=384)
"""The size of MiniLM."""
CLASS = ClassificationConfig(inputs=("ids", "segments", "lengths"))


def finetuned(data: DataConfig, epoch: int, metric: str = "accuracy", objective: ObjectiveConfig = CLASS) -> Recipe:
    """Three epochs of so many steps, as the paper advises."""
    schedule = Schedule(kind="linear", warmup=3 * epoch // 10)
    return Recipe(
        data=data,
        model=SMALL,
        objective=objective,
        optim=AdamW(lr=5e-5, weight_decay=0.01, clip_norm=1.0, schedule=schedule),
        train=Train(steps=3 * epoch, batch=32, log_every=min(50, epoch), eval_every=epoch, save_every=epoch, keep_checkpoints=1),
        progress=Progress(metric=metric, goal="max"),
    )


def classify() -> Recipe:
    """The class of your own texts, or pairs of texts: a TSV, CSV or JSONL file with a label on each row.

    Run:      weft train bert/classify --data.path mine.tsv --init BERT
    """
    return finetuned(LabelledTextsConfig(), epoch=300)


def score() -> Recipe:
    """A number told of your own texts, or of pairs, such as how alike two sentences are.

    Run:      weft train bert/score --data.path mine.tsv --init BERT
    """
    return finetuned(LabelledTextsConfig(number=True), epoch=300, metric="pearson", objective=RegressionConfig())


def sst2() -> Recipe:
    """SST-2, whether a phrase of a film review is favourable; a fiftieth of the training phrases selects, the test file reports.

    Run:      weft train bert/sst2 --init BERT
              weft evaluate runs/bert-sst2 --data.path glue/SST-2/valid_from_sst_test.tsv
    """
    return finetuned(LabelledTextsConfig(path="glue/SST-2/train.tsv.gz", validation=0.02, context=64), epoch=2062)


def cola() -> Recipe:
    """CoLA, whether a sentence is grammatical; val.tsv selects, dev.tsv reports.

    Run:      weft train bert/cola --init BERT
              weft evaluate runs/bert-cola --data.path glue/CoLA/dev.tsv
    """
    data = LabelledTextsConfig(
        path="glue/CoLA/train.tsv", validation_path="glue/CoLA/val.tsv", header="no", label="2", text="4", context=64
    )
    return finetuned(data, epoch=226, metric="matthews")


def mrpc() -> Recipe:
    """MRPC, whether two sentences say the same; a tenth of the training pairs selects, the test file reports.

    Run:      weft train bert/mrpc --init BERT
              weft evaluate runs/bert-mrpc --data.path glue/MRPC/msr_paraphrase_test.txt.gz
    """
    path = "glue/MRPC/msr_paraphrase_train.txt.gz"
    return finetuned(LabelledTextsConfig(path=path, text="#1 String", second="#2 String", label="Quality"), epoch=114, metric="f1")


def rte() -> Recipe:
    """RTE, whether the first text implies the second; a tenth of the training pairs selects, dev.tsv reports.

    Run:      weft train bert/rte --init BERT
              weft evaluate runs/bert-rte --data.path glue/RTE/dev.tsv
    """
    return finetuned(LabelledTextsConfig(path="glue/RTE/train.tsv.gz"), epoch=70)


def qnli() -> Recipe:
    """QNLI, whether a sentence holds the answer to a question; a hundredth of the training pairs selects, dev.tsv reports.

    Run:      weft train bert/qnli --init BERT
              weft evaluate runs/bert-qnli --data.path glue/QNLI/dev.tsv
    """
    data = LabelledTextsConfig(path="glue/QNLI/train.tsv", text="question", second="sentence", label="label", validation=0.01)
    return finetuned(data, epoch=3240)


def qqp() -> Recipe:
    """QQP, whether two questions ask the same; a hundredth of the training pairs selects, dev.tsv reports.

    Run:      weft train bert/qqp --init BERT
              weft evaluate runs/bert-qqp --data.path glue/QQP/dev.tsv
    """
    data = LabelledTextsConfig(path="glue/QQP/train.tsv", text="question1", second="question2", label="is_duplicate", validation=0.01)
    return finetuned(data, epoch=11_256, metric="f1")


def mnli() -> Recipe:
    """MNLI, whether one text implies another, contradicts it, or neither; a hundredth of the training pairs selects.

    Run:      weft train bert/mnli --init BERT
              weft evaluate runs/bert-mnli --data.path glue/MNLI/dev_matched.tsv
              weft evaluate runs/bert-mnli --data.path glue/MNLI/dev_mismatched.tsv
    """
    data = LabelledTextsConfig(path="glue/MNLI/train.tsv", text="sentence1", second="sentence2", label="gold_label", validation=0.01)
    return finetuned(data, epoch=12_149)


def stsb() -> Recipe:
    """STS-B, how alike two sentences are, from 0 to 5; a tenth of the training pairs selects, dev.tsv reports both correlations.

    Run:      weft train bert/stsb --init BERT
              weft evaluate runs/bert-stsb --data.path glue/STS-B/dev.tsv
    """
    data = LabelledTextsConfig(path="glue/STS-B/train.tsv", text="sentence1", second="sentence2", label="score", number=True)
    return finetuned(data, epoch=162, metric="pearson", objective=RegressionConfig())


def choice() -> Recipe:
    """The right one among several ways to go on, as in SWAG: JSON lines with context, choices and label.

    Run:      weft train bert/choice --data.path mine.jsonl --init BERT
    """
    recipe = finetuned(ChoicesConfig(), epoch=300, objective=MultipleChoiceConfig())
    return override(recipe, {"model.task": "choose", "optim.lr": 2e-5, "train.batch": 16})


def answers() -> Recipe:
    """Answers to your own questions as spans of paragraphs: a JSON file in the layout of SQuAD, version 1.1 or 2.0.

    Run:      weft train bert/answers --data.path mine.json --init BERT
              weft evaluate runs/bert-answers
    """
    return override(finetuned(SpansConfig(), epoch=300, objective=ExtractiveQAConfig()), {"model.task": "answer"})


def squad() -> Recipe:
    """SQuAD 1.1: 34 articles of its development set; a tenth of their paragraphs selects, 8 other articles report.

    Run:      weft train bert/squad --init BERT
              weft evaluate runs/bert-squad --data.path squad/squad_part_valid.json.gz
    """
    data = SpansConfig(path="squad/squad_part_train.json.gz")
    return override(finetuned(data, epoch=280, objective=ExtractiveQAConfig()), {"model.task": "answer"})


def tags() -> Recipe:
    """Tags of the words of your own sentences, such as names: word, tab, tag on each line, blank lines between sentences.

    Run:      weft train bert/tags --data.path mine.tsv --init BERT
              weft evaluate runs/bert-tags
    """
    return override(finetuned(TaggedConfig(), epoch=300, objective=TokenClassificationConfig()), {"model.task": "tag"})


def brown() -> Recipe:
    """Parts of speech of the Brown corpus: its own tags, without those for titles, headlines and contractions.

    Run:      weft train bert/brown --init BERT
              weft train bert/brown --model.layers 2 --model.heads 4 --model.width 128 --model.init_std 0.09 --optim.lr 1e-3 \\
                --optim.schedule.warmup 300 --train.steps 3000 --train.eval-every 500 --train.eval-examples 2000
    Expect:   94.1 % of the held-out words right after the second (one seed); nine minutes on one busy core.
    """
    data = TaggedConfig(path="nltk/brown.zip", cut="-+*", context=64)
    return override(finetuned(data, epoch=1613, objective=TokenClassificationConfig()), {"model.task": "tag"})
