"""A Ray Serve application: pictures of prompts, by as many machines as the load needs.

serve run deploy.ray.app:app devices=cpu*2 plan=cfg=2   # or rayservice.yaml; then POST {"prompt": "a star", "seed": 7}

A `Painter` owns the devices of its machine and makes one picture at a time, which ends where the client hangs up. The
`Door` sends a request whose painter is lost to another one: the same seed gives the same picture.
"""

import asyncio
import io
import threading

import torch
from ray import serve
from ray.exceptions import RayActorError
from starlette.requests import Request
from starlette.responses import Response

import latentloom

ARGUMENTS = {"negative_prompt": "", "true_cfg_scale": 3.0, "height": 128, "width": 128, "max_sequence_length": 40}
SCALING = {"min_replicas": 1, "max_replicas": 2, "target_ongoing_requests": 1, "upscale_delay_s": 5}


@serve.deployment(autoscaling_config=SCALING, max_ongoing_requests=1, ray_actor_options={"num_cpus": 1})
class Painter:
    def __init__(self, devices: str = "all", source: str = "builtin:bobbin", plan: str = "") -> None:
        self.pipeline = latentloom.Pool(devices).spread(source, plan)

    async def paint(self, prompt: str, seed: int, steps: int) -> bytes:
        given = {"prompt": prompt, "num_inference_steps": steps, "generator": torch.Generator().manual_seed(seed)}
        gone = threading.Event()  # of this request alone: Serve sends the next one before this one's run has ended
        try:
            made = await asyncio.to_thread(self.pipeline, **given, **ARGUMENTS, cancel=gone)
        finally:
            gone.set()
        made.images[0].save(picture := io.BytesIO(), "PNG")
        return picture.getvalue()


@serve.deployment(max_ongoing_requests=1000)
class Door:
    def __init__(self, painter: serve.handle.DeploymentHandle) -> None:
        self.painter = painter

    async def __call__(self, request: Request) -> Response:
        given = {"seed": 0, "steps": 16, **await request.json()}
        for _ in range(3):
            try:
                asked = str(given["prompt"]), int(given["seed"]), int(given["steps"])
                return Response(await self.painter.paint.remote(*asked), media_type="image/png")
            except RayActorError:  # the painter, or its machine, is lost
                pass
        return Response("lost too often; try again later", status_code=503)


def app(args: dict[str, str]) -> serve.Application:
    return Door.bind(Painter.bind(**args))
