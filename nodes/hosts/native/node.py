"""Spread Model and Spread VAE: what ComfyUI's own loaders have loaded, computed by ranks on all devices."""

import functools
import json
import logging
from collections.abc import Callable
from typing import Any, ClassVar

from ....parallel.errors import BadInput
from ....parallel.plan import ParallelPlan
from ....parallel.wording import worded
from ....pipelines import place as places
from ....pipelines.values import Place

Making = Callable[[Place], Any]
logger = logging.getLogger("latentloom")
DEVICES_HELP = "all, or a list such as cuda:0,cuda:1, cuda*4 or cpu*2"
PLAN_HELP = (
    "auto, or degrees such as cfg=2,ulysses=2; their product is the number of devices. cfg shares out conditionings, "
    "where the sampler guides"
)
WHOLE_HELP = (
    "Off: what ranks cannot do exactly is refused in one sentence. On: such a run is done by ComfyUI itself, on its "
    "own device, and the log says so"
)


class Spreads:
    """What ComfyUI's V1 nodes here have in common: one value in, the same spread over devices out."""

    TITLE: ClassVar[str]
    CATEGORY, OUTPUT_NODE = "latentloom/model", False
    RETURN_TYPES: ClassVar[tuple[str]]
    SEARCH_ALIASES: ClassVar = ["multi gpu", "several gpus", "parallel", "latentloom", "vae decode untiled"]
    MORE: ClassVar[dict[str, Any]] = {}

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        [kind] = cls.RETURN_TYPES
        return {
            "required": {kind.lower(): (kind, {"tooltip": "Of ComfyUI's own loaders"})},
            "optional": {
                "devices": ("STRING", {"default": "all", "tooltip": DEVICES_HELP}),
                **cls.MORE,
                "allow_whole": ("BOOLEAN", {"default": False, "tooltip": WHOLE_HELP}),
            },
        }

    def tried(self, devices: str, plan: str, allow_whole: bool, make: Making, whole: Callable[[], Any]) -> tuple[Any]:
        """What `make` gives of the place, or `whole` does where that cannot be and whole runs are allowed."""
        try:
            return (make(place_for(devices, plan, self.TITLE)),)
        except ValueError as error:
            if not allow_whole:
                raise
            logger.warning("%s: it runs whole on the host: %s", self.TITLE, error)
            return (whole(),)


class SpreadModel(Spreads):
    """ComfyUI's V1 node."""

    TITLE, FUNCTION, RETURN_TYPES, RETURN_NAMES = "Spread Model", "spread_model", ("MODEL",), ("model",)
    OUTPUT_TOOLTIPS = ("The model, for any sampler; LoRAs may stand before and behind this node",)
    DESCRIPTION = (
        "The model spread over devices: each step is computed by all of them together, and its result is that of one "
        "device. What that cannot be promised of is refused in one sentence."
    )
    MORE: ClassVar = {"plan": ("STRING", {"default": "auto", "tooltip": PLAN_HELP})}

    def spread_model(
        self, model: Any, devices: str = "all", plan: str = "auto", allow_whole: bool = False
    ) -> tuple[Any]:
        make = functools.partial(spread, model, allow_whole=allow_whole)
        return self.tried(devices, plan, allow_whole, make, model.clone)


def spread(patcher: Any, place: Place, *, allow_whole: bool = False) -> Any:
    """A clone of ComfyUI's patcher whose forward is asked of ranks. Raises `ValueError` where that cannot be."""
    from .border import Border, forget
    from .mapped import lease_of
    from .recipe import recipe_of
    from .shell import bytes_of, shell_of
    from .splits.plans import plan_of

    chosen = plan_for(place)
    plan_of(patcher.model.diffusion_model)
    border = Border(place, chosen, recipe_of(patcher), allow_whole=allow_whole)
    patcher.detach()  # its weights are as the file has them, and not on the device where ranks may be
    lease = lease_of(patcher.model, json.dumps(border.recipe, sort_keys=True), functools.partial(forget, border.recipe))
    if not getattr(patcher, "is_dynamic", lambda: False)():  # whose weights are views of the file
        border.shared = lease.share(patcher.model)
    size, device = bytes_of(patcher.model.diffusion_model), str(patcher.load_device)

    def wanted() -> int:
        return size if device in place.devices and not border.is_held else 0

    found = patcher.clone() if allow_whole else shell_of(patcher, wanted)
    border.attach(found)
    return found


def place_for(devices: str, plan: str, title: str) -> Place:
    """Where the node of this title has ranks. Raises `ValueError` where they cannot be, or would be one."""
    from ....parallel.pool.pool import check_platform

    check_platform()
    places.check_cores(place := places.read_place(devices, plan))
    if place.group_size < 2:
        told = "{} was given one device, {}; name two or more, such as cuda*2, or leave it out"
        raise BadInput(told, title, ", ".join(place.devices))
    return place


def plan_for(place: Place) -> ParallelPlan | None:
    """The plan that is named; None for `auto`, which is chosen once the model is sampled. Raises `ValueError` for what
    is not done here."""
    chosen = places.named_plan(place)
    if chosen is not None and chosen.num_shares > 1:
        told = "plan {}: a MODEL of ComfyUI is spread by its tokens and conditionings, not by layers or weights; {}"
        advice = worded("use cfg, ulysses, ring and allgather, such as ulysses={}", place.group_size)
        raise BadInput(told, chosen, advice)
    return chosen


class SpreadVAE(Spreads):
    """ComfyUI's V1 node."""

    TITLE, FUNCTION, RETURN_TYPES, RETURN_NAMES = "Spread VAE", "spread_vae", ("VAE",), ("vae",)
    OUTPUT_TOOLTIPS = ("The VAE, for VAE Decode; it encodes as it did before",)
    DESCRIPTION = (
        "The VAE spread over devices: each decodes its share of the rows, and the picture is the untiled one of one "
        "device. A VAE of which that is not known is refused in one sentence."
    )

    def spread_vae(self, vae: Any, devices: str = "all", allow_whole: bool = False) -> tuple[Any]:
        def make(place: Place) -> Any:
            from .vae import spread_vae  # which imports what other systems than Linux may lack

            return spread_vae(vae, place)

        return self.tried(devices, "auto", allow_whole, make, lambda: vae)


NATIVE: dict[str, Any] = {"LoomSpreadModel": SpreadModel, "LoomSpreadVAE": SpreadVAE}
