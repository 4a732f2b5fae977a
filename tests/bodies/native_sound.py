"""Stand-ins for ComfyUI's classes whose tokens lie in rows, are summed, or see a window of others, and the first of
whose tokens are kept from call to call."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bodies.foreign import HEADS, WIDTH
from bodies.meshes import by_plan
from bodies.native import Attention, table
from bodies.rank import bits
from latentloom.nodes.hosts.native.splits.pictures import ACE_STEP, ACE_STEP_15, COSMOS_2, HIDREAM_O1, STABLE_AUDIO
from latentloom.parallel.mesh import Mesh
from latentloom.parallel.sharding.shard import shard
from latentloom.parallel.sharding.split_plan import SplitPlan


def headed(x: Tensor) -> Tensor:
    return x.unflatten(2, (HEADS, -1)).transpose(1, 2)


def joined(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


def halves(t: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = t.chunk(2, -1)
    return t * cos + torch.cat([-b, a], -1) * sin


class GridBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.self_attn, self.cross_attn = Attention(), Attention()

    def forward(
        self, x_B_T_H_W_D: Tensor, emb_B_T_D: Tensor, context: Tensor, rope_emb_L_1_1_D: Any = None,
        adaln_lora_B_T_3D: Any = None, extra_per_block_pos_emb: Any = None,
    ) -> Tensor:  # fmt: skip
        x = x_B_T_H_W_D + extra_per_block_pos_emb
        flat = (x * emb_B_T_D[:, :, None, None]).flatten(1, 3)
        flat = flat + self.self_attn(flat, rope_emb_L_1_1_D.movedim(1, 2))
        return x + (flat + self.cross_attn(flat, context=context)).view(x.shape)


class GridLast(nn.Module):
    def forward(self, x: Tensor, emb_B_T_D: Tensor, adaln_lora_B_T_3D: Any = None) -> Tensor:
        return x * emb_B_T_D[:, :, None, None]


class LikeCosmos(nn.Module):
    """Tokens are B T H W D in its blocks; a time is for all, or for a frame."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks, self.final_layer = nn.ModuleList(GridBlock() for _ in range(2)), GridLast()

    def forward(self, x: Tensor, times: Tensor, context: Tensor) -> Tensor:
        x = x.movedim(1, 4)
        emb, rope = times.cos()[..., None].expand(*times.shape, WIDTH), table(x[..., 0].numel()).movedim(2, 1)
        more = x.sin()
        for block in self.blocks:
            x = block(x, emb, context, rope_emb_L_1_1_D=rope, extra_per_block_pos_emb=more)
        return self.final_layer(x, emb).movedim(4, 1)


class CustomLiteLAProcessor2_0:
    def __call__(self, attn: Any, x: Tensor, *, rotary_freqs_cis: Any, encoder_hidden_states: Any = None) -> Any:
        def rotated(t: Tensor) -> Tensor:
            turned = torch.stack([-t[..., 1::2], t[..., ::2]], -1).flatten(3)
            return F.relu(t * rotary_freqs_cis[0] + turned * rotary_freqs_cis[1])

        q, k, v = (headed(layer(x)) for layer in (attn.to_q, attn.to_k, attn.to_v))
        scores = rotated(q) @ rotated(k).transpose(2, 3)
        out = joined(scores @ v / (scores.sum(3, keepdim=True) + 1e-15))
        return attn.to_out[1](attn.to_out[0](out)), None


class Linear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads, self.norm_q, self.norm_k = HEADS, None, None
        self.to_q, self.to_k, self.to_v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.to_out = nn.ModuleList([nn.Linear(WIDTH, WIDTH), nn.Identity()])
        self.processor = CustomLiteLAProcessor2_0()

    def forward(self, x: Tensor, rotary_freqs_cis: Any) -> Tensor:
        return self.processor(self, x, rotary_freqs_cis=rotary_freqs_cis)[0]


class SongBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn, self.cross_attn = Linear(), Attention()
        self.depth_conv = nn.ModuleDict({"conv": nn.Conv1d(WIDTH, WIDTH, 3, padding=1)})

    def forward(self, hidden_states: Tensor, context: Tensor, rotary_freqs_cis: Any) -> Tensor:
        x = hidden_states + self.attn(hidden_states, rotary_freqs_cis)
        x = x + self.cross_attn(x, context=context)
        return x + self.depth_conv["conv"](x.transpose(1, 2)).transpose(1, 2)


class LikeAceStep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.transformer_blocks = nn.ModuleList(SongBlock() for _ in range(2))

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        places = waves(x.shape[1])
        for block in self.transformer_blocks:
            x = block(hidden_states=x, context=context, rotary_freqs_cis=places)
        return x


def waves(length: int) -> tuple[Tensor, Tensor]:
    angles = torch.arange(length)[:, None] * torch.linspace(0.1, 1, WIDTH // HEADS)
    return angles.cos(), angles.sin()


class Window(nn.Module):
    """Sees so many tokens to both sides, as those at hand are numbered; all where it is told none."""

    def __init__(self, window: int | None) -> None:
        super().__init__()
        self.sliding_window, self.head_dim = window, WIDTH // HEADS
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.q_norm, self.k_norm = nn.LayerNorm(self.head_dim), nn.LayerNorm(self.head_dim)

    def forward(self, x: Tensor, position_embeddings: tuple[Tensor, Tensor]) -> Tensor:
        places, mask = torch.arange(x.shape[1]), None
        if self.sliding_window is not None:
            mask = (places[:, None] - places).abs() <= self.sliding_window
        q, k, v = (headed(layer(x)) for layer in (self.q_proj, self.k_proj, self.v_proj))
        q, k = (halves(norm(t), *position_embeddings) for norm, t in ((self.q_norm, q), (self.k_norm, k)))
        return self.o_proj(joined(F.scaled_dot_product_attention(q, k, v, attn_mask=mask)))


class WindowBlock(nn.Module):
    def __init__(self, window: int | None) -> None:
        super().__init__()
        self.self_attn = Window(window)

    def forward(self, hidden_states: Tensor, position_embeddings: tuple[Tensor, Tensor]) -> Tensor:
        return hidden_states + self.self_attn(hidden_states, position_embeddings=position_embeddings)


class LikeAceStep15(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.decoder = nn.ModuleDict({"layers": nn.ModuleList(map(WindowBlock, (3, None)))})

    def forward(self, x: Tensor) -> Tensor:
        places = waves(x.shape[1])
        for block in self.decoder["layers"]:
            x = block(hidden_states=x, position_embeddings=places)
        return x


class SetOff(Attention):
    def __init__(self) -> None:
        super().__init__()
        self.feat_scale = True
        self.lambda_dc, self.lambda_hf = nn.Parameter(torch.randn(WIDTH)), nn.Parameter(torch.randn(WIDTH))

    def forward(self, x: Tensor, pe: Tensor | None = None, context: Tensor | None = None) -> Tensor:
        out = super().forward(x, pe, context)
        if self.feat_scale:
            mean = out.mean(1, keepdim=True)
            out = out + self.lambda_dc * mean + self.lambda_hf * (out - mean)
        return out


class SoundBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.self_attn, self.cross_attn = SetOff(), SetOff()

    def forward(self, x: Tensor, rotary_pos_emb: tuple[Tensor, float], local_add_cond: Tensor, context: Tensor) -> Any:
        x = x + self.self_attn(x, rotary_pos_emb[0]) + self.cross_attn(x, context=context)
        return x + F.pad(local_add_cond, (0, 0, x.shape[1] - local_add_cond.shape[1], 0))


class LikeStableAudio(nn.Module):
    """Three tokens of its own before the sound, to which alone what is given for it is added."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = nn.Parameter(torch.randn(1, 3, WIDTH))
        self.transformer = nn.ModuleDict({"layers": nn.ModuleList(SoundBlock() for _ in range(2))})

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        given, x = x.sin(), torch.cat([self.memory, x], 1)
        pe = table(x.shape[1])[0, 0]
        for block in self.transformer["layers"]:
            x = block(x, rotary_pos_emb=(pe, 1.0), local_add_cond=given, context=context)
        return x[:, 3:]


class Kept(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: Tensor, freqs: Tensor, attend: Any, past: Any) -> Any:
        q, k, v = map(headed, self.qkv(x).chunk(3, 2))
        q, k = q * freqs, k * freqs
        if past:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        return joined(attend(q, k, v)), (k, v)


class KeptBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.self_attn = Kept()

    def forward(self, x: Tensor, freqs_cis: Any, optimized_attention: Any, past_key_value: Any) -> Any:
        out, kept = self.self_attn(x, freqs_cis[0], optimized_attention, past_key_value)
        return x + out, kept


class LikeHiDreamO1(nn.Module):
    """A prompt whose words see those before them; its keys are kept, so that a second call begins behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.language_model, self.kept = nn.ModuleDict({"layers": nn.ModuleList(KeptBlock() for _ in range(2))}), []

    def clear_kv_cache(self) -> None:
        self.kept = []

    def forward(self, x: Tensor, input_ids: Tensor, ar_len: int) -> Tensor:
        words = torch.sin(input_ids[..., None] * torch.arange(1.0, WIDTH + 1))
        tokens = torch.cat([words, F.unfold(x, 32, stride=32).transpose(1, 2)[..., :WIDTH]], 1)
        start, freqs, made = ar_len if self.kept else 0, table(tokens.shape[1]), []

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            if q.shape[2] < k.shape[2]:
                return F.scaled_dot_product_attention(q, k, v)
            first = F.scaled_dot_product_attention(*(t[:, :, :ar_len] for t in (q, k, v)), is_causal=True)
            return torch.cat([first, F.scaled_dot_product_attention(q[:, :, ar_len:], k, v)], 2)

        out = tokens[:, start:]
        for number, layer in enumerate(self.language_model["layers"]):
            past = self.kept[number] if self.kept else ()
            out, kept = layer(
                x=out, freqs_cis=(freqs[..., start:, :],), optimized_attention=attend, past_key_value=past
            )
            made.append([each[:, :, :ar_len] for each in kept])
        self.kept = self.kept or made
        return out[:, -(tokens.shape[1] - input_ids.shape[1]) :]


def cases() -> dict[str, tuple[nn.Module, SplitPlan, dict[str, Any]]]:
    torch.manual_seed(6)
    sound, video = {"x": torch.randn(1, 23, WIDTH)}, {"x": torch.randn(1, WIDTH, 3, 5, 3)}
    text = {"context": torch.randn(1, 4, WIDTH)}
    frames = {"times": torch.tensor([[0.0, 0.7, 0.9]])}
    prompt = {"x": torch.randn(1, 3, 96, 160), "input_ids": torch.arange(6)[None], "ar_len": 5}
    return {
        "rows": (LikeCosmos(), COSMOS_2, video | text | {"times": torch.tensor([[0.7]])}),
        "rows, times of frames": (LikeCosmos(), COSMOS_2, video | text | frames),
        "sums": (LikeAceStep(), ACE_STEP, sound | text),
        "a window": (LikeAceStep15(), ACE_STEP_15, sound),
        "set off": (LikeStableAudio(), STABLE_AUDIO, sound | text),
        "a prompt": (LikeHiDreamO1(), HIDREAM_O1, prompt),
    }


@by_plan
def answers(rank: int, mesh: Mesh) -> dict[str, tuple[float, float, Any]]:
    """Collective: how far each model by its plan is from the model whole, in a first call and in a second, and its
    bits."""
    found = {}
    with torch.no_grad():
        for name, (model, split, given) in cases().items():
            whole = model(**given)
            getattr(model, "clear_kv_cache", dict)()
            handle = shard(model, split, mesh)
            out, again = model(**given), model(**given)
            handle.remove()
            apart = [float((each - whole).abs().max() / whole.abs().max()) for each in (out, again)]
            found[name] = (*apart, bits([out, again]))
    return found
