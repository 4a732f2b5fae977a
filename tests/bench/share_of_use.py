"""How much of what people run is covered, by the counts of use that ComfyUI's templates for open models carry.

    python tests/bench/share_of_use.py        # checks share_of_use.json and prints the shares: half a minute

`share_of_use.json` was reviewed by hand: what each template is given and makes, and what does the same here: a workflow
that ships, or a pipeline class for *Run Pipeline*; else why nothing does. A control picture is counted as an input,
whatever draws it, and boxes whether they are drawn or typed; an LLM that writes the prompt, a turbo LoRA and a second
pass are not asked for, nor what is wired to nothing (FLUX.3's boxes in text to picture). This checks that each workflow
named is free of problems and has nodes for it, and that each class is right on ranks, by what `pipelines.py` found, and
that its call takes these inputs and makes these outputs.

`weights` are the formats of the denoiser's files that the template loads, by their names, and `also` those of the other
files that it points to; *plain* is bf16, fp16 or fp32. What its makers publish elsewhere was not looked up.
Exits with 1 if the file says what is not so.
"""

import inspect
import json
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.pipelines import RESULTS, problems
from latentloom.pipelines.signatures.table import is_modular, parameters_of, results_of
from support.checkout import ROOT

REVIEWED = Path(__file__).with_suffix(".json")
# By input, the parameters of a pipeline's call, of which one is enough.
TAKES = {
    "text": ("prompt",),
    "lyrics": ("lyrics",),
    "picture": ("image", "images"),
    "pictures": ("image", "images"),
    "reference pictures": ("reference_images",),
    "first frame": ("image", "conditions"),
    "last frame": ("last_image", "conditions"),
    "mask": ("mask_image", "control_mask"),
    "control picture": ("control_image",),
    "control video": ("control_video", "video"),
    "video": ("video",),
    "pose video": ("pose_video", "driving_video"),
    "audio": ("audio", "src_audio", "reference_audio"),
    "boxes": ("boxes",),
    "camera": (),
    "LoRA": (),
}
# By output, the fields of a pipeline's output class.
GIVES = {
    "picture": ("images", "image"),
    "video": ("frames", "video", "videos"),
    "sound": ("audios", "audio", "sound"),
    **dict.fromkeys(("text", "mesh", "mask", "depth", "normals", "albedo", "pose"), ()),
}
# By input, what a workflow has for it; *Load LoRA* goes behind any *Load Model*.
NODES = {
    "text": "LoomEncodeText",
    "picture": "LoomLoadImage",
    "pictures": "LoomReferencePictures",
    "first frame": "LoomLoadImage",
    "LoRA": "LoomLoadModel",
    "boxes": "LoomLayoutPrompt",
}
SAVES = {"picture": "LoomSaveImage", "video": "LoomSaveVideo", "sound": "LoomDecodeAudio"}
TASKS = {
    *("text to picture", "edit", "reference to picture", "control to picture", "inpaint", "layers"),
    *("text to video", "first frame to video", "first and last frame to video", "reference to video"),
    *("sound to video", "motion to video", "control to video", "video edit", "text to sound", "sound edit"),
    *("upscale", "estimate", "3D", "text", "basics"),
}
FORMATS = {"plain", "int8 convrot", "int8", "fp8", "fp4", "nvfp4", "mxfp8", "w4a8", "gguf"}
READ = {"plain", "fp8", "int8", "int8 convrot", "gguf"}  # what `FILE.safetensors@BASE` and `FILE.gguf@BASE` read
# Workflows of the one family whose transformer diffusers does not read from one file.
FOLDER_ONLY = {"workflows/hunyuan_video_15/hunyuan_video_15.json"}
GOAL = 85.0


@dataclass(frozen=True)
class Template:
    name: str
    usage: int
    family: str
    task: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: tuple[str, ...]
    also: tuple[str, ...] = ()
    by: str = ""
    """A file in workflows/, or a class of diffusers."""
    why: str = ""

    @property
    def is_workflow(self) -> bool:
        return self.by.startswith("workflows/")


def main() -> int:
    templates = read()
    wrong = [*wrong_words(templates), *wrong_names(templates, right_classes()), *wrong_workflows(templates)]
    wrong += [*unsound_workflows(templates), *wrong_calls(templates)]
    for line in table(templates, single_files(templates)):
        print(line)
    print(*(f"WRONG: {each}" for each in wrong), sep="\n")
    return 1 if wrong else 0


def read() -> tuple[Template, ...]:
    rows = json.loads(REVIEWED.read_text())["rows"]
    return tuple(
        Template(**{name: tuple(value) if isinstance(value, list) else value for name, value in row.items()})
        for row in rows
    )


def right_classes() -> set[str]:
    """The pipeline classes that `pipelines.py` ran on ranks, and found right in each of their ways and plans."""
    found = json.loads(RESULTS.read_text())
    wrong = {name.partition(":")[0] for name, plans in found.items() if any(map(problems, plans.values()))}
    ran = {name.partition(":")[0] for name, plans in found.items() if any("calls" in each for each in plans.values())}
    return ran - wrong


def wrong_words(templates: Iterable[Template]) -> Iterator[str]:
    for each in templates:
        words = asdict(each)
        known = {"inputs": set(TAKES), "outputs": set(GIVES), "weights": FORMATS, "also": FORMATS}
        for name, allowed in known.items():
            if unknown := set(words[name]) - allowed:
                yield f"{each.name}: unknown {name} {', '.join(sorted(unknown))}"
        if each.task not in TASKS:
            yield f"{each.name}: unknown task {each.task}"
        if bool(each.by) == bool(each.why):
            yield f"{each.name}: it says either what covers it, or why nothing does"


def wrong_names(templates: Iterable[Template], right: set[str]) -> Iterator[str]:
    for each in templates:
        if each.is_workflow and not (ROOT / each.by).is_file():
            yield f"{each.name}: there is no {each.by}"
        if each.by and not each.is_workflow and each.by not in right:
            yield f"{each.name}: {each.by} is not among the pipelines that were found right on ranks"


def wrong_workflows(templates: Iterable[Template]) -> Iterator[str]:
    for each in templates:
        if each.is_workflow:
            types = {node["type"] for node in json.loads((ROOT / each.by).read_text())["nodes"].values()}
            asked = [NODES.get(name, name) for name in each.inputs] + [SAVES.get(name, name) for name in each.outputs]
            if missing := set(asked) - types:
                yield f"{each.name}: {each.by} has no {', '.join(sorted(missing))}"


def unsound_workflows(templates: Iterable[Template]) -> Iterator[str]:
    from latentloom.nodes.graph.graph import read_graph
    from latentloom.nodes.registry import SPECS
    from support.prepared import check

    for file in sorted({each.by for each in templates if each.is_workflow}):
        yield from (f"{file}: {problem}" for problem in check(read_graph(ROOT / file), SPECS))


def wrong_calls(templates: Iterable[Template]) -> Iterator[str]:
    for each in templates:
        if each.by and not each.is_workflow:
            kind = pipeline_class(each.by)
            taken, given = {*parameters_of(kind)}, _given(kind)
            for name in each.inputs:
                if not taken & set(TAKES[name]):
                    yield f"{each.name}: {each.by} takes no {name}"
            for name in each.outputs:
                if not given & set(GIVES[name]):
                    yield f"{each.name}: {each.by} makes no {name}"


def pipeline_class(name: str) -> Any:
    with warnings.catch_warnings(action="ignore"):  # old parts of diffusers use what torch has deprecated
        import diffusers

        return getattr(diffusers, name)


def _given(kind: Any) -> set[str]:
    """The fields of the output class that its call is annotated with, or what its blocks give."""
    if is_modular(kind):
        return {*results_of(kind)}
    from diffusers.pipelines import pipeline_utils

    words = re.findall(r"\w+", str(inspect.signature(kind.__call__).return_annotation))
    places = (sys.modules[kind.__module__], pipeline_utils)
    classes = [getattr(place, word, None) for word in words for place in places]
    return {field.name for found in classes if is_dataclass(found) for field in fields(found)}


def single_files(templates: Iterable[Template]) -> set[str]:
    """Of what covers them, that whose transformer diffusers reads from one file."""
    from diffusers.loaders.single_file_model import SINGLE_FILE_LOADABLE_CLASSES

    from zoo.pipelines.live import transformers_of

    return {
        each.by
        for each in templates
        if each.by and each.by not in FOLDER_ONLY
        if each.is_workflow or transformers_of(pipeline_class(each.by)) & SINGLE_FILE_LOADABLE_CLASSES.keys()
    }


def table(templates: tuple[Template, ...], single: set[str]) -> Iterator[str]:
    total = sum(each.usage for each in templates)

    def share(some: Iterable[Template]) -> float:
        return 100 * sum(each.usage for each in some) / total

    yield f"{'of the usage, in %':<22}{'all':>7}{'workflow':>10}{'Run Pipeline':>14}{'not':>7}"
    for name, some in (*_by_family(templates).items(), ("together", templates)):
        flows = [each for each in some if each.is_workflow]
        classes = [each for each in some if each.by and not each.is_workflow]
        numbers = f"{share(some):7.2f}{share(flows):10.2f}{share(classes):14.2f}"
        reasons = (f"{why} {share(each for each in some if each.why == why):.2f}" for why in _reasons(some))
        yield f"{name:<22}{numbers}{share(each for each in some if each.why):7.2f}  {'; '.join(reasons)}"
    covered = [each for each in templates if each.by]
    loaded = [each for each in covered if each.by in single and set(each.weights) <= READ]
    published = [each for each in covered if each.by in single and {*each.weights, *each.also} & READ]
    yield ""
    yield f"{counted(templates)}, are covered; the goal is {GOAL:.0f} %"
    yield f"{share(loaded):.1f} % are covered, and the denoiser that the template loads is in a format that we read"
    yield f"{share(published):.1f} % are covered, and that or another file that it points to is"
    formats = Counter[str]()
    for each in templates:
        formats[" and ".join(each.weights) or "no denoiser"] += each.usage
    yield "formats loaded: " + ", ".join(f"{name} {100 * count / total:.1f} %" for name, count in formats.most_common())


def counted(templates: tuple[Template, ...]) -> str:
    covered = [each for each in templates if each.by]
    share = sum(each.usage for each in covered) / sum(each.usage for each in templates)
    return f"{len(covered)} of {len(templates)} templates, {100 * share:.1f} % of their usage"


def _by_family(templates: Iterable[Template]) -> Mapping[str, list[Template]]:
    found: dict[str, list[Template]] = {}
    for each in templates:
        found.setdefault(each.family, []).append(each)
    return dict(sorted(found.items(), key=lambda item: -sum(each.usage for each in item[1])))


def _reasons(some: Iterable[Template]) -> list[str]:
    """Why those are not that are not, the most used first."""
    reasons = Counter[str]()
    for each in some:
        if each.why:
            reasons[each.why] += each.usage
    return [why for why, _ in reasons.most_common()]


if __name__ == "__main__":
    sys.exit(main())
