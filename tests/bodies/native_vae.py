"""What ranks do with a VAE of a ComfyUI that is a folder of stand-ins by its rules."""

import sys
from typing import Any

import torch
from torch import nn

from bodies.rank import bits
from latentloom.nodes.hosts.native import on_rank, vae
from latentloom.parallel.ranks.seat import Seat
from support.told import Told

SOURCES = {
    "options": "def enable_args_parsing(is_on): pass",
    "cli_args": "import enum, types\nPerformanceFeature = enum.Enum('P', ['a'])\nargs = types.SimpleNamespace()",
    "model_management": "asked = []\ndef load_models_gpu(models, **how): asked.append((models, how))\n"
    "def soft_empty_cache(): pass",
    "ldm/modules/attention": "",
    "sd": "import types, bodies.native_vae\nfrom comfy.cli_args import args\n"
    "def load_vae_patcher(path):\n"
    "    return types.SimpleNamespace(path=path, model=bodies.native_vae.Coder(), args=dict(vars(args)),"
    " detach=lambda: None)",
}


class Decoder(nn.Module):
    """Padded by zeros that it makes itself, as Wan's is, with a scale in the picture's format."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((4, 1, 1, 1), 2.0, dtype=torch.float64))
        self.conv = nn.Conv3d(4, 3, 3, padding=(0, 1, 1))

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        x = z * self.scale.to(z)
        frames = [*x.shape[:2], 2, *x.shape[3:]]
        return self.conv(torch.cat([torch.zeros(frames, dtype=x.dtype), x], 2))


class Coder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.encoder, self.decoder = nn.Linear(2, 2), Decoder()

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return self.encoder(x)

    def decode(self, z: torch.Tensor) -> torch.Tensor:
        return self.decoder(z)


def decoded(rank: int, num_ranks: int, folder: str, path: str, mark: list[int]) -> dict[str, Any] | None:
    """Collective: one picture twice, and another dtype: how far it is from whole, and what was loaded how often."""
    if rank >= num_ranks:
        return None
    recipe = {"loader": "load_vae_patcher", "path": path, "mark": mark, "options": {}}
    z = torch.randn(1, 4, 3, 9, 5, generator=torch.Generator().manual_seed(1))
    request = {"recipe": recipe, "latents": z, "num_bytes": 7, "host": {"folder": folder, "true": {}, "fast": []}}
    told, seat = Told(), Seat(rank=rank, num_ranks=num_ranks, device="cpu")
    on_rank.HELD["a model"] = on_rank.Held(base=None)
    with torch.no_grad():
        whole = Coder().decode(z)
    try:
        first, second = (vae.decode({**request, "dtype": "float32"}, told, seat)["pixels"] for _ in range(2))
        asked = sys.modules["comfy.model_management"].asked
        last, formats = list(on_rank.HELD), asked[-1][0][0].args
        vae.decode({**request, "dtype": "bfloat16"}, told, seat)
        return {
            "apart": float((whole - first).abs().max() / whole.abs().max()),
            "bits": bits([first, second]),
            "phases": told.phases,
            "asked": asked[0][1],
            "formats": formats,
            "held": [len(last), last[0], len(on_rank.HELD)],
        }
    finally:
        on_rank.HELD.clear()
        sys.path.remove(folder)
        for name in [each for each in sys.modules if each.partition(".")[0] == "comfy"]:
            del sys.modules[name]
