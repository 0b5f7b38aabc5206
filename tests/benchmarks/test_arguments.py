"""A mistyped name of a benchmark or of what it measures is answered in one sentence with the nearest one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from weft.__main__ import run
from weft.benchmarks.arguments import Arguments, at_least


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["transformrs"], "no bench is called 'transformrs'; did you mean 'transformers'?"),
        (["transformers", "sst2-onw"], "argument NAME: nothing is called 'sst2-onw'; did you mean 'sst2-own'?"),
        (["images", "vae-mnits"], "argument NAME: nothing is called 'vae-mnits'; did you mean 'vae-mnist'?"),
        (["birthplace", "bset"], "argument NAME: nothing is called 'bset'; did you mean 'best'?"),
        (["images-gpu", "--steps", "-3"], "argument --steps: must be 1 or more, not -3"),
        (["images-gpu", "--steps", "many"], "argument --steps: invalid int value: 'many'"),
        (["engine-cpu", "--seconds", "nan"], "argument --seconds: must be 0 or more, not nan"),
        (["images", "vae-mnist", "--seeds", "one"], "argument --seeds: invalid int value: 'one'"),
    ],
)
def test_one_sentence(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = run(["bench", *words])
    except SystemExit as ended:
        code = int(ended.code or 0)
    assert code == 2
    assert capsys.readouterr().err == f"weft: {said}\n"


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
@pytest.mark.parametrize("words", [["training"], ["plan", "--models", "tiny", "gpt2"]])
def test_sizes_for_a_gpu_are_refused_without_one(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(["bench", *words])
    assert ended.value.code == 2
    assert "gpt2 is for a GPU, and this machine has none that can be used" in capsys.readouterr().err


def test_a_record_says_how_to_ask_for_it_again() -> None:
    parser = Arguments("", "toys")
    parser.add_names("toys", ["ball", "doll"], nargs="+")
    parser.add_argument("--steps", type=at_least(1), default=3)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--change", nargs="*", default=[])
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--no-search", dest="search", action="store_false")
    parser.add_argument("--record", default="")
    told = "ball doll --folder twins --change a.b=c a.path=my.txt --real --no-search"
    given = "ball doll --folder /home/me/twins --change a.b=c a.path=/home/me/my.txt --real --no-search --record results/x.json"
    assert parser.command(parser.parse_args(given.split())) == f"weft bench toys {told}"
    assert parser.command(parser.parse_args(["doll", "--steps", "3"])) == "weft bench toys doll"
