"""Summaries, answers to questions and responses in dialogues, as text to text."""

from __future__ import annotations

from weft.data.text.dialogues import DialoguesConfig
from weft.data.text.question_answers import QuestionAnswersConfig
from weft.data.text.summaries import SummariesConfig
from weft.models.language.pointer_generator import PointerGeneratorConfig
from weft.models.language.transformer import TransformerConfig
from weft.objectives.language.seq2seq import Seq2SeqConfig
from weft.recipes.base import Progress, Recipe
from weft.recipes.language.parser import adamw
from weft.recipes.language.t5 import relative, small
from weft.training.schedule import Schedule
from weft.training.settings import Train


def summaries() -> Recipe:
    """Summaries of docstrings, whose first lines are to be found from the rest, or of your own texts.

    Run:      weft train summaries/pointer_generator
              weft evaluate runs/summaries-pointer_generator
              weft train summaries/pointer_generator --data.path articles.jsonl --data.source article --data.target summary
    """
    return Recipe(
        data=SummariesConfig(tokenizer="words", vocabulary=6000, min_count=2, oov_words=32, max_length=120),
        model=PointerGeneratorConfig(layers=2, heads=4, width=96, ffn_width=192, norm="pre", dropout=0.2),
        objective=Seq2SeqConfig(label_smoothing=0.0, coverage=0.1, scores="rouge", beams=4, length_penalty=1.0),
        optim=adamw(2e-3),
        train=Train(steps=700, batch=32, log_every=100, eval_every=350, eval_examples=256),
        progress=Progress(metric="token_bleu", goal="max"),
    )


def questions() -> Recipe:
    """Answers to questions about a paragraph, copied where no vocabulary has them: made-up people, or your own file in SQuAD's layout.

    Run:      weft train questions/pointer_generator
              weft evaluate runs/questions-pointer_generator
              weft train questions/pointer_generator --data.path mine.json
    """
    return Recipe(
        data=QuestionAnswersConfig(tokenizer="words", vocabulary=20_000, min_count=3, oov_words=64, max_length=400),
        model=PointerGeneratorConfig(layers=2, heads=4, width=64, norm="pre", dropout=0.1),
        objective=Seq2SeqConfig(label_smoothing=0.0, scores="squad", beams=4, length_penalty=0.0),
        optim=adamw(2e-3),
        train=Train(steps=600, batch=32, log_every=100, eval_every=200, eval_examples=256),
        progress=Progress(metric="exact", goal="max"),
    )


def questions_t5() -> Recipe:
    """The same by a T5, from a pretrained model or from nothing.

    Run:      weft train questions/t5 --data.path mine.json --init runs/t5-text
    """
    return Recipe(
        data=QuestionAnswersConfig(tokenizer="byte_bpe", vocabulary=4000, max_length=400),
        model=small(),
        objective=Seq2SeqConfig(label_smoothing=0.0, scores="squad", beams=4, length_penalty=0.0),
        optim=relative(1e-2, Schedule(kind="linear", warmup=100)),
        train=Train(steps=1500, batch=32, log_every=100, eval_every=300, eval_examples=256),
        progress=Progress(metric="exact", goal="max"),
    )


def dialogue() -> Recipe:
    """Responses to the last turns of a dialogue: made-up small talk, or your own dialogues.

    Run:      weft train dialogue/transformer
              weft sample runs/dialogue-transformer Hi
              weft evaluate runs/dialogue-transformer recall_at_1=10
              weft train dialogue/transformer --data.path dialogues.txt
    """
    return Recipe(
        data=DialoguesConfig(tokenizer="words", vocabulary=10_000, max_length=96),
        model=TransformerConfig(layers=2, heads=4, width=64, norm="pre", dropout=0.1),
        objective=Seq2SeqConfig(label_smoothing=0.0, beams=4),
        optim=adamw(2e-3),
        train=Train(steps=500, batch=32, log_every=100, eval_every=250, eval_examples=256),
        progress=Progress(metric="token_bleu", goal="max"),
    )
