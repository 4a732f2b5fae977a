"""A model of Triton's Python backend that owns the devices of its machine: a picture of a prompt, made by a pool.

The names of config.pbtxt's parameters are what `latentloom.Pool` and `spread` take. A request that its client cancels
(over gRPC) ends at its next step, on all ranks; a rank that dies is replaced, and the request done again.
"""

import json
from typing import Any

import numpy as np
import torch
import triton_python_backend_utils as pb_utils

import latentloom
from latentloom.parallel.errors import Cancelled, LoomError


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        parameters = json.loads(args["model_config"])["parameters"]
        given = {name: each["string_value"] for name, each in parameters.items()}
        self.arguments = json.loads(given["arguments"])
        self.pool = latentloom.Pool(given["devices"])
        self.pipeline = self.pool.spread(given["source"], given["plan"])

    def execute(self, requests: list[Any]) -> list[Any]:
        return [self._answer(request) for request in requests]

    def finalize(self) -> None:
        self.pool.close()

    def _answer(self, request: Any) -> Any:
        def on_step(done: int, total: int) -> None:
            if request.is_cancelled():
                self.pipeline.cancel()

        given = {each.name(): each.as_numpy().reshape(-1)[0] for each in request.inputs()}
        steps = {"num_inference_steps": int(given["STEPS"])} if "STEPS" in given else {}
        try:
            made = self.pipeline(
                prompt=given["PROMPT"].decode(),
                generator=torch.Generator().manual_seed(int(given["SEED"])),
                on_step=on_step,
                **{**self.arguments, **steps},
            )
        except Cancelled:
            return _error("cancelled by the client", pb_utils.TritonError.CANCELLED)
        except ValueError as error:  # one sentence about what the client gave
            return _error(str(error), pb_utils.TritonError.INVALID_ARG)
        except LoomError as error:  # one about the machine
            return _error(str(error), pb_utils.TritonError.INTERNAL)
        return pb_utils.InferenceResponse([pb_utils.Tensor("IMAGE", np.asarray(made.images[0]))])


def _error(message: str, code: int) -> Any:
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(message, code))
