import json
import shutil
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from latentloom.pipelines.hub.pull import pull


class FakeHub:
    """Serves a folder as the repository org/name, and keeps what was fetched."""

    def __init__(self, origin: Path, cache: Path, *, gated: Any = False, licence: str = "apache-2.0") -> None:
        self.origin, self.cache, self.gated, self.licence = origin, cache, gated, licence
        self.extra: dict[str, int] = {}
        self.error: Exception | None = None

    def model_info(self, repo_id: str, *, revision: str | None, files_metadata: bool) -> Any:
        if self.error:
            raise self.error
        sizes = {str(p.relative_to(self.origin)): p.stat().st_size for p in self.origin.rglob("*") if p.is_file()}
        siblings = [SimpleNamespace(rfilename=name, size=size) for name, size in (sizes | self.extra).items()]
        return SimpleNamespace(siblings=siblings, gated=self.gated, card_data={"license": self.licence})

    def hf_hub_download(self, repo_id: str, filename: str, *, revision: str | None) -> str:
        self.cache.mkdir(exist_ok=True)
        return shutil.copy(self.origin / filename, self.cache / filename)

    def snapshot_download(
        self, repo_id: str, *, revision: str | None, allow_patterns: list[str], ignore_patterns: list[str]
    ) -> str:
        for path in self.origin.rglob("*"):
            name = str(path.relative_to(self.origin))
            wanted = any(fnmatch(name, p) for p in allow_patterns) and not any(
                fnmatch(name, p) for p in ignore_patterns
            )
            if path.is_file() and wanted:
                (self.cache / name).parent.mkdir(exist_ok=True)
                shutil.copy(path, self.cache / name)
        return str(self.cache)


@pytest.fixture
def hub(tiny: Callable[[str], Path], tmp_path: Path) -> FakeHub:
    origin = shutil.copytree(tiny("flux"), tmp_path / "origin")
    return FakeHub(origin, tmp_path / "cache")


def error_named(name: str, parent: type[Exception] = Exception) -> Exception:
    """The hub client's errors are told apart by name; theirs quote the request."""
    return type(name, (parent,), {})("authorization: Bearer hf_secret")


def test_a_pull_fetches_what_a_run_reads_and_nothing_else(hub: FakeHub) -> None:
    for name in (
        "flux1-dev.safetensors",
        "ae.ckpt",
        "vae/x.bin",
        "vae/model.fp16.safetensors",
        "evil.py",
        "vae/evil.py",
    ):
        (hub.origin / name).write_bytes(b"x")
    (hub.origin / "LICENSE.md").write_text("free")
    folder = pull("org/name", hub=hub, report=lambda line: None)
    fetched = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {"model_index.json", "LICENSE.md", "transformer/diffusion_pytorch_model.safetensors"} < fetched
    assert not [name for name in fetched if name.endswith((".bin", ".ckpt", ".py")) or "fp16" in name or "dev" in name]


def test_licence_access_and_size_are_told_first(hub: FakeHub) -> None:
    lines: list[str] = []
    hub.gated, hub.licence = "auto", "flux-1-dev-non-commercial-license"
    pull("org/name", hub=hub, report=lines.append)
    assert "flux-1-dev-non-commercial-license" in lines[0] and "accept terms on the hub first" in lines[0]
    assert "GiB" in lines[1]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (error_named("GatedRepoError"), "accept its terms at https://huggingface.co/org/name"),
        (error_named("RepositoryNotFoundError"), "there is no model org/name on the hub"),
        (error_named("RevisionNotFoundError"), "has no revision 'v9'"),
        (error_named("OfflineModeIsEnabled", ConnectionError), "unset HF_HUB_OFFLINE"),
        (error_named("HFValidationError", ValueError), "could not be pulled"),
        (ConnectionError(), "check the connection and pull again"),
        (OSError(28, "No space left on device"), "No space left on device"),
    ],
)
def test_what_the_hub_refuses_is_one_sentence_without_secrets(hub: FakeHub, error: Exception, words: str) -> None:
    hub.error = error
    with pytest.raises(ValueError, match=words) as caught:
        pull("org/name", revision="v9", hub=hub)
    assert "hf_secret" not in str(caught.value) and caught.value.__cause__ is None


def test_the_hub_clients_error_names_exist() -> None:
    from huggingface_hub import errors

    for name in ("GatedRepoError", "RepositoryNotFoundError", "RevisionNotFoundError", "OfflineModeIsEnabled"):
        assert hasattr(errors, name)


@pytest.mark.parametrize("name", ["flux", "a/b/c", "../x", "org/na me", ""])
def test_what_is_no_hub_id_is_refused(hub: FakeHub, name: str) -> None:
    with pytest.raises(ValueError, match="is no hub id"):
        pull(name, hub=hub)


def test_an_unsupported_pipeline_is_refused_before_the_weights(hub: FakeHub) -> None:
    index = hub.origin / "model_index.json"
    index.write_text(index.read_text().replace("FluxPipeline", "StableCascadePipeline"))
    with pytest.raises(ValueError, match="'StableCascadePipeline' is not supported"):
        pull("org/name", hub=hub, report=lambda line: None)
    assert not (hub.cache / "transformer").exists()


def test_a_modular_repository_of_other_repositories_is_refused_before_the_weights(hub: FakeHub) -> None:
    place = {"pretrained_model_name_or_path": "other/vae", "type_hint": ["diffusers", "AutoencoderKL"]}
    index = {"_class_name": "ZImageModularPipeline", "vae": [None, None, place]}
    (hub.origin / "model_index.json").unlink()
    (hub.origin / "modular_model_index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match="component 'vae' comes from other/vae"):
        pull("org/name", hub=hub, report=lambda line: None)
    assert not (hub.cache / "transformer").exists()


def test_of_a_modular_repository_only_what_a_stage_loads_is_fetched(
    tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    hub = FakeHub(Path(shutil.copytree(tiny("minimax_h3"), tmp_path / "origin")), tmp_path / "cache")
    shutil.copytree(hub.origin / "transformer", hub.origin / "transformer_ref")  # as large, for another task
    index = json.loads((hub.origin / "modular_model_index.json").read_text())
    for name, entry in index.items():
        if isinstance(entry, list):
            entry[:2] = entry[2]["type_hint"]
            entry[2] |= {"pretrained_model_name_or_path": "org/name", "subfolder": name}
    (hub.origin / "modular_model_index.json").write_text(json.dumps(index))
    folder = pull("org/name", hub=hub, report=lambda line: None)
    assert (folder / "transformer").exists() and (folder / "audio_vae").exists()
    assert not (folder / "transformer_ref").exists()


def test_a_repository_without_pipeline_or_safetensors_is_refused(hub: FakeHub) -> None:
    for path in hub.origin.rglob("*.safetensors"):
        path.rename(path.with_suffix(".bin"))
    with pytest.raises(ValueError, match="no safetensors weights"):
        pull("org/name", hub=hub, report=lambda line: None)
    (hub.origin / "model_index.json").unlink()
    with pytest.raises(ValueError, match="not in diffusers format"):
        pull("org/name", hub=hub)


def test_a_model_larger_than_the_disk_is_refused(hub: FakeHub) -> None:
    hub.extra["transformer/huge.safetensors"] = 2**60
    with pytest.raises(ValueError, match=r"GiB are needed .* set HF_HOME to another disk"):
        pull("org/name", hub=hub, report=lambda line: None)


def test_the_real_client_sends_no_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    from latentloom.pipelines.hub import listing as module

    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", False)
    api = module.open_hub()
    assert constants.HF_HUB_DISABLE_TELEMETRY and all(
        hasattr(api, name) for name in ("model_info", "hf_hub_download", "snapshot_download")
    )
