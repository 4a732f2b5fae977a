"""Print what a picture of few steps costs beside its steps, by the ways to ask for it, and when its file is there.

    python tests/bench/few_steps.py                 # two minutes, on the CPU, one thread
    python tests/bench/few_steps.py --ranks 1       # a sweep on ranks as well
    python tests/bench/few_steps.py --only files    # only what writing files costs

bobbin paints 4 steps of 160 x 160 from a picture, of one prompt and other seeds, then of two prompts in turn. Counted
is how often text and picture are encoded; timed, on the clock, what a picture takes beside its steps. The files are 4
pictures of 1024 x 1024, and 81 frames of 1280 x 720.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

import support.checkout
from latentloom.nodes.hosts.comfyui import NODE_CLASS_MAPPINGS
from latentloom.pipelines import stages
from latentloom.pipelines.kept import KEPT
from latentloom.pipelines.values import Image, Place, Video

ROOT = support.checkout.ROOT
SIDE, STEPS, NUM = 160, 4, 8
PROMPTS = {"one prompt": ["a red star"] * NUM, "two in turn": ["a red star", "a blue ring"] * (NUM // 2)}
Way = Callable[[list[str], Path], None]


class Spent:
    """How often each stage was done in this process, and how long."""

    def __init__(self) -> None:
        self.times, self.seconds = Counter[str](), Counter[str]()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        known = cast("dict[str, Callable[..., Any]]", stages.STAGES)
        with mock.patch.dict(known, {name: self._timed(name, stage) for name, stage in known.items()}):
            yield

    def _timed(self, name: str, stage: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any, **fields: Any) -> Any:
            start = time.perf_counter()
            try:
                return stage(*given, **fields)
            finally:
                self.times[name] += 1
                self.seconds[name] += time.perf_counter() - start

        return timed


def by_python(prompts: list[str], folder: Path) -> None:
    from latentloom import nodes
    from latentloom.nodes.files.workspace import Workspace

    model, here = nodes.load_model("builtin:bobbin"), Workspace(output_dir=folder)
    for seed, prompt in enumerate(prompts):
        picture = nodes.load_image(str(folder.parent / "start.png"))
        text, canvas = nodes.encode_text(model, prompt), nodes.encode_image(model, picture)
        painted = nodes.denoise(model, text, canvas, seed=seed, steps=STEPS)
        nodes.save_image(nodes.decode(model, painted), name=f"{seed}", workspace=here)


def by_comfyui(prompts: list[str], folder: Path) -> None:
    """Its node classes as ComfyUI calls them where it has kept nothing itself."""

    def call(id: str, **inputs: Any) -> Any:
        made = NODE_CLASS_MAPPINGS[f"Loom{id}"]().run(**inputs)
        return made["result"][0] if isinstance(made, dict) else made[0]

    with contextlib.chdir(folder):
        for seed, prompt in enumerate(prompts):
            model = call("LoadModel", source="builtin:bobbin")
            picture = call("LoadImage", path=str(folder.parent / "start.png"))
            text = call("EncodeText", model=model, prompt=prompt)
            canvas = call("EncodeImage", model=model, image=picture)
            painted = call("Denoise", model=model, conditioning=text, latents=canvas, seed=seed, steps=STEPS)
            call("SaveImage", image=call("Decode", model=model, latents=painted), name=f"{seed}")


def by_sweep(prompts: list[str], folder: Path, *, num_ranks: int = 0) -> None:
    from latentloom.nodes.headless.headless import run_headless
    from latentloom.nodes.headless.job import Headless
    from latentloom.nodes.headless.reports import Tally

    job = Headless(
        graph=_workflow(),
        overrides={"denoise.steps": STEPS, "image": str(folder.parent / "start.png")},
        sweep=[{"prompt": prompt, "seed": seed} for seed, prompt in enumerate(prompts)],
        out=folder,
        roots=(folder.parent, ROOT),
        cache_dir=folder / "cache",
        place=Place(devices=("cpu",) * num_ranks),
    )
    for report in run_headless(job, Tally(len(prompts))):
        assert report.state == "ok", report.error


def by_page(prompts: list[str], folder: Path) -> None:
    from latentloom.ui.live.live import Live
    from latentloom.ui.runs.runs import Runs
    from latentloom.ui.settings import Settings
    from latentloom.ui.store.uploads import inputs_folder

    settings = Settings(output_dir=folder / "out", data_dir=folder / "data")
    runs = Runs(settings, Live())
    inputs = inputs_folder(settings.data_dir, "local")
    inputs.mkdir(parents=True)
    (inputs / "start.png").write_bytes((folder.parent / "start.png").read_bytes())
    for seed, prompt in enumerate(prompts):
        given = {"denoise.steps": STEPS, "image": "start.png", "prompt": prompt, "seed": seed}
        runs.submit("local", _workflow(), overrides=given)
    while any(run.state in ("waiting", "running") for run in runs.list("local")):
        time.sleep(0.002)
    assert all(run.state == "done" for run in runs.list("local")), [run.error for run in runs.list("local")]
    runs.close()


def _workflow() -> Any:
    from latentloom.nodes.graph.graph import read_graph

    return read_graph(ROOT / "workflows" / "bobbin" / "image_to_image.json")


WAYS: dict[str, Way] = {"Python": by_python, "ComfyUI": by_comfyui, "sweep": by_sweep, "page": by_page}


def ways(folder: Path) -> None:
    for way in WAYS.values():  # what is loaded once
        way(["a red star"], _fresh(folder))
    for title, prompts in PROMPTS.items():
        for name, way in WAYS.items():
            KEPT.clear()
            spent, start = Spent(), time.perf_counter()
            with spent.watching():
                way(prompts, _fresh(folder))
            seconds = time.perf_counter() - start
            counts = ", ".join(f"{stage} {spent.times[stage]}" for stage in ("encode_text", "encode_image"))
            beside = (seconds - spent.seconds["denoise"]) / NUM
            steps = spent.seconds["denoise"] / NUM
            print(f"{title}, {name:8} {1000 * beside:6.1f} ms a picture beside {1000 * steps:.1f} of steps; {counts}")


def on_ranks(folder: Path, num_ranks: int) -> None:
    for title, prompts in PROMPTS.items():
        by_sweep(prompts, _fresh(folder), num_ranks=num_ranks)  # its ranks are warm then
        KEPT.clear()
        start = time.perf_counter()
        by_sweep(prompts, _fresh(folder), num_ranks=num_ranks)
        print(
            f"{title}, sweep on {num_ranks} ranks: {1000 * (time.perf_counter() - start) / NUM:.1f} ms a picture in all"
        )


def files(folder: Path) -> None:
    from latentloom import nodes
    from latentloom.nodes.files.picture_files import read_picture
    from latentloom.nodes.files.workspace import Workspace

    sheet = read_picture(ROOT / "pipelines" / "bobbin" / "sheet.jpg")
    grain = torch.randn(1024, 1024, 3, generator=torch.Generator().manual_seed(0)) / 100
    large = torch.nn.functional.interpolate(sheet.movedim(3, 1), (1024, 1024), mode="bicubic").movedim(1, 3)
    batch = Image(pixels=(large + grain).clamp(0, 1).repeat(4, 1, 1, 1))
    clip = (large[0, :720].repeat(1, 2, 1)[:, :1280] * 255).byte()
    video = Video(pixels=torch.stack([clip.roll(3 * index, 1) for index in range(81)])[None], fps=16)
    for title, save in (
        ("4 pictures of 1024 x 1024", lambda here: nodes.save_image(batch, workspace=here)),
        ("81 frames of 1280 x 720", lambda here: nodes.save_video(video, workspace=here)),
    ):
        here, start = Workspace(output_dir=_fresh(folder)), time.time()
        save(here)
        there = sorted(file.stat().st_mtime - start for file in here.output_dir.iterdir())
        print(f"{title}: the first file after {there[0]:.2f} s, the last after {there[-1]:.2f} s")


def _fresh(folder: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=0)
    parser.add_argument("--only", choices=["ways", "files"], default="")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        from latentloom import nodes
        from latentloom.nodes.files.workspace import Workspace

        start = Image(pixels=torch.rand(1, SIDE, SIDE, 3, generator=torch.Generator().manual_seed(0)))
        nodes.save_image(start, name="start", workspace=Workspace(output_dir=folder))
        if asked.only != "files":
            ways(folder)
        if asked.ranks:
            on_ranks(folder, asked.ranks)
        if asked.only != "ways":
            files(folder)


if __name__ == "__main__":
    main()
