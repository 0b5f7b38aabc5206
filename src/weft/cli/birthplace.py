"""`weft birthplace pretrain|finetune|evaluate VARIANT CORPUS …`: the reference assignment's commands, with its flags and files.

`weft birthplace ask CKPT QUESTION…` asks a finetuned model.
"""

from __future__ import annotations

from pathlib import Path

from weft.api import fit
from weft.cli import console
from weft.cli.describe import finished, opening
from weft.cli.options import flags
from weft.core.errors import ConfigError
from weft.core.registry import nearest
from weft.data.text.questions import read_questions
from weft.projects.birthplace import task
from weft.projects.birthplace.answers import always, ask, commonest, score
from weft.projects.birthplace.knowledge import examine
from weft.projects.birthplace.page import knowledge_page
from weft.projects.birthplace.task import Options, existing, need
from weft.recipes.base import Recipe
from weft.report.progress import Progress
from weft.runs.assemble import assemble
from weft.runs.load import load
from weft.training.checkpoint import files

ABOUT = f"""FUNCTION is pretrain, finetune or evaluate; VARIANT one of {", ".join(task.VARIANTS)};
CORPUS the text that was or is pretrained on, one document a line: its characters are the vocabulary.
`weft birthplace ask CKPT QUESTION…` asks a finetuned model, for example "Where was Ada Lovelace born?"."""
NAMES = "FUNCTION VARIANT CORPUS"
FUNCTIONS = ("pretrain", "finetune", "evaluate")


def main(words: list[str]) -> int:
    console.show_warnings()
    if words[:1] == ["ask"] and not any(word in flags.HELP for word in words):
        return answer(words[1:])
    options, free = flags.parse(Options(), words, "weft birthplace", NAMES, ABOUT)
    function, variant, corpus = free
    if function not in FUNCTIONS:
        raise ConfigError(f"weft birthplace has no function {function!r}{nearest(function, list(FUNCTIONS))}")
    task.variant(variant)
    if function == "evaluate":
        return evaluate(variant, corpus, options)
    folder = Path(need(options.writing_params_path, "--writing_params_path"))
    make = task.pretraining if function == "pretrain" else task.finetuning
    return train(make(variant, corpus, options), folder, options)


def train(recipe: Recipe, folder: Path, options: Options) -> int:
    start = f"{options.reading_params_path}@last" if options.reading_params_path else None
    made = assemble(recipe, folder, start, [Progress()])
    done = finished(made)
    print(done or "\n".join(opening(made)), flush=True)
    if not done:
        fit(made)
    print(f"run: {folder}\nreport: {folder / 'report.html'}")
    return 128 + made.signals.received if made.signals.received else 0


def answer(words: list[str]) -> int:
    if len(words) < 2 or words[0].startswith("-"):
        raise ConfigError(f"expected a checkpoint and at least one question after ask, found {' '.join(words) or 'nothing'}")
    loaded = load(words[0])
    for found in ask(loaded.model, loaded.tokenizer, [(question, None) for question in words[1:]]):
        print(f"{found.question} {found.text or '(nothing)'} ({100 * found.confidence:.0f} % sure)")
    return 0


def evaluate(variant: str, corpus: str, options: Options) -> int:
    path, outputs = existing(options.eval_corpus_path, "--eval_corpus_path"), Path(need(options.outputs_path, "--outputs_path"))
    asked = read_questions(path)
    loaded = task.fitting(variant, corpus, need(options.reading_params_path, "--reading_params_path"), options.device)
    answers = ask(loaded.model, loaded.tokenizer, asked)
    files.deliver(outputs, "".join(f"{one_line(answer.text)}\n" for answer in answers).encode())
    print(f"answers written to {outputs}")
    total, correct = score(answers)
    if not total:
        print(f"{path} tells no places, so nothing is scored")
        return 0
    print(f"Correct: {correct} out of {total}: {100 * correct / total:.1f} %")
    trained = task.trained_rows(loaded)
    for place in dict.fromkeys(["London", *([commonest([place for _, place in trained])] if trained else [])]):
        print(f"baseline, always {place}: {100 * score(always(place, asked))[1] / total:.1f} %")
    page = outputs.with_name(outputs.name + ".html")
    files.deliver(page, knowledge_page(str(loaded.path), examine(loaded, answers, trained), answers).encode())
    print(f"what it knows and what it makes up: {page}")
    return 0


def one_line(text: str) -> str:
    """An answer takes one line of the file, whatever the model wrote."""
    return " ".join(text.split("\n"))
