"""The command `weft`: finds the verb, runs it, and turns errors into one line and an exit code.

0 done, 1 failed, 2 wrong use, 130 interrupted (SIGINT), 143 terminated (SIGTERM). Nothing heavy is imported before a verb needs it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys

from weft import __version__
from weft.core import registry
from weft.core.errors import ConfigError, WeftError
from weft.core.posix import require_posix

VERBS = {
    "quickstart": "the birthplace experiment end to end on made-up people, minutes on two cores",
    "list": "models, recipes, studies and benchmarks, one line each with the measured score",
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
}
ABOUT = "weft trains, finetunes, evaluates, samples and serves the models deep learning is built on."
EXAMPLES = """\
  weft quickstart                        what reading adds to asking: a table, a figure and a page
  weft train gpt/quickstart              a character GPT on Python's own source, minutes on two cores
  weft sample runs/gpt-quickstart "def " continue a prompt with it
  weft train gpt/text --data.path my.txt the same on your own text
  weft train gpt/text --help             every setting with its default"""


def usage() -> str:
    verbs = "\n".join(f"  {name:10} {what}" for name, what in VERBS.items())
    return f"usage: weft VERB … [--help]\n\n{ABOUT}\n\n{verbs}\n\nexamples:\n{EXAMPLES}"


def dispatch(words: list[str]) -> int:
    """Run one command; the result is its exit code."""
    if not words or words[0] in ("-h", "--help", "help"):
        print(usage())
        return 0 if words else 2
    if words[0] == "--version":
        print(f"weft {__version__}")
        return 0
    if words[0] not in VERBS:
        raise ConfigError(f"no verb is called {words[0]!r}{registry.nearest(words[0], list(VERBS))}")
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
            importlib.import_module("weft.training.parallel.processes").delay_nonzero_ranks()
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
