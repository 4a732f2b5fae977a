"""The form that most split plans have: one sequence of tokens enters the first block and leaves behind the last."""

from collections.abc import Mapping
from typing import Any

from ...parallel.sharding.split_plan import Along, Spec, SplitPlan


def sequence(
    blocks: str,
    *,
    stream: str,
    leaves: str,
    enters: str = "hidden_states",
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
    taken: dict[str, Mapping[str, Spec]] = {f"{blocks}.0": {enters: along}}
    if each is not None:
        taken[f"{blocks}.*"] = each
    given: dict[str, Any] = {"order": (stream,), **others}
    return SplitPlan(blocks=(blocks,), inputs={**taken, **(inputs or {})}, outputs={leaves: along}, **given)
