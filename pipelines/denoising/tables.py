"""Tables: what a denoise makes of sizes alone, such as positions, their angles and noise levels; the last are kept.

A block or module that looks at no value of a tensor makes the same of the same sizes again. Where a transformer is
prepared for one denoise after the other, and one at a time uses it, what it made last is given again: the same tensors,
if nobody has written into them. One of each kind is kept, which its forward holds anyway.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

# Blocks of diffusers that look at what they declare as inputs, of tensors at no more than shape, format and device,
# and beside them at configs of components.
BLOCKS = ("FluxSetTimestepsStep", "FluxImg2ImgSetTimestepsStep", "FluxRoPEInputsStep")
# Those whose timesteps, once set, are numbers and tensors that no step writes into.
SCHEDULERS = ("FlowMatchEulerDiscreteScheduler",)
# By a transformer's class: its module that makes angles, and the arguments of the forward of which it makes them.
ANGLES = {"FluxTransformer2DModel": ("pos_embed", ("txt_ids", "img_ids"))}
PLAIN = (type(None), bool, int, float, str)

_prepared: weakref.WeakKeyDictionary[nn.Module, Tables] = weakref.WeakKeyDictionary()


def keep_tables(transformer: nn.Module, *, in_forwards: bool = True) -> Callable[[], None]:
    """Until what this gives is called, each denoise with the transformer finds the tables of the one before; without
    `in_forwards` none of those that its forwards make."""
    tables = _prepared[transformer] = Tables()
    let_go = _keep_angles(transformer, tables) if in_forwards else lambda: None

    def end() -> None:
        let_go()
        if _prepared.get(transformer) is tables:
            del _prepared[transformer]

    return end


class Tables:
    """Of one transformer: what was made last, by its maker."""

    def __init__(self) -> None:
        # What it was made of, what was made, and the tensors that this holds, with how often each was written into.
        self._last: dict[str, tuple[object, Any, Sequence[tuple[Tensor, int]]]] = {}

    def get(self, maker: str, made_of: object) -> Any | None:
        """What this maker made last, if it was made of the same and is as it was."""
        last_of, made, tensors = self._last.get(maker, (None, None, ()))
        is_same = last_of == made_of and all(tensor._version == num_written for tensor, num_written in tensors)
        return made if is_same else None

    def put(self, maker: str, made_of: object, made: Any, tensors: Sequence[Tensor]) -> None:
        if not any(each.is_inference() for each in tensors):  # which do not count who writes
            self._last[maker] = made_of, made, [(each, each._version) for each in tensors]


class OfSizes:
    """To come before the class of one of `BLOCKS`: what it sets is kept."""

    inputs: Sequence[Any]
    intermediate_outputs: Sequence[Any]
    expected_components: Sequence[Any]

    def __call__(self, components: Any, state: Any) -> tuple[Any, Any]:
        run: Callable[..., tuple[Any, Any]] = super().__call__  # pyrefly: ignore[missing-attribute]
        # Of the transformer, which is lent to one denoise at a time: nobody else writes into its tables meanwhile.
        tables, known = _prepared.get(components.transformer), state.values
        is_set = any(each.name == "scheduler" for each in self.expected_components)
        scheduler = components.scheduler if is_set else None
        if tables is None or (is_set and type(scheduler).__name__ not in SCHEDULERS):
            return run(components, state)
        sizes = (_size(known.get(each.name)) for each in self.inputs)
        maker, made_of = type(self).__name__, (scheduler and scheduler.config, *sizes)
        # An input that is neither a plain value nor a tensor is never equal to itself: then the block runs.
        if (kept := tables.get(maker, made_of)) is not None:
            values, of_scheduler = kept
            for name, value, group in values:
                state.set(name, value, group)
            if is_set:
                vars(scheduler).update(of_scheduler)
            return components, state
        # What the block sets is seen by comparing state and scheduler before and after: diffusers declares only a part.
        before, unset = dict(known), dict(vars(scheduler)) if is_set else {}
        found = run(components, state)
        groups = {each.name: each.kwargs_type for each in (*self.inputs, *self.intermediate_outputs)}
        # Of each value of the state the group of inputs that it is of.
        values = [(name, value, groups.get(name)) for name, value in _changed(known, before).items()]
        of_scheduler = _changed(vars(scheduler), unset) if is_set else {}
        made = (*(value for _, value, _ in values), *of_scheduler.values())
        tables.put(maker, made_of, (values, of_scheduler), [each for each in made if isinstance(each, Tensor)])
        return found


def _size(value: Any) -> object:
    """What a block sees of an input; of one that may hold more than a size nothing that is equal to any other."""
    if isinstance(value, PLAIN):
        return value
    return (value.shape, value.dtype, value.device) if isinstance(value, Tensor) else object()


def _changed(now: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in now.items() if name not in before or before[name] is not value}


def _keep_angles(transformer: nn.Module, tables: Tables) -> Callable[[], None]:
    path, names = ANGLES.get(type(transformer).__name__.removeprefix("FSDP"), ("", ()))
    maker: Any = getattr(transformer, path, None)
    if maker is None or "forward" in vars(maker):
        return lambda: None
    # Angles are made in each step, of tensors that are the same in all: by these they are known. The module that makes
    # them sees a concatenation, made anew in each step; the transformer's own arguments are told by the hook before it.
    given: list[Any] = []

    def before(_: nn.Module, args: Any, kwargs: Mapping[str, Any]) -> None:
        given[:] = (kwargs.get(name) for name in names)

    def forward(positions: Tensor) -> Any:
        made_of = [each for each in given if isinstance(each, Tensor)]
        given.clear()  # whoever asks outside of the transformer's forward means other positions
        if len(made_of) < len(names):
            return type(maker).forward(maker, positions)
        marks = tuple(map(id, made_of))  # of tensors that are held on to
        angles = tables.get(path, marks)
        if angles is None:
            angles = type(maker).forward(maker, positions)
            tables.put(path, marks, angles, [*made_of, *angles])
        return tuple(each.detach() for each in angles)  # a compiler writes on tensors what it learns of them

    maker.forward = forward
    hook = transformer.register_forward_pre_hook(before, with_kwargs=True)

    def remove() -> None:
        hook.remove()
        del maker.forward

    return remove
