"""Stand-ins for ComfyUI's classes of the Wan family by the rules that they follow: side blocks that are given what is
whole, what is told to each frame of a video, and blocks that are asked by methods beside their forward."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bodies import native
from bodies.foreign import HEADS, WIDTH
from bodies.meshes import by_plan
from bodies.native import Attention, Block, LikeWan, spread, table
from latentloom.nodes.hosts.native.splits.wan import ANIMATE, ANIMATE_2, DANCER, HUMO, S2V, VACE
from latentloom.parallel.mesh import Mesh
from latentloom.parallel.sharding.split_plan import SplitPlan


class OfFrames(nn.Module):
    """The tokens of each frame attend to that frame's own context, B F N C."""

    def __init__(self) -> None:
        super().__init__()
        self.audio_cross_attn = Attention()

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        frames = x.unflatten(1, (context.shape[1], -1)).flatten(0, 1)
        return self.audio_cross_attn(frames, context=context.flatten(0, 1)).view(x.shape)


class OfSound(OfFrames):
    def forward(self, x: Tensor, audio: Tensor) -> Tensor:
        return x + super().forward(x, audio.unflatten(1, (-1, 16)))


class Injector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.injected_block_id, self.injector = {0: 0, 2: 1}, nn.ModuleList(OfFrames() for _ in range(2))

    def forward(
        self, x: Tensor, block_id: int, audio_emb: Tensor, audio_emb_global: Any, seq_len: int, scale: float = 1.0
    ) -> Tensor:
        if block_id in self.injected_block_id:
            told = x[:, :seq_len] * (1 if audio_emb_global is None else audio_emb_global.mean())
            x[:, :seq_len] += scale * self.injector[self.injected_block_id[block_id]](told, audio_emb)
        return x


class SoundBlock(Block):
    def __init__(self) -> None:
        super().__init__()
        self.audio_cross_attn_wrapper = OfSound()

    def forward(self, x: Tensor, e: Tensor, freqs: Tensor, context: Tensor, audio: Any = None) -> Tensor:
        return self.audio_cross_attn_wrapper(super().forward(x, e, freqs, context), audio)


class Like(LikeWan):
    """With what a plan names beside the blocks; its last block is told of sound too, as the first is."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        if kind == "face":
            self.face_adapter = nn.ModuleDict({"fuser_blocks": nn.ModuleList(OfFrames() for _ in range(3))})
        if kind in ("audio", "music"):
            self.register_module(f"{kind}_injector", Injector())
        if kind == "humo":
            self.blocks = nn.ModuleList(SoundBlock() for _ in range(3))

    def forward(self, x: Tensor, timestep: Tensor, context: Tensor, told: Any = None, more: Any = None) -> Tensor:
        e = self.times(timestep.view(len(timestep), -1, 1)).unflatten(2, (3, WIDTH))
        out = torch.cat([x.flatten(2).transpose(1, 2), *([] if more is None else [more])], 1)
        freqs, count = table(out.shape[1]).movedim(2, 1), x[0, 0].numel()
        named = {"audio": told} if self.kind == "humo" else {}
        for number, block in enumerate(self.blocks):
            out = block(out, e=e[:, :, :2], freqs=freqs, context=context, **named)
            if self.kind == "face":
                out = out + self.face_adapter["fuser_blocks"][number](out, told)
            if self.kind in ("audio", "music"):
                out = getattr(self, f"{self.kind}_injector")(out, number, told, None, count, scale=0.5)
        return self.head(out, e[:, :, 2])


class Side(Block):
    is_first = False

    def forward(self, c: Tensor, x: Tensor, **more: Any) -> tuple[Tensor, Tensor]:
        c = super().forward(c + x if self.is_first else c, **more)
        return c / 2, c


class LikeVace(LikeWan):
    def __init__(self) -> None:
        super().__init__()
        self.vace_blocks = nn.ModuleList(Side() for _ in range(3))
        self.vace_blocks[0].is_first = True

    def forward(self, x: Tensor, timestep: Tensor, context: Tensor, controls: Any) -> Tensor:
        e = self.times(timestep.view(1, 1, 1)).unflatten(2, (3, WIDTH))
        out = whole = x.flatten(2).transpose(1, 2)
        c, given = list(controls), {"e": e[:, :, :2], "freqs": table(out.shape[1]).movedim(2, 1), "context": context}
        for block, side in zip(self.blocks, self.vace_blocks, strict=True):
            out = block(out, **given)
            for number in range(len(c)):
                skip, c[number] = side(c[number], x=whole, **given)
                out = out + skip
        return self.head(out, e[:, :, 2])


class SeeingPoses(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project, self.o = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def qkv(self, x: Tensor, freqs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = (each.unflatten(2, (HEADS, -1)) for each in self.project(x).chunk(3, 2))
        return q * freqs, k * freqs, v

    def asked(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

    def forward_pose(self, x: Tensor, freqs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = self.qkv(x, freqs)
        return self.o(self.asked(q, k, v)), k, v

    def forward_gen(
        self, x: Tensor, freqs: Tensor, k_pose: Any, v_pose: Any, f_gen: int, hw: int, buffers: Any, strength: float
    ) -> Tensor:
        q, k, v = self.qkv(x, freqs)
        v[:, :hw] *= strength
        if k_pose is None:
            return self.o(self.asked(q, k, v))
        poses = [each.unflatten(1, (-1, hw)) for each in (k_pose, v_pose)]
        out = [self.asked(q[:, :hw], k, v)]
        for frame in range(1, f_gen):
            seen = (torch.cat([a, b[:, frame - 1]], 1) for a, b in zip((k, v), poses, strict=True))
            out.append(self.asked(q[:, frame * hw : (frame + 1) * hw], *seen))
        return self.o(torch.cat(out, 1))


class PoseBlock(Block):
    def __init__(self) -> None:
        super().__init__()
        self.self_attn: Any = SeeingPoses()

    def forward_pose(self, x: Tensor, e: Tensor, freqs: Tensor, context: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        out, k, v = self.self_attn.forward_pose(x * spread(e[:, :, 0], x), freqs)
        return x + out + self.cross_attn(x, context=context), k, v

    def forward_gen(self, x: Tensor, e: Tensor, freqs: Tensor, context: Tensor, *of_pose: Any) -> Tensor:
        x = x + self.self_attn.forward_gen(x * spread(e[:, :, 0], x), freqs, *of_pose)
        return x + self.cross_attn(x, context=context) * spread(e[:, :, 1], x)


class LikeAnimate2(LikeWan):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(PoseBlock() for _ in range(3))

    def forward(self, x: Tensor, timestep: Tensor, context: Tensor, pose: Any = None) -> Tensor:
        e = self.times(timestep.view(len(timestep), -1, 1)).unflatten(2, (3, WIDTH))
        out, frames, per_frame = x.flatten(2).transpose(1, 2), x.shape[2], x[0, 0, 0].numel()
        freqs, k, v = table(out.shape[1]).movedim(2, 1), None, None
        of_pose = None if pose is None else freqs[:, : pose.shape[1]]
        for block in self.blocks:
            if pose is not None:
                pose, k, v = block.forward_pose(pose, e[:, :1, :2], of_pose, context)
            out = block.forward_gen(out, e[:, :, :2], freqs, context, k, v, frames, per_frame, None, 0.5)
        return self.head(out, e[:, :, 2])


def cases() -> dict[str, tuple[nn.Module, SplitPlan, dict[str, Any]]]:
    torch.manual_seed(6)
    video = {"x": torch.randn(2, WIDTH, 3, 5, 7), "context": torch.randn(2, 9, WIDTH), "timestep": torch.tensor([0.7])}
    times = video | {"timestep": torch.tensor([[0.0, 0.7, 0.7]])}
    of_frames, sound = torch.randn(2, 3, 2, WIDTH), torch.randn(2, 3 * 16, WIDTH)
    return {
        "side blocks": (LikeVace(), VACE, video | {"controls": list(torch.randn(2, 2, 105, WIDTH))}),
        "faces": (Like("face"), ANIMATE, times | {"told": of_frames}),
        "sound, more tokens": (Like("audio"), S2V, video | {"told": of_frames, "more": torch.randn(2, 40, WIDTH)}),
        "music": (Like("music"), DANCER, video | {"told": of_frames}),
        "sound in blocks": (Like("humo"), HUMO, video | {"told": sound}),
        "poses": (LikeAnimate2(), ANIMATE_2, times | {"pose": torch.randn(2, 70, WIDTH)}),
        "no poses": (LikeAnimate2(), ANIMATE_2, video),
    }


@by_plan
def answers(rank: int, mesh: Mesh) -> dict[str, tuple[float, Any]]:
    """Collective: the cases compared."""
    return native.compared(cases(), mesh)


@by_plan
def of_odd_frames(rank: int, mesh: Mesh) -> str:
    """What is said of frames that are not of as many tokens each."""
    model, split, given = cases()["faces"]
    return native.said(model, split, given | {"told": torch.randn(2, 4, 2, WIDTH)}, mesh)
