"""Sockets that several nodes have alike; a node adds what it means by them."""

from typing import Annotated

from ...pipelines.values import Noise
from ..graph.spec import MAX_SEED, Saved, Socket

MAX_SIDE = 16384

Seed = Annotated[int, Socket(widget="seed", min=0, max=MAX_SEED)]
Pixels = Annotated[int, Socket(min=0, max=MAX_SIDE, auto=True)]
Frames = Annotated[int, Socket(min=0, max=4096, auto=True, help="Length of a video; 0 is the model's own")]
Scale = Annotated[float, Socket(min=0, max=100, auto=True, step=0.1)]
OtherScale = Annotated[float, Socket(min=0, max=100, auto=True, step=0.1, advanced=True)]
Text = Annotated[str, Socket(widget="multiline")]
NewText = Annotated[str, Socket(name="text")]
FileName = Annotated[str, "File name without ending; folders are allowed"]
Files = Annotated[Saved, Socket(name="files")]
NoiseChoice = Annotated[
    Noise,
    Socket(advanced=True),
    "seed: one seed is one picture in every number format; diffusers: what its own pipelines draw in bf16 and fp16, "
    "to compare with them",
]
