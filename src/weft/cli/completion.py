"""`weft completion bash|zsh|fish`: a script with which a shell completes verbs, recipes, settings and runs; it imports no torch.

The script asks `weft completion words …` at every Tab, so that it always knows what is registered and which runs there are.
"""

from __future__ import annotations

import json
from pathlib import Path

from weft.core import registry
from weft.core.errors import ConfigError

BASH = """\
_weft() {
    local IFS=$'\\n'
    COMPREPLY=($(weft completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -o nosort -F _weft weft ./weft
"""
ZSH = """\
#compdef weft
_weft() {
    local -a found
    found=("${(@f)$(weft completion words "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[1]}" ]]; then compadd -U -V weft -- "${found[@]}"; else _files; fi
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
compdef _weft weft
"""
FISH = """\
function __weft_words
    set -l typed (commandline -opc)[2..-1]
    weft completion words $typed (commandline -ct | string collect --allow-empty) 2>/dev/null
end
complete -c weft -f -k -a '(__weft_words)'
complete -c weft -n 'test -z "$(__weft_words)"' -F
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
USAGE = """usage: weft completion bash|zsh|fish

Prints what makes a shell complete verbs, recipes, settings and runs:
  bash   source <(weft completion bash)                                   in ~/.bashrc
  zsh    source <(weft completion zsh)                                    in ~/.zshrc
  fish   weft completion fish > ~/.config/fish/completions/weft.fish"""
RUNS = ("sample", "evaluate", "serve", "report", "prompt", "predict")
"""Verbs whose words are runs."""
SECOND = {
    "data": ("build", "python", "show", "verify"),
    "birthplace": ("pretrain", "finetune", "evaluate", "ask"),
    "completion": tuple(SCRIPTS),
}


def main(words: list[str]) -> int:
    if words[:1] == ["words"]:
        print("\n".join(complete(words[1:])))
        return 0
    if not words or words[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if words else 2
    if words[0] not in SCRIPTS or words[1:]:
        raise ConfigError(f"completion is for one of {', '.join(SCRIPTS)}, not for {' '.join(words)!r}")
    print(SCRIPTS[words[0]], end="")
    return 0


def complete(words: list[str]) -> list[str]:
    """What the last word can become after the others; nothing where it is a file."""
    *before, begun = words or [""]
    return [word for word in candidates(before, begun) if word.startswith(begun)]


def candidates(before: list[str], begun: str) -> list[str]:
    from weft.cli.begin import have
    from weft.cli.begin.front import VERBS

    if not before:
        return list(VERBS)
    registry.load_families()
    verb, place = before[0], len(before)
    if verb == "list":
        return [*registry.TABLES, *have.HAVE, *dict.fromkeys(name.partition("/")[0] for name in registry.RECIPES)]
    tables = {"train": "recipes", "plan": "recipes", "sweep": "recipes", "study": "studies", "bench": "benches"}
    if place == 1 and verb in tables and not begun.startswith("-"):
        return list(registry.TABLES[tables[verb]])
    if place == 1 and verb in SECOND:
        return list(SECOND[verb])
    if verb in ("train", "plan", "sweep"):
        return of_settings(before, begun)
    return runs() if verb in RUNS and not begun.startswith("-") else []


def of_settings(before: list[str], begun: str) -> list[str]:
    """The flags of a recipe, or the values that the flag before can take."""
    from weft.cli.options.help import INDEX

    own = {"out": "TEXT", "init": "TEXT", "config": "TEXT", "explain": "", "help": ""}
    try:
        index = json.loads(INDEX.read_text(encoding="utf-8"))
        settings = [index["settings"][number] for number in index["recipes"][before[1]]["settings"]]
    except (OSError, ValueError, LookupError):
        settings = []
    kinds = {f"--{name.replace('_', '-')}": kind for name, kind, *_ in settings} | {f"--{name}": kind for name, kind in own.items()}
    asked = kinds.get(before[-1].replace("_", "-"), "")
    if asked and not begun.startswith("--"):
        values = asked.strip("{}").split(",") if asked.startswith("{") else []
        return values or (runs() if before[-1] == "--init" else [])
    return sorted(kinds)


def runs() -> list[str]:
    """Folders of runs below runs/, also those of the quickstart."""
    return [str(file.parent) for pattern in ("*/recipe.json", "*/*/recipe.json") for file in sorted(Path("runs").glob(pattern))]
