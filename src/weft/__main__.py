"""The command `weft`: finds the verb, runs it, and turns errors into one line and an exit code.

0 done, 1 failed, 2 wrong use, 130 interrupted (SIGINT), 143 terminated (SIGTERM). Nothing heavy is imported before a verb needs it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys

from weft import __version__
from weft.cli.begin.front import VERBS, unknown, usage
from weft.core.errors import ConfigError, WeftError
from weft.core.posix import require_posix


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
