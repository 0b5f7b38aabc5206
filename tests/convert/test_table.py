"""Tables of names: both directions, and everything that does not fit is an error."""

from __future__ import annotations

import pytest
import torch

from weft.convert.table import Ignore, Join, Rename, Same, Table
from weft.core.errors import CheckpointError

TABLE = Table(
    [
        Rename("m.embed", "embed"),
        Rename("m.h.{i}.w", "blocks.{i}.weight", transpose=True),
        Join(("m.h.{i}.q", "m.h.{i}.k"), "blocks.{i}.qk", sizes=(2, 1)),
        Ignore("m.h.{i}.mask"),
        Same("head", "m.embed"),
    ],
    prefix="m.",
)


def foreign() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    made = {"m.embed": torch.randn(4, 3), "m.h.0.mask": torch.ones(2)}
    for i in (0, 11):
        made |= {f"m.h.{i}.w": torch.randn(2, 3), f"m.h.{i}.q": torch.randn(2, 3), f"m.h.{i}.k": torch.randn(1, 3)}
    return made


def test_there_and_back() -> None:
    given = foreign()
    own = TABLE.to_own({**given, "head": given["m.embed"]})
    assert set(own) == {"embed", "blocks.0.weight", "blocks.0.qk", "blocks.11.weight", "blocks.11.qk"}
    assert torch.equal(own["blocks.11.weight"], given["m.h.11.w"].T)
    assert torch.equal(own["blocks.0.qk"], torch.cat([given["m.h.0.q"], given["m.h.0.k"]]))
    back = TABLE.to_foreign(own)
    assert set(back) == set(given) - {"m.h.0.mask"}
    assert all(torch.equal(back[name], given[name]) for name in back)


def test_names_of_the_inner_model_alone() -> None:
    inner = {name.removeprefix("m."): tensor for name, tensor in foreign().items()}
    assert set(TABLE.to_own(inner)) == set(TABLE.to_own(foreign()))


def test_what_does_not_fit_is_an_error() -> None:
    given = foreign()
    with pytest.raises(CheckpointError, match=r"'m\.other', which no row"):
        TABLE.to_own({**given, "m.other": torch.ones(1)})
    with pytest.raises(CheckpointError, match=r"'m\.h\.x\.w', which no row"):
        TABLE.to_own({**given, "m.h.x.w": torch.ones(1)})
    with pytest.raises(CheckpointError, match=r"'m\.h\.11\.q' but not 'm\.h\.11\.k'"):
        TABLE.to_own({name: tensor for name, tensor in given.items() if name != "m.h.11.k"})
    with pytest.raises(CheckpointError, match=r"'m\.h\.0\.q' holds int8, not fractions"):
        TABLE.to_own({**given, "m.h.0.q": given["m.h.0.q"].to(torch.int8)})
    with pytest.raises(CheckpointError, match="should be the same tensor"):
        TABLE.to_own({**given, "head": given["m.embed"] + 1})
    with pytest.raises(CheckpointError, match="'extra', which no row"):
        TABLE.to_foreign({"extra": torch.ones(1)})
    twice = Table([Rename("a.{i}", "b.{i}"), Rename("a.1", "c")])
    with pytest.raises(CheckpointError, match="more than one row"):
        twice.to_own({"a.1": torch.ones(1)})


@pytest.mark.parametrize("wrong", [torch.zeros(2, 4), torch.zeros(()), torch.zeros(2, 3).to(torch.float8_e4m3fn), torch.zeros(2, 3).bool()])
def test_parts_of_one_tensor_that_do_not_go_together(wrong: torch.Tensor) -> None:
    parts = {f"m.{name}": torch.zeros(2, 3) for name in "qkv"}
    table = Table([Join(("m.q", "m.k", "m.v"), "qkv")])
    assert table.to_own(parts)["qkv"].shape == (6, 3)
    for name in parts:
        with pytest.raises(CheckpointError, match=r"do not go together|not fractions") as caught:
            table.to_own({**parts, name: wrong})
        assert "\n" not in str(caught.value)
