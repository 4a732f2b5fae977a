"""Values that wait: tensors that other ranks are computing, and what a pipeline makes of them before it looks.

A branch of guidance that another group of ranks computes is a `Later` here: it has a shape, a dtype and a device, and
no values yet. Operations on it wait too, in the order in which they were asked for; each keeps a copy of what else it
works on, so that nothing which is changed meanwhile can reach it. Whatever really looks at a value, or changes one,
first has all of them finished, by one collective call. So nothing is ever approximate: a look only costs time.

    cond   = transformer(...)          this group's branch: a plain tensor
    uncond = transformer(...)          the other group's: a Later of its outline
    guided = uncond + s * (...)        Later too: (operation, copies of plain operands) are noted
    scheduler.step(guided, ...)        looks: finish() = fetch, on all ranks; then the notes, first to last
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

DEADLINE_S = 600.0  # for another thread than the pipeline's own, which alone may fetch: it waits for the step's end
LOOKS = ("__array__", "__cuda_array_interface__", "__deepcopy__", "__dlpack__", "__reduce_ex__", "data", "data_ptr")
LOOKS += ("numpy", "storage", "tolist", "untyped_storage")
"""Functions of a tensor that read its memory without asking torch's dispatcher."""
UNSAFE = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape, torch.Tag.nondeterministic_seeded)


@dataclass(frozen=True)
class Outline:
    """All of a tensor but its values."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, tensor: Tensor, device: torch.device | None = None) -> Outline:
        return cls(tuple(tensor.shape), tensor.stride(), tensor.dtype, device or tensor.device)

    def laid_out(self, flat: Tensor) -> Tensor:
        """The elements in their order as the tensor that this tells of, as a CPU's kernels round by strides."""
        values = flat.view(self.dtype).view(self.shape)
        if values.stride() == self.stride or 0 in self.stride:  # one that is expanded cannot be written to
            return values
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=values.device).copy_(values)

    def zeros(self) -> Tensor:
        """A tensor of this outline."""
        if 0 in self.stride:  # what is expanded cannot be written to
            return torch.zeros(self.shape, dtype=self.dtype, device=self.device)
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=self.device).zero_()

    @property
    def num_bytes(self) -> int:
        return self.dtype.itemsize * torch.Size(self.shape).numel()


class WaitingValues:
    """The values of one step that wait, in order. `fetch` is collective, and brings what other ranks computed."""

    def __init__(self, fetch: Callable[[], None]) -> None:
        self._fetch = fetch
        self._thread = threading.get_ident()
        self._values: list[weakref.ref[Later]] = []
        self._is_done = threading.Event()
        self._error: BaseException | None = None

    @property
    def is_done(self) -> bool:
        return self._is_done.is_set()

    def later(self, outline: Outline, make: Callable[[], Tensor], operands: Sequence[Any] = ()) -> Later:
        """A value that `make` gives once everything is here, of these operands if it is computed."""
        found = Later(outline, self, make)
        self._values.append(weakref.ref(found))
        return found

    def finished(self, value: Later) -> Tensor:
        """Collective, where it was not done before: the plain tensor."""
        self.finish()
        return value.compute()

    def may_wait(self, func: Any) -> bool:
        """Whether this operation may wait, of those that only make new values."""
        return True

    def before_write(self, value: Later) -> None:
        """What follows from a value that is about to be written to is computed, where it would follow from what is
        written."""

    def finish(self) -> None:
        """Collective, where it was not done before: every value that somebody still holds is computed."""
        # Ranks have to enter the fetch in the same order. The pipeline's own thread gets there by the pipeline's code,
        # alike on all; another one, such as a preview's, may look on one rank alone, so it waits for that thread.
        if threading.get_ident() != self._thread:
            if not self._is_done.wait(DEADLINE_S):
                raise RuntimeError(
                    f"a value of the transformer did not come in {DEADLINE_S:g} s; read it after the step"
                )
        elif not self.is_done:
            try:
                self._fetch()
                # In the order in which they were made: each finds its operands computed, however long the chain is.
                for value in [each() for each in self._values]:
                    if value is not None:
                        value.compute()
            except BaseException as error:
                self._error = error
                raise
            finally:
                self._is_done.set()  # after a failure, too: who waits gets the error, and not the deadline
        if self._error is not None:
            raise RuntimeError("a value of the transformer was lost with another rank") from self._error


class Later(Tensor):
    """A tensor whose values another rank may be computing."""

    waiting: WaitingValues
    value: Tensor | None
    sources: frozenset[Any]  # what it follows from, where that is told apart

    @staticmethod
    def __new__(cls: type[Later], outline: Outline, waiting: WaitingValues, make: Callable[[], Tensor]) -> Later:
        found = Tensor._make_wrapper_subclass(
            cls, outline.shape, strides=outline.stride, dtype=outline.dtype, device=outline.device
        )
        found.waiting, found.value, found._make, found.sources = waiting, None, make, frozenset()
        return found

    def __init__(self, outline: Outline, waiting: WaitingValues, make: Callable[[], Tensor]) -> None:
        pass

    _make: Callable[[], Tensor] | None

    def compute(self) -> Tensor:
        """Its values, once what it follows from is here."""
        if self.value is None:
            assert self._make is not None, "it has no value yet"
            self.value, self._make = self._make(), None
        return self.value

    def finished(self) -> Tensor:
        """Collective, where it waits: the plain tensor."""
        return self.waiting.finished(self) if self.value is None else self.value

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        """Never collective: one rank alone may print."""
        if self.value is None:
            return f"Later(shape={tuple(self.shape)}, dtype={self.dtype}: another rank computes it)"
        return repr(self.value)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        # These never reach `__torch_dispatch__`: they go straight to the memory, and a Later has none. A packed weight
        # has its own way with a function, which it would not be asked for.
        name = getattr(func, "__name__", "")
        if name == "__get__":  # of a property
            name = getattr(getattr(func, "__self__", None), "__name__", "")
        if name in LOOKS or len(types) > 1:
            args, kwargs = finished((tuple(args), kwargs or {}))
            return func(*args, **kwargs)
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # pyrefly: ignore[bad-override]
        kwargs = kwargs or {}
        leaves = pytree.tree_leaves((args, kwargs))
        waiting = next((each.waiting for each in leaves if _waits(each)), None)
        if waiting is not None and _may_wait(func, waiting):
            outlines = _outlines(func, args, kwargs)
            if outlines is not None:
                return _follow(waiting, func, args, kwargs, outlines)
        if func._schema.is_mutable:
            for each in leaves:
                if isinstance(each, Later):
                    each.waiting.before_write(each)
        args, kwargs = finished((tuple(args), kwargs))
        return func(*args, **kwargs)


def finished(tree: Any) -> Any:
    """Collective, where something in it waits: the same with plain tensors."""
    if not any(isinstance(each, Later) for each in pytree.tree_leaves(tree)):
        return tree
    return pytree.tree_map(lambda each: each.finished() if isinstance(each, Later) else each, tree)


def is_waited_for(tree: Any) -> bool:
    """Whether anything in it waits."""
    return any(_waits(each) for each in pytree.tree_leaves(tree))


def _waits(value: Any) -> bool:
    return isinstance(value, Later) and value.value is None


def _may_wait(func: Any, waiting: WaitingValues) -> bool:
    """Whether an operation only makes new values, by the values of its operands alone."""
    # What draws random numbers is done now: later it would draw them after others, and the seed made another picture.
    is_own = threading.get_ident() == waiting._thread
    return (
        is_own
        and not waiting.is_done
        and waiting.may_wait(func)
        and not func._schema.is_mutable
        and not any(tag in func.tags for tag in UNSAFE)
    )


def _outlines(func: Any, args: Any, kwargs: Any) -> Any:
    """What an operation gives, in outline; None where that cannot be known before."""
    tensors = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
    device = kwargs.get("device") or next((each.device for each in tensors if each.ndim), tensors[0].device)

    def to_meta(each: Any) -> Any:
        if not isinstance(each, Tensor):
            return each
        return torch.empty_strided(each.shape, each.stride(), dtype=each.dtype, device="meta")

    given = {name: value for name, value in kwargs.items() if name not in ("device", "pin_memory")}
    try:
        # On the meta device torch computes shapes and strides by the operation's own rules, and no values.
        made = func(*pytree.tree_map(to_meta, args), **pytree.tree_map(to_meta, given))
    except Exception:  # it looks at values, or has no such form: then it is done now
        return None
    if not all(isinstance(each, Tensor) for each in pytree.tree_leaves(made)):
        return None
    return pytree.tree_map(lambda each: Outline.of(each, torch.device(device)), made)


def _follow(waiting: WaitingValues, func: Any, args: Any, kwargs: Any, outlines: Any) -> Any:
    """The operation's results, which wait too."""
    # Copied at once: schedulers and pipelines write into what they hold (`latents += ...`) before the step is finished.
    kept = pytree.tree_map(_own_operand, (tuple(args), kwargs))
    made: list[Any] = []

    def result(number: int) -> Tensor:
        if not made:  # an operation of several results, such as chunk, is done once for all of them
            values, named = pytree.tree_map(lambda each: each.compute() if isinstance(each, Later) else each, kept)
            made.extend(pytree.tree_leaves(func(*values, **named)))
        return made[number]

    leaves, spec = pytree.tree_flatten(outlines, is_leaf=lambda each: isinstance(each, Outline))
    operands = pytree.tree_leaves(kept)
    later = [waiting.later(outline, lambda i=i: result(i), operands) for i, outline in enumerate(leaves)]
    return pytree.tree_unflatten(later, spec)


def _own_operand(operand: Any) -> Any:
    """An operand that nobody else can change."""
    if isinstance(operand, Later):
        return operand if operand.value is None else operand.value.clone()
    return operand.clone() if isinstance(operand, Tensor) else operand
