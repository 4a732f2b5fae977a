"""One rank's view of a transformer whose blocks are dealt out over sections: it runs its own, the others' outputs come.

Pipeline parallelism (GPipe; Huang et al., 2018, arXiv:1811.06965) for any class, without a word of it about a class.
Every rank runs the transformer's own forward. A block of another section gives values that wait (`waiting.py`), and so
does what is made of them; a block of this section that is given such a value has it computed, for which the outputs of
other sections' blocks travel from which it follows, and no others. So what crosses a border is found, never written
down. What is outside of blocks (embeddings, times, positions, masks) runs on every rank, and never travels.

    a call of a kind        what happens
      never met             wide: each block's outputs go to all sections, which learn what they look like. Then the
                            forward runs once more with values that wait alone, and finds what each section needs;
                            one gather tells who is to send what
      met                   each section runs as far as its last block, and is told no more: what is left of the forward
                            is the last section's, which sends the result to all. The others go on with a result that
                            waits, so that the next call (a branch of guidance) begins while this one ends

With M calls that meet after each step, each of N sections idles (N - 1) / (M + N - 1) of it.
"""

import contextlib
import functools
import weakref
import zlib
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask
from torch.utils import _pytree as pytree
from torch.utils.weak import WeakTensorKeyDictionary

from ...errors import one_line
from ...group import Axis
from ...mesh import Mesh
from ...staging import bytes_of
from ...streaming.forwards import in_place_of
from ..fingerprint import Due, check_same
from .dealing import Dealing, dealt_to
from .mail import PLAIN, Gave, Mail, Unheard
from .waiting import Later, Outline, finished
from .walks import REMEDY, Done, Key, KnownCall, Quick, Tried, Walk, Wide

# Arguments that say all by their value, or by their format alone.
BY_VALUE = (*PLAIN, torch.dtype, torch.device)
READ = (slice, BlockMask)  # what blocks are given beside and never write to
OPAQUE = f"one section would fill and others miss (such as kept keys); {REMEDY}"


class Sections:
    """A transformer's blocks over the sections of a mesh, from when it is made until `remove`.

    Raises ValueError if there are fewer blocks than sections, or no room for them.
    """

    def __init__(
        self,
        module: nn.Module,
        blocks: Sequence[nn.Module],
        mesh: Mesh,
        *,
        title: str,
        session: Any,
        device: torch.device,
        how: Dealing,
    ) -> None:
        self.group, self._around, self._session = mesh[Axis.LAYERS], mesh[Axis.SEQUENCE], session
        self.title, self._module = title, module
        self.comparing = Due()
        try:
            self.dealt = dealt_to(self.group.index, module, blocks, self.group.size, how)
        except ValueError as error:
            raise ValueError(f"plan {mesh.plan}: {title} cannot be dealt out, {error}") from None
        self._mail = Mail(mesh, device, title)
        self._known: dict[Hashable, KnownCall] = {}
        self._marks = WeakTensorKeyDictionary()
        self._pending: list[weakref.ref[Later]] = []
        self._num_calls = 0
        self._walk: Walk | None = None
        self._undo = contextlib.ExitStack()
        self._install()

    def remove(self) -> None:
        """The transformer runs all of its blocks again."""
        self._undo.close()

    # ---- where blocks are met

    def _install(self) -> None:
        for block in self.dealt.own:
            self._undo.enter_context(block.register_forward_pre_hook(self._before_own, with_kwargs=True))
            self._undo.enter_context(block.register_forward_hook(self._after_own, prepend=True))
        for block, owner in self.dealt.others:
            self._undo.enter_context(in_place_of(block, functools.partial(self._meet, owner, block)))
            vars(block)["compile"] = lambda *_, **__: None  # nothing of it runs here
            self._undo.callback(vars(block).pop, "compile")
        # Outside of all hooks of the transformer, as torch's own `Module.compile` has itself called: they see the
        # forward end early, as if it failed.
        vars(self._module)["_compiled_call_impl"] = self
        self._undo.callback(vars(self._module).pop, "_compiled_call_impl")

    def _meet(self, owner: int, block: nn.Module, *args: Any, **kwargs: Any) -> Any:
        """In the place of a block: of another section, or of this one where a call is only tried."""
        if self._walk is None:
            self._check_outside()
            return type(block).forward(block, *args, **kwargs)
        if self._session is not None:
            self._session.num_calls += 1  # else it would miss the attention that it is to see
        return self._walk.meet(owner, (args, kwargs))

    def _before_own(self, block: nn.Module, args: Any, kwargs: Any) -> Any:
        if self._walk is None:
            self._check_outside()
        given = finished((args, kwargs))
        if foreign := [each for each in pytree.tree_leaves(given) if not isinstance(each, (Tensor, *BY_VALUE, *READ))]:
            raise ValueError(f"{self.title}: a block is given a {type(foreign[0]).__name__}, which {OPAQUE}")
        return given

    def _check_outside(self) -> None:
        """ValueError on all ranks where a block is called by another model, as a ControlNet does, and some lack it."""
        if any(parameter.is_meta for parameter in self._module.parameters()):
            raise ValueError(
                f"{self.title}: one of its blocks is called outside of its forward, and some ranks lack its weights; "
                f"{REMEDY}"
            )

    def _after_own(self, block: nn.Module, args: Any, output: Any) -> None:
        if self._walk is not None:
            self._walk.ran(output)

    # ---- calls of the transformer

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Collective where a call is the first of its kind: the transformer's result, or values that wait for it."""
        args, kwargs = finished((args, kwargs))
        if torch.is_grad_enabled() and any(parameter.requires_grad for parameter in self._module.parameters()):
            raise ValueError(
                f"{self.title}: it is sharded for inference, but gradients are on; call it under torch.no_grad()"
            )
        if self.comparing.is_now():
            self._known.clear()
            given = {**{f"argument {i + 1}": each for i, each in enumerate(args)}, **kwargs}
            check_same(given, self.group, title=self.title, around=self._around)
            self.comparing.is_done()
        if kept := [name for name, each in kwargs.items() if "cache" in name and each is not None]:
            raise ValueError(f"{self.title}: it is given {kept[0]}, which {OPAQUE}")
        kind = self._form((args, kwargs))
        if kind not in self._known:
            return self._first(kind, args, kwargs)
        return self._again(self._known[kind], args, kwargs)

    def _first(self, kind: Hashable, args: Any, kwargs: Any) -> Any:
        """Collective: the result on every rank, and what all have to know of calls of the kind."""
        # In lists and dicts of its own: some transformers empty those that they are given.
        known, spare = KnownCall(), pytree.tree_map(lambda each: each, (args, kwargs))
        try:
            found = self._run(Wide(self._mail, known, self._pending), args, kwargs)
            known.gave.append(self._taken_apart(found))
            words = self._mail.hear({"needs": self._try(known, *spare)})
        except Unheard as error:
            raise (ValueError if error.is_refusal else RuntimeError)(str(error)) from None
        except Exception as error:
            # The others wait for the next word of this section: it is the reason, and all raise.
            with contextlib.suppress(Unheard):
                self._mail.hear({"error": one_line(error), "is_refusal": isinstance(error, ValueError)})
            raise
        if not all("needs" in each for each in words):  # seen by all alike
            raise ValueError(f"{self.title}: sections ran its blocks in different orders; {REMEDY}")
        known.needs = [[(place, leaf) for place, leaf in each["needs"]] for each in words]
        self._known[kind] = known
        return found

    def _try(self, known: KnownCall, args: Any, kwargs: Any) -> list[Key]:
        """What this section's blocks need of others, found by a forward in which no block runs."""
        if known.last_of(self.group.index) < 0:
            return []  # its blocks are left out
        walk = Tried(self._mail, known, self._pending)
        with contextlib.ExitStack() as stack, contextlib.suppress(Done):
            for block in self.dealt.own:
                stack.enter_context(in_place_of(block, functools.partial(self._meet, self.group.index, block)))
            finished(self._run(walk, args, kwargs))
        keys = {(place, leaf) for _, place, leaf in walk.awaited.needs}
        return sorted(key for key in keys if known.owners[key[0]] != self.group.index)

    def _again(self, known: KnownCall, args: Any, kwargs: Any) -> Any:
        self._num_calls += 1
        walk, end = Quick(self._mail, known, self._pending, self._num_calls), len(known.owners)
        try:
            if known.last_of(self.group.index) >= 0:
                found = finished(self._run(walk, args, kwargs))
                leaves, _ = self._taken_apart(found)
                tensors = [number for number, each in enumerate(leaves) if isinstance(each, Outline)]
                for other in range(self.group.size):
                    walk.send(end, found, other, tensors if other != self.group.index else ())
                return found
        except Done:
            pass
        except BaseException:
            self._mail.give_up(self._num_calls)
            raise
        walk.awaited.is_over = True
        return walk.waiting(end)

    def _run(self, walk: Walk, args: Any, kwargs: Any) -> Any:
        self._walk = walk
        try:
            # What torch's `Module.__call__` runs where nothing is in its place: that itself would come back here.
            return self._module._call_impl(*args, **kwargs)
        finally:
            self._walk = None

    def _taken_apart(self, found: Any) -> Gave:
        leaves, spec = pytree.tree_flatten(found)
        foreign = [type(each).__name__ for each in leaves if not isinstance(each, (Tensor, *BY_VALUE))]
        if foreign:
            raise ValueError(f"{self.title}: it gives a {foreign[0]}, which {OPAQUE}")
        return [Outline.of(each) if isinstance(each, Tensor) else each for each in leaves], spec

    def _form(self, value: Any, name: str = "") -> Hashable:
        """What tells the kinds of calls apart: formats, plain values, and what masks show."""
        if isinstance(value, Tensor):
            return tuple(value.shape), value.dtype, value.device.type, self._shown(value, name)
        if isinstance(value, list | tuple):
            return type(value).__name__, tuple(map(self._form, value))
        if isinstance(value, Mapping):
            return tuple((str(name), self._form(each, str(name))) for name, each in value.items())
        if isinstance(value, float):
            return "float"  # such as the time of a step
        if not isinstance(value, BY_VALUE):
            raise ValueError(f"{self.title}: it is given a {type(value).__name__}, which {OPAQUE}")
        return repr(value)

    def _shown(self, x: Tensor, name: str) -> int:
        """A number for what a mask shows, read once: models cut texts to what is shown, and then shapes follow it."""
        if x.ndim < 2 or x.is_complex() or (x.is_floating_point() and "mask" not in name):
            return 0
        version = 0 if x.is_inference() else x._version
        known = self._marks.get(x, None)
        if known is None or known[0] != version or x.is_inference():
            is_mask = x.dtype == torch.bool or bool(((x == 0) | (x == 1)).all())
            known = version, zlib.crc32(bytes_of(x.cpu()).numpy().data) if is_mask else 0
            self._marks[x] = known
        return known[1]
