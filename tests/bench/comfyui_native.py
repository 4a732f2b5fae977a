"""Spread Model in a real ComfyUI on the CPU: its samplers with and without it, LoRAs, interrupts, and ten traps.

COMFYUI_DIR=DIR COMFYUI_PYTHON=PYTHON python tests/bench/comfyui_native.py [PART...]

DIR and PYTHON are as in `comfyui_session.py`; the parts are the names of PARTS, without one all;
`older` is of a ComfyUI such as 0.3.64, with COMFYUI_MODELS=wan.
Weights are random and made here. Each line of a table compares the latents that a stock KSampler gives on `cpu*2`
behind Spread Model with those without it: the same bits, or how far they are apart as a part of the largest. Exits 1
where anything is not as it must be, and 0 with a word where ComfyUI is not here. COMFYUI_MODELS=flux,h3 chooses
models.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent))
from comfyui_session import ALONE, SHIMS, Host, Refused, comfyui

HERE = Path(__file__).resolve().parent
NODES = HERE / "comfyui_native_nodes"
DEVICES = "cpu*2"
EXACT, ROUNDED = 1e-6, 1e-6  # of the largest latent: what is allowed of ulysses, and of a ring
EXACT_PIXELS = 1e-5
SAMPLERS = ("euler", "dpmpp_2m", "uni_pc", "euler_ancestral")
WIDTHS = {
    "flux": 64,
    "flux_gb": 64,
    "wan": 4096,
    "qwen": 3584,
    "z_image": 64,
    "h3": 80,
    "sd3": 64,
    "joy": 4096,
    "sd15": 768,
}
KINDS = tuple(os.environ.get("COMFYUI_MODELS", "flux,wan,qwen").split(","))
INTERRUPTS = 20
More = Mapping[str, tuple[str, Mapping[str, Any]]]


@dataclass
class Session:
    """One server, and what was found with it."""

    host: Host
    failed: list[str] = field(default_factory=list)
    num_checked: int = 0
    _number: int = 0

    def tell(self, line: str, *, is_right: bool) -> None:
        self.num_checked += 1
        if not is_right:
            self.failed.append(line)
        print(f"  {'' if is_right else 'WRONG  '}{line}", flush=True)

    def queue(self, nodes: Mapping[str, Any]) -> str:
        prompt = {key: {"class_type": kind, "inputs": inputs} for key, (kind, inputs) in nodes.items()}
        return self.host.ask("/prompt", {"prompt": prompt})["prompt_id"]

    def ended(self, number: str, *, limit_s: float = 400.0) -> Any:
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            found = self.host.ask(f"/history/{number}").get(number)
            if found and found["status"].get("status_str"):
                return found
            time.sleep(0.02)
        raise AssertionError(f"no end in {limit_s:.0f} s")

    def ranks(self) -> list[int]:
        """The processes of the server's ranks."""
        self._number += 1
        found = self.ended(self.queue({"ranks": ("TestRanks", {"turn": self._number})}))
        return found["outputs"]["ranks"]["pids"]

    def free(self) -> None:
        """What ComfyUI is asked to free goes from the ranks, too."""
        pids = self.ranks()
        self.host.ask("/free", {"unload_models": True, "free_memory": True})
        time.sleep(5)
        left = [pid for pid in pids if Path(f"/proc/{pid}").exists()]
        self.tell(
            f"{'POST /free, 5 s later':44} {len(left)} of {len(pids)} ranks left", is_right=bool(pids) and not left
        )

    def sampled(self, **given: Any) -> tuple[Any, str]:
        """The latents, or none and why."""
        self._number += 1
        name = f"n{self._number}"
        return self._made(name, nodes_of(name, **given))

    def shown(self, nodes: Mapping[str, Any]) -> tuple[Any, str]:
        """The pictures of a node `decode`, or none and why."""
        self._number += 1
        name = f"n{self._number}"
        return self._made(name, {**nodes, "show": ("TestShowImage", {"image": ["decode", 0], "name": name})})

    def _made(self, name: str, nodes: Mapping[str, Any]) -> tuple[Any, str]:
        import torch

        try:
            found = self.ended(self.queue(nodes))
        except Refused as error:
            return None, str(error)[:600]
        if found["status"]["status_str"] != "success":
            told = [data for kind, data in found["status"]["messages"] if kind == "execution_error"]
            return None, f"{told[0]['node_type']}: {told[0]['exception_message'].strip()}" if told else "interrupted"
        return torch.load(self.host.base / "output" / f"{name}.pt", weights_only=True), ""

    def compare(self, label: str, plan: str, *, most: float = EXACT, whole: Any = None, **given: Any) -> Any:
        """The same prompt with and without; what was sampled without."""
        import torch

        if whole is None:
            whole, why = self.sampled(**given)
            if whole is None:
                self.tell(f"{label:44} fails without Spread Model: {why[:160]}", is_right=False)
                return None
        found, why = self.sampled(plan=plan, **given)
        if found is None:
            self.tell(f"{label:44} {plan:12} fails: {why[:300]}", is_right=False)
            return whole
        pairs = list(zip(whole, found, strict=True))
        share = apart(whole, found)
        how = "the same bits" if all(torch.equal(a, b) for a, b in pairs) else f"{share:.1e} of the largest"
        self.tell(f"{label:44} {plan:12} {how}", is_right=share <= most)
        return whole

    def refused(self, label: str, words: str, /, **given: Any) -> None:
        """One sentence that names what is wrong, and nothing in place of a result."""
        found, why = self.sampled(**given)
        line = " ".join(why.split())
        is_right = found is None and words.casefold() in line.casefold() and "Traceback" not in line
        self.tell(f"{label:44} {'refused: ' + line[:230] if found is None else 'RAN'}", is_right=is_right)


def apart(whole: Any, found: Any) -> float:
    """How far latents are apart, as a part of the largest."""
    return max(float((a - b).abs().max() / a.abs().max()) for a, b in zip(whole, found, strict=True))


def nodes_of(
    name: str,
    *,
    kind: str = "flux",
    plan: str = "",
    sampler: str = "euler",
    cfg: float = 3.0,
    steps: int = 4,
    seed: int = 5,
    lora: tuple[float, ...] = (),
    behind: tuple[float, ...] = (),
    before: More | None = None,
    after: More | None = None,
    whole: bool = False,
    words: str = "",
    ends: More | None = None,
    size: tuple[int, int] = (136, 104),
    batch: int = 1,
    loader: str = "UNETLoader",
) -> dict[str, Any]:
    """A stock graph: a loader, LoRAs and other nodes before and behind Spread Model, and a KSampler."""
    file = f"tiny_{kind}.safetensors"
    named = {"unet_name": file, "weight_dtype": "default"} if loader == "UNETLoader" else {"ckpt_name": file}
    made: dict[str, Any] = {"load": (loader, named)}
    last = ["load", 0]

    def add(key: str, type: str, inputs: Mapping[str, Any]) -> None:
        nonlocal last
        made[key] = (type, {"model": last, **inputs})
        last = [key, 0]

    def add_loras(where: str, strengths: tuple[float, ...]) -> None:
        for number, strength in enumerate(strengths):
            inputs = {"lora_name": file, "strength_model": strength}
            add(f"lora_{where}_{number}", "LoraLoaderModelOnly", inputs)

    add_loras("before", lora)
    for key, (type, inputs) in (before or {}).items():
        add(key, type, inputs)
    if plan:
        add("spread", "LoomSpreadModel", {"devices": DEVICES, "plan": plan, "allow_whole": whole})
    for key, (type, inputs) in (after or {}).items():
        add(key, type, inputs)
    add_loras("behind", behind)
    for key, (type, inputs) in (ends or {}).items():
        made[key] = (type, {"model": last, **inputs})
    for key, number in (("positive", 1), ("negative", 2)):
        tokens = 13 if (key, words) == ("positive", "longer") else 9
        made[key] = ("TestCond", {"seed": number, "tokens": tokens, "width": WIDTHS[kind]})
    sized = {"width": size[0], "height": size[1], "batch_size": batch}
    made["empty"] = ("EmptySD3LatentImage", sized)
    if kind == "sd15":
        made["empty"] = ("EmptyLatentImage", sized)
    if kind == "wan":
        made["empty"] = ("EmptyHunyuanLatentVideo", {**sized, "length": 9})
    if kind == "h3":
        made["empty"] = ("EmptyMiniMaxH3LatentAV", {"width": 160, "height": 96, "length": 22})
    first = ["positive", 0]
    if words == "area":
        area = {"conditioning": first, "width": 64, "height": 64, "x": 32, "y": 16, "strength": 0.8}
        made["area"] = ("ConditioningSetArea", area)
        made["both"] = ("ConditioningCombine", {"conditioning_1": ["negative", 0], "conditioning_2": ["area", 0]})
        first = ["both", 0]
    if words == "reference":
        made["picture"] = ("EmptySD3LatentImage", {"width": 80, "height": 48, "batch_size": 1})
        made["reference"] = ("ReferenceLatent", {"conditioning": first, "latent": ["picture", 0]})
        first = ["reference", 0]
    last_text = ["negative", 0]
    if words == "control":
        made["net"] = ("ControlNetLoader", {"control_net_name": file})
        made["drawn"] = ("EmptyImage", {"width": 120, "height": 96, "batch_size": 1, "color": 0x60C020})
        for number, (strength, start, end) in enumerate(((0.8, 0.0, 1.0), (0.5, 0.2, 0.7))):
            shown = {"control_net": ["net", 0], "image": ["drawn", 0], "strength": strength}
            wired = {"positive": first, "negative": last_text, "start_percent": start, "end_percent": end}
            made[f"apply_{number}"] = ("ControlNetApplyAdvanced", shown | wired)
            first, last_text = [f"apply_{number}", 0], [f"apply_{number}", 1]
    how = {"seed": seed, "steps": steps, "cfg": cfg, "sampler_name": sampler, "scheduler": "simple", "denoise": 1.0}
    wires = {"model": last, "positive": first, "negative": last_text, "latent_image": ["empty", 0]}
    if words == "mask":
        made["drawn"] = ("SolidMask", {"value": 1.0, "width": 60, "height": 40})
        made["masked"] = ("SetLatentNoiseMask", {"samples": ["empty", 0], "mask": ["drawn", 0]})
        wires["latent_image"] = ["masked", 0]
    made["sample"] = ("KSampler", how | wires)
    if words == "experts":  # as templates of Wan 2.2 have it: the second takes on what the first leaves
        made["load_low"] = ("UNETLoader", {"unet_name": f"tiny_{kind}_low.safetensors", "weight_dtype": "default"})
        made["shifted"] = ("ModelSamplingSD3", {"model": ["load_low", 0], "shift": 5.0})
        low = ["shifted", 0]
        if plan:
            made["spread_low"] = ("LoomSpreadModel", {"model": low, "devices": DEVICES, "plan": plan})
            low = ["spread_low", 0]
        rest = {"noise_seed": seed, **{key: value for key, value in how.items() if key not in ("seed", "denoise")}}
        part = {"add_noise": "enable", "start_at_step": 0, "end_at_step": 3, "return_with_leftover_noise": "enable"}
        made["sample"] = ("KSamplerAdvanced", rest | wires | part)
        part = {"add_noise": "disable", "start_at_step": 3, "end_at_step": 9, "return_with_leftover_noise": "disable"}
        wires |= {"model": low, "latent_image": ["sample", 0]}
        made["sample_low"] = ("KSamplerAdvanced", rest | wires | part)
    if words == "custom":
        made["noise"] = ("RandomNoise", {"noise_seed": seed})
        made["chosen"] = ("KSamplerSelect", {"sampler_name": sampler})
        made["sigmas"] = ("BasicScheduler", {"model": last, "scheduler": "simple", "steps": steps, "denoise": 1.0})
        guided = {"model": last, "positive": first, "negative": last_text, "cfg": cfg}
        made["guider"] = ("CFGGuider", guided)
        given = {"noise": ["noise", 0], "guider": ["guider", 0], "sampler": ["chosen", 0], "sigmas": ["sigmas", 0]}
        made["sample"] = ("SamplerCustomAdvanced", {**given, "latent_image": ["empty", 0]})
    made["show"] = ("TestShow", {"latent": ["sample_low" if words == "experts" else "sample", 0], "name": name})
    return made


# -- the parts


def models(session: Session) -> None:
    for kind in KINDS:
        for sampler in SAMPLERS:
            whole = session.compare(f"{kind}, {sampler}, cfg 3", "ulysses=2", kind=kind, sampler=sampler)
            session.compare(
                f"{kind}, {sampler}, cfg 3", "ring=2", most=ROUNDED, whole=whole, kind=kind, sampler=sampler
            )
    session.compare("flux, euler, cfg 1", "allgather=2", cfg=1.0)
    session.compare("flux, euler, cfg 1", "auto", cfg=1.0)


def lora(session: Session) -> None:
    session.compare("LoRA 0.8 before", "ulysses=2", lora=(0.8,))
    session.compare("LoRA 0.3 before: changed", "ulysses=2", lora=(0.3,))
    session.compare("LoRA 0.8 behind", "ulysses=2", behind=(0.8,))
    session.compare("LoRAs before and behind", "ulysses=2", lora=(0.5,), behind=(0.4, -0.2))
    session.compare("LoRA removed", "ulysses=2")
    shift = {"max_shift": 1.15, "base_shift": 0.5, "width": 136, "height": 104}
    cache = {"reuse_threshold": 0.2, "start_percent": 0.15, "end_percent": 0.95, "verbose": False}
    for type, inputs in (
        ("ModelSamplingFlux", shift),
        ("RescaleCFG", {"multiplier": 0.7}),
        ("EasyCache", cache),
        ("TestDoubled", {}),
        ("ModelComputeDtype", {"dtype": "fp32"}),
    ):
        whole = session.compare(f"{type} before", "ulysses=2", before={"other": (type, inputs)})
        session.compare(f"{type} behind", "ulysses=2", whole=whole, after={"other": (type, inputs)})


def conditioning(session: Session) -> None:
    session.compare("conditioning for an area", "ulysses=2", words="area")
    session.compare("a reference picture", "ulysses=2", words="reference")
    for plan, most in (("ulysses=2", EXACT), ("ring=2", ROUNDED)):
        nets = {"words": "control", "steps": 6, "size": (144, 112)}  # this kind of net pads nothing
        session.compare("two ControlNets, one for a part of the steps", plan, most=most, **nets)
    session.compare("a reference picture, cfg 1", "ring=2", most=ROUNDED, words="reference", cfg=1.0)


def others(session: Session) -> None:
    """Nodes of core that change a MODEL in ways that stay in the host, before and behind; loaders; two experts."""
    for type, inputs in (
        ("CFGZeroStar", {}),
        ("CFGNorm", {"strength": 0.9, "pre_cfg": True}),
        ("RenormCFG", {"cfg_trunc": 100.0, "renorm_cfg": 1.2}),
        ("FreSca", {"scale_low": 1.0, "scale_high": 1.25, "freq_cutoff": 4}),
        ("TCFG", {}),
        ("Mahiro", {}),
        ("Epsilon Scaling", {"scaling_factor": 1.01}),
        ("TemporalScoreRescaling", {"tsr_k": 0.9, "tsr_sigma": 1.0}),
        ("APG", {"eta": 0.5, "norm_threshold": 5.0, "momentum": -0.3}),
        ("LazyCache", {"reuse_threshold": 0.2, "start_percent": 0.15, "end_percent": 0.95, "verbose": False}),
        ("ScaleROPE", {f"{kind}_{axis}": 1.5 for kind in ("scale", "shift") for axis in "xyt"}),
        ("DifferentialDiffusion", {"strength": 1.0}),
    ):
        whole = session.compare(f"{type} before", "ulysses=2", before={"other": (type, inputs)})
        session.compare(f"{type} behind", "ulysses=2", whole=whole, after={"other": (type, inputs)})
    windows: dict[str, Any] = {"context_length": 2, "context_overlap": 1, "context_schedule": "standard_static"}
    windows |= {"context_stride": 1, "closed_loop": False, "fuse_method": "pyramid", "dim": 2, "freenoise": False}
    windows |= {"cond_retain_index_list": "", "latent_retain_index_list": "", "split_conds_to_windows": False}
    windows["causal_window_fix"] = True
    if "wan" in KINDS:
        session.compare("ContextWindowsManual", "ulysses=2", kind="wan", after={"o": ("ContextWindowsManual", windows)})
        session.compare("two experts, one after the other", "ulysses=2", kind="wan", words="experts", steps=6)
    session.compare("a mask of what is painted anew", "ulysses=2", words="mask")
    session.compare("a checkpoint", "ulysses=2", loader="CheckpointLoaderSimple")
    session.compare("SamplerCustomAdvanced", "ulysses=2", words="custom")


def guidance(session: Session) -> None:
    """Conditionings that ComfyUI batches, each on a rank of its own; and where it asks for one at a time."""
    kinds = tuple(kind for kind in KINDS if kind != "h3")  # of which it batches none
    for kind in kinds:
        for sampler in SAMPLERS:
            how = {"kind": kind, "sampler": sampler}
            whole = session.compare(f"{kind}, {sampler}, cfg 3", "cfg=2", most=ROUNDED, **how)
            session.compare(f"{kind}, {sampler}, cfg 3", "auto", most=ROUNDED, whole=whole, **how)
        for plan in ("auto", "ulysses=2"):
            session.compare(f"{kind}, cfg 1 behind cfg 3", plan, kind=kind, cfg=1.0)
        session.refused(f"{kind}, cfg=2 at cfg 1", "use plan ulysses=2", kind=kind, plan="cfg=2", cfg=1.0)
    session.compare("a LoRA behind", "cfg=2", most=ROUNDED, behind=(0.8,))
    # For an area of one branch ComfyUI makes the same of the other, and batches both.
    session.compare("conditioning for an area", "cfg=2", most=ROUNDED, words="area")
    session.compare("a text longer than the other", "auto", words="longer")
    session.refused("a text longer than the other", "each forward is of one row", plan="cfg=2", words="longer")
    other = {"other": ("TestMultiGpu", {})}
    session.refused("MultiGPU CFG Split before", "MultiGPU", plan="cfg=2", before=other)
    session.refused("MultiGPU CFG Split behind", "MultiGPU", plan="cfg=2", after=other)
    whole, _ = session.sampled(cfg=1.0, seed=78)
    found, why = session.sampled(plan="cfg=2", cfg=1.0, whole=True, seed=78)
    is_right = found is not None and apart(whole, found) == 0
    session.tell(f"{'cfg=2 at cfg 1, whole runs allowed':44} ran whole {why[:200]}", is_right=is_right)


def rows(session: Session) -> None:
    """A UNet, which has no tokens to spread: of guided steps each conditioning has a rank, of a batch each picture."""
    with started(kinds=("sd15",)) as host:
        inner = Session(host)
        unet(inner)
    session.failed += inner.failed
    session.num_checked += inner.num_checked


def unet(session: Session) -> None:
    kind: dict[str, Any] = {"kind": "sd15", "loader": "CheckpointLoaderSimple"}
    for sampler in SAMPLERS:
        whole = session.compare(f"sd15, {sampler}, cfg 3", "cfg=2", most=ROUNDED, sampler=sampler, **kind)
        session.compare(f"sd15, {sampler}, cfg 3", "auto", most=ROUNDED, whole=whole, sampler=sampler, **kind)
    session.compare("LoRAs before and behind", "cfg=2", most=ROUNDED, lora=(0.8,), behind=(0.4, -0.2), **kind)
    session.compare("two ControlNets", "cfg=2", most=ROUNDED, words="control", steps=6, size=(144, 112), **kind)
    session.compare("conditioning for an area", "cfg=2", most=ROUNDED, words="area", **kind)
    session.compare("two pictures at cfg 1", "cfg=2", most=ROUNDED, cfg=1.0, batch=2, **kind)
    for plan in ("ulysses=2", "ring=2", "allgather=2"):
        session.refused(f"{plan} of a UNet", "no tokens to spread, only rows", plan=plan, **kind)
    for plan in ("auto", "cfg=2"):
        session.refused(f"{plan} at cfg 1", "guide (cfg over 1) with texts of like length", plan=plan, cfg=1.0, **kind)
        session.refused(
            f"{plan}, a text longer than the other", "and this call has 1", plan=plan, words="longer", **kind
        )
    free_u: dict[str, Any] = {"other": ("FreeU_V2", {"b1": 1.3, "b2": 1.4, "s1": 0.9, "s2": 0.2})}
    hyper = {"other": ("HyperTile", {"tile_size": 64, "swap_size": 2, "max_depth": 0, "scale_depth": False})}
    for label, other in (
        ("FreeU_V2", free_u),
        ("HyperTile", hyper),
        ("TestPatchesReplace", {"other": ("TestPatchesReplace", {})}),
    ):
        session.refused(f"{label} behind", "in its blocks", plan="cfg=2", after=other, **kind)
    whole, _ = session.sampled(cfg=1.0, seed=78, **kind)
    found, why = session.sampled(plan="auto", cfg=1.0, whole=True, seed=78, **kind)
    is_right = found is not None and apart(whole, found) == 0
    session.tell(f"{'auto at cfg 1, whole runs allowed':44} ran whole {why[:200]}", is_right=is_right)


def overhead(session: Session) -> None:
    """How long a step of 64 x 64 takes whole and on the ranks: told, not judged."""
    for plan in ("", "ulysses=2"):
        session.sampled(plan=plan, size=(64, 64), cfg=1.0, steps=2, seed=500)
        seconds = []
        for steps in (10, 210):
            began = time.perf_counter()
            session.sampled(plan=plan, size=(64, 64), cfg=1.0, steps=steps, seed=501)
            seconds.append(time.perf_counter() - began)
        print(f"  {plan or 'whole':12} {1000 * (seconds[1] - seconds[0]) / 200:.1f} ms a step", flush=True)


def interrupts(session: Session) -> None:
    right, why = session.sampled(seed=99)
    assert right is not None, why
    first, why = session.sampled(plan="ulysses=2", seed=99)
    assert first is not None, why
    num_right, seconds = 0, []
    for turn in range(INTERRUPTS):
        number = session.queue(nodes_of("x", plan="ulysses=2", steps=500, seed=1000 + turn))
        time.sleep(0.5 + 0.13 * turn)
        began = time.monotonic()
        session.host.ask("/interrupt", {})
        found = session.ended(number)
        seconds.append(time.monotonic() - began)
        is_interrupted = found["status"]["messages"][-1][0] == "execution_interrupted"
        # another seed each time, so that nothing of it is in ComfyUI's cache
        whole, _ = session.sampled(seed=turn)
        again, why = session.sampled(plan="ulysses=2", seed=turn)
        is_right = is_interrupted and again is not None and apart(whole, again) <= EXACT
        num_right += is_right
        if not is_right:
            session.tell(f"interrupt {turn}: {found['status']['messages'][-1][0]}, next {why[:200]}", is_right=False)
    told = f"{num_right} of {INTERRUPTS} interrupts, the next job right; {min(seconds):.2f} to {max(seconds):.2f} s"
    session.tell(told, is_right=num_right == INTERRUPTS)


def traps(session: Session) -> None:
    skip = {"double_layers": "0", "single_layers": "0", "scale": 3.0, "start_percent": 0.0, "end_percent": 1.0}
    cases: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
        ("TorchCompileModel", "TorchCompileModel", {"backend": "inductor"}),
        ("ModelAttentionBackend", "attention", {"attention": "pytorch attention"}),
        ("SkipLayerGuidanceDiT", "replacement", {**skip, "rescaling_scale": 0.0}),
        ("TestAttn1Patch", "attn1_patch", {}),
        ("TestPatchesReplace", "dit", {}),
        ("TestWrapperHook", "hook", {}),
        ("TestMultiGpu", "MultiGPU", {}),
        ("TestObjectPatch", "object patch", {}),
    )
    session.refused("cfg=2 at cfg 1", "guidance", plan="cfg=2", cfg=1.0)
    for type, words, inputs in cases:
        other = {"other": (type, inputs)}
        session.refused(f"{type} before", words, plan="ulysses=2", before=other)
        session.refused(f"{type} behind", words, plan="ulysses=2", after=other)
    session.refused("a loader without a recipe", "loader", plan="ulysses=2", before={"other": ("TestNoRecipe", {})})
    session.refused("NVFP4 without input_scale", "NVFP4", plan="ulysses=2", before={"other": ("TestNvfp4", {})})
    session.sampled(before={"other": ("TestNotNvfp4", {})}, seed=4321)
    merged = {"save": ("ModelSave", {"filename_prefix": "merged"})}
    session.refused("saving what Spread Model gives", "weights are not here", plan="ulysses=2", ends=merged)
    session.compare("afterwards", "ulysses=2")
    allowed = {"other": ("TestPatchesReplace", {})}
    whole, _ = session.sampled(before=allowed, seed=77)
    found, why = session.sampled(plan="ulysses=2", before=allowed, whole=True, seed=77)
    is_told = "runs whole on the host" in session.host.log.read_text(errors="replace")
    import torch

    is_right = found is not None and is_told and all(map(torch.equal, whole, found))
    session.tell(f"{'patches_replace, whole runs allowed':44} ran whole, and said so {why[:200]}", is_right=is_right)


def ranks(session: Session) -> None:
    """A rank that dies is replaced, between two prompts and within one; what was freed is loaded again."""
    import torch

    whole, _ = session.sampled(seed=7, steps=60)
    session.sampled(plan="ulysses=2", seed=6)
    os.kill(session.ranks()[-1], signal.SIGKILL)
    found, why = session.sampled(plan="ulysses=2", seed=7, steps=60)
    is_right = found is not None and apart(whole, found) <= EXACT
    session.tell(f"{'a rank killed between two prompts':44} {why[:200] or 'the next is right'}", is_right=is_right)
    number = session.queue(nodes_of("killed", plan="ulysses=2", seed=8, steps=60))
    time.sleep(1.0)
    os.kill(session.ranks()[-1], signal.SIGKILL)
    found = session.ended(number)
    again, _ = session.sampled(seed=8, steps=60)
    file = session.host.base / "output" / "killed.pt"
    is_right = file.exists() and apart(again, torch.load(file, weights_only=True)) <= EXACT
    session.tell(f"{'a rank killed within a prompt':44} {found['status']['status_str']}", is_right=is_right)
    session.free()
    session.compare("the next prompt", "ulysses=2", seed=9)


def vae(session: Session) -> None:
    """Stock VAE Decode behind Spread VAE, untiled and in tiles, and what Spread VAE does not take."""
    for kind, shape in (("flux", "2 16 18 13"), ("wan", "1 16 3 9 11"), ("flux", "1 16 3 9")):
        inputs: Mapping[str, Any] = {"vae_name": f"tiny_{kind}.safetensors"}
        load = {"load": ("VAELoader", inputs), "latent": ("TestLatent", {"seed": 3, "shape": shape})}
        for decoder, more in (
            ("VAEDecode", {}),
            ("VAEDecodeTiled", {"tile_size": 64, "overlap": 32, "temporal_size": 64, "temporal_overlap": 8}),
        ):
            wired = {"samples": ["latent", 0], **more}
            whole, why = session.shown(load | {"decode": (decoder, {"vae": ["load", 0], **wired})})
            assert whole is not None, why
            spread = load | {"spread": ("LoomSpreadVAE", {"vae": ["load", 0], "devices": DEVICES})}
            found, why = session.shown(spread | {"decode": (decoder, {"vae": ["spread", 0], **wired})})
            label = f"{kind} {shape}, {decoder}"
            if found is None:
                session.tell(f"{label:44} fails: {why[:300]}", is_right=False)
                continue
            share = apart(whole, found)
            session.tell(f"{label:44} {share:.1e} of the largest", is_right=share <= EXACT_PIXELS)
    session.free()
    alone = {
        "load": ("VAELoader", {"vae_name": "pixel_space"}),
        "latent": ("TestLatent", {"seed": 3, "shape": "1 3 8 8"}),
    }
    spread = alone | {"spread": ("LoomSpreadVAE", {"vae": ["load", 0], "devices": DEVICES})}
    found, why = session.shown(spread | {"decode": ("VAEDecode", {"vae": ["spread", 0], "samples": ["latent", 0]})})
    session.tell(f"{'another VAE':44} refused: {why[:200]}", is_right=found is None and "by rows" in why)


def older(session: Session) -> None:
    """Of a ComfyUI that keeps no recipes: refused, and where whole runs are allowed it runs whole."""
    import torch

    session.refused("a ComfyUI that keeps no recipes", "update ComfyUI", plan="ulysses=2", kind="wan")
    whole, _ = session.sampled(kind="wan")
    found, why = session.sampled(plan="ulysses=2", whole=True, kind="wan")
    is_right = found is not None and all(map(torch.equal, whole, found))
    session.tell(f"{'whole runs allowed':44} {why[:200] or 'ran whole'}", is_right=is_right)


def streaming(session: Session) -> None:
    """The same bits where ranks may not hold the model whole, with LoRAs, and in each of two budgets."""
    for budget, words in (("26MB", "0 of 5 blocks stay"), ("32MB", " of 5 blocks stay"), ("1GB", "")):
        with started({"LATENTLOOM_MEMORY": budget}) as host:
            inner = Session(host)
            for plan, most in (("ulysses=2", EXACT), ("ring=2", ROUNDED)):
                inner.compare(f"{budget} of memory", plan, most=most)
            inner.compare(f"{budget}, LoRAs before and behind", "ulysses=2", lora=(0.5,), behind=(0.4, -0.2))
            inner.compare(f"{budget}, LoRA changed", "ulysses=2", lora=(0.3,))
            inner.compare(f"{budget}, LoRA removed", "ulysses=2", seed=6)
            log = host.log.read_text(errors="replace")
            is_right = words in log if words else "blocks stay" not in log
            inner.tell(f"{budget}: {log.count(words) if words else 0} times told {words!r}", is_right=is_right)
            session.failed += inner.failed
            session.num_checked += inner.num_checked
    with started({"LATENTLOOM_MEMORY": "10MB"}) as host:
        inner = Session(host)
        inner.refused("too small a budget", "even with its blocks brought one by one", plan="ulysses=2")
        session.failed += inner.failed
        session.num_checked += inner.num_checked


PARTS = {
    "models": models,
    "lora": lora,
    "conditioning": conditioning,
    "others": others,
    "guidance": guidance,
    "rows": rows,
    "interrupts": interrupts,
    "traps": traps,
    "ranks": ranks,
    "overhead": overhead,
    "vae": vae,
    "streaming": streaming,
}
OTHERS = {"older": older}  # of another ComfyUI, by their names alone


def prepared(checkout: Path, python: str, base: Path, kinds: tuple[str, ...] = KINDS) -> None:
    """Models and the nodes of this script in the server's folder."""
    (base / "custom_nodes" / NODES.name).symlink_to(NODES, target_is_directory=True)
    for name in ("diffusion_models", "loras", "controlnet", "checkpoints", "vae"):
        (base / "models" / name).mkdir(parents=True)
    (base / "output").mkdir()
    surroundings = os.environ | ALONE | {"PYTHONPATH": str(SHIMS)}
    command = [python, str(HERE / "comfyui_native_models.py"), str(base / "models"), *dict.fromkeys(("flux", *kinds))]
    subprocess.run(command, cwd=checkout, env=surroundings, check=True)


@contextlib.contextmanager
def started(more: Mapping[str, str] = MappingProxyType({}), *, kinds: tuple[str, ...] = KINDS) -> Iterator[Host]:
    """A server that has these models, with this more in its environment."""
    folder, python = Path(os.environ["COMFYUI_DIR"]).resolve(), os.environ.get("COMFYUI_PYTHON", sys.executable)

    def prepare(base: Path) -> None:
        prepared(folder, python, base, kinds)
        os.environ.update(more)

    try:
        with comfyui(folder, python, "--use-pytorch-cross-attention", prepare=prepare) as host:
            yield host
    finally:
        for name in more:
            os.environ.pop(name, None)


def main(parts: list[str]) -> int:
    checkout = os.environ.get("COMFYUI_DIR", "")
    if not checkout or not (Path(checkout) / "main.py").is_file():
        print("blocked: COMFYUI_DIR names no checkout of ComfyUI")
        return 0
    with started() as host:
        session = Session(host)
        print("ComfyUI", host.ask("/system_stats")["system"]["comfyui_version"], flush=True)
        for name in parts or PARTS:
            print(name, flush=True)
            (PARTS | OTHERS)[name](session)
        if copy := os.environ.get("COMFYUI_LOG"):
            shutil.copy(host.log, copy)
    print(f"{session.num_checked} checks, {len(session.failed)} failed")
    return 1 if session.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
