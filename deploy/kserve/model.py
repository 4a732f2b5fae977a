"""A KServe model: a picture of a prompt over the Open Inference Protocol (V2), made by a pool of the machine's devices.

python deploy/kserve/model.py --devices 'cpu*2' --plan cfg=2 --http_port 8080

Inputs PROMPT, SEED and STEPS; output IMAGE: rows, columns, red, green and blue. One picture is made at a time.
"""

import argparse
import asyncio
import uuid
from typing import Any

import numpy as np
import torch
from kserve import InferOutput, InferRequest, InferResponse, Model, ModelServer, model_server
from kserve.errors import InvalidInput

import latentloom

ARGUMENTS = {"negative_prompt": "", "true_cfg_scale": 3.0, "height": 128, "width": 128, "max_sequence_length": 40}


class Painter(Model):
    def __init__(self, devices: str, source: str, plan: str) -> None:
        super().__init__("latentloom")
        self.pool = latentloom.Pool(devices)
        self.pipeline = self.pool.spread(source, plan)
        self.turn = asyncio.Lock()
        self.ready = True

    async def predict(self, payload: InferRequest, headers: Any = None, response_headers: Any = None) -> InferResponse:
        given = {each.name: each.as_numpy().reshape(-1)[0] for each in payload.inputs}
        if "PROMPT" not in given:
            raise InvalidInput("there is no input PROMPT; give one of datatype BYTES")
        prompt = given["PROMPT"]
        noise = torch.Generator().manual_seed(int(given.get("SEED", 0)))
        asked = {"prompt": prompt.decode() if isinstance(prompt, bytes) else str(prompt), "generator": noise}
        async with self.turn:
            try:
                steps = int(given.get("STEPS", 16))
                made = await asyncio.to_thread(self.pipeline, num_inference_steps=steps, **asked, **ARGUMENTS)
            except ValueError as error:
                raise InvalidInput(str(error)) from None
        pixels = np.asarray(made.images[0])
        image = InferOutput("IMAGE", list(pixels.shape), "UINT8")
        image.set_data_from_numpy(pixels, binary_data=bool(payload.use_binary_outputs))
        return InferResponse(payload.id or uuid.uuid4().hex, self.name, [image])

    def stop(self) -> None:
        self.pool.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(parents=[model_server.parser])
    parser.add_argument("--devices", default="all")
    parser.add_argument("--source", default="builtin:bobbin")
    parser.add_argument("--plan", default="")
    args = parser.parse_args()
    ModelServer().start([Painter(args.devices, args.source, args.plan)])
