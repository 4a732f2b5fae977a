"""Spread VAE without ComfyUI: small fakes of its documented rules (VAEs, their patchers and loaders) stand in.

`tests/bench/comfyui_vaes.py` asks ComfyUI's own classes, where there is one, and `comfyui_native.py vae` a server.
"""

import contextlib
import copy
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from bodies import native_vae
from latentloom.nodes.hosts.comfyui import NODE_CLASS_MAPPINGS, NODE_DISPLAY_NAME_MAPPINGS
from latentloom.nodes.hosts.native import shell, vae
from latentloom.nodes.hosts.native.node import SpreadVAE
from support.ranks import Ranks

NAME = "bodies.native_vae."


class ModelPatcher:
    """A patcher's rules: a clone may be of another model, and a model has what its last patcher left on it."""

    def __init__(self, model: Any, device: str = "cpu") -> None:
        self.model, self.load_device, self.cached_patcher_init = model, device, None
        self.patches: dict[str, Any] = {}
        self.object_patches: dict[str, Any] = {}

    def clone(self, model_override: Any = None) -> "ModelPatcher":
        found = copy.copy(self)
        found.model = self.model if model_override is None else model_override[0]
        return found


class VAE:
    """How ComfyUI decodes: its patcher is loaded, then its model is asked."""

    def __init__(self, path: Path) -> None:
        self.first_stage_model = native_vae.Coder()
        self.patcher: Any = ModelPatcher(self.first_stage_model)
        self.patcher.cached_patcher_init = (load_vae_patcher, (str(path), {"a": "b"}, None))
        self.device, self.vae_dtype = "cpu", torch.float32
        self.memory_used_decode = lambda shape, dtype: 1000

    def throw_exception_if_invalid(self) -> None:
        pass

    def decode(self, samples: torch.Tensor, **options: Any) -> torch.Tensor:
        return self.first_stage_model.decode(samples, **options).movedim(1, -1)

    def encode(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.first_stage_model.encode(pixels)

    encode_tiled = get_sd = encode


def load_vae_patcher(path: str, metadata: Any = None, device: Any = None) -> Any:
    raise AssertionError("ranks load")


@pytest.fixture(autouse=True)
def comfy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    sd = types.SimpleNamespace(load_vae_patcher=load_vae_patcher)
    patcher = types.SimpleNamespace(ModelPatcher=ModelPatcher)
    mine = {"comfy": types.SimpleNamespace(sd=sd), "comfy.sd": sd, "comfy.model_patcher": patcher}
    for name, module in mine.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(vae, "DECODERS", {f"{NAME}Coder": (f"{NAME}Decoder",)})
    shell._shell_class.cache_clear()
    yield
    shell._shell_class.cache_clear()


@pytest.fixture
def given(tmp_path: Path) -> VAE:
    (file := tmp_path / "vae.safetensors").write_bytes(b"vae")
    return VAE(file)


def test_a_stock_decode_asks_ranks_and_all_else_the_vae_that_was_given(
    given: VAE, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    @contextlib.contextmanager
    def ranks_at(place: Any, module: str, *, title: str) -> Iterator[Any]:
        def call(name: str, request: Any, progress: Any, *, num_ranks: int) -> dict[str, Any]:
            asked.append((place, request))
            return {"pixels": torch.zeros(1, 3, 2, 4, 5)}

        yield types.SimpleNamespace(call=call), None

    monkeypatch.setattr(vae, "ranks_at", ranks_at)
    for name in ("count_ranks", "host_settings"):
        monkeypatch.setattr(vae, name, dict)
    [found] = SpreadVAE().spread_vae(given, "cpu*2")
    assert isinstance(found, VAE) and found is not given and found.decode(z := torch.ones(1, 4, 2, 4, 5)).shape[-1] == 3
    [(place, request)] = asked
    size = shell.bytes_of(given.first_stage_model)
    assert place.devices == ("cpu", "cpu") and request["latents"] is z and request["dtype"] == "float32"
    assert request["recipe"]["loader"] == "load_vae_patcher" and request["recipe"]["options"] == {}
    assert request["num_bytes"] == 500 and found.memory_used_decode(z.shape, torch.float32) == size + 500
    x = torch.ones(1, 2)
    assert torch.equal(found.encode(x), given.encode(x)) and torch.equal(found.get_sd(x), given.encode(x))


def test_what_the_host_would_load_of_it_is_nothing(given: VAE) -> None:
    [found] = SpreadVAE().spread_vae(given, "cpu*2")
    assert {each.device.type for each in found.first_stage_model.parameters()} == {"meta"}
    assert found.patcher.model is found.first_stage_model and found.patcher.model_size() == 0
    assert found.patcher.cached_patcher_init is None
    assert {each.device.type for each in given.first_stage_model.parameters()} == {"cpu"}
    assert given.patcher.cached_patcher_init is not None and "decode" not in vars(given.first_stage_model)
    given.device = "cuda:7"  # no rank is beside it
    [found] = SpreadVAE().spread_vae(given, "cpu*2")
    assert found.memory_used_decode((1, 4, 2, 4, 5), torch.float32) == 1


def _changed(given: VAE) -> None:
    given.patcher.object_patches["decoder"] = 1


def _hooked(given: VAE) -> None:
    given.first_stage_model.decoder.register_forward_hook(lambda *_: None)


def _of_a_pack(given: VAE) -> None:
    given.patcher.cached_patcher_init = (print, ("a",))


def _another(given: VAE) -> None:
    given.first_stage_model.decoder = torch.nn.Linear(2, 2)


@pytest.mark.parametrize(
    ("change", "devices", "words"),
    [
        (_changed, "cpu*2", "another node has changed this VAE"),
        (_hooked, "cpu*2", "another node has changed this VAE"),
        (_of_a_pack, "cpu*2", r"this VAE comes from builtins.print, .* \(Load VAE, Load Checkpoint\)"),
        (_another, "cpu*2", "Coder with torch.nn.modules.linear.Linear is not decoded by rows; leave Spread VAE out"),
        (lambda given: None, "cpu", "^Spread VAE was given one device, cpu; name two"),
    ],
)
def test_what_cannot_be_is_refused_by_the_node_or_decodes_whole_where_that_is_allowed(
    given: VAE, change: Any, devices: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    change(given)
    with pytest.raises(ValueError, match=words):
        SpreadVAE().spread_vae(given, devices)
    assert SpreadVAE().spread_vae(given, devices, allow_whole=True) == (given,)
    assert "it runs whole on the host" in caplog.text


def test_options_of_a_decode_are_refused_by_name(given: VAE) -> None:
    [found] = SpreadVAE().spread_vae(given, "cpu*2")
    with pytest.raises(ValueError, match="was given timestep"):
        found.decode(torch.ones(1, 4, 2, 4, 5), timestep=1)


@pytest.mark.parametrize("num_ranks", [1, 4])
def test_ranks_load_it_once_in_the_host_s_format_and_decode_by_rows(
    ranks: Ranks, tmp_path: Path, num_ranks: int
) -> None:
    for name, source in native_vae.SOURCES.items():
        (file := tmp_path / "comfy" / f"{name}.py").parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
    (file := tmp_path / "vae.safetensors").write_bytes(b"vae")
    stat = file.stat()
    given = (num_ranks, str(tmp_path), str(file), [stat.st_size, stat.st_mtime_ns])
    found = [each for each in ranks.run("bodies.native_vae:decoded", *given) if each is not None]
    assert len(found) == num_ranks and len({each["bits"][turn] for each in found for turn in (0, 1)}) == 1
    for each in found:
        assert each["apart"] <= (1e-6 if num_ranks > 1 else 0) and each["phases"] == ["loading the VAE"] * 2
        assert each["asked"] == {"memory_required": 7, "force_full_load": True}
        chosen = {name: each["formats"][name] for name in ("fp16_vae", "bf16_vae", "fp32_vae")}
        assert chosen == {"fp16_vae": False, "bf16_vae": False, "fp32_vae": True}
        assert each["held"] == [2, "a model", 2]  # of VAEs the last alone, and no model makes room for one


def test_the_node_is_registered_with_what_comfyui_asks_of_one() -> None:
    node = NODE_CLASS_MAPPINGS["LoomSpreadVAE"]
    sockets = node.INPUT_TYPES()
    assert node is SpreadVAE and NODE_DISPLAY_NAME_MAPPINGS["LoomSpreadVAE"] == "Spread VAE"
    assert node.RETURN_TYPES == ("VAE",) and list(sockets["required"]) == ["vae"]
    assert all(options["tooltip"] for _, options in (sockets["required"] | sockets["optional"]).values())
