"""Spread Model without ComfyUI: small fakes of its documented rules (patchers, wrappers, loaders) stand in."""

import functools
import inspect
import json
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from latentloom.nodes.hosts.comfyui import NODE_CLASS_MAPPINGS, NODE_DISPLAY_NAME_MAPPINGS
from latentloom.nodes.hosts.native import border, patches, recipe, shell
from latentloom.nodes.hosts.native.border import Border, Sent, named, sendable
from latentloom.nodes.hosts.native.node import SpreadModel, place_for, plan_for
from latentloom.nodes.hosts.native.on_rank import KEEP, KEPT, LACKING, Held, Options, _here
from latentloom.nodes.hosts.native.splits.plans import OF_ROWS
from latentloom.parallel.errors import BadInput
from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines.place import read_place
from latentloom.pipelines.values import Place

TWO = Place(devices=("cpu", "cpu"), plan="ulysses=2")


class LoRAAdapter:
    def __init__(self, loaded_keys: set[str], weights: tuple[Any, ...]) -> None:
        self.loaded_keys, self.weights = loaded_keys, weights


class Executor:
    """A chain of wrappers around a function: each is given the chain, and calls it to go on."""

    def __init__(self, original: Callable[..., Any], class_obj: Any, wrappers: list[Any], idx: int = 0) -> None:
        self.original, self.class_obj, self.wrappers, self.idx = original, class_obj, wrappers, idx

    @classmethod
    def new_class_executor(cls, original: Any, class_obj: Any, wrappers: list[Any], idx: int = 0) -> "Executor":
        return cls(original, class_obj, wrappers, idx)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return Executor(self.original, self.class_obj, self.wrappers, self.idx + 1).execute(*args, **kwargs)

    def execute(self, *args: Any, **kwargs: Any) -> Any:
        if self.idx == len(self.wrappers):
            return self.original(*args, **kwargs)
        return self.wrappers[self.idx](self, *args, **kwargs)


class Patcher:
    """A patcher's attributes, as ComfyUI has them."""

    def __init__(self, model: Any = None, **given: Any) -> None:
        self.model = model or types.SimpleNamespace(diffusion_model=Model())
        self.model_options: dict[str, Any] = {"transformer_options": {}}
        self.object_patches: dict[str, Any] = {}
        self.patches: dict[str, Any] = {}
        self.wrappers: dict[str, Any] = {}
        self.injections: dict[str, Any] = {}
        self.hook_patches: dict[str, Any] = {}
        self.weight_wrapper_patches: dict[str, Any] = {}
        self.cached_patcher_init: Any = None
        self.patches_uuid, self.multigpu = "1", []
        vars(self).update(given)

    def get_additional_models_with_key(self, key: str) -> list[Any]:
        return self.multigpu if key == "multigpu" else []

    def clone(self) -> "Patcher":
        return Patcher(self.model)

    def add_patches(self, patches: Any) -> None:
        self.patches_uuid = "2"


class Model(nn.Module):
    """A class of ComfyUI: wrappers stand around `_forward`."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor, timestep: torch.Tensor, context: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        return self._forward(x, timestep, context, **kwargs)

    def _forward(
        self,
        x: torch.Tensor,
        timestep: torch.Tensor,
        context: Any = None,
        transformer_options: Any = None,
        **kwargs: Any,
    ) -> torch.Tensor:
        return x + 1


def load_diffusion_model(path: str, options: Any, disable_dynamic: bool = False) -> Any:
    return types.SimpleNamespace(path=path, options=options, disable_dynamic=disable_dynamic)


@pytest.fixture(autouse=True)
def comfy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The few modules of ComfyUI that are asked."""
    args = types.SimpleNamespace(bf16_unet=True, force_fp16=False, fast=set())
    sd = types.SimpleNamespace(load_diffusion_model=load_diffusion_model, __file__=str(tmp_path / "comfy" / "sd.py"))
    mine = {
        "comfy": types.ModuleType("comfy"),
        "comfy.sd": sd,
        "comfy.cli_args": types.SimpleNamespace(args=args),
        "comfy.patcher_extension": types.SimpleNamespace(WrapperExecutor=Executor),
        "comfy.weight_adapter": types.SimpleNamespace(adapters=[LoRAAdapter]),
    }
    for name, module in mine.items():
        monkeypatch.setitem(sys.modules, name, module)
        if "." in name:
            monkeypatch.setattr(mine["comfy"], name.partition(".")[2], module, raising=False)
    yield


# ---- the recipe


def recipe_for(path: Path, options: Any = None) -> dict[str, Any]:
    return recipe.recipe_of(Patcher(cached_patcher_init=(load_diffusion_model, (str(path), options))))


def test_a_core_loader_is_told_by_name_and_called_alike(tmp_path: Path) -> None:
    (file := tmp_path / "a.safetensors").write_bytes(b"a")
    told = recipe_for(file, {"dtype": torch.float8_e4m3fn, "fp8_optimizations": True, "load_device": "cuda"})
    found = recipe.made(json.loads(json.dumps(told)))
    assert (found.path, found.disable_dynamic) == (str(file), True)
    assert found.options == {"dtype": torch.float8_e4m3fn, "fp8_optimizations": True}


@pytest.mark.parametrize("init", [None, (lambda path: None, ("a",)), (print, ("a",))])
def test_a_loader_that_is_none_of_core_s_is_refused_by_name(init: Any) -> None:
    with pytest.raises(ValueError, match="use one of ComfyUI's own loaders"):
        recipe.recipe_of(Patcher(cached_patcher_init=init))


def test_a_comfyui_that_keeps_no_recipes_is_to_be_updated() -> None:
    patcher = Patcher()
    del patcher.cached_patcher_init
    with pytest.raises(ValueError, match="update ComfyUI"):
        recipe.recipe_of(patcher)


def test_an_object_among_a_loader_s_options_is_refused_by_name(tmp_path: Path) -> None:
    (file := tmp_path / "a.safetensors").write_bytes(b"a")
    with pytest.raises(ValueError, match="custom_operations, a type, which cannot be told"):
        recipe_for(file, {"custom_operations": nn.Linear})


def test_a_file_that_was_changed_or_is_gone_is_not_loaded(tmp_path: Path) -> None:
    (file := tmp_path / "a.safetensors").write_bytes(b"a")
    told = recipe_for(file)
    file.write_bytes(b"ab")
    with pytest.raises(ValueError, match="was changed after it was loaded"):
        recipe.made(told)
    file.unlink()
    with pytest.raises(ValueError, match="is not there any more"):
        recipe.made(told)
    with pytest.raises(ValueError, match="no loader of ComfyUI's"):
        recipe.made({**told, "loader": "eval"})


def test_settings_that_decide_what_is_computed_go_along() -> None:
    assert recipe.host_settings()["true"] == {"bf16_unet": True}


# ---- what a clone carries


def test_patches_of_weights_go_as_tensors_in_their_order_and_come_back_as_they_were() -> None:
    up, down = torch.randn(4, 2), torch.randn(2, 4)
    lora = LoRAAdapter({"k"}, (up, down, 4.0, None, None, (1, 2)))
    rows = [(0.8, lora, 1.0, (0, 2, 2), None), (-0.2, ("diff", (up, {"pad_weight": True})), 1.0, None, None)]
    made = patches.apply(Patcher(), patches.carried(Patcher(patches={"block.weight": rows, "bias": rows[1:]})))
    (strength, value, of_model, offset, function), second = made.patches["block.weight"]
    assert (strength, of_model, offset, function) == (0.8, 1.0, (0, 2, 2), None) and made.patches_uuid == "2"
    assert isinstance(value, LoRAAdapter) and value.weights[2:] == (4.0, None, None, (1, 2))
    assert torch.equal(value.weights[0], up) and torch.equal(value.weights[1], down)
    assert second[:1] == (-0.2,) and second[1][0] == "diff" and second[1][1][1] == {"pad_weight": True}
    assert list(made.patches) == ["block.weight", "bias"]


def wrapped(**kinds: Any) -> dict[str, Any]:
    return {"wrappers": kinds}


REFUSED = {
    "attn1_patch": {"model_options": {"transformer_options": {"patches": {"attn1_patch": [print]}}}},
    "dit": {"model_options": {"transformer_options": {"patches_replace": {"dit": {("double_block", 0): print}}}}},
    "Model Attention Backend": {"model_options": {"transformer_options": {"optimized_attention_override": print}}},
    "object patch diffusion_model.block": {"object_patches": {"diffusion_model.block": print}},
    "weight wrapper of block.weight": {"weight_wrapper_patches": {"block.weight": [print]}},
    "injection mine": {"injections": {"mine": [print]}},
    "LoRA hooks": {"hook_patches": {"ref": {}}},
    "MultiGPU CFG Split": {"multigpu": [print]},
    "TorchCompileModel": wrapped(apply_model={"torch.compile": [print]}),
    "a patch of w that is a builtin_function_or_method": {"patches": {"w": [(1.0, print, 1.0, None, None)]}},
    "a patch of w that is a print": {"patches": {"w": [(1.0, ("diff", ()), 1.0, None, print)]}},
    "a patch of w that holds a object": {"patches": {"w": [(1.0, ("diff", (object(),)), 1.0, None, None)]}},
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_ranks_would_lack_is_named(words: str) -> None:
    assert any(words in each for each in patches.lacking(Patcher(**REFUSED[words])))


HOST = {
    "patches": {"model_options": {"transformer_options": {"patches": {"attn1_patch": []}, "patches_replace": {}}}},
    "model_sampling": {"object_patches": {"model_sampling": print, "manual_cast_dtype": torch.bfloat16}},
    "wrappers": wrapped(apply_model={"easycache": [print]}, diffusion_model={"mine": [print]}),
}


@pytest.mark.parametrize("what", HOST)
def test_what_stays_in_the_host_is_not_refused(what: str) -> None:
    assert list(patches.lacking(Patcher(**HOST[what]))) == []


def test_a_stranger_s_hooks_and_forwards_are_seen_and_a_class_s_own_forward_is_none() -> None:
    model = Model()
    assert patches.tampered(model) == ""
    vars(model.block)["forward"] = model.block.forward  # as core puts back what it has exchanged
    assert patches.tampered(model) == ""
    vars(model.block)["forward"] = functools.partial(model.block.forward)
    assert "at block" in patches.tampered(model)
    del vars(model.block)["forward"]
    hook = model.block.register_forward_hook(lambda *_: None)
    assert "at block" in patches.tampered(model)
    hook.remove()
    assert patches.tampered(model) == ""


def test_nvfp4_is_refused_where_its_inputs_are_scaled_by_all_tokens() -> None:
    model = Model()
    vars(model.block)["quant_format"] = "nvfp4"
    assert patches.scaled_by_tokens(model) == "block"
    vars(model.block)["input_scale"] = torch.ones(())
    assert patches.scaled_by_tokens(model) == ""


# ---- the border


class Asked(Border):
    """A border whose ranks are a function here."""

    def _asked(self, call: Callable[..., dict[str, Any]]) -> dict[str, Any]:
        self.requests = [*getattr(self, "requests", []), call(is_first=not self._ready)]
        self._ready = ("told",)
        arguments = self.requests[-1]["arguments"]
        x = arguments["x"]
        return {"out": [each * 3 for each in x] if isinstance(x, list) else x * 3}


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Asked:
    monkeypatch.setattr(border, "count_ranks", lambda: None)
    found = Asked(TWO, ParallelPlan(ulysses=2), {"loader": "l", "path": "p", "mark": [], "options": {}})
    found.before(Patcher())
    return found


def asked(at: Asked, *wrappers: Any, model: Model | None = None, **options: Any) -> Any:
    model = model or Model()
    call = Executor(model._forward, model, [at.forward, *wrappers])
    return call.execute(torch.ones(1, 4), torch.ones(1), torch.ones(1, 9, 64), options)


def test_ranks_are_asked_in_the_place_of_the_model_and_others_wrappers_go_on(at: Asked) -> None:
    def doubled(executor: Any, *args: Any, **kwargs: Any) -> Any:
        return executor(*args, **kwargs) * 2

    assert torch.equal(asked(at, doubled), torch.full((1, 4), 6.0)) and at.num_asked == 1
    [request] = at.requests
    assert request["entry"] == "_forward" and set(request["arguments"]) == {"x", "timestep", "context"}


def test_several_latents_go_and_come_as_a_list(at: Asked) -> None:
    model = Model()
    video, sound = torch.ones(1, 2), torch.ones(1, 3)
    found = Executor(model._forward, model, [at.forward]).execute([video, sound], torch.ones(1), None)
    assert [tuple(each.shape) for each in found] == [(1, 2), (1, 3)] and isinstance(found, list)


def test_what_comes_with_a_call_and_ranks_would_lack_is_refused_then(at: Asked) -> None:
    with pytest.raises(ValueError, match=r"would not have dit .*Skip Layer Guidance"):
        asked(at, patches_replace={"dit": {0: print}})

    def hooking(executor: Any, *args: Any, **kwargs: Any) -> Any:
        executor.class_obj.block.register_forward_hook(lambda *_: None)
        return executor(*args, **kwargs)

    with pytest.raises(ValueError, match="a hook or another forward at block"):
        asked(at, hooking)
    with pytest.raises(ValueError, match=r"context\.0, a object"):
        model = Model()
        Executor(model._forward, model, [at.forward]).execute(torch.ones(1), torch.ones(1), [object()])
    assert at.num_asked == 1 and not hasattr(at, "requests")


def test_an_option_that_is_an_object_is_left_out_and_refused_once_the_model_asks_for_it(at: Asked) -> None:
    asked(at, easycache=object(), rope_options={"scale_x": 2.0})
    [request] = at.requests
    assert request["left_out"] == ["easycache"] and request["options"] == {"rope_options": {"scale_x": 2.0}}
    options = Options(request["options"])
    options.left_out = frozenset(request["left_out"])
    assert options.get("rope_options") == {"scale_x": 2.0} and "sigmas" not in options and options.get("sigmas") is None
    for ask in (lambda: options["easycache"], lambda: options.copy().get("easycache"), lambda: "easycache" in options):
        with pytest.raises(ValueError, match="'easycache' of its options"):
            ask()


def test_a_class_without_tokens_is_spread_by_its_rows_or_refused_in_one_sentence(at: Asked) -> None:
    module, _, name = next(iter(OF_ROWS)).rpartition(".")
    model = type(name, (Model,), {"__module__": module})()
    for plan in (ParallelPlan(ulysses=2), ParallelPlan(cfg=2), None):
        at.plan, at.num_asked = plan, 0
        with pytest.raises(ValueError, match=r"has no tokens to spread, only rows .* and this call has 1; guide \(cfg"):
            asked(at, model=model)
        assert at.num_asked == 0
    call = functools.partial(Executor(model._forward, model, [at.forward]).execute, torch.ones(2, 4), torch.ones(2))
    assert call().shape == (2, 4) and at.requests[-1]["plan"] == "cfg=2"
    at.plan, at.allow_whole = ParallelPlan(ulysses=2), True
    at.before(Patcher())
    assert torch.equal(call(), torch.full((2, 4), 2.0)) and at.is_whole and at.num_asked == 0


def test_a_run_that_did_not_reach_the_ranks_says_so(at: Asked) -> None:
    with pytest.raises(ValueError, match="none of this run's steps reached the ranks"):
        at.sample(lambda: "latents")
    at.before(Patcher())
    asked(at)
    assert at.sample(lambda: "latents") == "latents"


class Plain(Model):
    """A class that asks no wrapper."""

    def forward(self, x: torch.Tensor, timesteps: torch.Tensor, context: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        return x + 1


def test_a_class_that_asks_no_wrapper_is_answered_by_its_shell_s_forward(
    at: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = types.SimpleNamespace(ON_PRE_RUN="p", OUTER_SAMPLE="o", DIFFUSION_MODEL="d", WrapperExecutor=Executor)
    kinds.CallbacksMP = kinds.WrappersMP = kinds
    monkeypatch.setitem(sys.modules, "comfy.patcher_extension", kinds)
    model = Plain()
    patcher: Any = Patcher(types.SimpleNamespace(diffusion_model=model))
    for name in ("remove_wrappers_with_key", "remove_callbacks_with_key", "add_callback_with_key"):
        setattr(patcher, name, lambda *_: None)
    patcher.add_wrapper_with_key = lambda *_: None
    monkeypatch.setattr(border, "is_shell", lambda _: False)
    at.attach(patcher)
    assert "asks no wrapper" in at.refusal and "forward" not in vars(model)
    at.refusal = ""
    monkeypatch.setattr(border, "is_shell", lambda _: True)
    at.attach(patcher)
    found = model(torch.ones(2), torch.ones(1), context=torch.ones(1), transformer_options={"wrappers": {}})
    assert torch.equal(found, torch.full((2,), 3.0)) and at.requests[0]["entry"] == "forward" and at.num_asked == 1


def test_a_shell_that_is_asked_in_another_way_says_so_in_a_sentence(at: Asked) -> None:
    def lacking_weights() -> None:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")

    with pytest.raises(ValueError, match="none of this run's steps reached the ranks"):
        at.sample(lacking_weights)


def test_where_whole_runs_are_allowed_the_host_does_it_and_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(border, "count_ranks", lambda: None)
    at = Asked(TWO, ParallelPlan(ulysses=2), {}, allow_whole=True)
    at.before(Patcher(**REFUSED["attn1_patch"]))
    assert torch.equal(asked(at), torch.full((1, 4), 2.0)) and at.sample(lambda: 1) == 1
    assert "runs whole on the host" in caplog.text and not hasattr(at, "requests")
    with pytest.raises(ValueError, match="attn1_patch"):
        Asked(TWO, ParallelPlan(ulysses=2), {}).before(Patcher(**REFUSED["attn1_patch"]))


def test_conditionings_are_shared_out_where_comfyui_batches_them_and_one_alone_is_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(border, "count_ranks", lambda: None)
    at = Asked(TWO, ParallelPlan(cfg=2), {})
    at.before(Patcher())
    with pytest.raises(ValueError, match=r"^plan cfg=2: cfg has nothing to do here.*use plan ulysses=2, or set allow"):
        asked(at)
    model = Model()
    call = Executor(model._forward, model, [at.forward])
    assert torch.equal(call.execute(torch.ones(2, 4), torch.ones(2), torch.ones(2, 9, 64)), torch.full((2, 4), 3.0))
    assert at.num_asked == 1 and at.requests[0]["plan"] == "cfg=2"
    at = Asked(TWO, ParallelPlan(cfg=2), {}, allow_whole=True)
    at.before(Patcher())
    assert torch.equal(asked(at), torch.full((1, 4), 2.0)) and "runs whole on the host: plan cfg=2" in caplog.text


def test_auto_is_chosen_at_the_first_call_and_anew_where_rows_do_not_fit(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def chosen(module: Any, split: Any, given: Any, place: Place) -> tuple[ParallelPlan, str]:
        plan = ParallelPlan(cfg=2) if len(given["x"]) == 2 else ParallelPlan(ulysses=2)
        return plan, f"plan auto is {plan}"

    monkeypatch.setattr(border, "count_ranks", lambda: None)
    monkeypatch.setattr(border, "plan_of", lambda _: None)
    monkeypatch.setattr(border, "choose", chosen)
    caplog.set_level("INFO", "latentloom")
    at, model = Asked(TWO, None, {}), Model()
    call = Executor(model._forward, model, [at.forward])
    told = []
    for sizes in ((2, 2, 1, 2), (1, 2)):  # of two runs
        at.before(Patcher())
        for rows in sizes:
            call.execute(torch.ones(rows, 4), torch.ones(rows), torch.ones(rows, 9, 64))
            told.append((at.requests[-1]["plan"], at._told))
    plans = [plan for plan, _ in told]
    assert plans == ["cfg=2", "cfg=2", "ulysses=2", "ulysses=2", "ulysses=2", "ulysses=2"]
    assert told[0] == told[1] and len({*told}) == 2  # ranks see that another plan is another
    assert caplog.text.count("Spread Model: plan auto is") == 3


# ---- conditioning, once


def bytes_in(plain: Any) -> int:
    if isinstance(plain, torch.Tensor):
        return plain.numel() * plain.element_size()
    parts = plain.values() if isinstance(plain, dict) else plain if isinstance(plain, list) else ()
    return sum(map(bytes_in, parts))


def test_conditioning_goes_to_ranks_once_and_what_moves_with_each_call() -> None:
    sent, held, context = Sent(), Held(base=None), torch.randn(1, 9, 64)
    call = {"x": torch.randn(1, 16, 8, 8), "context": context, "guidance": torch.ones(1)}
    sizes = []
    for turn in range(3):
        given = {**call, "x": call["x"] + turn, "context": context.clone()}  # made anew for each step, and equal
        told = {name: sendable(each, name, sent) for name, each in given.items()}
        sizes.append(bytes_in(told["context"]))
        here = _here(told, held, torch.device("cpu"), {})
        assert all(torch.equal(here[name], given[name]) for name in given)
    assert sizes == [context.numel() * 4, 0, 0] and KEEP not in told["context"] and KEPT in told["context"]


def test_ranks_let_go_of_conditioning_that_was_not_used_for_long() -> None:
    sent = Sent()
    numbers = [sent.told("context", torch.full((1, 999), float(turn)))[KEEP] for turn in range(border.MOST_KEPT + 2)]
    assert sent.gone == numbers[:2]
    assert sent.told("context", torch.full((1, 999), 2.0)) == {KEPT: numbers[2]}
    assert isinstance(sent.told("control.input.0", torch.zeros(1, 999)), torch.Tensor)


def test_a_layout_that_the_model_can_make_anew_is_left_out() -> None:
    told = sendable({"layout": object(), "seed": 3}, "minimax_payload", Sent())
    assert told == {"seed": 3}


def test_arguments_by_place_get_their_names() -> None:
    found = named(Model()._forward, (1, 2, 3, {"a": 1}), {"y": 5})
    assert found == {"x": 1, "timestep": 2, "context": 3, "transformer_options": {"a": 1}, "y": 5}


def test_a_rank_that_does_not_hold_the_model_says_so_by_a_code() -> None:
    from latentloom.nodes.hosts.native.on_rank import _held
    from latentloom.parallel.progress import SILENT
    from latentloom.parallel.ranks.seat import Seat

    with pytest.raises(BadInput) as caught:
        _held({"recipe": {}, "told": "x", "setup": None}, SILENT, Seat(rank=0, num_ranks=1, device="cpu"))
    assert caught.value.code == LACKING


# ---- the shell, and the node


def test_a_shell_s_model_has_shapes_and_no_memory_and_the_other_keeps_its_weights() -> None:
    model = Model()
    before = model.block.weight.clone()
    empty = shell.weightless(model)
    assert [each.device.type for each in empty.parameters()] == ["meta"] * 2
    assert {name: each.shape for name, each in empty.state_dict().items()} == {
        name: each.shape for name, each in model.state_dict().items()
    }
    assert torch.equal(model.block.weight, before) and shell.bytes_of(empty) == shell.bytes_of(model) == 24


@pytest.mark.parametrize(
    ("devices", "plan", "words"),
    [
        ("cpu*2", "layers=2", "not by layers or weights; use cfg, ulysses"),
        ("cpu*2", "cfg=2,weights=2", "not by layers or weights; use cfg, ulysses"),
        ("cpu", "auto", "^Spread Model was given one device, cpu; name two"),
    ],
)
def test_plans_that_are_not_done_here_are_refused(devices: str, plan: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        plan_for(place_for(devices, plan, "Spread Model"))


def test_a_plan_that_is_named_is_taken_and_auto_is_chosen_later() -> None:
    assert plan_for(read_place("cpu*2", "auto")) is None
    assert str(plan_for(read_place("cpu*2", "allgather=2"))) == "allgather=2"
    assert str(plan_for(read_place("cpu*4", "cfg=2,ulysses=2"))) == "cfg=2,ulysses=2"


def test_without_leave_a_model_without_a_plan_is_refused_and_with_it_left_whole(
    caplog: pytest.LogCaptureFixture,
) -> None:
    patcher = Patcher()
    with pytest.raises(ValueError, match="has no split plan"):
        SpreadModel().spread_model(patcher, "cpu*2")
    [found] = SpreadModel().spread_model(patcher, "cpu*2", allow_whole=True)
    assert found.model is patcher.model and "runs whole" in caplog.text


@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_where_ranks_cannot_be_it_says_so_at_once_and_leaves_the_graph_whole_with_leave_alone(
    system: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    patcher = Patcher()
    with pytest.raises(ValueError, match=f"several devices need Linux 5.3 or newer, and this is {system}"):
        SpreadModel().spread_model(patcher)
    [found] = SpreadModel().spread_model(patcher, allow_whole=True)
    assert found.model is patcher.model and not found.wrappers
    assert f"it runs whole on the host: several devices need Linux 5.3 or newer, and this is {system}" in caplog.text


def test_the_nodes_load_where_python_has_no_modules_of_unix() -> None:
    code = """
import sys
sys.modules.update(dict.fromkeys(("fcntl", "resource", "pwd", "grp", "termios", "pty", "curses", "readline")))
import os
for name in ("pidfd_open", "memfd_create", "sched_getaffinity", "fork", "getuid", "geteuid"):
    vars(os).pop(name, None)
import torch, diffusers
sys.platform = "win32"
import latentloom
print(latentloom.NODE_CLASS_MAPPINGS["LoomSpreadModel"].TITLE)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "Spread Model\n", done.stderr


def test_the_node_is_registered_with_what_comfyui_asks_of_one() -> None:
    node = NODE_CLASS_MAPPINGS["LoomSpreadModel"]
    sockets = node.INPUT_TYPES()
    assert node is SpreadModel and NODE_DISPLAY_NAME_MAPPINGS["LoomSpreadModel"] == "Spread Model"
    assert list(sockets["required"]) == ["model"] and node.RETURN_TYPES == ("MODEL",)
    assert all(options["tooltip"] for _, options in (sockets["required"] | sockets["optional"]).values())
    assert set(inspect.signature(node.spread_model).parameters) == {"self", *sockets["required"], *sockets["optional"]}
