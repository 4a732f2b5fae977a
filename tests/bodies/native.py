"""Stand-ins for ComfyUI's own classes by the rules that they follow, and what ranks do with them by their plans.

Blocks have the arguments that a plan names, and are told where rows are by plain numbers: references at time zero as
slices, which are counted from the text at hand; a modulation for each frame, spread over the tokens at hand; residuals
of a ControlNet for the first tokens of the picture; sound beside a video, times of frames and guides as objects.
"""

import dataclasses
import os
import tempfile
from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bodies.foreign import HEADS, WIDTH, Rows, by_rows
from bodies.meshes import by_plan
from bodies.rank import bits
from latentloom.nodes.hosts.native import checked
from latentloom.nodes.hosts.native.splits.plans import FLUX, HUNYUAN_VIDEO, JOINT
from latentloom.nodes.hosts.native.splits.video import LTX_2
from latentloom.nodes.hosts.native.splits.wan import WAN
from latentloom.parallel.mesh import Mesh, mesh_for
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.sharding.shard import shard
from latentloom.parallel.sharding.split_plan import Along, Spans, SplitPlan
from latentloom.pipelines.selfcheck.first_use import VARIABLE, NotTheSame
from support.told import Told


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.kv = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH)

    def forward(self, x: Tensor, pe: Tensor | None = None, context: Tensor | None = None) -> Tensor:
        q, k, v = (
            each.unflatten(2, (HEADS, -1)).transpose(1, 2)
            for each in (self.q(x), *self.kv(x if context is None else context).chunk(2, 2))
        )
        if pe is not None:
            q, k = q * pe, k * pe
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


class Double(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn = Attention()

    def forward(self, img: Tensor, txt: Tensor, vec: Tensor, pe: Tensor, modulation_dims_img: Rows = None) -> Any:
        out = self.attn(torch.cat([txt, by_rows(img, vec, modulation_dims_img)], 1), pe)
        return img + out[:, txt.shape[1] :], txt + out[:, : txt.shape[1]]


class Single(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn = Attention()

    def forward(self, x: Tensor, vec: Tensor, pe: Tensor, modulation_dims: Rows = None) -> Tensor:
        return x + self.attn(by_rows(x, vec, modulation_dims), pe)


class Last(nn.Module):
    def forward(self, x: Tensor, vec: Tensor, modulation_dims: Rows = None) -> Tensor:
        return by_rows(x, vec, modulation_dims)


def table(length: int) -> Tensor:
    return torch.cos(torch.arange(length)[:, None] * torch.arange(1, 1 + WIDTH // HEADS))[None, None]


class LikeFlux(nn.Module):
    """Text first; of a picture and its references B C H W each 2 x 2 values are a token."""

    patch = 2

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.vec = nn.Parameter(torch.randn(2, WIDTH))
        self.double_blocks = nn.ModuleList(Double() for _ in range(3))
        self.single_blocks = nn.ModuleList(Single() for _ in range(3))
        self.final_layer = Last()

    def forward(
        self, x: Tensor, context: Tensor, ref_latents: Any = None, control: Any = None, ref_latent: Any = None
    ) -> Tensor:
        pictures = [F.unfold(each, 2, stride=2).transpose(1, 2) for each in (x, *(ref_latents or ()))]
        img, txt, first = torch.cat(pictures, 1), context.clone(), pictures[0].shape[1]
        rows: Rows = [(0, first, 0), (first, img.shape[1], 1)] if ref_latents else None
        pe = table(txt.shape[1] + img.shape[1])
        for number, block in enumerate(self.double_blocks):
            img, txt = block(img, txt, self.vec, pe, modulation_dims_img=rows)
            if control is not None and number < len(control["input"]):
                add = control["input"][number]
                img[:, : add.shape[1]] += add
        count = txt.shape[1]
        joint = torch.cat([txt, img], 1)
        shifted = rows and [(a and a + count, b + count, which) for a, b, which in rows]
        for block in self.single_blocks:
            joint = block(joint, self.vec, pe, modulation_dims=shifted)
        return self.final_layer(joint[:, count:], self.vec, modulation_dims=rows)[:, :first]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.self_attn, self.cross_attn = Attention(), Attention()

    def forward(self, x: Tensor, e: Tensor, freqs: Tensor, context: Tensor) -> Tensor:
        x = x + self.self_attn(x * spread(e[:, :, 0], x), freqs.movedim(1, 2))
        return x + self.cross_attn(x, context=context) * spread(e[:, :, 1], x)


class Head(nn.Module):
    def forward(self, x: Tensor, e: Tensor) -> Tensor:
        return x * spread(e, x)


def spread(e: Tensor, x: Tensor) -> Tensor:
    """A row for each frame to as many tokens as a frame of these has."""
    return e if e.shape[1] == 1 else e.repeat_interleave(-(-x.shape[1] // e.shape[1]), 1)[:, : x.shape[1]]


class LikeWan(nn.Module):
    """Of latents B C T H W each value of a frame is a token; times are one, or one for each frame."""

    patch_size = (1, 1, 1)

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.times = nn.Linear(1, 3 * WIDTH)
        self.blocks, self.head = nn.ModuleList(Block() for _ in range(3)), Head()

    def forward(self, x: Tensor, timestep: Tensor, context: Tensor) -> Tensor:
        e = self.times(timestep.view(len(timestep), -1, 1)).unflatten(2, (3, WIDTH))
        out = x.flatten(2).transpose(1, 2)
        freqs = table(out.shape[1]).movedim(2, 1)
        for block in self.blocks:
            out = block(out, e=e[:, :, :2], freqs=freqs, context=context)
        return self.head(out, e[:, :, 2])


class Times:
    """A modulation for each frame, which blocks spread over the tokens of each."""

    def __init__(self, data: Tensor, patches_per_frame: int | None) -> None:
        self.data, self.patches_per_frame = data, patches_per_frame or 1

    def expand_for_computation(self, table: Tensor) -> tuple[Tensor, ...]:
        return tuple((table + self.data).repeat_interleave(self.patches_per_frame, 1).chunk(2, 2))


class Guides:
    """The last tokens of a video, which are seen by part, each by as much, and see the others as much."""

    def __init__(self, length: int, count: int) -> None:
        self.guide_start, self.tracked_count = length - count, count
        weights = -torch.linspace(0.2, 2.0, count)
        self.noisy_mask = F.pad(weights, (length - count, 0))[None, None, None]
        self.tracked_mask = F.pad(weights[:, None].expand(-1, length - count), (0, count))[None, None]


class Guided(Attention):
    def forward(self, x: Tensor, pe: Tensor | None = None, context: Any = None, *, mask: Any = None) -> Tensor:
        if mask is None:
            return super().forward(x, pe)
        q, k, v = (each.unflatten(2, (HEADS, -1)).transpose(1, 2) for each in (self.q(x), *self.kv(x).chunk(2, 2)))
        q, k, start = q * pe, k * pe, mask.guide_start
        noisy = F.scaled_dot_product_attention(q[:, :, :start], k, v, attn_mask=mask.noisy_mask)
        guides = F.scaled_dot_product_attention(q[:, :, start:], k, v, attn_mask=mask.tracked_mask)
        return torch.cat([noisy, guides], 2).transpose(1, 2).flatten(2)


class SoundBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn1, self.audio_attn1 = Guided(), Attention()
        self.audio_to_video_attn, self.video_to_audio_attn = Attention(), Attention()
        self.table = nn.Parameter(torch.randn(2 * WIDTH))

    def forward(self, x: Any, v_pe: Tensor, a_pe: Tensor, v_timestep: Times, self_attention_mask: Any, **_: Any) -> Any:
        video, sound = x
        scale, shift = v_timestep.expand_for_computation(self.table)
        video = video + self.attn1(video * scale + shift, v_pe.movedim(1, 2), mask=self_attention_mask)
        sound = sound + self.audio_attn1(sound, a_pe.movedim(1, 2))
        told = self.audio_to_video_attn(video, context=sound)
        return video + told, sound + self.video_to_audio_attn(sound, context=video)


class LikeLtx(nn.Module):
    """Of latents B C T H W each value of a frame is a token, and of sound B C T F each time; the last frames of a
    video are guides, of which `keyframe_idxs` tells the places."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.times = nn.Linear(1, 2 * WIDTH)
        self.transformer_blocks = nn.ModuleList(SoundBlock() for _ in range(3))

    def forward(self, x: list[Tensor], keyframe_idxs: Tensor | None = None, **_: Any) -> Tensor:
        video, sound = x[0].flatten(2).transpose(1, 2), x[1].movedim(1, 2).flatten(2)
        num_frames, length = x[0].shape[2], video.shape[1]
        times = Times(self.times(torch.linspace(0.1, 0.9, num_frames).view(1, -1, 1)), length // num_frames)
        mask = None if keyframe_idxs is None else Guides(length, keyframe_idxs.shape[2])
        places = (table(count).movedim(2, 1) for count in (length, sound.shape[1]))
        more = {**dict(zip(("v_pe", "a_pe"), places, strict=True)), "v_timestep": times, "self_attention_mask": mask}
        for block in self.transformer_blocks:
            video, sound = block((video, sound), **more)
        return torch.cat([video, sound], 1)


Case = tuple[nn.Module, SplitPlan, dict[str, Any]]  # a model, its plan, and what it is given


def cases() -> dict[str, tuple[nn.Module, SplitPlan, dict[str, Any]]]:
    torch.manual_seed(5)
    channels = WIDTH // 4
    picture = {"x": torch.randn(1, channels, 22, 26), "context": torch.randn(1, 9, WIDTH)}
    references = {"ref_latents": [torch.randn(1, channels, 10, 14), torch.randn(1, channels, 12, 12)]}
    control = {"control": {"input": [torch.randn(1, 143, WIDTH)], "output": []}}
    video = {"x": torch.randn(1, WIDTH, 3, 7, 9), "context": torch.randn(1, 9, WIDTH)}
    times = {"timestep": torch.tensor([[0.0, 0.7, 0.7]])}
    sounding = {"x": [torch.randn(1, WIDTH, 5, 5, 7), torch.randn(1, WIDTH // 4, 11, 4)]}
    entry = {"pre_filter_count": 35, "strength": 0.7, "latent_shape": [1, 5, 7]}
    guides = {"keyframe_idxs": torch.randn(1, 3, 70, 2), "guide_attention_entries": [entry, entry]}
    behind = {**FLUX.inputs, "single_blocks.*": {**FLUX.inputs["single_blocks.*"], "modulation_dims": Spans(JOINT)}}
    uncut = {path: {name: each for name, each in specs.items() if name != "e"} for path, specs in WAN.inputs.items()}
    turned = {"pe": Along(2, JOINT[::-1])}
    blocks = {path: {**FLUX.inputs[path], **turned} for path in ("double_blocks.*", "single_blocks.*")}
    swapped = dataclasses.replace(FLUX, order=JOINT[::-1], inputs={**FLUX.inputs, **blocks})
    return {
        "picture": (LikeFlux(), FLUX, picture),
        "references": (LikeFlux(), FLUX, picture | references),
        "control": (LikeFlux(), FLUX, picture | references | control),
        "one time": (LikeWan(), WAN, video | {"timestep": torch.tensor([0.7])}),
        "times of frames": (LikeWan(), WAN, video | times),
        "video and sound": (LikeLtx(), LTX_2, sounding),
        "guides": (LikeLtx(), LTX_2, sounding | guides),
        "wrong: rows not behind the text": (
            LikeFlux(),
            dataclasses.replace(FLUX, inputs=behind),
            picture | references,
        ),
        "wrong: times of frames not cut": (LikeWan(), dataclasses.replace(WAN, inputs=uncut), video | times),
        "wrong: streams in another order": (LikeFlux(), swapped, picture),
    }


def compared(
    cases: Mapping[str, tuple[nn.Module, SplitPlan, dict[str, Any]]], mesh: Mesh
) -> dict[str, tuple[float, Any]]:
    """Collective: of each case how far the model by its plan is from the model whole, and its bits."""
    found = {}
    with torch.no_grad():
        for name, (model, split, given) in cases.items():
            whole = model(**given)
            handle = shard(model, split, mesh)
            out = model(**given)
            handle.remove()
            assert torch.equal(model(**given), whole)
            found[name] = float((out - whole).abs().max() / whole.abs().max()), bits([out])
    return found


def said(model: nn.Module, split: SplitPlan, given: Mapping[str, Any], mesh: Mesh) -> str:
    """What is said of an input that the plan refuses."""
    handle = shard(model, split, mesh)
    try:
        with torch.no_grad():
            model(**given)
    except ValueError as error:
        return str(error)
    finally:
        handle.remove()
    return "nothing was raised"


@by_plan
def answers(rank: int, mesh: Mesh) -> dict[str, tuple[float, Any]]:
    """Collective: the right cases compared."""
    return compared({name: case for name, case in cases().items() if not name.startswith("wrong")}, mesh)


@by_plan
def with_a_reference_latent(rank: int, mesh: Mesh) -> str:
    """What is said of an input that HunyuanVideo's plan refuses."""
    model, _, given = cases()["picture"]
    return said(model, HUNYUAN_VIDEO, given | {"ref_latent": given["x"]}, mesh)


def first_uses(rank: int, plan: str, asked: list[tuple[str, Mapping[str, Any]]]) -> list[tuple[str, list[str], bool]]:
    """Collective: what is said of cases, one after the other, what is told meanwhile, and whether it was refused. What
    a case is given beside its own changes the call; one without a name is the next process."""
    found = []
    mesh, known = mesh_for(ParallelPlan.parse(plan)), cases()
    with tempfile.TemporaryDirectory() as home, patch.dict(os.environ, {"XDG_CACHE_HOME": home, VARIABLE: "1"}):
        for name, more in asked:
            if not name:
                checked._known.clear()
                continue
            model, split, given = known[name]
            handle = shard(model, split, mesh) if not name.startswith("wrong") else None  # as a rank is asked
            before, progress = {key: each.clone() for key, each in model.state_dict().items()}, Told()
            try:
                said, is_refused = (
                    checked.check_first_use(
                        *(model, {**given, **more}), split=split, mesh=mesh, device="cpu", progress=progress
                    ),
                    False,
                )
            except NotTheSame as error:
                said, is_refused = str(error), True
            assert all(torch.equal(each, before[key]) for key, each in model.state_dict().items())
            if handle is not None:
                handle.remove()
            found.append((said, progress.phases, is_refused))
        checked._known.clear()
    return found
