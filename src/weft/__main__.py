"""The command `weft`: finds the verb, runs it, and turns errors into one line and an exit code.

0 done, 1 failed, 2 wrong use, 130 interrupted (SIGINT), 143 terminated (SIGTERM). Nothing heavy is imported before a verb needs it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys

from weft import __version__
from weft.core.errors import ConfigError, WeftError
from weft.core.posix import require_posix

VERBS = {
    "start": "looks at your data and proposes a recipe, its size and how long it takes",
    "quickstart": "the birthplace experiment end to end on made-up people, minutes on two cores",
    "list": "what to do with what you have; recipes, models, studies and benchmarks, with measured scores",
    "train": "train a recipe; the same command again continues where it stopped",
    "evaluate": "the recipe's metrics on its validation data or on other data, or tasks for language models",
    "sample": "text, images or nearest words from a trained model, or what it tells of your text or image",
    "prompt": "a prompt from a template file and worked examples, shown or asked",
    "serve": "an OpenAI-compatible server, and a page to play with a model",
    "data": "token shards from your own text, JSONL or parquet files, to train large models from",
    "convert": "foreign weights in and out: model folders, GGUF files, wheels",
    "plan": "parameters, memory, time, energy and a parallel layout of a training run, without running it",
    "report": "an HTML page of a run, or a comparison of several",
    "study": "an analysis with a figure and a small table",
    "bench": "a measurement against peers: of speed, or whether converted models say the same",
    "birthplace": "pretrain, finetune, evaluate or ask a model about where people were born",
    "completion": "what makes a shell complete verbs, recipes, settings and runs: bash, zsh or fish",
}
GROUPS = {
    "begin": ("start", "list", "quickstart", "completion"),
    "train": ("train", "sweep", "plan", "data"),
    "use a model": ("sample", "predict", "serve", "prompt", "convert"),
    "look at it": ("evaluate", "report", "study", "bench", "birthplace"),
}
"""The verbs as the help shows them; those of no group come last."""
MEANT = {
    **dict.fromkeys(("chat", "web", "ui", "api", "run", "deploy"), "serve"),
    **dict.fromkeys(("generate", "complete", "draw", "translate"), "sample"),
    **dict.fromkeys(("fit", "finetune", "fine-tune", "pretrain", "resume", "continue"), "train"),
    **dict.fromkeys(("eval", "test", "validate", "score", "measure"), "evaluate"),
    **dict.fromkeys(("infer", "inference", "classify", "embed", "tag", "label"), "predict"),
    **dict.fromkeys(("tune", "search", "grid", "hpo"), "sweep"),
    **dict.fromkeys(("export", "import", "download", "pull", "quantize"), "convert"),
    **dict.fromkeys(("tokenize", "preprocess", "prepare", "shards"), "data"),
    **dict.fromkeys(("plot", "visualize", "compare", "show"), "report"),
    **dict.fromkeys(("init", "new", "create", "wizard", "guide"), "start"),
    **dict.fromkeys(("ls", "recipes", "models", "find"), "list"),
    **dict.fromkeys(("benchmark", "perf"), "bench"),
    **dict.fromkeys(("estimate", "memory", "flops"), "plan"),
    **dict.fromkeys(("autocomplete", "completions"), "completion"),
    "demo": "quickstart",
    "version": "--version",
}
"""Words of other programs, by the verb that does what they mean."""
ABOUT = "weft trains, finetunes, evaluates, samples and serves the models deep learning is built on."


def usage() -> str:
    """What one has, and every verb."""
    from weft.cli import have

    grouped = {name for names in GROUPS.values() for name in names}
    groups = GROUPS | {"more": tuple(name for name in VERBS if name not in grouped)}
    lines = [f"usage: weft VERB … [--help]\n\n{ABOUT}\n\nI have", *have.lines(most=1)]
    for title, names in groups.items():
        known = [name for name in names if name in VERBS]
        lines += [f"\n{title}", *(f"  {name:10} {VERBS[name]}" for name in known)] if known else []
    return "\n".join([*lines, "\nweft train gpt/text --help: every setting of a recipe; weft list: everything there is"])


def unknown(word: str) -> str:
    """What a verb that does not exist is answered with: the one that is meant, or is written nearly so."""
    from weft.core import registry

    meant = MEANT.get(word.lower().lstrip("-"), "")
    if meant in VERBS or meant == "--version":
        return f"no verb is called {word!r}; weft {meant}" + (f" is: {VERBS[meant]}" if meant in VERBS else " says it")
    if word in registry.RECIPES:
        return f"{word!r} is a recipe; train it with: weft train {word}"
    return f"no verb is called {word!r}{registry.nearest(word, list(VERBS))}"


def dispatch(words: list[str]) -> int:
    """Run one command; the result is its exit code."""
    if words[:1] == ["help"] and len(words) > 1:
        words = [*words[1:], "--help"]
    if not words or words[0] in ("-h", "--help", "help"):
        print(usage())
        return 0 if words else 2
    if words[0] == "--version":
        print(f"weft {__version__}")
        return 0
    if words[0] not in VERBS:
        raise ConfigError(unknown(words[0]))
    code: int = importlib.import_module(f"weft.cli.{words[0]}").main(words[1:])
    return code


def run(words: list[str]) -> int:
    """As `dispatch`, with errors as one line on stderr and an exit code."""
    try:
        require_posix()
        code = dispatch(words)
        if sys.stdout:  # closed before we began
            sys.stdout.flush()
    except WeftError as error:
        if "RANK" in os.environ:
            importlib.import_module("weft.training.parallel.processes").hold_back()
        print(f"weft: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("weft: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output went away, as in `weft list | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:  # a full disk, a folder that cannot be written
        print(f"weft: {error}", file=sys.stderr)
        return 1
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        what = str(error).strip().splitlines()[0] if str(error).strip() else "memory"
        print(f"weft: there is not enough memory for this: {what}; ask for less, a smaller model, batch or picture", file=sys.stderr)
        return 1
    return code


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error is that of an allocation, of Python, NumPy or PyTorch, which has no kind of its own for a processor's memory."""
    said = str(error)
    return isinstance(error, MemoryError) or "can't allocate memory" in said or "out of memory" in said


def main() -> None:
    """Entry point of the command. One process of several leaves at once, as the threads that connected it to the others must not wake
    while Python ends: that would end it by a signal, and the others with it."""
    code = run(sys.argv[1:])
    if "RANK" in os.environ:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, AttributeError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    main()
