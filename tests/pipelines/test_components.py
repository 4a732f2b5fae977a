import dataclasses
import json
import logging
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import diffusers
import pytest
import torch
from safetensors.torch import load_file, save_file

from latentloom.parallel.errors import Cancelled, OutOfMemory
from latentloom.parallel.machine.now import Container
from latentloom.parallel.mesh import planned_mesh
from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines.components import loans, memory
from latentloom.pipelines.components.loading import load_component, one_sentence
from latentloom.pipelines.components.memory import default_budget
from latentloom.pipelines.components.shelf import StoredComponent
from latentloom.pipelines.components.store import ComponentStore
from latentloom.pipelines.models.component_files import inspect_model
from latentloom.pipelines.models.describe import check_engine, describe_model
from latentloom.pipelines.values import Model
from support.told import Told

WEIGHTS = "diffusion_pytorch_model.safetensors"


@pytest.fixture
def flux(tiny: Callable[[str], Path]) -> Model:
    return describe_model(str(tiny("flux")), device="cpu")


@pytest.fixture
def copy(tiny: Callable[[str], Path], tmp_path: Path) -> Path:
    """A tiny FLUX that a test may change."""
    return shutil.copytree(tiny("flux"), tmp_path / "copy")


def num_bytes(module: torch.nn.Module) -> int:
    return sum(tensor.nbytes for tensor in (*module.parameters(), *module.buffers()))


@pytest.mark.parametrize(
    "family",
    [
        *("flux", "sd3", "qwen_image", "wan_i2v", "wan22"),
        *(pytest.param(each, marks=pytest.mark.by_hand) for each in ("wan", "wan22_i2v")),
    ],
)
def test_every_component_has_the_weights_that_diffusers_reads(tiny: Callable[[str], Path], family: str) -> None:
    ours = ComponentStore().load(
        describe_model(str(tiny(family)), device="cpu"), tuple(inspect_model(tiny(family)).components)
    )
    stock = diffusers.DiffusionPipeline.from_pretrained(tiny(family), dtype=torch.float32, local_files_only=True)
    expected = {name: part for name, part in stock.components.items() if part is not None}
    assert {name: type(part) for name, part in ours.items()} == {name: type(part) for name, part in expected.items()}
    for name, part in expected.items():
        if isinstance(part, torch.nn.Module):
            state = ours[name].state_dict()
            assert all(torch.equal(tensor, state[key]) for key, tensor in part.state_dict().items())
            assert not ours[name].training and not any(p.requires_grad for p in ours[name].parameters())


@pytest.mark.parametrize(("dtype", "expected"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_all_components_have_the_models_dtype(dtype: Any, expected: torch.dtype) -> None:
    """The built-in model's files are fp16; libraries left to themselves would disagree."""
    model = describe_model("builtin:bobbin", device="cpu", dtype=dtype)
    parts = ComponentStore().load(model, ("text_encoder", "text_encoder_2", "transformer", "vae"))
    assert {part.dtype for part in parts.values()} == {expected}


def test_a_component_is_loaded_once_and_reported(flux: Model) -> None:
    components, progress = ComponentStore(), Told()
    first = components.load(flux, ("transformer", "vae"), progress)
    second = components.load(flux, ("transformer",), progress)
    assert first["transformer"] is second["transformer"]
    assert progress.phases == ["loading transformer", "loading vae"]
    components.load(dataclasses.replace(flux, dtype="bf16"), ("vae",), progress)
    assert progress.phases[2:] == ["loading vae"], "of another dtype it is another component"
    components.clear()
    assert components.num_bytes == 0


def test_schedulers_are_new_each_time(flux: Model) -> None:
    components = ComponentStore()
    first, second = (components.load(flux, ("scheduler",))["scheduler"] for _ in range(2))
    first.set_timesteps(3, mu=0.5)
    assert first is not second and dict(first.config) == dict(second.config) and len(second.timesteps) == 1000


def test_optional_components_may_be_absent_and_others_not(flux: Model) -> None:
    assert list(ComponentStore().load(flux, ("image_encoder?", "tokenizer?"))) == ["tokenizer"]
    with pytest.raises(ValueError, match="has no image_encoder"):
        ComponentStore().load(flux, ("image_encoder",))


def test_the_least_recently_used_leaves_first(flux: Model) -> None:
    sizes = {n: num_bytes(p) for n, p in ComponentStore().load(flux, ("text_encoder", "vae", "transformer")).items()}
    components, progress = ComponentStore(budget_bytes=sum(sizes.values()) - 1), Told()
    for name in ("text_encoder", "vae", "text_encoder", "transformer", "text_encoder", "vae"):
        components.load(flux, (name,), progress)
    assert progress.phases == ["loading text_encoder", "loading vae", "loading transformer", "loading vae"]
    assert components.num_bytes <= sum(sizes.values()) - 1


def test_what_one_call_needs_stays_even_beyond_the_budget(flux: Model, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="latentloom"):
        parts = ComponentStore(budget_bytes=1000).load(flux, ("vae", "transformer"))
    assert len(parts) == 2 and "more than its budget" in caplog.text


def test_a_decode_is_not_disturbed_by_an_encode_in_its_middle(tiny: Callable[[str], Path]) -> None:
    """As the two lanes of a rank do: they share the weights, not the frames that a video VAE keeps meanwhile."""
    components, model = ComponentStore(), describe_model(str(tiny("wan")), device="cpu")
    first, second = (components.load(model, ("vae",))["vae"] for _ in range(2))
    latents = torch.randn(1, first.config.z_dim, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = first.decode(latents).sample
        hook = first.decoder.register_forward_hook(lambda *_: second.encode(torch.zeros(1, 3, 5, 32, 32)) and None)
        got = first.decode(latents).sample
    hook.remove()
    assert torch.equal(got, expected) and first.decoder is second.decoder and expected.std() > 0.01


@pytest.fixture
def shares(monkeypatch: pytest.MonkeyPatch) -> ParallelPlan:
    """A plan whose shares of weights are stand-ins, always of the present process group."""
    plan = ParallelPlan(ulysses=2, weights=2)
    mesh = planned_mesh(plan, 0)

    def new_share(*_: Any, **__: Any) -> tuple[torch.nn.Module, str]:
        return torch.nn.Linear(9, 10), "handle"

    monkeypatch.setattr(
        "latentloom.pipelines.components.store._mesh", lambda model, plan: mesh if plan.weights > 1 else None
    )
    monkeypatch.setattr("latentloom.pipelines.components.store.is_current", lambda mesh: True)
    monkeypatch.setattr("latentloom.pipelines.components.store.load_share", new_share)
    return plan


def test_a_share_of_weights_is_never_dropped_by_one_rank_alone(flux: Model, shares: ParallelPlan) -> None:
    components, progress = ComponentStore(budget_bytes=1), Told()
    first = components.load(flux, ("transformer",), plan=shares)["transformer"]
    components.load(flux, ("vae",))
    components.load(flux, ("text_encoder",))
    assert (
        components.load(flux, ("transformer",), progress, plan=shares)["transformer"] is first and progress.phases == []
    )


def test_shares_of_another_model_take_the_place_of_these(flux: Model, shares: ParallelPlan) -> None:
    components, progress = ComponentStore(), Told()
    for model in (flux, dataclasses.replace(flux, dtype="bf16"), flux):
        components.load(model, ("transformer",), progress, plan=shares)
        assert components.num_bytes == 400
    assert progress.phases == ["loading transformer"] * 3


def test_ranks_of_a_machine_divide_its_memory(flux: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {n: num_bytes(p) for n, p in ComponentStore().load(flux, ("text_encoder", "vae")).items()}
    monkeypatch.setattr("latentloom.pipelines.components.shelf.default_budget", lambda place: sum(sizes.values()))
    for num_ranks, kept in ((1, sum(sizes.values())), (4, sizes["vae"])):
        components = ComponentStore()
        components.share_host(num_ranks)
        for name in sizes:
            components.load(flux, (name,))
        assert components.num_bytes == kept


def test_a_budget_is_that_of_the_container(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latentloom.parallel.machine.now.read_container", lambda: Container(memory_bytes=1000))
    memory._total_bytes.cache_clear()
    assert default_budget("cpu") == 600
    memory._total_bytes.cache_clear()


def test_components_leave_an_accelerator_by_need_only_and_without_a_copy(flux: Model) -> None:
    """The meta device stands in for an accelerator: moving there is free, and back is an error that must not happen."""
    on_device, progress = dataclasses.replace(flux, device="meta"), Told()
    names = ("text_encoder", "transformer", "vae")
    sizes = {name: num_bytes(part) for name, part in ComponentStore().load(flux, names).items()}
    components = ComponentStore(budget_bytes=sum(sizes.values()) + 1000)
    prompts = [{name: components.load(on_device, (name,), progress)[name] for name in names} for _ in range(2)]
    assert progress.phases == [f"loading {name}" for name in names]
    assert prompts[0]["transformer"] is prompts[1]["transformer"]
    held = lambda: {each.component: each.device for each in components.held()}  # noqa: E731
    components.load(on_device, ("transformer",), progress, working_bytes=1000)
    assert held() == dict.fromkeys(names, "meta")
    components.load(on_device, ("transformer",), progress, working_bytes=1001)  # the least recently used goes
    assert held() == dict.fromkeys(("transformer", "vae"), "meta")
    components.load(on_device, ("text_encoder",), progress)
    assert progress.phases[3:] == ["loading text_encoder"] and held() == dict.fromkeys(names, "meta")


def test_memory_goes_back_to_the_driver_when_no_other_thread_computes(
    flux: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    emptied: list[str] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(threading.current_thread().name))
    components = ComponentStore(budget_bytes=0)

    def drop() -> None:
        components._entries[("x",)] = StoredComponent(torch.nn.Linear(9, 9), 400, "cuda:0", 0)
        components._drop(("x",))

    with components.lent(flux, ("vae",)):
        drop()
        beside = threading.Thread(target=drop, name="beside")
        beside.start()
        beside.join()
    assert emptied == ["MainThread"]
    drop()
    assert emptied == ["MainThread"] * 2


def test_what_a_stage_computes_with_is_kept_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latentloom.pipelines.components.shelf.default_budget", lambda place: 850)
    monkeypatch.setattr("latentloom.pipelines.components.shelf.spare_bytes", lambda place: 50)
    for working_bytes, kept in ((0, 2), (50, 2), (100, 2), (101, 1), (900, 0)):
        components = ComponentStore()
        for key in "ab":
            components._entries[(key,)] = StoredComponent(torch.nn.Linear(9, 9), 400, "cuda:0", 0)
        components._make_room("cuda:0", 0, set(), working_bytes)
        assert len(components._entries) == kept


def test_graphs_of_steps_make_way_before_weights_do(monkeypatch: pytest.MonkeyPatch) -> None:
    class Graphs:
        num_bytes = 100

        def forget_graphs(self) -> None:
            self.num_bytes = 0

        def end(self) -> None:
            self.num_bytes = 0

    for budget, num_graphs, kept in ((1000, 200, 2), (950, 100, 2), (800, 0, 2), (799, 0, 1)):
        components = ComponentStore(budget_bytes=budget)
        held: Any = [Graphs(), Graphs()]
        for use, graphs in enumerate(held):
            components._entries[(use,)] = StoredComponent(torch.nn.Linear(9, 9), 400, "cpu", use, prepared=graphs)
        components._make_room("cpu", 0, set(), 0)
        assert (sum(graphs.num_bytes for graphs in held[-kept:]), len(components._entries)) == (num_graphs, kept)


def test_what_graphs_hold_is_not_kept_free_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that is replayed computes in the memory of its graph."""
    monkeypatch.setattr("latentloom.pipelines.components.shelf.default_budget", lambda place: 1000)
    monkeypatch.setattr("latentloom.pipelines.components.shelf.spare_bytes", lambda place: 0)
    for graph_bytes, num_kept in ((100, 2), (200, 2), (201, 1)):
        components = ComponentStore()
        for key in "ab":
            components._entries[(key,)] = StoredComponent(torch.nn.Linear(9, 9), 400, "cuda:0", 0)
        components._entries[("a",)].prepared = cast(Any, SimpleNamespace(num_bytes=graph_bytes, end=lambda: None))
        components._make_room("cuda:0", 0, {("a",)}, 200)
        assert len(components._entries) == num_kept


@pytest.mark.parametrize(
    ("device", "graphs", "plan", "step_cache", "wanted", "told"),
    [
        ("cuda:0", "auto", "ulysses=2", "none", "auto", ""),
        ("cuda:0", "off", "ulysses=2", "none", "off", ""),
        ("cpu", "auto", "ulysses=2", "none", "off", ""),
        ("cuda:0", "auto", "", "first_block", "off", "a step cache leaves out blocks that a graph would run"),
        ("cuda:0", "auto", "ulysses=2,weights=2", "none", "off", "ranks that share weights gather those of each block"),
        ("cuda:0", "auto", "layers=2", "none", "off", "ranks that hold some of the blocks wait for those of others"),
        ("cuda:0", "on", "", "none", "on", ""),
    ],
)
def test_steps_are_captured_where_nothing_stands_against_it_and_why_not_is_said_once(
    flux: Model,
    caplog: pytest.LogCaptureFixture,
    device: str,
    graphs: Any,
    plan: str,
    step_cache: Any,
    wanted: str,
    told: str,
) -> None:
    caplog.set_level(logging.INFO, logger="latentloom")
    loans._say_once.cache_clear()
    model = dataclasses.replace(flux, device=device, graphs=graphs)
    found = [loans.condition_of(model, ParallelPlan.parse(plan), step_cache) for _ in range(2)]
    assert [each.graphs for each in found] == [wanted] * 2
    assert [(each.levelname, told in each.getMessage()) for each in caplog.records] == [("INFO", True)] * bool(told)


def test_shards_load_to_the_same_weights(tiny: Callable[[str], Path], copy: Path) -> None:
    part = ComponentStore().load(describe_model(str(copy), device="cpu"), ("transformer",))["transformer"]
    (copy / "transformer" / WEIGHTS).unlink()
    part.save_pretrained(copy / "transformer", max_shard_size="200KB")
    assert len(inspect_model(copy).components["transformer"].weights) > 2
    again = ComponentStore().load(describe_model(str(copy), device="cpu"), ("transformer",))["transformer"]
    assert all(torch.equal(tensor, part.state_dict()[key]) for key, tensor in again.state_dict().items())


@pytest.mark.parametrize(("name", "file"), [("transformer", WEIGHTS), ("text_encoder", "model.safetensors")])
def test_a_missing_tensor_is_refused_by_name(copy: Path, name: str, file: str) -> None:
    """Both libraries fill it with random numbers and go on."""
    weights = load_file(copy / name / file)
    gone = next(key for key in weights if key.endswith("norm1.weight") or "norm_q.weight" in key)
    save_file({key: tensor for key, tensor in weights.items() if key != gone}, copy / name / file)
    with pytest.raises(ValueError, match=f"component {name}: .*1 tensors are missing.*{gone}"):
        ComponentStore().load(describe_model(str(copy), device="cpu"), (name,))


def test_files_that_change_between_describing_and_loading_are_noticed(copy: Path) -> None:
    model = describe_model(str(copy), device="cpu")
    weights = load_file(copy / "vae" / WEIGHTS)
    (copy / "vae" / WEIGHTS).unlink()  # a hard link: the original must not change
    save_file({name: tensor + 1 for name, tensor in weights.items()}, copy / "vae" / WEIGHTS)
    with pytest.raises(ValueError, match="have changed since it was described"):
        ComponentStore().load(model, ("vae",))


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("vae", ["diffusers", "DiffusionPipeline"]),
        ("vae", ["diffusers", "NoSuchModel"]),
        ("vae", ["transformers", "AutoModel"]),
        ("text_encoder", ["transformers", "PreTrainedTokenizerFast"]),
        ("scheduler", ["diffusers", "NoSuchScheduler"]),
    ],
)
def test_only_component_classes_are_loaded(tiny: Callable[[str], Path], name: str, entry: list[str]) -> None:
    files = inspect_model(tiny("flux")).components[name]
    spoiled = dataclasses.replace(files, library=entry[0], class_name=entry[1])
    with pytest.raises(ValueError, match=f"no {files.kind} class {entry[1]}"):
        load_component(spoiled, dtype="fp32")


def test_every_failure_of_a_library_is_one_sentence(flux: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        """What Rust code raises, by its name."""

    for error in (RuntimeError("a\nb"), OSError(), PanicException("x"), KeyError("k")):

        def fail(*_: Any, error: BaseException = error, **__: Any) -> None:
            raise error

        monkeypatch.setattr(diffusers.AutoencoderKL, "from_pretrained", fail)
        with pytest.raises(ValueError, match=r"^component vae: \S+/vae .*$") as caught:
            ComponentStore().load(flux, ("vae",))
        assert "\n" not in str(caught.value)


def test_out_of_memory_while_loading_is_told_as_such(tiny: Callable[[str], Path]) -> None:
    files = inspect_model(tiny("flux")).components["transformer"]
    told = r"^component transformer: .* memory \(2.00 GiB more was asked for\); use quantization int8, a smaller dtype"
    for error in (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), MemoryError()):
        words = told if str(error) else "component transformer: .* does not fit into memory; use"
        with pytest.raises(OutOfMemory, match=words), one_sentence(files, None), one_sentence(files, None):
            raise error


def test_cancelling_while_loading_stays_a_cancel(flux: Model) -> None:
    class Cancelling(Told):
        def phase(self, text: str, *, is_loading: bool = False) -> None:
            raise Cancelled

    with pytest.raises(Cancelled):
        ComponentStore().load(flux, ("vae",), Cancelling())


def test_a_single_file_gives_the_transformer(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    weights = load_file(tiny("flux") / "transformer" / WEIGHTS)
    save_file({name: tensor + 0.5 for name, tensor in weights.items()}, tmp_path / "one.safetensors")
    model = describe_model(f"{tmp_path / 'one.safetensors'}@{tiny('flux')}", device="cpu")
    parts = ComponentStore().load(model, ("transformer", "vae"))
    state = parts["transformer"].state_dict()
    assert all(torch.equal(state[name], tensor + 0.5) for name, tensor in weights.items())
    assert not any(p.requires_grad for p in parts["transformer"].parameters())


def test_a_single_file_of_another_model_is_one_sentence(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    shutil.copy(tiny("wan") / "transformer" / WEIGHTS, tmp_path / "one.safetensors")
    model = describe_model(f"{tmp_path / 'one.safetensors'}@{tiny('flux')}", device="cpu")
    with pytest.raises(ValueError, match=r"this FluxTransformer2DModel \(first [\w.]+\); use its own base"):
        ComponentStore().load(model, ("transformer",))


def test_a_weight_of_a_single_file_that_the_base_lacks_is_refused(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    """Left out, it would paint another picture: the guidance of a dev model on the base of schnell."""
    weights = load_file(tiny("wan") / "transformer" / WEIGHTS)
    save_file({**weights, "guidance_in.weight": torch.ones(2)}, tmp_path / "one.safetensors")
    model = describe_model(f"{tmp_path / 'one.safetensors'}@{tiny('wan')}", device="cpu")
    with pytest.raises(
        ValueError, match=r"has 1 weights that this WanTransformer3DModel lacks, first guidance_in\.weight"
    ):
        ComponentStore().load(model, ("transformer",))


def test_a_tokenizer_cannot_bring_code(copy: Path) -> None:
    """Checked again when loading: a Model made by hand skips the description's checks."""
    config = copy / "tokenizer" / "tokenizer_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"auto_map": {"AutoTokenizer": ["evil.Evil", None]}}))
    model = Model(source=str(copy), folder=str(copy), family="flux")
    with pytest.raises(ValueError, match="names code of its own"):
        ComponentStore().load(model, ("tokenizer",))


def test_loading_reaches_for_no_network(tiny: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a run must not use the network")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    model = describe_model(str(tiny("wan_i2v")), device="cpu")
    ComponentStore().load(model, tuple(inspect_model(tiny("wan_i2v")).components))


def test_compiled_transformers_compile_their_repeated_blocks(flux: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latentloom.pipelines.components.store.check_engine", lambda *_, **__: None)
    components = ComponentStore()
    blocks = [
        [
            type(each).__name__
            for each in components.load(model, ("transformer", "vae"))["transformer"].modules()
            if "forward" in vars(each) and type(each).__name__.endswith("TransformerBlock")
        ]
        for model in (dataclasses.replace(flux, engine="inductor"), flux)
    ]
    assert set(blocks[0]) == {"FluxTransformerBlock", "FluxSingleTransformerBlock"} and len(blocks[0]) == 4
    assert not blocks[1], "the same transformer, as it was, for who wants none of it"


def test_compiling_without_a_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(ValueError, match=r"install g\+\+, or choose engine eager"):
        check_engine("inductor", device="cpu")
