"""A Ray Serve application: pictures of prompts, by as many machines as the load needs.

serve run deploy.ray.app:app         # or deploy/ray/rayservice.yaml; then POST {"prompt": "a red star", "seed": 7}

A `Painter` owns the devices of its machine and makes one picture at a time. The `Door` sends a request whose painter is
lost to another one: the same seed gives the same picture. Whoever hangs up ends his picture at its next step.
"""

import asyncio
import io
from typing import Any

import torch
from ray import serve
from ray.exceptions import RayActorError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

DEVICES, SOURCE, PLAN = "cpu*2", "builtin:bobbin", "cfg=2"
ARGUMENTS = {"negative_prompt": "", "true_cfg_scale": 3.0, "height": 128, "width": 128, "max_sequence_length": 40}
SCALING = {"min_replicas": 1, "max_replicas": 2, "target_ongoing_requests": 1, "upscale_delay_s": 5}
MAX_ATTEMPTS = 3


@serve.deployment(autoscaling_config=SCALING, max_ongoing_requests=1, ray_actor_options={"num_cpus": 1})
class Painter:
    def __init__(self) -> None:
        import latentloom

        self.pipeline = latentloom.Pool(DEVICES).spread(SOURCE, PLAN)

    async def paint(self, prompt: str, seed: int, steps: int) -> bytes:
        noise = torch.Generator().manual_seed(seed)
        given = {"prompt": prompt, "num_inference_steps": steps, "generator": noise, **ARGUMENTS}
        call = asyncio.create_task(asyncio.to_thread(self.pipeline, **given))
        try:
            made = await asyncio.shield(call)
        except asyncio.CancelledError:
            self.pipeline.cancel()
            await asyncio.wait([call])
            raise
        made.images[0].save(picture := io.BytesIO(), "PNG")
        return picture.getvalue()


@serve.deployment(max_ongoing_requests=1000)
class Door:
    def __init__(self, painter: Any) -> None:
        self.painter = painter

    async def __call__(self, request: Request) -> Response:
        given = await request.json()
        asked = (str(given["prompt"]), int(given.get("seed", 0)), int(given.get("steps", 16)))
        for _ in range(MAX_ATTEMPTS):
            try:
                return Response(await self.painter.paint.remote(*asked), media_type="image/png")
            except RayActorError:  # the painter, or its machine, is lost
                continue
            except ValueError as error:
                return JSONResponse({"error": str(error)}, status_code=400)
        return JSONResponse({"error": f"lost {MAX_ATTEMPTS} times; try again later"}, status_code=503)


app = Door.bind(Painter.bind())
