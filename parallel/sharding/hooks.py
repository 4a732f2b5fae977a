"""The hooks by which a split plan is followed: they cut arguments, gather outputs, and tell the session where it is.

A split plan names modules by their paths below the transformer, the *root*: arguments are cut to this rank's part
before the first blocks, outputs are gathered after the last, and in between tokens stay where they are. Each hook comes
with what undoes it, so that `remove()` leaves the module as it was.

    root      before   _at_root: a new forward; inputs compared; hooks moved where modules were exchanged; entered
                       _cutting of the root's own arguments
    block 0   before   _cutting: streams enter            each block: _around_block
    attention before   _announcing: which kinds of calls come now   after: the usual kind again
    block N   after    _gathering: streams leave
    root      after    _gathering of the root's output
                       _leaving, after a failure too: no attention is seen any more
"""

import contextlib
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from operator import is_not
from typing import Any

import torch
from torch import Tensor, nn

from ..group import Axis
from .cutting import cut, meet, shows, whole_of
from .halo import extended, trimmed
from .operator import in_no_graph
from .session import Session
from .split_plan import OF_SOME, Halo, MadeAnew, Spec

Remove = Callable[[], None]
# Where a hooked module hangs: its parent's modules, its name among them, and itself.
Place = tuple[Mapping[str, nn.Module | None], str, nn.Module]


def install(module: nn.Module, session: Session) -> contextlib.ExitStack:
    """Attach everything; closing what is given back undoes it, last to first."""
    below: list[Remove] = []
    places: tuple[list[Any], ...] = ([], [], [])
    processors = dict[nn.Module, Any]()  # those that are ours

    def attach() -> None:
        found = _attach(module, session, below, processors)
        for number, column in enumerate(places):
            column[:] = [place[number] for place in found]

    def detach() -> None:
        while below:
            below.pop()()
        processors.clear()

    def follow() -> None:
        """Move the hooks if modules were exchanged since, as adapters do that wrap a layer or give it back."""
        # A hook stays with the layer it was put on: once an adapter wraps that layer, the base would be given its share
        # of the tokens and the adapter beside it all of them.
        _check_processors(module, processors, session.title)
        siblings, names, modules = places
        if any(map(is_not, map(dict.get, siblings, names), modules)):  # some hundred, in each forward
            detach()
            attach()

    # At the root the order of hooks matters: `_at_root` is prepended and so begins the forward before the root's own
    # arguments are cut; `_leaving` is the last and so sees the output that was gathered.
    with contextlib.ExitStack() as undo:
        undo.callback(session.leave)  # in case the last forward was interrupted
        undo.callback(_at_root(module, session, follow))
        undo.callback(detach)
        attach()
        if "" in session.split.inputs:
            undo.callback(_cutting(module, session.split.inputs[""], session, ""))
        if "" in session.split.outputs:
            undo.callback(_gathering(module, session.split.outputs[""], session, ""))
        undo.callback(_leaving(module, session))
        return undo.pop_all()


def _check_processors(module: nn.Module, processors: Mapping[nn.Module, Any], title: str) -> None:
    """ValueError where another was put in the place of one of ours, as perturbed attention guidance does in a call."""
    for holder, ours in processors.items():
        found: Any = holder.processor
        if found is not ours:
            path = next((name for name, each in module.named_modules() if each is holder), type(holder).__name__)
            raise ValueError(
                f"{title}: its {path} was given the attention processor {type(found).__name__} after it was sharded, "
                "by which tokens of other ranks would be left out; do without it, or split guidance alone (cfg)"
            )


def _attach(module: nn.Module, session: Session, undo: list[Remove], processors: dict[nn.Module, Any]) -> list[Place]:
    """Hook what is below the root; where each hooked module hangs. `processors` is told which are ours."""
    split = session.split
    paths = {*split.inputs, *split.made, *split.outputs, *split.blocks}
    found = {path: modules_at(module, path, session.title) for path in paths}
    found |= {path: modules_at(module, path[:-1] + "*", session.title) for path in split.inputs if _is_door(path)}
    hooked = {each for path, modules in found.items() if path for each in modules}
    for path in split.blocks:
        for block in found[path]:
            undo += _around_block(block, session)
    for path, specs in split.inputs.items():
        for each in found[path] if path else ():  # the root's own are put on by `install`, where their order matters
            undo.append(_cutting(each, specs, session, path))
    for path, spec in split.made.items():
        undo += [_cutting_made(each, spec, session, path) for each in found[path]]
    for path, spec in split.outputs.items():
        for each in found[path] if path else ():
            undo.append(_gathering(each, spec, session, path))
    inside = {name: each for path in split.blocks for block in found[path] for name, each in _named(module, block)}

    def ending(end: str) -> list[nn.Module]:
        return [each for name, each in inside.items() if _ends(name, end.partition(":")[0])]

    for end, calls in split.attention.items():
        kinds = tuple(session.kinds.index(call) for call in calls)
        for each in ending(end):
            undo += _announcing(each, kinds, session)
    for end, halo in split.halos.items():
        for each in ending(end):
            undo += _with_halo(each, halo, session)
    for end, make in split.processors.items():
        for each in ending(end):
            undo.append(_with_processor(each, end, make, session, processors))  # one by one: a processor may refuse
    hooked |= {each for end in (*split.attention, *split.halos, *split.processors) for each in ending(end)}
    return [
        (parent._modules, name, each)
        for parent in module.modules()
        for name, each in parent._modules.items()
        if each is not None and each in hooked
    ]


def modules_at(module: nn.Module, path: str, title: str) -> list[nn.Module]:
    """The modules at a path; `*` or the path of a ModuleList means each of its members."""
    found = [module]
    for part in filter(None, path.split(".")):
        found = [inner for outer in found for inner in _inner(outer, part, path, title, module)]
    return [inner for outer in found for inner in (outer if isinstance(outer, nn.ModuleList) else [outer])]


def _inner(outer: nn.Module, part: str, path: str, title: str, root: nn.Module) -> list[nn.Module]:
    if part == "*":
        return list(outer.children())
    if part.lstrip("-").isdigit() and isinstance(outer, (nn.ModuleList, nn.Sequential)):
        return [outer[int(part)]] if len(outer) else []
    if not hasattr(outer, part):
        raise ValueError(f"{title} has no module {path!r}, which its split plan names: {_made_otherwise(root)}")
    return [getattr(outer, part)]


def _made_otherwise(module: nn.Module) -> str:
    """Why a split plan does not fit the class of a module, and what to do."""
    if (home := type(module).__module__).startswith("diffusers."):
        return "this version of diffusers builds the class in another way; install the version in constraints.txt"
    return f"this version of {home} builds it in another way; use one that the plan fits, or run it on one device"


def modules_ending(root: nn.Module, blocks: Sequence[nn.Module], ends: Sequence[str]) -> list[nn.Module]:
    """What is in the blocks and has a path that ends like one of these."""
    return [each for block in blocks for name, each in _named(root, block) if any(_ends(name, end) for end in ends)]


def _named(root: nn.Module, block: nn.Module) -> list[tuple[str, nn.Module]]:
    """Everything in a block, by its path from the root."""
    prefix = next(name for name, each in root.named_modules() if each is block)
    return [(f"{prefix}.{name}" if name else prefix, each) for name, each in block.named_modules()]


def _ends(name: str, end: str) -> bool:
    parts, wanted = name.split("."), end.split(".")
    return len(parts) >= len(wanted) and all(
        want in ("*", part) for want, part in zip(wanted, parts[-len(wanted) :], strict=True)
    )


def _at_root(module: nn.Module, session: Session, follow: Callable[[], None]) -> Remove:
    """Start each forward anew, and let the session see its attention calls."""
    names = _argument_names(module)

    def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        session.begin()  # first: whatever a forward before left behind when it failed is not this one's
        if torch.is_grad_enabled() and any(parameter.requires_grad for parameter in module.parameters()):
            raise ValueError(
                f"{session.title}: it is sharded for inference, but gradients are on; call it under torch.no_grad()"
            )
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        session.compare(given)  # before anything is cut: the ranks' inputs are whole here, and have to be equal
        session.kept = session.texts.kept_in(given)
        follow()
        session.enter()

    return module.register_forward_pre_hook(before, with_kwargs=True, prepend=True).remove


def _leaving(module: nn.Module, session: Session) -> Remove:
    """After every forward, a failed one too, stop seeing attention; after a good one, check that it was sharded."""

    native = "have it attend by torch's scaled_dot_product_attention (ComfyUI's --use-pytorch-cross-attention)"
    if hasattr(module, "set_attention_backend"):
        native = "set its attention backend to native (set_attention_backend('native'))"

    def after(_: nn.Module, args: Any, output: Any) -> None:
        session.leave()
        if output is None:  # the forward raised: that is the error to see
            return
        session.is_agreed = True  # a whole forward went well: what `Session._agree` asked is known of all its calls
        if not session.num_calls and not session.is_cached:
            raise ValueError(
                f"{session.title}: no attention call of its blocks was seen, so nothing was sharded; {native}"
            )
        missing = [path for path in session.split.outputs if path not in session.gathered]
        if missing:
            raise ValueError(
                f"{session.title}: {missing[0]}, where its split plan has the output put together again, did not run; "
                "leave no last block out, or run it on one device"
            )

    return module.register_forward_hook(after, always_call=True).remove


def _around_block(block: nn.Module, session: Session) -> list[Remove]:
    # Not called where the block raises: `_leaving` clears up then, and after an interrupt the next `enter`.
    def before(_: nn.Module, args: Any) -> None:
        if session.is_entered:
            session.enter_block(block)

    def after(_: nn.Module, args: Any, output: Any) -> None:
        if session.is_entered:
            session.leave_block()

    return [block.register_forward_pre_hook(before).remove, block.register_forward_hook(after).remove]


def _announcing(module: nn.Module, kinds: tuple[int, ...], session: Session) -> list[Remove]:
    """Tell the session what the attention calls of this module do; afterwards they are as before again."""

    def before(_: nn.Module, args: Any) -> None:
        session.calls = kinds  # one for each call, as the module makes them in a fixed order

    def after(_: nn.Module, args: Any, output: Any) -> None:
        session.calls = (0,)  # a module that nobody announces makes calls of the first kind

    return [module.register_forward_pre_hook(before).remove, module.register_forward_hook(after).remove]


def _argument_names(module: nn.Module) -> list[str]:
    return list(inspect.signature(type(module).forward).parameters)[1:]


def _cutting(module: nn.Module, specs: Mapping[str, Spec], session: Session, path: str) -> Remove:
    names = _argument_names(module)
    # Blocks that treat no token apart take neither a count of some nor what these alone are given.
    unknown = [name for name, spec in specs.items() if name not in names and not isinstance(spec, OF_SOME)]
    if unknown and inspect.getfullargspec(type(module).forward).varkw is None:
        raise ValueError(
            f"{session.title}: {type(module).__name__} takes no {unknown[0]!r}, which its split plan names; it takes "
            f"{', '.join(names)}: {_made_otherwise(module)}"
        )
    shown = {name: spec for name, spec in specs.items() if shows(spec)}

    def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if not session.is_entered or path in session.entered:
            return args, kwargs
        if _is_door(path):
            session.entered.add(path)
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        # Lengths are learnt from all arguments before one is cut: a mask's share depends on its stream's length.
        meet(given, shown, session, path=path)
        parts = {
            name: spec.make(given[name], given, session)
            if isinstance(spec, MadeAnew)
            else cut(name, given[name], spec, session, path=path)
            for name, spec in specs.items()
            if given.get(name) is not None
        }
        new = tuple(parts.get(name, arg) for name, arg in zip(names, args, strict=False))
        return new, {name: parts.get(name, arg) for name, arg in kwargs.items()}

    return module.register_forward_pre_hook(before, with_kwargs=True).remove


def _is_door(path: str) -> bool:
    """Whether streams enter by the first module of a list."""
    # By any of them, because models may skip some: whichever runs first cuts, and puts the path into `entered`.
    return path.endswith(".0")


def _cutting_made(module: nn.Module, spec: Spec, session: Session, path: str) -> Remove:
    def after(_: nn.Module, args: Any, output: Any) -> Any:
        if not session.is_entered:
            return output
        meet({"output": output}, {"output": spec}, session, path=path)
        return cut("output", output, spec, session, path=path)

    return module.register_forward_hook(after).remove


def _gathering(module: nn.Module, spec: Spec, session: Session, path: str) -> Remove:
    def after(_: nn.Module, args: Any, output: Any) -> Any:
        if not session.is_entered:
            return output
        session.gathered.add(path)
        return whole_of(output, spec, session)

    return module.register_forward_hook(after).remove


def _with_halo(module: nn.Module, halo: Halo, session: Session) -> list[Remove]:
    """Lend a convolution the neighbours' edges, and drop what it made of them."""

    # Blocks are compiled with the modules in them, and so with these hooks; no graph may hold how many edges there are.
    @in_no_graph
    def before(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (extended(args[0], halo, session.streams[halo.stream], session.mesh[Axis.SEQUENCE]), *args[1:])

    @in_no_graph
    def after(_: nn.Module, args: Any, output: Tensor) -> Tensor:
        return trimmed(output, halo, session.streams[halo.stream], session.rank)

    return [module.register_forward_pre_hook(before).remove, module.register_forward_hook(after).remove]


def _with_processor(
    module: nn.Module, end: str, make: Callable[[Any, Any], Any], session: Session, processors: dict[nn.Module, Any]
) -> Remove:
    holder: Any = module
    method = end.partition(":")[2]
    if method or not hasattr(module, "processor"):
        return _with_method(holder, method or "forward", make, session)
    old = holder.processor
    holder.processor = processors[module] = make(old, session)
    return functools.partial(setattr, holder, "processor", old)


def _with_method(module: Any, name: str, make: Callable[[Any, Any], Any], session: Session) -> Remove:
    if name in vars(module):
        raise ValueError(
            f"{session.title}: something has replaced the {name} of its {type(module).__name__}, which sharding "
            "replaces too; shard the transformer first, then turn group offloading and the like on"
        )
    setattr(module, name, make(module, session))
    return functools.partial(delattr, module, name)
