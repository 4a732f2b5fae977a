"""Where a rank has the weights of its model: whole on its device, or with blocks at rest in the host's memory.

ComfyUI loads whole, as long as there is room. Where there is none, or memory ran out, it loads into the host's memory,
LoRAs computed on the device as they would be there, and blocks come to the device one by one
(`pipelines/components/resting.py`): with the same bits. What is said of one use holds for those that need as much.
"""

import functools
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ....parallel.progress import Progress
from ....parallel.ranks.seat import Seat
from ....pipelines.components.memory import USABLE_SHARE, default_budget, memory_limit, spare_bytes
from ....pipelines.components.resting import Resting
from .splits.parts import latents_of

# By model: so many bytes of the device were needed beside it when it was placed last, and so many blocks stayed.
_last: dict[str, tuple[float, float]] = {}
_eased: dict[str, tuple[float, float]] = {}  # by model: in uses that need as much, at most so many blocks stay


class Placed:
    """One model's weights in this rank, from its loading on; `key` is what the model is known by."""

    def __init__(self, key: str, base: Any, device: str) -> None:
        self._key, self._base, self._device = key, base, device
        self.rests: bool | None = None  # not settled yet
        self.resting: Resting | None = None
        self._working_bytes = 0.0  # of the device, in the use for which it was placed

    def load(self, clone: Any, blocks: list[nn.Module], *, told: str, working_bytes: float) -> None:
        """Load ComfyUI's patcher with all that it carries, `told` being a name of that. Of one that rests nothing is on
        the device but what is in no block, until `begin`."""
        import comfy.model_management

        self._working_bytes = working_bytes
        _last[self._key] = working_bytes, math.inf
        if not self._settled():
            comfy.model_management.load_models_gpu([clone], force_full_load=True)
        elif self.resting is None:
            self._refuse_packed(clone.model.diffusion_model)
            self._base.load_device = clone.load_device = torch.device("cpu")
            vars(clone)["patch_weight_to_device"] = functools.partial(_patched, clone, self._device)
            comfy.model_management.load_models_gpu([clone], force_full_load=True)
            module = clone.model.diffusion_model
            title, key = type(module).__name__, f"{self._key} {told}"
            self.resting = Resting(module, title, self._device, key=key, blocks=blocks)

    def fits(self, working_bytes: float) -> bool:
        """Whether it was placed for such a use, and memory did not run out since."""
        return _last.get(self._key, ())[:1] == (working_bytes,)

    def begin(self, progress: Progress) -> None:
        """Bring to the device what is to be there. Raises `ValueError` where a budget that was set is too small."""
        if self.resting is not None:
            self.resting.begin(self._room(here=self.resting.num_bytes), most=self._eased_to())
            stay, count = self.resting.num_resident, len(self.resting.blocks)
            _last[self._key] = self._working_bytes, stay
            progress.phase(f"{stay} of {count} blocks stay on {self._device}, the others come from the host's memory")

    def end(self) -> None:
        """Others want the device: blocks come again at the next `begin`."""
        if self.resting is not None:
            self.resting.end()

    def free(self) -> None:
        """The weights are ComfyUI's again, to be changed or let go."""
        if self.resting is not None:
            self.resting.free()
            self.resting = None

    def _refuse_packed(self, module: nn.Module) -> None:
        """Raises `ValueError` for weights of comfy-kitchen's formats: what scales them is told beside their tensors."""
        formats = {getattr(each, "_layout_cls", "") for each in module.parameters()} - {""}
        if formats:
            raise ValueError(
                f"{self._device} has no room for all of {type(module).__name__}, and weights in {min(formats)} cannot "
                "come block by block; use a file without that format, or devices with more memory"
            )

    def _settled(self) -> bool:
        """Whether it rests: once it does, it goes on so; one that is whole rests after memory ran out."""
        import comfy.model_management

        is_eased = self._eased_to() is not None
        if self.rests is None or is_eased > self.rests:
            if has_room_of_its_own(self._device):
                comfy.model_management.free_memory(1e30, torch.device(self._device))
            is_bounded = has_room_of_its_own(self._device) or memory_limit() > 0
            self.rests = is_eased or (is_bounded and self._base.model_size() > self._room())
        return self.rests

    def _room(self, *, here: float = 0) -> float:
        """Bytes that weights may take of the device, where they take `here` by now."""
        room = default_budget(self._device) + spare_bytes(self._device)
        if has_room_of_its_own(self._device):
            import comfy.model_management

            free = comfy.model_management.get_free_memory(torch.device(self._device))
            room = min(room, USABLE_SHARE * (free + here))
        return room - self._working_bytes

    def _eased_to(self) -> float | None:
        least, most = _eased.get(self._key, (math.inf, math.inf))
        return most if self._working_bytes >= least else None


def has_room_of_its_own(device: str) -> bool:
    """Whether the device has memory beside the host's."""
    return device != "cpu"


def working_bytes(base: Any, arguments: Mapping[str, Any], seat: Seat) -> float:
    """What a forward takes of the device beside weights, by ComfyUI's own formula, which is of GPUs."""
    latents = latents_of(arguments) if has_room_of_its_own(seat.device) else []
    return sum(base.model.memory_required(list(each.shape)) for each in latents) / seat.num_ranks


def ease(key: str, device: str) -> bool:
    """After memory ran out: in uses that need as much, a model that was whole rests, and of one that rests half as many
    blocks stay, and none after that. Whether there was any to spare."""
    needed, stayed = _last.pop(key, (0.0, 0.0))
    before = _eased.pop(key, (0.0, None))[1]
    is_whole = stayed == math.inf
    if not (has_room_of_its_own(device) or memory_limit()) or not stayed or (is_whole and before is not None):
        return False  # something else has taken it, which may be gone by the next use
    most = stayed // 2 if before in (None, math.inf) else 0.0
    _eased[key] = needed, math.inf if is_whole else most
    return True


def _patched(patcher: Any, device: str, key: str, device_to: Any = None, **more: Any) -> Any:
    """ComfyUI's own patching of one weight, on the device, by whose formats it computes, and back."""
    found = type(patcher).patch_weight_to_device(patcher, key, device_to=torch.device(device), **more)
    if key in patcher.patches and has_room_of_its_own(device):
        import comfy.utils

        weight = comfy.utils.get_attr(patcher.model, key)
        comfy.utils.set_attr_param(patcher.model, key, weight.to("cpu"))
    return found
