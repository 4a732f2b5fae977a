"""Nodes for `comfyui_native.py`, a custom node of the ComfyUI that it starts: made-up conditioning, latents as numbers,
and what other packs do to a MODEL that ranks cannot have.
"""

import hashlib
import statistics
import time
from pathlib import Path
from typing import Any, ClassVar

import comfy.patcher_extension
import torch


class Cond:
    """A conditioning of random numbers."""

    RETURN_TYPES, FUNCTION, CATEGORY = ("CONDITIONING",), "go", "test"

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        whole = {"default": 0}
        return {"required": {"seed": ("INT", whole), "tokens": ("INT", whole), "width": ("INT", whole)}}

    def go(self, seed: int, tokens: int, width: int) -> tuple[Any]:
        generator = torch.Generator().manual_seed(seed)
        more = {"pooled_output": torch.randn(1, 32, generator=generator), "guidance": 3.5}
        return ([[torch.randn(1, tokens, width, generator=generator), more]],)


class Show:
    """Writes a latent's numbers beside the server's pictures."""

    RETURN_TYPES, FUNCTION, CATEGORY, OUTPUT_NODE = (), "go", "test", True

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {"required": {"latent": ("LATENT",), "name": ("STRING", {})}}

    def go(self, latent: Any, name: str) -> dict[str, Any]:
        import folder_paths

        samples = latent["samples"]
        parts = list(samples.unbind()) if getattr(samples, "is_nested", False) else [samples]
        path = Path(folder_paths.get_output_directory()) / f"{name}.pt"
        torch.save([each.cpu().clone() for each in parts], path)
        marks = [hashlib.sha256(each.contiguous().numpy().tobytes()).hexdigest()[:12] for each in parts]
        return {"ui": {"marks": marks}}


class Latent:
    """Latents of random numbers."""

    RETURN_TYPES, FUNCTION, CATEGORY = ("LATENT",), "go", "test"

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {"required": {"seed": ("INT", {"default": 0}), "shape": ("STRING", {})}}

    def go(self, seed: int, shape: str) -> tuple[Any]:
        generator = torch.Generator().manual_seed(seed)
        return ({"samples": torch.randn([int(each) for each in shape.split()], generator=generator)},)


class ShowImage(Show):
    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {"required": {"image": ("IMAGE",), "name": ("STRING", {})}}

    def go(self, image: Any, name: str) -> dict[str, Any]:
        return super().go({"samples": image}, name)


class Ranks:
    """The processes of ranks that this server's pools have now."""

    RETURN_TYPES, FUNCTION, CATEGORY, OUTPUT_NODE = (), "go", "test", True

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {"required": {"turn": ("INT", {"default": 0})}}

    def go(self, turn: int) -> dict[str, Any]:
        from latentloom.pipelines.pools import POOLS

        return {"ui": {"pids": [rank.pid for pool in POOLS.open.values() for rank in pool.states()]}}


class Keep:
    """An output that a MODEL ends at: its loader runs, and nothing else."""

    RETURN_TYPES, FUNCTION, CATEGORY, OUTPUT_NODE = (), "go", "test", True

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {"required": {"model": ("MODEL",)}}

    def go(self, model: Any) -> dict[str, Any]:
        return {"ui": {}}


class Counts:
    """What has crossed the border since this was asked last: a row for each call of a MODEL's ranks."""

    RETURN_TYPES, FUNCTION, CATEGORY, OUTPUT_NODE = (), "go", "test", True
    rows: ClassVar[list[dict[str, Any]]] = []
    seconds: ClassVar[list[float]] = []

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {"required": {"turn": ("INT", {"default": 0})}}

    def go(self, turn: int) -> dict[str, Any]:
        from latentloom.nodes.hosts.native.border import Border
        from latentloom.parallel.pool import pool

        if not hasattr(Border._answer, "counted"):
            self.count(Border, pool)
        found = {"rows": list(self.rows), "overhead": [_overhead(self.seconds, len(self.rows))]}
        self.rows.clear()
        self.seconds.clear()
        return {"ui": found}

    def count(self, border: Any, pool: Any) -> None:
        answer, write, call = border._answer, pool.write_body, pool.Pool.call

        def answered(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            out = answer(*args, **kwargs)
            self.seconds.append(time.perf_counter() - began)
            self.rows[-1]["copies in the host"] = int(not _is_shared(out))
            return out

        def written(plain: Any) -> Any:
            if "arguments" in plain:
                moving = {key: plain["arguments"].get(key) for key in ("x", "timestep", "timesteps", "control")}
                moving["sigmas"] = plain["options"].get("sigmas")
                rest = {**plain["arguments"], **plain["options"], **dict.fromkeys(moving)}
                self.rows.append({"moving": _bytes_in(moving), "conditioning": _bytes_in(rest)})
            return write(plain)

        def called(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            out = call(*args, **kwargs)
            self.seconds.append(began - time.perf_counter())
            return out

        answered.counted = True
        border._answer, pool.write_body, pool.Pool.call = answered, written, called


def _overhead(seconds: list[float], num_calls: int) -> dict[str, float]:
    """In ms: what the border does itself around each call of a pool, and a call of a pool whose ranks do nothing."""
    from latentloom.pipelines.pools import POOLS

    border = [seconds[index] + seconds[index + 1] for index in range(0, len(seconds) - 1, 2)]
    empty = []
    for pool in list(POOLS.open.values())[-1:] if num_calls else ():
        for _ in range(200):
            began = time.perf_counter()
            request = {"x": torch.zeros(1, 16, 64, 64)}
            pool.call(".pipelines.pools:on_rank", request, num_ranks=pool.size)
            empty.append(time.perf_counter() - began)
    return {
        name: 1000 * statistics.median(each) if each else 0.0 for name, each in (("border", border), ("pool", empty))
    }


def _bytes_in(plain: Any) -> int:
    if isinstance(plain, torch.Tensor):
        return plain.numel() * plain.element_size()
    parts = plain.values() if isinstance(plain, dict) else plain if isinstance(plain, list) else ()
    return sum(map(_bytes_in, parts))


def _is_shared(out: Any) -> bool:
    """Whether a tensor lies in a file without a name that this process has mapped, as a rank has written it."""
    place = (out[0] if isinstance(out, list) else out).data_ptr()
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, end = (int(each, 16) for each in line.split()[0].split("-"))
        if start <= place < end:
            return line.endswith("(deleted)")
    return False


class Trap:
    """A node that does one thing to a MODEL."""

    RETURN_TYPES, FUNCTION, CATEGORY = ("MODEL",), "go", "test"

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {"required": {"model": ("MODEL",)}}

    def set(self, model: Any) -> None:
        raise NotImplementedError

    def go(self, model: Any) -> tuple[Any]:
        model = model.clone()
        self.set(model)
        return (model,)


class Attn1Patch(Trap):
    def set(self, model: Any) -> None:
        model.set_model_attn1_patch(lambda q, k, v, **_: {"q": q, "k": k, "v": v})


class PatchesReplace(Trap):
    def set(self, model: Any) -> None:
        def replaced(args: Any, extra: Any) -> Any:
            return extra["original_block"](args)

        model.set_model_patch_replace(replaced, "dit", "double_block", 0)


class WrapperHook(Trap):
    """A wrapper that hangs a hook at a block while the model is asked."""

    def set(self, model: Any) -> None:
        def wrapper(executor: Any, *args: Any, **kwargs: Any) -> Any:
            block = next(iter(executor.class_obj.double_blocks))
            hook = block.register_forward_hook(lambda module, args, output: tuple(each * 1.01 for each in output))
            try:
                return executor(*args, **kwargs)
            finally:
                hook.remove()

        model.add_wrapper_with_key(comfy.patcher_extension.WrappersMP.DIFFUSION_MODEL, "stranger", wrapper)


class Doubled(Trap):
    """A wrapper that is right in the host: it doubles what the model gives."""

    def set(self, model: Any) -> None:
        def wrapper(executor: Any, *args: Any, **kwargs: Any) -> Any:
            return executor(*args, **kwargs) * 1.5

        model.add_wrapper_with_key(comfy.patcher_extension.WrappersMP.DIFFUSION_MODEL, "stranger", wrapper)


class MultiGpu(Trap):
    """What MultiGPU CFG Split leaves at a model where there are several GPUs."""

    def set(self, model: Any) -> None:
        other = model.clone()
        other.is_multigpu_base_clone = True
        model.set_additional_models("multigpu", [other])


class NoRecipe(Trap):
    def set(self, model: Any) -> None:
        model.cached_patcher_init = None


class Nvfp4(Trap):
    """A layer marked as one in NVFP4 without an input_scale, for as long as the server runs."""

    def set(self, model: Any) -> None:
        model.add_object_patch("concat_keys", ())
        layer = model.model.diffusion_model.double_blocks[0].img_mlp[0]
        layer.quant_format = "nvfp4"


class NotNvfp4(Trap):
    def set(self, model: Any) -> None:
        layer = model.model.diffusion_model.double_blocks[0].img_mlp[0]
        layer.__dict__.pop("quant_format", None)


class ObjectPatch(Trap):
    def set(self, model: Any) -> None:
        block = model.model.diffusion_model.double_blocks[0]
        model.add_object_patch("diffusion_model.double_blocks.0.forward", block.forward)


TRAPS = (Attn1Patch, PatchesReplace, WrapperHook, Doubled, MultiGpu, NoRecipe, Nvfp4, NotNvfp4, ObjectPatch)
NODE_CLASS_MAPPINGS = {
    f"Test{each.__name__}": each for each in (Cond, Latent, Show, ShowImage, Ranks, Keep, Counts, *TRAPS)
}
