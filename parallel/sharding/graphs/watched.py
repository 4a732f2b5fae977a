"""A watched module: whether all is as it was that a graph of it depends on, besides the tensors it is given.

A graph, compiled or captured, holds what Python decided as it was made: the scale of a LoRA and whether it is on,
processors, hooks, `training`, fused projections, formats of weights, a forward that was replaced. Whoever runs a graph
without asking for these gives a wrong answer, and says nothing.

Everything is read once, value by value. From then on one pass over what was read says whether all of it is the same
objects still, which is a few thousand looks into dicts for a large transformer: once a forward, never once a block and
call. What hangs on modules, such as processors and hooks, is described by its class, code and plain attributes, so that
blocks of a kind have equal states. With `by_address` a processor is known by itself too, and weights by where they are:
a captured graph holds addresses.
"""

import copy
import enum
import functools
import threading
from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter, is_not, ne
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as everywhere
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ...group import Group

# What says all by its value.
PLAIN = (type(None), bool, int, float, complex, str, bytes, enum.Enum, type, torch.dtype, torch.device, torch.Size)
# What every module has, what is put on it to compile it or to replay it, and what peft was given for a layer, by whose
# path no two are equal.
BUILT_IN = frozenset(vars(nn.Module())) - {"training"} | {"_compiled_call_impl", "compile", "kwargs"}
FORM = attrgetter("dtype", "device", "requires_grad")
NOT_FOLLOWED = (Tensor, nn.Module, ModuleType, TorchFunctionMode, Group, threading.local)
# So far it is followed what a hook or a processor refers to: a hook of diffusers is two objects behind the forward
# that it replaces.
DEEPEST = 2


class State:
    """All that a graph of a module depended on at one time: equal if it would do for both."""

    def __init__(self, told: Hashable, kept: Sequence[object]) -> None:
        self._told, self._hash = told, hash(told)
        self._kept = kept  # nothing may go that is known by its id

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, State) and self._hash == other._hash and self._told == other._told)


class Watched:
    """A module whose state is asked for before each forward."""

    def __init__(self, module: nn.Module, *, by_address: bool = False) -> None:
        self._module, self._by_address = module, by_address
        self._seen: _ModuleState | None = None

    def state(self) -> State:
        """As it is now; the same object for as long as nothing changes.

        Of a module that is watched for a compiled graph, what runs around its forward does not count: its own hooks,
        and a forward that was put in the place of its own.
        """
        with torch._C.DisableTorchFunction():  # modes would see each look at a tensor
            # The same object where what was read anew is equal, so that whoever holds a state compares by identity.
            if self._seen is None or not self._seen.is_as_it_was():
                before, self._seen = self._seen, _ModuleState(self._module, by_address=self._by_address)
                if before is not None and before.state == self._seen.state:
                    self._seen.state = before.state
            return self._seen.state


class _ModuleState:
    """What was read of a module, where each value was, and the state that it makes."""

    def __init__(self, module: nn.Module, *, by_address: bool) -> None:
        self._by_address = by_address
        self._places: tuple[list[dict[str, Any]], list[str], list[Any]] = ([], [], [])
        self._empty: list[Any] = []  # dicts, lists and sets
        self._sized: tuple[list[dict[Any, Any]], list[int]] = ([], [])
        self._hooks: tuple[list[dict[int, Any]], list[tuple[int, ...]]] = ([], [])
        # Lists, dicts and sets of plain values, and as they were.
        self._changing: tuple[list[Any], list[Any]] = ([], [])
        self._cells: tuple[list[Any], list[Any]] = ([], [])
        self._tensors: list[Tensor] = []
        self._known: dict[int, object] = {}
        told = [self._told_of(each, is_outermost=each is module) for each in module.modules()]
        self._forms = [*map(FORM, self._tensors)]
        self._addresses = [*map(_address, self._tensors)] if by_address else []
        self.state = State((*told, *self._forms, *self._addresses), list(self._known.values()))

    def is_as_it_was(self) -> bool:
        # By `map` over built-in functions: a loop in Python over some thousand values would take several times as long.
        # By identity wherever something could be put in another's place; by value only what can be changed in place.
        dicts, names, values = self._places
        cells, contents = self._cells
        try:
            return not (
                any(self._empty)
                or any(map(is_not, map(dict.get, dicts, names), values))
                or any(map(ne, map(len, self._sized[0]), self._sized[1]))
                or any(map(ne, map(tuple, self._hooks[0]), self._hooks[1]))
                or any(map(ne, *self._changing))
                or any(map(is_not, map(_CONTENT, cells), contents))
                or any(map(ne, map(FORM, self._tensors), self._forms))
                or (self._by_address and any(map(ne, map(_address, self._tensors), self._addresses)))
            )
        except (RuntimeError, ValueError):  # tensors came where numbers were, or a cell was emptied
            return False

    def _told_of(self, module: nn.Module, *, is_outermost: bool) -> Hashable:
        """What one module says, without those in it."""
        is_around = is_outermost and not self._by_address
        own = vars(module)
        told: list[Hashable] = [type(module)]
        self._size(own)
        for name, value in own.items():
            if name not in BUILT_IN and not (is_around and name == "forward"):
                if not _is_data(value):  # as tables are that a forward makes, and puts in its module
                    self._place(own, name, value)
                told.append((name, self._hung(value)))
        of_all = (everywhere._global_forward_pre_hooks, everywhere._global_forward_hooks) if is_outermost else ()
        for hooks in (*of_all, *(() if is_around else (module._forward_pre_hooks, module._forward_hooks))):
            if hooks:
                self._hooks[0].append(hooks)
                self._hooks[1].append(tuple(hooks))
            else:
                self._empty.append(hooks)
            told.append(tuple(map(self._value, hooks.values())))
        for held in (module._parameters, module._buffers, module._modules):
            self._size(held)  # what comes in addition is at no place that was read
            for name, value in held.items():
                self._place(held, name, value)
                told.append((name, self._form(value) if isinstance(value, Tensor) else type(value)))
        return tuple(told)

    def _place(self, held: dict[str, Any], name: str, value: Any) -> None:
        dicts, names, values = self._places
        dicts.append(held)
        names.append(name)
        values.append(value)

    def _size(self, held: dict[Any, Any]) -> None:
        if not held:
            self._empty.append(held)
            return
        self._sized[0].append(held)
        self._sized[1].append(len(held))

    def _value(self, value: Any, depth: int = 0) -> Hashable:
        """Plain ones as they are; of what hangs on a module, such as a processor or a hook, its class, its code, and
        what that refers to."""
        if _is_plain(value):
            if not value and isinstance(value, (list, dict, set)):
                self._empty.append(value)
            elif isinstance(value, (list, dict, set)):
                self._changing[0].append(value)
                self._changing[1].append(copy.deepcopy(value))
            return _frozen(value)
        if isinstance(value, CodeType):
            return value
        # What a session, a group or another watch counts and keeps changes in each forward, and no graph takes it from
        # there; what is a thread's own neither.
        if depth > DEEPEST or isinstance(value, (*NOT_FOLLOWED, Watched)):
            return type(value)
        return type(value), *(self._value(each, depth + 1) for each in self._referred(value))

    def _hung(self, value: Any) -> Hashable:
        """An attribute of a module: by address an object, such as a processor, is known by itself as well."""
        told = self._value(value)
        if not self._by_address or _is_plain(value) or isinstance(value, (Tensor, list, tuple, set, dict)):
            return told
        self._known[id(value)] = value
        return told, id(value)

    def _referred(self, value: Any) -> Sequence[Any]:
        """What something that is not plain refers to."""
        if isinstance(value, functools.partial):
            return value.func, value.args, value.keywords
        if isinstance(value, MethodType):
            return value.__func__, value.__self__
        if isinstance(value, FunctionType):
            cells = value.__closure__ or ()
            self._cells[0].extend(cells)
            self._cells[1].extend(map(_content, cells))
            return value.__code__, value.__defaults__, value.__kwdefaults__, *map(_content, cells)
        if isinstance(value, (list, tuple, set, frozenset, dict)):
            return [*value, *value.values()] if isinstance(value, dict) else list(value)
        own = getattr(value, "__dict__", None)
        if not isinstance(own, dict) or isinstance(value, BuiltinFunctionType):
            return ()
        self._size(own)
        for name, each in own.items():
            if _is_plain(each):
                self._place(own, name, each)
        return [each for item in own.items() for each in item]

    def _form(self, value: Tensor) -> Hashable:
        """The class of a tensor and of those that it is made of, and how; their formats are read from `_tensors`."""
        told: tuple[Hashable, ...] = (type(value), value.shape)
        self._tensors.append(value)
        if is_traceable_wrapper_subclass(value):  # as torchao's weights in small are
            names, how = value.__tensor_flatten__()
            inner = (self._form(getattr(value, name)) for name in names)
            return (*told, *names, self._value(how), *inner)
        if type(value) not in (Tensor, nn.Parameter):  # as weights of GGUF are
            return (*told, *(self._value(each) for item in vars(value).items() for each in item))
        return told


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing was put there yet
        return None


_CONTENT: Callable[[Any], Any] = attrgetter("cell_contents")


def _address(x: Tensor) -> int:
    return 0 if is_traceable_wrapper_subclass(x) else x.data_ptr()  # its parts have theirs


def _is_data(value: Any) -> bool:
    return isinstance(value, Tensor) or (isinstance(value, (list, tuple)) and bool(value) and all(map(_is_data, value)))


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):  # another mapping may read its values from a disk
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(map(_is_plain, value))
    return isinstance(value, PLAIN)


def _frozen(value: Any) -> Hashable:
    """A plain value, told from an equal one of another type."""
    if isinstance(value, dict):
        return (type(value), *((name, _frozen(each)) for name, each in value.items()))
    if isinstance(value, (list, tuple)):
        return (type(value), *map(_frozen, value))
    if isinstance(value, (set, frozenset)):
        return type(value), frozenset(value)
    return type(value), value
