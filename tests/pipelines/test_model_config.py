import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
import transformers

from latentloom.pipelines.components.building import offline
from latentloom.pipelines.components.loading import component_class, load_component
from latentloom.pipelines.models.component_files import inspect_component, inspect_model
from latentloom.pipelines.models.config import model_config

BENCH = Path(__file__).resolve().parent.parent / "bench"
T5 = json.loads("""
{"architectures": ["T5EncoderModel"], "classifier_dropout": 0.0, "d_ff": 64, "d_kv": 8, "d_model": 32,
 "decoder_start_token_id": 0, "dense_act_fn": "gelu_new", "dropout_rate": 0.1, "feed_forward_proj": "gated-gelu",
 "is_gated_act": true, "model_type": "t5", "num_decoder_layers": 24, "num_heads": 4, "num_layers": 2,
 "output_past": true, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.43.3",
 "use_cache": true, "vocab_size": 100}
""")
UMT5 = {**T5, "model_type": "umt5", "scalable_attention": True}
QWEN = json.loads("""
{"architectures": ["Qwen2_5_VLForConditionalGeneration"], "attention_dropout": 0.0, "bos_token_id": 51,
 "eos_token_id": 45, "hidden_act": "silu", "hidden_size": 32, "image_token_id": 55, "intermediate_size": 64,
 "max_position_embeddings": 128, "max_window_layers": 28, "model_type": "qwen2_5_vl", "num_attention_heads": 4,
 "num_hidden_layers": 2, "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 10000.0,
 "rope_scaling": {"mrope_section": [1, 1, 2], "rope_type": "default", "type": "default"}, "sliding_window": 32768,
 "text_config": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_cache": true,
 "use_sliding_window": false, "video_token_id": 56, "vision_token_id": 54, "vocab_size": 100,
 "vision_config": {"depth": 2, "hidden_act": "silu", "hidden_size": 16, "in_chans": 3, "model_type": "qwen2_5_vl"}}
""")
CLIP = {
    "architectures": ["CLIPModel"],
    "model_type": "clip",
    "projection_dim": 8,
    "text_config": {"hidden_size": 16, "model_type": "clip_text_model", "num_attention_heads": 2, "dropout": 0.0},
    "vision_config": {"hidden_size": 16, "model_type": "clip_vision_model", "num_attention_heads": 2, "patch_size": 14},
}


@pytest.mark.parametrize(
    ("name", "plain", "dropped"),
    [
        ("T5EncoderModel", T5, {"decoder_start_token_id", "output_past"}),
        ("UMT5EncoderModel", UMT5, {"output_past", "scalable_attention"}),
        ("Qwen2_5_VLForConditionalGeneration", QWEN, {"vision_token_id"}),
        ("CLIPTextModel", CLIP, {"dropout"}),
        ("CLIPVisionModel", CLIP, set()),
    ],
)
def test_configs_as_published_lose_only_what_their_class_does_not_know(
    tmp_path: Path, name: str, plain: dict[str, Any], dropped: set[str]
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(plain))
    kind = getattr(transformers, name)
    ours, stock = (
        each.to_dict() for each in (model_config(kind, tmp_path, name="x"), kind.config_class.from_pretrained(tmp_path))
    )
    assert {key for key in stock if key not in ours} == dropped
    ours.pop("vision_config", None), stock.pop("vision_config", None)  # `in_chans` is no key of its class
    assert all(ours[key] == stock[key] for key in ours)


def changed(folder: Path, component: str, to: Path, **values: Any) -> Path:
    """A copy of a component's folder with other values in its config.json."""
    copy = to / component
    copy.mkdir()
    for path in (folder / component).iterdir():
        (copy / path.name).symlink_to(path)
    plain = json.loads((copy / "config.json").read_text()) | values
    (copy / "config.json").unlink()
    (copy / "config.json").write_text(json.dumps(plain))
    return copy


def inspected(copy: Path, original: Any) -> Any:
    return inspect_component(
        copy.parent, original.name, library=original.library, class_name=original.class_name, roots=None
    )


@pytest.mark.parametrize("family", ["flux", "qwen_image", "wan_i2v"])
def test_attention_is_ours_to_choose_whatever_a_config_says(
    tiny: Callable[[str], Path], tmp_path: Path, family: str
) -> None:
    components = inspect_model(tiny(family)).components.values()
    for original in (each for each in components if each.library == "transformers" and each.kind == "model"):
        said = {"_attn_implementation": "flash_attention_2", "unheard_of": "org/name", "attn_implementation": "eager"}
        copy = changed(tiny(family), original.name, tmp_path, **said)
        loaded = load_component(inspected(copy, original), dtype="fp32")
        stock = component_class(original).from_pretrained(original.folder, dtype=torch.float32)
        configs = [part.config for part in loaded.modules() if hasattr(part, "config")]
        assert {config._attn_implementation for config in configs} == {stock.config._attn_implementation} == {"sdpa"}
        assert not any(hasattr(config, "unheard_of") for config in configs)
        assert all(map(torch.equal, loaded.state_dict().values(), stock.state_dict().values()))


@pytest.mark.by_hand
def test_every_key_set_to_a_repository_a_path_and_a_url_runs_and_fetches_nothing() -> None:
    """In a process of its own, where a recording `kernels` package lies on the path and an audit hook listens."""
    done = subprocess.run(
        [sys.executable, str(BENCH / "foreign_keys.py"), "--seed", "0", "--cases", "0"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    report = json.loads(done.stdout[done.stdout.index("{") :])
    assert report["classes"] >= 18 and report["keys"] > 100
    assert report["loaded"] and report["refused when inspected"] > 400, report


def test_no_hub_is_asked_while_a_component_loads_in_this_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    with offline(), offline():
        assert huggingface_hub.is_offline_mode()
        with pytest.raises(Exception, match="offline mode is enabled"):
            huggingface_hub.HfApi().model_info("org/name")
    assert not huggingface_hub.is_offline_mode()


def test_another_thread_may_ask_the_hub_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    from concurrent.futures import ThreadPoolExecutor

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    with offline(), ThreadPoolExecutor(1) as other:
        assert other.submit(lambda: bool(huggingface_hub.is_offline_mode())).result() is False


def test_an_image_processor_takes_what_its_class_knows(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    original = inspect_model(tiny("wan_i2v")).components["image_processor"]
    copy = tmp_path / "image_processor"
    copy.mkdir()
    plain = json.loads((original.folder / "preprocessor_config.json").read_text()) | {"unheard_of": "org/name"}
    (copy / "preprocessor_config.json").write_text(json.dumps(plain))
    loaded = load_component(inspected(copy, original), dtype="fp32")
    stock = component_class(original).from_pretrained(original.folder)
    assert loaded.to_dict() == stock.to_dict() and not hasattr(loaded, "unheard_of")


def test_a_config_of_a_far_larger_model_than_its_files_is_refused_before_it_is_made(
    tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    original = inspect_model(tiny("flux")).components["text_encoder_2"]
    copy = changed(tiny("flux"), original.name, tmp_path, d_ff=1 << 30)
    with pytest.raises(ValueError, match=r"asks for 206,158,443,168 numbers, and its files hold 25,248"):
        load_component(inspected(copy, original), dtype="fp32")
