"""How the cases of `comfyui_models.py` and its neighbours are made: models on the CPU, inputs, and what comes out."""

import sys
from typing import Any

import torch
from torch import Tensor, nn

Made = tuple[nn.Module, dict[str, Any]]


def set_up(folder: str) -> None:
    """ComfyUI reads the command line when it is imported, and fixes by it what attends."""
    argv, sys.argv = sys.argv, ["comfyui"]
    sys.path.insert(0, folder)
    from comfy import options

    options.enable_args_parsing(False)
    from comfy.cli_args import args

    args.cpu = True
    args.use_pytorch_cross_attention = True  # what it takes on a CPU by itself never reaches torch's
    import comfy.ldm.modules.attention  # noqa: F401

    sys.argv = argv


def built(kind: type, **config: Any) -> Any:
    """A model of this class; an older version does not know each option, and does without one that is off."""
    while True:
        try:
            return kind(**config)
        except TypeError as error:
            name = str(error).partition("unexpected keyword argument ")[2].strip("'")
            if name not in config or config.pop(name):
                raise


def made_of(kind: type, **config: Any) -> nn.Module:
    """On the CPU in fp32, no weight of it zero, so that nothing can hide. Settings that an older class does not
    take are left out."""
    import comfy.ops

    model = built(kind, **config, dtype=torch.float32, device="cpu", operations=comfy.ops.disable_weight_init)
    torch.manual_seed(0)
    for name, each in [*model.named_parameters(), *model.named_buffers()]:
        if each.is_floating_point() and each.numel():
            is_scale = each.ndim < 2 and ("norm" in name or "inv_freq" in name)
            nn.init.normal_(each, mean=float(is_scale), std=0.08 if each.ndim > 1 else 0.05)
    return model.eval().requires_grad_(False)


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def residuals(batch: int, num_tokens: int, width: int) -> dict[str, list[Tensor | None]]:
    return {"input": [noise(batch, num_tokens, width), None], "output": [noise(batch, num_tokens, width)]}


def fresh(value: Any) -> Any:
    """Copies: models write into what they are given."""
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {name: fresh(each) for name, each in value.items()}
    return [fresh(each) for each in value] if isinstance(value, list) else value


def in_two_rows(value: Any) -> Any:
    """A call for two conditionings at once, of which the second is another; one that is for two stays as it is."""
    if isinstance(value, Tensor):
        is_one = value.ndim and value.shape[0] == 1
        # of times both are the same, as ComfyUI asks; of masks the second hides other words
        other = value if value.ndim < 2 else value.flip(-1) if value.ndim == 2 else value.flip(1)
        return torch.cat([value, other]) if is_one else value
    if isinstance(value, dict):
        return {name: in_two_rows(each) for name, each in value.items()}
    return [in_two_rows(each) for each in value] if isinstance(value, list) else value


def row_of(value: Any, number: int) -> Any:
    """One row of a call for two."""
    if isinstance(value, Tensor):
        return value[number : number + 1] if value.ndim and value.shape[0] == 2 else value
    if isinstance(value, dict):
        return {name: row_of(each, number) for name, each in value.items()}
    return [row_of(each, number) for each in value] if isinstance(value, list) else value


def outputs(model: nn.Module, call: dict[str, Any]) -> list[Tensor]:
    """What it gives: MiniMax H3 a video and its sound, the others one tensor."""
    with torch.no_grad():
        found = model(**fresh(call), transformer_options={})
    return list(found) if isinstance(found, list | tuple) else [found]
