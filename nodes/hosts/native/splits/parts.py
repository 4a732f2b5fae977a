"""What split plans of ComfyUI's classes have in common: forms that most have, ControlNets, refusals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .....parallel.sharding.split_plan import Along, Leading, MadeAnew, Spec, SplitPlan, image, text
from .....pipelines.split_plans.sequence import joint, sequence

JOINT, FLIPPED, TOKENS = ("text", "image"), ("image", "text"), ("tokens",)
GRID = Along(1, TOKENS, grid=3)  # frames, rows and columns
LATENTS = ("x", "hidden_states")  # what models call them
FRAMES = "num_video_frames"  # an argument: so many rows are the frames of one video
PATCHES = ("patch_size", "patch", "patch_spatial")  # what they call rows and columns of latents to a token
PATCH = {"StageB": 2}  # of a class that does not keep it


def patch_of(model: object) -> tuple[int, ...]:
    """Rows and columns of latents to a token of this model."""
    kept: Any = (getattr(model, name) for name in PATCHES if hasattr(model, name))
    patch = next(kept, PATCH.get(type(model).__name__, 1))
    return (patch, patch) if isinstance(patch, int) else tuple(patch[-2:])


def latents_of(given: Mapping[str, Any]) -> list[Any]:
    """What a call with these arguments is to denoise: several tensors of a model that makes sound, too."""
    found = next(given[name] for name in LATENTS if name in given)
    return list(found) if isinstance(found, list | tuple) else [found]


def control(patch: int = 2) -> MadeAnew:
    """ControlNet residuals are for the first tokens of the picture: each rank has its rows of them. Tokens are
    `patch` rows and columns of latents."""

    def cut(residuals: Any, given: Mapping[str, Any], session: Any) -> Any:
        # Before a block shows them; as the classes' `process_img` pads: latents and references are B C (T) H W.
        pictures = [*latents_of(given), *(given.get("ref_latents") or ())]
        sizes = [(*x.shape[2:-2], *(-(-size // patch) for size in x.shape[-2:])) for x in pictures]
        session.define("image", sum(math.prod(size) for size in sizes), what="the picture that a ControlNet adds to")
        start, end = session.streams["image"].held(session.rank)
        return {
            name: [each if each is None else each[:, start : min(end, each.shape[1])] for each in some]
            for name, some in residuals.items()
        }

    return MadeAnew(cut)


def refused(what: str) -> MadeAnew:
    """An input that this class is not split with."""

    def refuse(_: object, __: object, session: Any) -> Any:
        raise ValueError(f"{session.title} is not split with {what}; sample it without, or on one device")

    return MadeAnew(refuse)


Specs = Mapping[str, Spec]


def two_streams(double: Specs, single: Specs, inputs: Mapping[str, Specs], order: tuple[str, str] = JOINT) -> SplitPlan:
    """As FLUX is built: text and picture in blocks of two streams, then in one; with more arguments of these."""
    rotary, enters = {"pe": Along(2, order)}, {"img": image(1), "txt": text(1)}
    given = {"double_blocks.*": {**rotary, **double}, "single_blocks.*": {**rotary, **single}, **inputs}
    leaves = {"final_layer": image(1)}
    return joint("double_blocks", "single_blocks", order=order, enters=enters, inputs=given, outputs=leaves)


def one_stream(blocks: str, each: Specs, *, enters: str = "x", leaves: str = "", **more: Any) -> SplitPlan:
    """Text and picture in one sequence, whole again behind the last block or where `leaves` says; of each block its
    arguments along it."""
    return sequence(blocks, stream="tokens", enters=enters, leaves=leaves or f"{blocks}.-1", each=each, **more)


def _rotary(pe: Any, _: object, session: Any) -> Any:
    """Angles of the joint sequence: B 1 S ..., and B S 1 ... up to 0.3.64."""
    return session.cut(pe, Along(2 if pe.shape[1] == 1 else 1, JOINT), what="image_rotary_emb")


def qwen_image(patch: int = 2) -> SplitPlan:
    """As Qwen-Image is built: picture and text attend jointly, each a stream of its own to the end."""
    return joint(
        "transformer_blocks",
        each={
            "image_rotary_emb": MadeAnew(_rotary),
            "encoder_hidden_states_mask": text(1),
            "timestep_zero_index": Leading("image"),
        },
        inputs={"": {"control": control(patch)}},
    )


def per_token(e: Any, session: Any, stream: str = "tokens") -> Any:
    """A modulation for each frame, B F (6) C, as one for each of this rank's tokens."""
    import torch

    if e.ndim < 3 or e.shape[1] == 1:
        return e
    held = session.streams[stream]
    each = -(-held.length // e.shape[1])  # of all tokens, as classes spread it; over a rank's own it would be others
    return e[:, torch.arange(*held.held(session.rank), device=e.device) // each]


PER_TOKEN = MadeAnew(lambda e, _, session: per_token(e, session))
