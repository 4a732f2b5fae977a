"""The forms that most split plans have: one sequence of tokens that enters the first block and leaves behind the last,
or a picture and a text that do so and attend jointly."""

from collections.abc import Mapping
from typing import Any

from ...parallel.sharding.split_plan import Along, Spec, SplitPlan, image, text

BOTH_ENTER = {"hidden_states": image(1), "encoder_hidden_states": text(1)}


def sequence(
    blocks: str,
    *,
    stream: str = "image",
    enters: str = "hidden_states",
    leaves: str = "proj_out",
    each: Mapping[str, Spec] | None = None,
    dim: int = 1,
    inputs: Mapping[str, Mapping[str, Spec]] | None = None,
    **others: Any,
) -> SplitPlan:
    """A split plan of one list of `blocks`: its first is given the `stream` as `enters`, along `dim`, which is gathered
    again where the module `leaves` gives it.

    `each` block has these arguments along streams, other modules have `inputs`; `others` are fields of `SplitPlan`.
    """
    along = Along(dim, (stream,))
    given: dict[str, Any] = {"order": (stream,), "either": (), "outputs": {leaves: along}, **others}
    return joint(blocks, enters={enters: along}, each=each, inputs=inputs, **given)


def joint(
    *blocks: str,
    order: tuple[str, ...] = ("text", "image"),
    enters: Mapping[str, Spec] = BOTH_ENTER,
    each: Mapping[str, Spec] | None = None,
    inputs: Mapping[str, Mapping[str, Spec]] | None = None,
    **others: Any,
) -> SplitPlan:
    """A split plan of lists of `blocks`: the first of all is given the picture and the text, which may be sharded too,
    as `enters`, and the picture is gathered where `proj_out` gives it.

    `each` block has these arguments along streams, other modules have `inputs`; `others` are fields of `SplitPlan`.
    """
    taken = {f"{blocks[0]}.0": enters, **{f"{path}.*": each for path in blocks if each}, **(inputs or {})}
    given: dict[str, Any] = {"either": ("text",), "outputs": {"proj_out": image(1)}, **others}
    return SplitPlan(order=order, blocks=blocks, inputs=taken, **given)
