"""Set every key of every component's config to a repository, a path and a URL, and watch what loading it does.

python tests/bench/foreign_keys.py --seed 0             all cases (some minutes); `--cases 200`: every class and every
key once, keys that name code in all places of transformers, and so many more at random
"""

import argparse
import collections
import inspect
import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
FAMILIES = ("flux", "sd3", "qwen_image", "wan", "wan_i2v")
STUB = """
from unittest.mock import MagicMock
CALLS = []
def get_kernel(*names, **options):
    CALLS.append(names)
    raise RuntimeError("fetched")
def use_kernel_forward_from_hub(*names): return lambda kind: kind
def use_kernelized_func(*names): return lambda kind: kind
def __getattr__(name):
    if name.startswith("__"): raise AttributeError(name)
    return MagicMock()
"""
# Beside those that are refused by name: what the libraries look for in what they load, here or elsewhere.
READ_BY_NAME = """
    _name_or_path name_or_path tokenizer_class processor_class image_processor_type feature_extractor_type _class_name
    model_type architectures dtype torch_dtype chat_template fusion_config per_layer_config distributed_config vocab
    tokenizer_object post_processor special_tokens_map_file added_tokens_file chat_template_file sp_model_kwargs merges
    cache_dir token revision subfolder local_files_only proxies custom_generate generation_config backbone_config
    pretrained use_pretrained_backbone use_timm_backbone use_mamba_kernels timm_backbone label2id problem_type tokenizer
    _pre_quantization_dtype _use_default_values cache_config base_model_name_or_path adapter_config text_config
    vision_config added_tokens_decoder model_input_names attn_processor extra_files kernels experts activation
"""
WATCHED = ("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "pickle.find_class", "urllib.")


@dataclass(frozen=True)
class Case:
    component: Any
    file: str
    place: tuple[str, ...]  # the keys that lead to the object where `key` is set
    key: str
    value: str

    def __str__(self) -> str:
        return f"{self.component.class_name} {self.file} {'.'.join((*self.place, self.key))} = {self.value}"


class Watch:
    """What Python did that no component may: an audit hook, for the life of the process, and new modules."""

    def __init__(self, stub: Any, outside: Path) -> None:
        self.seen: list[str] = []
        self.stub, self.outside = stub, str(outside)
        self.copy = ""
        self.modules = set(sys.modules)
        sys.addaudithook(self._hear)

    def watch(self, copy: str) -> None:
        self.seen, self.copy, self.modules = [], copy, set(sys.modules)
        self.stub.CALLS.clear()

    def offences(self) -> list[str]:
        self.copy = ""
        installed = (sys.prefix, sys.base_prefix, str(ROOT), str(Path(os.__file__).parent), site_packages())
        for name in set(sys.modules) - self.modules:
            origin = getattr(getattr(sys.modules[name], "__spec__", None), "origin", None) or "built-in"
            if Path(origin).is_absolute() and not origin.startswith(installed):
                self.seen.append(f"imported {name} from {origin}")
        return [*self.seen, *(f"fetched a kernel {call}" for call in self.stub.CALLS)]

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.copy:
            return
        if event.startswith(WATCHED):
            self.seen.append(f"{event} {arguments!r:.200}")
        elif event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], str | bytes):
            if os.path.realpath(os.fsdecode(arguments[0])).startswith(self.outside):
                self.seen.append(f"{event} {arguments[0]!r}")
        elif event in ("exec", "compile"):
            file = str(getattr(arguments[0], "co_filename", arguments[-1]))
            if file.startswith((self.copy, self.outside)):
                self.seen.append(f"{event} {file}")


def site_packages() -> str:
    import transformers

    return str(Path(transformers.__file__).parent.parent)


def cases(components: Mapping[str, Any], values: tuple[str, ...]) -> Iterator[Case]:
    from latentloom.pipelines.models.config import DATA_KEYS, FILE_KEYS, FOREIGN_KEYS, IMPLEMENTATIONS

    named = {*READ_BY_NAME.split(), *FOREIGN_KEYS, *IMPLEMENTATIONS, *FILE_KEYS, *DATA_KEYS}
    for component in components.values():
        for path in sorted(component.folder.glob("*.json")):
            if not path.name.endswith(("config.json", "tokens_map.json")):
                continue
            for place, plain in objects(json.loads(path.read_text())):
                texts = {key for key, value in plain.items() if isinstance(value, str)}
                for key in sorted(texts | named | class_texts(component) if not place else texts | named):
                    yield from (Case(component, path.name, place, key, value) for value in values)


def covering(found: Sequence[Case], chance: random.Random, most: int) -> list[Case]:
    """`most` of them at random, and before these such that every class, file and key is among them, and every key that
    names code with every value, wherever transformers reads it."""
    from latentloom.pipelines.models.config import IMPLEMENTATIONS

    names_code = {*IMPLEMENTATIONS, "auto_map", "use_kernels", "trust_remote_code"}
    certain = [case for case in found if case.component.library == "transformers" and case.key in names_code]
    shuffled, covered = chance.sample(found, len(found)), set[str]()
    needed = [
        case
        for case in shuffled
        if not {case.component.class_name, case.file, case.key} <= covered
        and not covered.update((case.component.class_name, case.file, case.key))
    ]
    return [*certain, *needed, *chance.sample(found, most)]


def objects(plain: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    if isinstance(plain, dict):
        yield place, plain
        for key, value in plain.items():
            yield from objects(value, (*place, key))


def class_texts(component: Any) -> set[str]:
    """The keys of a class that may be text, by its annotations."""
    from latentloom.pipelines.components.loading import component_class

    kind = component_class(component)
    takes = inspect.signature(getattr(kind, "config_class", None) or kind.__init__).parameters.values()
    return {taken.name for taken in takes if "str" in str(taken.annotation) or isinstance(taken.default, str)}


def try_once(case: Case, folder: Path, watch: Watch, expected: Mapping[str, Any]) -> tuple[str, list[str]]:
    """What became of it, and what Python did meanwhile."""
    from latentloom.pipelines.components.loading import load_component
    from latentloom.pipelines.models.component_files import inspect_component

    original = case.component
    copy = folder / original.name
    copy.mkdir(parents=True)
    for path in original.folder.iterdir():
        (copy / path.name).symlink_to(path.resolve())
    (copy / case.file).unlink()
    plain = json.loads((original.folder / case.file).read_text())
    inner = plain
    for key in case.place:
        inner = inner[key]
    inner[case.key] = case.value
    (copy / case.file).write_text(json.dumps(plain))
    watch.watch(str(folder))
    try:
        outcome = "refused when inspected"
        found = inspect_component(
            folder, original.name, library=original.library, class_name=original.class_name, roots=None
        )
        outcome = "refused when loaded"
        loaded = load_component(found, dtype="fp32")
        outcome = "loaded"
    except ValueError as error:
        assert "\n" not in str(error) and "install" not in str(error), f"{case}: {error}"
        return outcome, watch.offences()
    return outcome if weights(loaded) == expected[
        original.class_name
    ] else "loaded with other weights", watch.offences()


def weights(component: Any) -> list[bytes]:
    if not hasattr(component, "state_dict"):
        return []
    return [tensor.numpy().tobytes() for tensor in component.state_dict().values() if hasattr(tensor, "numpy")]


def prepare(scratch: Path) -> tuple[Any, tuple[str, ...]]:
    """A recording `kernels` package on the path, and what the values name, which is all there to be read and run."""
    (scratch / "stub" / "kernels").mkdir(parents=True)
    (scratch / "stub" / "kernels" / "__init__.py").write_text(STUB)
    (scratch / "stub" / "kernels-0.18.2.dist-info").mkdir()
    (scratch / "stub" / "kernels-0.18.2.dist-info" / "METADATA").write_text("Name: kernels\nVersion: 0.18.2\n")
    bait = scratch / "outside" / "org" / "name"
    bait.mkdir(parents=True)
    for file in ("__init__.py", "modeling.py", "generate.py"):
        (bait / file).write_text("raise SystemExit('code of the model ran')\n")
    for file in ("config.json", "tokenizer.json", "vocab.json", "model.safetensors", "generation_config.json"):
        (bait / file).write_text("{}")
    os.chdir(scratch / "outside")
    sys.path[:0] = [str(scratch / "stub"), str(ROOT / "tests")]
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        os.environ.pop(name, None)  # the loader keeps off the network by itself
    import kernels  # type: ignore[import-not-found]

    return kernels, ("org/name", str(bait), "https://example.invalid/org/name")


def check_the_watch(watch: Watch, encoder: Any) -> None:
    """transformers by itself asks for the kernel: otherwise an empty list of offences would say nothing."""
    import transformers

    watch.watch("no folder")
    try:
        transformers.CLIPTextModel.from_pretrained(encoder.folder, attn_implementation="org/name")
    except Exception as error:
        assert "fetched" in str(error), error
    (Path.cwd() / "org" / "name" / "vocab.json").read_text()
    assert len(watch.offences()) == 2, watch.offences()


def run(scratch: Path, *, seed: int, most: int | None) -> dict[str, Any]:
    stub, values = prepare(scratch)
    from latentloom.pipelines.components.loading import load_component
    from latentloom.pipelines.models.component_files import inspect_model
    from latentloom.pipelines.models.source import BUILTINS
    from support.tiny_models import write_tiny

    folders = [*(write_tiny(family, scratch / family) for family in FAMILIES), BUILTINS["bobbin"]]
    components = {each.class_name: each for folder in folders for each in inspect_model(folder).components.values()}
    expected = {name: weights(load_component(each, dtype="fp32")) for name, each in components.items()}
    watch = Watch(stub, scratch / "outside")
    check_the_watch(watch, components["CLIPTextModel"])
    chosen = list(cases(components, values))
    if most is not None:
        chosen = covering(chosen, random.Random(seed), most)
    outcomes, offences = collections.Counter[str](), list[str]()
    for number, case in enumerate(chosen):
        outcome, seen = try_once(case, scratch / "copies" / str(number), watch, expected)
        outcomes[outcome] += 1
        offences += [f"{case}: {each}" for each in seen]
        if "other" in outcome:
            offences.append(f"{case}: {outcome}")
    keys = len({(case.component.class_name, case.file, case.place, case.key) for case in chosen})
    told = {"seed": seed, "classes": len(components), "cases": len(chosen), "keys": keys}
    return {**told, **outcomes, "offences": offences}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = run(Path(folder).resolve(), seed=given.seed, most=given.cases)
        print(json.dumps(report, indent=1))
        os.chdir("/")
    sys.exit(bool(report["offences"]))
