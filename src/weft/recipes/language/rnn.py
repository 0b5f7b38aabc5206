"""Recurrent language models of characters and words."""

from __future__ import annotations

from weft.data.text.python_source import PythonSourceConfig
from weft.data.text.token_windows import TextConfig
from weft.models.language.rnn import RNNLMConfig
from weft.objectives.language.truncated_bptt import TruncatedBPTTConfig
from weft.recipes.base import Progress, Recipe
from weft.recipes.language.gpt import cosine
from weft.training.optimizer.settings import ASGD, Adam, AdamW
from weft.training.settings import Train


def text() -> Recipe:
    """Recurrent character model on your own text; the cell is one of rnn, lstm, peephole, coupled, gru, cho_gru, layer_norm, mogrifier.

    Run:      weft train rnn/text --data.path my.txt --model.cell gru
    """
    return Recipe(
        data=TextConfig(context=64, lanes=32),
        model=RNNLMConfig(layers=2, width=256, embedding_width=64, tie_embeddings=False, layer_dropout=0.1, output_dropout=0.1),
        objective=TruncatedBPTTConfig(),
        optim=AdamW(lr=4e-3, weight_decay=0.01, clip_norm=1.0, schedule=cosine(50)),
        train=Train(steps=2000, batch=32, log_every=50, eval_every=200, eval_examples=512, save_every=500),
    )


def python() -> Recipe:
    """Character LSTM on the source code of this Python installation.

    Run:      weft train lstm/python
    Expect:   validation loss about 1.62 after 1,000 steps; under a minute on two CPU cores.
    """
    return Recipe(
        data=PythonSourceConfig(context=50, lanes=32, validation_context=200, megabytes=4.0),
        model=RNNLMConfig(layers=1, width=256, embedding_width=64, tie_embeddings=False),
        objective=TruncatedBPTTConfig(),
        optim=AdamW(lr=5e-3, weight_decay=0.01, clip_norm=1.0, schedule=cosine(50)),
        train=Train(steps=1000, batch=32, log_every=50, eval_every=250, eval_examples=256, save_every=500),
    )


def shakespeare_char() -> Recipe:
    """Character LSTM on tiny Shakespeare.

    Run:      weft train lstm/shakespeare_char
    """
    return Recipe(
        data=TextConfig(path="tinyshakespeare/input.txt", context=100, lanes=50, validation_context=1000),
        model=RNNLMConfig(
            layers=2,
            width=512,
            embedding_width=64,
            tie_embeddings=False,
            layer_dropout=0.4,
            output_dropout=0.4,
            weight_dropout=0.2,
        ),
        objective=TruncatedBPTTConfig(),
        optim=AdamW(lr=3e-3, weight_decay=0.01, clip_norm=1.0, schedule=cosine(100, 0.02)),
        train=Train(steps=5000, batch=50, log_every=50, eval_every=250, save_every=1000),
    )


def ptb() -> Recipe:
    """AWD-LSTM, 24 M parameters, on the words of Penn Treebank as Mikolov prepared it, 500 epochs; validated as in the paper, in ten lanes.

    Run:      weft train lstm/ptb && weft evaluate runs/lstm-ptb carried --data.validation_path ptb/ptb.test.txt.gz
    """
    return Recipe(
        data=TextConfig(
            path="ptb/ptb.train.txt.gz",
            validation_path="ptb/ptb.valid.txt.gz",
            tokenizer="whitespace",
            context=70,
            lanes=20,
            shift=True,
            validation_context=7376,
        ),
        model=RNNLMConfig(
            layers=3,
            width=1150,
            embedding_width=400,
            embedding_dropout=0.1,
            input_dropout=0.4,
            layer_dropout=0.25,
            output_dropout=0.4,
            weight_dropout=0.5,
        ),
        objective=TruncatedBPTTConfig(activation=2.0, temporal_activation=1.0),
        optim=ASGD(lr=30.0, weight_decay=1.2e-6, decay_all=True, clip_norm=0.25),
        train=Train(steps=331_500, batch=20, log_every=500, eval_every=663, save_every=6630),
        progress=Progress(metric="perplexity"),
    )


def ptb_cpu() -> Recipe:
    """Small word LSTM on Penn Treebank, for a CPU.

    Run:      weft train lstm/ptb_cpu
    Expect:   validation perplexity 139 after 3,300 steps, 148 after 2,200; 28 ms a step on two free CPU cores.
    """
    return Recipe(
        data=TextConfig(
            path="ptb/ptb.train.txt.gz",
            validation_path="ptb/ptb.valid.txt.gz",
            tokenizer="whitespace",
            context=35,
            lanes=20,
            validation_context=350,
        ),
        model=RNNLMConfig(layers=1, width=200, input_dropout=0.1, output_dropout=0.2),
        objective=TruncatedBPTTConfig(),
        optim=AdamW(lr=4e-3, weight_decay=0.01, clip_norm=1.0, schedule=cosine(100, 0.02)),
        train=Train(steps=3300, batch=20, log_every=100, eval_every=1100, save_every=1100),
        progress=Progress(metric="perplexity"),
    )


def ptb_char() -> Recipe:
    """AWD-LSTM, 13.8 M parameters, on the characters of Penn Treebank, one sentence a line without blanks around it.

    Run:      for s in train valid test; do zcat $WEFT_DATA/ptb/ptb.$s.txt.gz | sed 's/^ //; s/ $//' > ptb.char.$s.txt; done
              weft train lstm/ptb_char
              weft evaluate runs/lstm-ptb_char carried --data.validation_path ptb.char.test.txt
    """
    return Recipe(
        data=TextConfig(
            path="ptb.char.train.txt",
            validation_path="ptb.char.valid.txt",
            context=150,
            lanes=128,
            shift=True,
            validation_context=4000,
        ),
        model=RNNLMConfig(
            layers=3,
            width=1000,
            embedding_width=200,
            input_dropout=0.1,
            layer_dropout=0.25,
            output_dropout=0.1,
            weight_dropout=0.5,
        ),
        objective=TruncatedBPTTConfig(),
        optim=Adam(lr=2e-3, weight_decay=1.2e-6, decay_all=True, clip_norm=0.25, schedule=cosine(0, 0.01)),
        train=Train(steps=52_200, batch=128, log_every=500, eval_every=1305, save_every=2610),
        progress=Progress(metric="bits_per_byte"),
    )
