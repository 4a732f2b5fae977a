"""What we take for granted of diffusers past its public interface, so that another version fails here, by name.

Each test is of one place: `pipelines/denoising/inside.py` and the modules named with it. What `Unwaiting` takes for
granted of the solvers is in `test_step_waits.py`.
"""

import ast
import importlib
import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from diffusers.configuration_utils import FrozenDict
from diffusers.guiders.classifier_free_guidance import ClassifierFreeGuidance
from diffusers.modular_pipelines.flux import before_denoise
from diffusers.modular_pipelines.flux.encoders import retrieve_latents
from diffusers.modular_pipelines.flux.modular_blocks_flux import FluxAutoBlocks, FluxCoreDenoiseStep
from diffusers.modular_pipelines.modular_pipeline import BlockState, ModularPipeline, PipelineState
from diffusers.schedulers import scheduling_flow_match_euler_discrete as euler
from torch import Tensor, nn

from latentloom.pipelines.denoising.blocks import DECLARED
from latentloom.pipelines.denoising.inside import derive, derived, most_likely
from latentloom.pipelines.denoising.tables import BLOCKS, SCHEDULERS
from support.tiny_parts import image_vae, wan_vae

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = ("diffusers", "transformers")
# What our modules ask classes and modules for that no import names.
HELD = {
    "components/lora.py": {"diffusers.loaders.lora_base:LoraBaseMixin": ["_lora_loadable_modules"]},
    "components/single_file.py": {
        "diffusers.loaders.single_file_model": [
            "_get_single_file_loadable_mapping_class",
            "SINGLE_FILE_LOADABLE_CLASSES",
        ]
    },
    "components/building.py": {"diffusers.models.modeling_utils:ModelMixin": ["_keep_in_fp32_modules"]},
    "denoising/blocks.py": {
        "diffusers.modular_pipelines.modular_pipeline:ModularPipeline": ["_execution_device", "device"],
        "diffusers.modular_pipelines.modular_pipeline:LoopSequentialPipelineBlocks": ["progress_bar"],
    },
    "denoising/step_cache.py": {
        "diffusers.hooks.hooks:HookRegistry": ["_get_child_registries"],
        "diffusers.hooks.hooks:ModelHook": ["_is_stateful", "reset_state"],
        "diffusers.hooks.first_block_cache:FBCHeadBlockHook": ["_should_compute_remaining_blocks"],
        "diffusers.hooks.sea_cache:SeaCacheSharedState": ["resolve_gate"],
    },
    "whole/blocks.py": {
        "diffusers.modular_pipelines.modular_pipeline:ModularPipeline": ["_execution_device", "register_to_config"]
    },
    "whole/carried.py": {
        "diffusers.loaders.peft:PeftAdapterMixin": ["add_adapter"],
        "diffusers.models.transformers.transformer_flux:FluxTransformer2DModel": ["attn_processors"],
        "peft.tuners.tuners_utils:BaseTunerLayer": ["_active_adapter", "_disable_adapters"],
        "transformers:PreTrainedModel": ["_from_config", "add_adapter"],
    },
    "spreading/guidance.py": {
        "diffusers.guiders.guider_utils:BaseGuidance": ["prepare_inputs", "prepare_inputs_from_block_state"]
    },
    "spreading/vae.py": {"diffusers.models.autoencoders.autoencoder_kl:AutoencoderKL": ["_decode"]},
    "whole/called.py": {"diffusers.modular_pipelines.modular_pipeline:ModularPipelineBlocks": ["get_execution_blocks"]},
}


def found(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name) if name else importlib.import_module(module)


def test_every_name_that_we_import_of_a_library_is_there() -> None:
    """Most are imported inside functions, some for one model alone."""
    lacking = []
    for path in sorted((ROOT / "pipelines").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in LIBRARIES:
                for each in node.names:
                    try:
                        found(f"{node.module}:{each.name}")
                    except (ImportError, AttributeError):
                        lacking.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.module} has no {each.name}")
    assert lacking == []


@pytest.mark.parametrize("place", HELD)
def test_every_name_that_we_ask_a_class_for_is_there(place: str) -> None:
    assert [
        (path, name) for path, names in HELD[place].items() for name in names if not hasattr(found(path), name)
    ] == []


def test_a_block_tells_what_it_declares_by_attributes_of_its_class() -> None:
    """`blocks._settle` gives it a class with what they said; a block that read other attributes would not see it."""
    block = before_denoise.FluxRoPEInputsStep()
    assert all(isinstance(inspect.getattr_static(type(block), name), property) for name in DECLARED)
    derive(block, **{name: getattr(block, name) for name in DECLARED} | {"inputs": []})
    assert vars(block.get_block_state(PipelineState(values={"height": 64}))) == {}


def test_blocks_are_copied_for_a_pipeline_which_holds_no_more_than_attributes() -> None:
    """`blocks.Assembly` changes the copy, and copies the pipeline for each run."""
    pipeline = (block := FluxCoreDenoiseStep()).init_pipeline()
    assert pipeline._blocks is not block
    assert pipeline._blocks.sub_blocks["denoise"] is not block.sub_blocks["denoise"]
    assert isinstance(pipeline, ModularPipeline) and not hasattr(ModularPipeline, "__slots__")


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_of_sizes_looks_at_no_value_of_a_tensor(name: str) -> None:
    """`tables.OfSizes` keeps what it made by sizes: tensors without values give it all that it asks for."""
    block = getattr(before_denoise, name)()
    vae = {"block_out_channels": [8, 8, 8, 8]}
    components = SimpleNamespace(
        scheduler=getattr(euler, SCHEDULERS[0])(),
        transformer=SimpleNamespace(config=FrozenDict(guidance_embeds=True, in_channels=64)),
        vae=SimpleNamespace(config=FrozenDict(vae)),
        vae_scale_factor=8,
        num_channels_latents=16,
        _execution_device=torch.device("cpu"),
    )
    known = {"height": 64, "width": 64, "batch_size": 1, "num_inference_steps": 4, "strength": 0.5}
    tensors = {each.name: torch.empty(1, 8, 64, device="meta") for each in block.inputs if each.type_hint is Tensor}
    given = {**tensors, "prompt_embeds": torch.empty(1, 8, 32, device="meta"), **known}
    given = {each.name: given.get(each.name) for each in block.inputs}
    _, state = block(components, PipelineState(values=given))
    assert {each.name for each in block.intermediate_outputs} <= state.values.keys()


@pytest.mark.parametrize("name", SCHEDULERS)
def test_no_step_writes_into_the_levels_of_a_scheduler(name: str) -> None:
    """`tables.OfSizes` gives them to the next denoise too."""
    scheduler = getattr(euler, name)()
    scheduler.set_timesteps(3)
    levels = [(each, each._version) for each in vars(scheduler).values() if isinstance(each, Tensor)]
    for t in scheduler.timesteps:
        scheduler.step(torch.ones(1, 4), t, torch.ones(1, 4))
    assert len(levels) >= 2 and all(each._version == version for each, version in levels)


@pytest.mark.parametrize("make", [image_vae, wan_vae])
def test_who_encodes_asks_for_a_sample_of_what_the_vae_gives(make: Any) -> None:
    """`inside.most_likely` puts the middle in its place."""
    vae = make().eval()
    picture = torch.rand(1, 3, *((1,) if make is wan_vae else ()), 32, 32)
    with torch.no_grad():
        middle = vae.encode(picture).latent_dist.mode()
        with most_likely(vae):
            taken = [retrieve_latents(vae.encode(picture), torch.Generator().manual_seed(seed)) for seed in (1, 2)]
    assert all(torch.equal(each, middle) for each in taken)
    assert not torch.equal(retrieve_latents(vae.encode(picture)), middle)


def test_a_guider_counts_the_branches_that_it_prepares() -> None:
    """`spreading.guidance` sets the count, by which guiders tell which branch is asked."""
    guider = ClassifierFreeGuidance(guidance_scale=2.0)
    guider.set_state(0, 1, torch.zeros(1))
    guider.prepare_models(nn.Identity())
    assert guider._count_prepared == 1 and guider.is_conditional
    guider._count_prepared = 1
    guider.prepare_models(nn.Identity())
    assert guider._count_prepared == 2 and not guider.is_conditional
    fields = {"prompt_embeds": ("positive", "negative")}
    branches = guider.prepare_inputs_from_block_state(BlockState(positive=1, negative=2), fields)
    assert [each.prompt_embeds for each in branches] == [1, 2]


def test_a_state_knows_its_values_and_of_which_group_they_are() -> None:
    """`tables.OfSizes` sets them as the block did."""
    state = PipelineState()
    state.set("txt_ids", 1, "denoiser_input_fields")
    assert state.values == {"txt_ids": 1} and state.get_by_kwargs("denoiser_input_fields") == {"txt_ids": 1}


@pytest.mark.parametrize("make", [FluxAutoBlocks, nn.Identity, ClassifierFreeGuidance])
def test_a_thing_may_belong_to_a_derived_class_and_back(make: Any) -> None:
    thing = make()
    undo = derive(thing, __call__=lambda self: "ours")
    assert (thing(), type(thing).__name__, type(thing).__module__) == ("ours", make.__name__, make.__module__)
    assert issubclass(derived(type(thing)), make)
    undo()
    assert type(thing) is make
