"""Spread Model in a real ComfyUI on the CPU: its samplers with and without it, LoRAs, interrupts, and ten traps.

COMFYUI_DIR=DIR COMFYUI_PYTHON=PYTHON python tests/bench/comfyui_native.py [PART...]

DIR and PYTHON are as in `comfyui_session.py`; the parts are the names of PARTS, without one all.
Weights are random and made here. Each line of a table compares the latents that a stock KSampler gives on `cpu*2`
behind Spread Model with those without it: the same bits, or how far they are apart as a part of the largest. Exits 1
where anything is not as it must be, and 0 with a word where ComfyUI is not here. COMFYUI_MODELS=flux,h3 chooses
models.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent))
from comfyui_session import ALONE, SHIMS, Host, Refused, comfyui

HERE = Path(__file__).resolve().parent
NODES = HERE / "comfyui_native_nodes"
DEVICES = "cpu*2"
EXACT, ROUNDED = 1e-6, 1e-6  # of the largest latent: what is allowed of ulysses, and of a ring
SAMPLERS = ("euler", "dpmpp_2m", "uni_pc", "euler_ancestral")
WIDTHS = {"flux": 64, "wan": 4096, "qwen": 3584, "z_image": 64, "h3": 80, "sd3": 64, "joy": 4096}
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

    def sampled(self, **given: Any) -> tuple[Any, str]:
        """The latents, or none and why."""
        import torch

        self._number += 1
        name = f"n{self._number}"
        try:
            found = self.ended(self.queue(nodes_of(name, **given)))
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

    def refused(self, label: str, words: str, **given: Any) -> None:
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
) -> dict[str, Any]:
    """A stock graph: a loader, LoRAs and other nodes before and behind Spread Model, and a KSampler."""
    made: dict[str, Any] = {
        "load": ("UNETLoader", {"unet_name": f"tiny_{kind}.safetensors", "weight_dtype": "default"})
    }
    last = ["load", 0]

    def add(key: str, type: str, inputs: Mapping[str, Any]) -> None:
        nonlocal last
        made[key] = (type, {"model": last, **inputs})
        last = [key, 0]

    def add_loras(where: str, strengths: tuple[float, ...]) -> None:
        for number, strength in enumerate(strengths):
            inputs = {"lora_name": "tiny_flux.safetensors", "strength_model": strength}
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
        made[key] = ("TestCond", {"seed": number, "tokens": 9, "width": WIDTHS[kind]})
    sized = {"width": size[0], "height": size[1], "batch_size": 1}
    made["empty"] = ("EmptySD3LatentImage", sized)
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
    how = {"seed": seed, "steps": steps, "cfg": cfg, "sampler_name": sampler, "scheduler": "simple", "denoise": 1.0}
    wires = {"model": last, "positive": first, "negative": ["negative", 0], "latent_image": ["empty", 0]}
    made["sample"] = ("KSampler", how | wires)
    made["show"] = ("TestShow", {"latent": ["sample", 0], "name": name})
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
    session.compare("a reference picture, cfg 1", "ring=2", most=ROUNDED, words="reference", cfg=1.0)


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
    pids = session.ranks()
    session.host.ask("/free", {"unload_models": True, "free_memory": True})
    time.sleep(5)
    left = [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    session.tell(
        f"{'POST /free, 5 s later':44} {len(left)} of {len(pids)} ranks left", is_right=bool(pids) and not left
    )
    session.compare("the next prompt", "ulysses=2", seed=9)


PARTS = {
    "models": models,
    "lora": lora,
    "conditioning": conditioning,
    "interrupts": interrupts,
    "traps": traps,
    "ranks": ranks,
    "overhead": overhead,
}


def prepared(checkout: Path, python: str, base: Path) -> None:
    """Models and the nodes of this script in the server's folder."""
    (base / "custom_nodes" / NODES.name).symlink_to(NODES, target_is_directory=True)
    for name in ("diffusion_models", "loras"):
        (base / "models" / name).mkdir(parents=True)
    (base / "output").mkdir()
    surroundings = os.environ | ALONE | {"PYTHONPATH": str(SHIMS)}
    command = [python, str(HERE / "comfyui_native_models.py"), str(base / "models"), *dict.fromkeys(("flux", *KINDS))]
    subprocess.run(command, cwd=checkout, env=surroundings, check=True)


def main(parts: list[str]) -> int:
    checkout, python = os.environ.get("COMFYUI_DIR", ""), os.environ.get("COMFYUI_PYTHON", sys.executable)
    if not checkout or not (Path(checkout) / "main.py").is_file():
        print("blocked: COMFYUI_DIR names no checkout of ComfyUI")
        return 0
    folder = Path(checkout).resolve()
    with comfyui(
        folder, python, "--use-pytorch-cross-attention", prepare=lambda base: prepared(folder, python, base)
    ) as host:
        session = Session(host)
        print("ComfyUI", host.ask("/system_stats")["system"]["comfyui_version"], flush=True)
        for name in parts or PARTS:
            print(name, flush=True)
            PARTS[name](session)
        if copy := os.environ.get("COMFYUI_LOG"):
            shutil.copy(host.log, copy)
    print(f"{session.num_checked} checks, {len(session.failed)} failed")
    return 1 if session.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
