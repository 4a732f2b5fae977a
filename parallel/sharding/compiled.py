"""Compiling the blocks of a transformer: their forwards, each in a graph that all blocks of its kind share.

The hooks around a block stay outside. They cut its arguments by lengths that change from picture to picture, and FSDP's
gather its weights; neither belongs in a graph. A kind of block gets two graphs: one for the lengths that it meets
first, and a twin for all others. Which of them a forward takes is decided by the lengths of the whole streams, so that
all ranks take the same one and round alike.

    a block is called     its state (`graphs/watched.py`), and the shapes that it is given
      never met           it runs as ever, and the session notes its attention calls
      met                 the graph of its kind, state and calls, made if need be; other blocks alike take it too
      torch fails at it   the graphs that torch makes of its pieces, and what it cannot compile as it is
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from ..streaming.forwards import in_place_of
from . import operator
from .cutting import plain
from .fingerprint import tensors_in
from .graphs.kept import MOST_GRAPHS, Graphs, KeptGraphs, kept_of
from .graphs.pieces import in_pieces, is_of_compiling
from .graphs.traced import AttentionCall, Wire, copied, traced
from .graphs.turns import in_turn
from .graphs.watched import Watched

if TYPE_CHECKING:
    from .session import Session

CAPTURING = ("reduce-overhead", "max-autotune")  # modes that put whole graphs into CUDA graphs


def check_uncompiled(module: nn.Module, blocks: Sequence[nn.Module], title: str) -> None:
    if any(getattr(each, "_compiled_call_impl", None) is not None for each in (module, *blocks)):
        raise ValueError(
            f"this {title} was compiled before it was sharded, and its graphs would take in the hooks of sharding; "
            "shard it first, then call compile() of the handle or its own compile_repeated_blocks()"
        )


def check_options(options: Mapping[str, Any], title: str) -> None:
    """ValueError for what would capture a sharded block's exchanges in a CUDA graph, and play them back to nobody."""
    given = options.get("options") or {}
    captures = (
        (f"mode {options.get('mode')!r}", options.get("mode") in CAPTURING),
        ("option 'triton.cudagraphs'", bool(given.get("triton.cudagraphs"))),
        ("backend 'cudagraphs'", options.get("backend") == "cudagraphs"),
    )
    if found := [what for what, is_asked in captures if is_asked]:
        raise ValueError(
            f"this {title} is sharded and cannot be compiled with {found[0]}, which captures CUDA graphs: they would "
            "leave out what ranks send each other; use the mode 'default' or 'max-autotune-no-cudagraphs'"
        )


class Forwards:
    """The forwards of a transformer's blocks, compiled when somebody asks, as they were after `restore`.

    `session` is of those whose tokens are spread.
    """

    def __init__(
        self, module: nn.Module, blocks: Sequence[nn.Module], title: str, *, session: Session | None = None
    ) -> None:
        self.title, self.blocks, self.session = title, tuple(blocks), session
        self._module = module
        self.compiled: set[nn.Module] = set()
        self.under_way = _ForwardUnderWay()
        self._undo = contextlib.ExitStack()

    def compile(
        self, blocks: Sequence[nn.Module] | None = None, *, sends_in_graphs: bool = True, **options: Any
    ) -> None:
        """`torch.compile` on the forward of these blocks, or of all; in one graph each unless told otherwise.

        With `sends_in_graphs` off what ranks send each other stays in an operator that the backend does not look into.
        """
        options = {"fullgraph": True, **options}
        if "recompile_limit" in inspect.signature(torch.compile).parameters:
            options.setdefault("recompile_limit", MOST_GRAPHS)
        if options.get("backend") in (None, "inductor") and not options.keys() & {"mode", "options"}:
            options["backend"] = in_turn  # a function of ours, which takes neither of the two
        if not self.compiled:
            self._undo.enter_context(self._module.register_forward_pre_hook(self.under_way.begin))
            self._undo.enter_context(self._module.register_forward_hook(self.under_way.end, always_call=True))
        for block in self.blocks if blocks is None else blocks:
            if block in self.compiled:
                raise ValueError(f"blocks of this {self.title} are compiled already; compile them once")
            self.compiled.add(block)
            if (before := vars(block).get("forward")) is not None:  # of a cache or an offloader
                self._undo.enter_context(in_place_of(block, _by_torch(block, before, self.title, options)))
                continue
            self._undo.enter_context(in_place_of(block, _CompiledBlock(block, self, options, sends_in_graphs)))
            if self.session is not None:
                self.session.compiled.add(block)

    def restore(self) -> None:
        """Everything as it was."""
        self._undo.close()
        self.compiled.clear()
        if self.session is not None:
            self.session.compiled.clear()


def divert(module: nn.Module, forwards: Forwards) -> Callable[[], None]:
    """Until what it gives is called, `compile` of a block compiles its forward only, also when diffusers'
    `compile_repeated_blocks` calls it; `compile` of the whole transformer is refused."""

    def refuse(*_: Any, **__: Any) -> None:
        raise ValueError(
            f"this {forwards.title} is sharded and cannot be compiled as a whole, because collectives have no place "
            "in a graph; call compile() of its handle, which compiles its blocks"
        )

    def compile_one(block: nn.Module, **options: Any) -> None:
        check_options(options, forwards.title)
        forwards.compile((block,), **options)

    for block in forwards.blocks:
        vars(block)["compile"] = functools.partial(compile_one, block)
    vars(module)["compile"] = refuse

    def undo() -> None:
        for each in (module, *forwards.blocks):
            vars(each).pop("compile", None)

    return undo


class _ForwardUnderWay(threading.local):
    """The forward of the transformer that runs in a thread: what its blocks were found to need."""

    found: dict[Hashable, Callable[..., Any]] | None = None

    def begin(self, module: nn.Module, args: Any) -> None:
        self.found = {}

    def end(self, module: nn.Module, args: Any, output: Any) -> None:
        self.found = None


class _CompiledBlock:
    """In the place of a block's forward: the graph for its state and what it is given, looked up once a forward for
    all blocks that are alike."""

    def __init__(self, block: nn.Module, forwards: Forwards, options: Mapping[str, Any], sends_in_graphs: bool) -> None:
        self._kind, self._block, self._options, self._session = type(block), block, options, forwards.session
        self._sends_in_graphs, self._title = sends_in_graphs, forwards.title
        self._under_way, self._watched = forwards.under_way, Watched(block)
        self._by_torch: Callable[..., Any] | None = None
        functools.update_wrapper(self, block.forward)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found = self._under_way.found
        # Blocks of a kind have equal states: of fifty the first looks its graph up, the others find what it found.
        like = (self._kind, self._watched.state(), _form(args), _form(kwargs))
        run = None if found is None else found.get(like)
        if run is None:
            run = self._run(like, args, kwargs)
            if found is not None:
                found[like] = run
        return run(self, args, kwargs)

    def _run(self, like: Hashable, args: Any, kwargs: Any) -> Callable[[_CompiledBlock, Any, Any], Any]:
        """What runs blocks that are alike: as ever, and their calls are noted; or in a graph."""
        kept = kept_of(self._kind)
        at_work = operator.at_work()
        if at_work is not self._session and (at_work is None or not at_work.is_throughout):
            at_work = None  # that of another model, which sees what is within its own blocks
        session = None if at_work is None else self._session
        sort = (like, session and session.lengths())
        calls = None if session is None else kept.calls_of(sort)
        if session is not None and calls is None:
            # Which streams a call asks is known where it is made, by hooks inside the block: no graph could find out.
            return functools.partial(_CompiledBlock._learn, session=session, kept=kept, sort=sort)
        if calls is not None and not self._sends_in_graphs:
            calls = tuple(AttentionCall(call.kind, "opaque") if call.streams else call for call in calls)
        wires = (
            [] if session is None or calls is None else session.wires(calls, next(tensors_in((args, kwargs))).device)
        )
        fixed = tuple(wire and wire.fixed for wire in wires)
        with kept.lock:
            graphs = kept.graphs_of(
                (self._watched.state(), calls, fixed, at_work is not None, _options_key(self._options))
            )
        # Of whole streams, which all ranks know: by its own share each might take another of the two graphs, and round
        # in another way than its neighbour.
        graphs.first = graphs.first or sort
        make = functools.partial(traced, self._kind, calls, fixed, is_seen=at_work is not None)
        return functools.partial(
            _CompiledBlock._by_graph,
            graphs=graphs,
            make=make,
            wires=wires,
            num_calls=sum(call.way != "opaque" for call in calls or ()),  # the operator counts its own
            is_first=graphs.first == sort,
            at_work=at_work,
        )

    def _learn(self, args: Any, kwargs: Any, *, session: Session, kept: KeptGraphs, sort: Hashable) -> Any:
        with session.learning() as calls:
            out = self._kind.forward(self._block, *args, **kwargs)
        kept.learn(sort, tuple(calls))
        return tree_map_only(Tensor, copied, out)

    def _by_graph(
        self,
        args: Any,
        kwargs: Any,
        *,
        graphs: Graphs,
        make: Callable[..., Any],
        wires: Sequence[Wire | None],
        num_calls: int,
        is_first: bool,
        at_work: operator.Intercepting | None,
    ) -> Any:
        if graphs.is_broken:
            return self._as_torch_does(args, kwargs, at_work)
        if self._session is None:  # else it was made plain where it was cut
            args, kwargs = _no_views(args), {name: _no_views(value) for name, value in kwargs.items()}
        run = graphs.get(self._kind, make, is_first=is_first, options=self._options)
        # Before each run: the graph asks for its group by name, and the group may be another one since a rank was lost.
        for wire in filter(None, wires):
            wire.make_ready()
        given = [wire and wire.given for wire in wires]
        try:
            if at_work is not None and at_work is not self._session:
                with at_work.aside():
                    return run(given, self._block, *args, **kwargs)
            out = run(given, self._block, *args, **kwargs)
        except Exception as error:
            # Only what the compiler says of itself: an error of the exchange, or of memory, is the forward's own, and
            # in pieces it would come again, on this rank alone.
            if self._options["fullgraph"] or not is_of_compiling(error):
                raise
            graphs.is_broken = True
            return self._as_torch_does(args, kwargs, at_work)
        for wire in filter(None, wires):
            wire.count()
        if self._session is not None:
            self._session.num_calls += num_calls
        return out

    def _as_torch_does(self, args: Any, kwargs: Any, at_work: operator.Intercepting | None) -> Any:
        """In several graphs, with whoever answers attention around them, and torch's guards."""
        if self._by_torch is None:
            forward = self._kind.forward.__get__(self._block)
            self._by_torch = _by_torch(self._block, forward, self._title, self._options)
        args, kwargs = tree_map_only(Tensor, plain, (args, kwargs))  # torch's guards tell views from others
        if self._session is None or at_work is not self._session:
            return self._by_torch(*args, **kwargs)
        with self._session.seeing():
            return self._by_torch(*args, **kwargs)


def _by_torch(
    block: nn.Module, forward: Callable[..., Any], title: str, options: Mapping[str, Any]
) -> Callable[..., Any]:
    if options["fullgraph"]:
        return torch.compile(forward, **options)
    return in_pieces(forward, f"{type(block).__name__} of {title}", options)


def _no_views(value: Any) -> Any:
    # The first block of a transformer is given views where the others are not, and would have a graph of its own.
    if isinstance(value, Tensor):
        return value if value._base is None else plain(value)
    return tuple(map(_no_views, value)) if type(value) is tuple else value


def _form(value: Any) -> Hashable:
    """Of arguments all that decides which calls a block makes: shapes and formats, and whether something is there."""
    if isinstance(value, Tensor):
        return value.shape, value.dtype
    if isinstance(value, (tuple, list)):
        return tuple(map(_form, value))
    if isinstance(value, dict):
        return (*value, *map(_form, value.values()))
    return value if isinstance(value, (bool, str)) else type(value)


def _options_key(options: Mapping[str, Any]) -> Hashable:
    return tuple(
        (name, str(each) if isinstance(each, (dict, list)) else each) for name, each in sorted(options.items())
    )
