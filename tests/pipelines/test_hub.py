"""Models from the hub, with the real client and a hub of our own: looked at, fetched, gone on with, refused."""

import copy
import dataclasses
import json
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from safetensors.torch import load_file, save_file

from latentloom.__main__ import main
from latentloom.pipelines.hub import fetching as cache_files
from latentloom.pipelines.hub import look as looking
from latentloom.pipelines.hub.child import looked_at, outline_anywhere
from latentloom.pipelines.hub.fetching import fetch, had_bytes, is_whole, part_of, pull, remove
from latentloom.pipelines.hub.look import Gated, HubFile, HubModel, NotFetched, open_hub
from latentloom.pipelines.models.component_files import inspect_model
from latentloom.pipelines.models.installed import installed_models
from latentloom.pipelines.models.source import BUILTINS, NotPulled, home_of, resolve_source
from latentloom.pipelines.models.tensor_file import read_tensor_file
from latentloom.pipelines.values import from_plain, to_plain
from support.fake_hub import COMMIT, FakeHub, hub_in
from support.fake_hub import look_here as look


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    origin = Path(shutil.copytree(BUILTINS["bobbin"], tmp_path / "origin"))
    (origin / "LICENSE.md").write_bytes(b"free " * 40_000)
    with hub_in(origin, tmp_path / "cache", monkeypatch) as hub:
        yield hub


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def fetched(model: HubModel, cache: Path) -> tuple[Path, list[tuple[int, int]]]:
    told: list[tuple[int, int]] = []
    return fetch(model, cache, lambda num_bytes, files: told.append((num_bytes, files))), told


def names(model: HubModel) -> set[str]:
    return {file.name for file in model.files}


def test_a_look_tells_licence_access_size_and_family_and_fetches_no_weights(hub: FakeHub, cache: Path) -> None:
    for name in ("flux1-dev.safetensors", "ae.ckpt", "vae/x.bin", "vae/model.fp16.safetensors", "vae/evil.py"):
        (hub.folder / name).write_bytes(b"x")
    hub.gated, hub.licence = "auto", "flux-1-dev-non-commercial-license"
    model = look("org/name")
    assert (model.commit, model.licence, model.is_gated) == (COMMIT, hub.licence, True)
    assert model.family == "FLUX.1" and model.problem == ""
    assert {"model_index.json", "LICENSE.md", "transformer/diffusion_pytorch_model.safetensors"} < names(model)
    assert not [name for name in names(model) if name.endswith((".bin", ".ckpt", ".py")) or "fp16" in name]
    assert model.num_bytes == sum((hub.folder / name).stat().st_size for name in names(model))
    assert {name.rpartition("/")[2] for name in hub.sent} == {"model_index.json", "config.json"} and not cache.exists()
    assert from_plain(HubModel, json.loads(json.dumps(to_plain(model)))) == model


def test_a_model_is_planned_by_the_headers_on_the_hub_and_nothing_of_it_stays(
    hub: FakeHub, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outline_anywhere.cache_clear()
    weights_file = hub.folder / "transformer" / "diffusion_pytorch_model.safetensors"
    save_file(load_file(weights_file), weights_file, metadata={"format": "pt", "note": "kept"})
    asked = ["plan", "org/name", "--machine", "1xH100", "--json"]
    assert main(asked) == 75 and not hub.asked, "nobody is asked without --online"
    capsys.readouterr()
    assert main([*asked, "--online"]) == 0
    online = json.loads(capsys.readouterr().out)
    assert main(["plan", str(hub.folder), *asked[2:]]) == 0
    here = json.loads(capsys.readouterr().out)
    assert online[0]["chosen"] == here[0]["chosen"] and f"org/name@{COMMIT[:8]}" in json.dumps(online)
    weights = {name: size for name, size in hub.sent.items() if name.endswith(".safetensors")}
    large = max(weights, key=lambda name: (hub.folder / name).stat().st_size)
    assert len(weights) == len(list(hub.folder.rglob("*.safetensors"))) and weights[large] < 120_000
    assert not cache.exists()
    outline = outline_anywhere("org/name", "") / weights_file.relative_to(hub.folder)
    assert read_tensor_file(outline).metadata == {"format": "pt", "note": "kept"}, "which say how weights are packed"
    assert outline.stat().st_blocks * 512 < outline.stat().st_size / 2, "there are no weights"
    with pytest.raises(NotPulled):
        resolve_source("org/name")


def test_what_the_hub_refuses_of_a_model_that_is_planned_is_one_sentence(
    hub: FakeHub, capsys: pytest.CaptureFixture[str]
) -> None:
    outline_anywhere.cache_clear()
    assert main(["plan", "org/other", "--online"]) == 75
    assert "no model org/other on the hub" in capsys.readouterr().err
    hub.has_access = False
    assert main(["plan", "org/name", "--online"]) == 2
    assert "org/name is gated" in capsys.readouterr().err
    (hub.folder / "transformer/config.json").write_text("{")
    hub.has_access = True
    assert main(["plan", "org/name", "--online"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_what_is_fetched_is_a_model_here_whole_and_no_byte_twice(hub: FakeHub, cache: Path) -> None:
    model = look("org/name")
    hub.sent.clear()
    with pytest.raises(NotPulled):
        resolve_source("org/name")
    folder, told = fetched(model, cache)
    assert told == sorted(told) and told[-1] == (model.num_bytes, len(model.files))
    assert hub.sent == {file.name: file.num_bytes for file in model.files}
    assert resolve_source("org/name").folder == folder and is_whole(home_of(cache, "org/name"), model)
    (found,) = [each for each in installed_models(cache=cache) if each.name == "org/name"]
    assert found.problem == ""
    hub.sent.clear()
    fetched(model, cache)
    assert not hub.sent


def test_what_stopped_in_a_file_goes_on_there(hub: FakeHub, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = look("org/name")
    hub.sent.clear()
    home = home_of(cache, "org/name")
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 1 << 14)
    real = looking.Counted.write

    def stop(self: looking.Counted, chunk: bytes) -> int:
        if self._file.name == "LICENSE.md" and self._opened.tell() > 100_000:
            raise OSError(104, "Connection reset by peer")
        return real(self, chunk)

    with monkeypatch.context() as broken:
        broken.setattr(looking.Counted, "write", stop)
        with pytest.raises(NotFetched, match="Connection reset by peer"):
            fetched(model, cache)
    (file,) = [each for each in model.files if each.name == "LICENSE.md"]
    part = part_of(home, file).stat().st_size
    assert 100_000 < part < file.num_bytes and not (home / "snapshots").exists()
    assert had_bytes(home, model) >= part
    hub.sent.clear()
    fetched(model, cache)
    assert hub.sent["LICENSE.md"] == file.num_bytes - part
    assert (home / "snapshots" / COMMIT / "LICENSE.md").read_bytes() == (hub.folder / "LICENSE.md").read_bytes()


def test_what_came_damaged_is_thrown_away(hub: FakeHub, cache: Path) -> None:
    model = look("org/name")
    hub.is_damaged = True
    with pytest.raises(NotFetched, match="came damaged, and was thrown away; try again"):
        fetched(model, cache)
    hub.is_damaged = False
    assert had_bytes(home_of(cache, "org/name"), model) == 0
    fetched(model, cache)


def test_a_gated_model_says_where_to_accept_its_terms(hub: FakeHub) -> None:
    hub.gated, hub.has_access = "manual", False
    model = look("org/name")
    assert model.is_gated and model.licence == "apache-2.0" and model.code == Gated.code
    assert "accept its terms at https://huggingface.co/org/name" in model.problem
    assert "hf_secret" not in str(model) and any("hf_secret" in token for token in hub.tokens)


def with_pickles(folder: Path) -> None:
    for path in folder.rglob("*.safetensors"):
        path.rename(path.with_suffix(".bin"))


def of_another_pipeline(folder: Path) -> None:
    index = folder / "model_index.json"
    index.write_text(index.read_text().replace("FluxPipeline", "StableCascadePipeline"))


def of_other_repositories(folder: Path) -> None:
    place = {"pretrained_model_name_or_path": "other/vae", "type_hint": ["diffusers", "AutoencoderKL"]}
    index = {"_class_name": "ZImageModularPipeline", "vae": [None, None, place]}
    (folder / "model_index.json").rename(folder / "modular_model_index.json").write_text(json.dumps(index))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (with_pickles, "has no safetensors weights, and pickles are refused"),
        (of_another_pipeline, "'StableCascadePipeline' is not supported"),
        (of_other_repositories, "component 'vae' comes from other/vae"),
        (lambda folder: (folder / "model_index.json").unlink(), "is not in diffusers format"),
    ],
)
def test_what_cannot_run_is_refused_before_the_weights(
    hub: FakeHub, change: Callable[[Path], object], words: str
) -> None:
    change(hub.folder)
    assert words in look("org/name").problem
    with pytest.raises(ValueError, match=words):
        pull("org/name", report=lambda line: None)
    assert not [name for name in hub.sent if "index" not in name]


def test_a_pull_tells_licence_access_and_size_and_fetches_what_a_look_lists(hub: FakeHub) -> None:
    for name in ("flux1-dev.safetensors", "ae.ckpt", "vae/x.bin", "vae/model.fp16.safetensors", "evil.py"):
        (hub.folder / name).write_bytes(b"x")
    hub.gated, hub.licence, lines = "auto", "flux-1-dev-non-commercial-license", list[str]()
    folder = pull("org/name", report=lines.append)
    assert hub.licence in lines[0] and "accept terms on the hub first" in lines[0] and "GiB" in lines[1]
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == names(look("org/name"))


def test_a_model_larger_than_the_disk_is_refused(hub: FakeHub) -> None:
    hub.listed["transformer/huge.safetensors"] = 2**60
    with pytest.raises(ValueError, match=r"GiB are needed .* set HF_HOME to another disk"):
        pull("org/name", report=lambda line: None)


def place_modular(hub: FakeHub, model: Path, folder: Path, *, more: Iterable[str] = ()) -> None:
    """A modular repository on the hub, with more transformers, as large, for other tasks."""
    hub.folder = Path(shutil.copytree(model, folder))
    index = json.loads((folder / "modular_model_index.json").read_text())
    for name in more:
        shutil.copytree(folder / "transformer", folder / name)
        index[name] = copy.deepcopy(index["transformer"])
    for name, entry in index.items():
        if isinstance(entry, list):
            entry[:2] = entry[2]["type_hint"]
            entry[2] |= {"pretrained_model_name_or_path": "org/name", "subfolder": name}
    (folder / "modular_model_index.json").write_text(json.dumps(index))


def test_of_a_modular_repository_only_what_a_stage_loads_is_fetched(
    hub: FakeHub, tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    place_modular(hub, tiny("minimax_h3"), tmp_path / "modular", more=["transformer_sr"])
    folder = pull("org/name", report=lambda line: None)
    assert {"transformer", "audio_vae"} < {path.name for path in folder.iterdir()}
    assert not (folder / "transformer_sr").exists() and (folder / "transformer_ref").is_dir()
    with pytest.raises(ValueError, match="every run of org/name needs vae; pull the model with it"):
        pull("org/name", without=["vae"], report=lambda line: None)


def test_a_part_for_another_task_may_be_left_out(hub: FakeHub, tiny: Callable[[str], Path], tmp_path: Path) -> None:
    place_modular(hub, tiny("minimax_h3"), tmp_path / "modular")
    folder = pull("org/name", without=["transformer_ref"], report=lambda line: None)
    assert (folder / "transformer").is_dir() and not (folder / "transformer_ref").exists()
    assert "transformer_ref" not in inspect_model(folder).components


def error_named(name: str, parent: type[Exception] = Exception) -> Exception:
    """The hub client's errors are told apart by name; theirs quote the request."""
    return type(name, (parent,), {})("authorization: Bearer hf_secret")


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
def test_what_the_hub_refuses_is_one_sentence_without_secrets(
    monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", refuse)
    for ask in (pull, look):
        with pytest.raises(ValueError, match=words) as caught:
            ask("org/name", revision="v9")
        assert "hf_secret" not in str(caught.value) and caught.value.__cause__ is None


@pytest.mark.parametrize("name", ["flux", "a/b/c", "../x", "org/na me", ""])
def test_what_is_no_hub_id_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no hub id"):
        pull(name)


@pytest.mark.parametrize("name", ["vae/../../x.json", "vae/..", "../x.json", "vae/\\x.json", "/etc/x", "a/b/c.json"])
def test_a_file_that_leads_elsewhere_is_not_followed(name: str) -> None:
    with pytest.raises(NotFetched, match="leads out of its folder"):
        HubFile(name=name, num_bytes=1, hash="0" * 40)


def test_a_repository_with_such_a_file_is_refused_whole(hub: FakeHub) -> None:
    hub.listed["vae/../../evil.json"] = 3
    assert "leads out of its folder; this model is not fetched" in look("org/name").problem
    with pytest.raises(ValueError, match=r"revision '\.\./x' is no branch"):
        look("org/name", "../x")


def test_a_link_in_place_of_a_part_is_not_written_through(hub: FakeHub, cache: Path, tmp_path: Path) -> None:
    model = look("org/name")
    part = part_of(home_of(cache, "org/name"), model.files[0])
    part.parent.mkdir(parents=True)
    part.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotFetched, match="could not be pulled"):
        fetched(model, cache)
    assert not (tmp_path / "elsewhere").exists()


def test_more_than_was_listed_is_not_taken(hub: FakeHub, cache: Path) -> None:
    model = look("org/name")
    with (hub.folder / "LICENSE.md").open("ab") as file:
        file.write(b"x" * 10_000)
    with pytest.raises(NotFetched, match=r"LICENSE\.md is larger than the hub says|could not be pulled"):
        fetched(model, cache)
    assert not (home_of(cache, "org/name") / "snapshots").exists()


def test_what_was_given_up_is_removed_but_not_what_another_commit_has(hub: FakeHub, cache: Path) -> None:
    model = look("org/name")
    folder, _ = fetched(model, cache)
    home = home_of(cache, "org/name")
    shared, alone = model.files[0], model.files[-1]
    (folder / alone.name).unlink()
    remove(home, model)
    assert (home / "blobs" / shared.hash).exists() and not (home / "blobs" / alone.hash).exists()


def test_weights_in_another_packing_are_refused_before_they_are_fetched(hub: FakeHub) -> None:
    config = hub.folder / "transformer" / "config.json"
    plain = json.loads(config.read_text())
    config.write_text(json.dumps({**plain, "quantization_config": {"quant_method": "bitsandbytes"}}))
    model = look("org/name")
    assert model.problem.startswith("component transformer of org/name is already quantized; use the plain weights")
    assert (model.code, model.files) == ("not-fetched", ())


def test_the_client_has_what_is_used_of_it() -> None:
    from huggingface_hub import errors
    from huggingface_hub.utils import WeakFileLock  # noqa: F401

    for name in ("GatedRepoError", "RepositoryNotFoundError", "RevisionNotFoundError", "OfflineModeIsEnabled"):
        assert hasattr(errors, name)


def test_the_client_sends_no_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_TELEMETRY", False)
    open_hub()
    assert huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY


def test_a_model_is_not_seen_while_it_is_put_together(hub: FakeHub, cache: Path) -> None:
    model = look("org/name")
    folder, _ = fetched(model, cache)
    home = home_of(cache, "org/name")
    shutil.rmtree(home / "snapshots")

    def ended(made: Path) -> None:
        assert {str(path.relative_to(made)) for path in made.rglob("*") if path.is_file()} == names(model)
        with pytest.raises(NotPulled):
            resolve_source("org/name")
        assert not [each for each in installed_models(cache=cache) if each.name == "org/name"]
        shutil.copytree(made, home / "latentloom" / "left", symlinks=True)  # as of a process that was killed here
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        cache_files.put(home, model, ended)
    (home / "latentloom" / "left").rename(home / "latentloom" / COMMIT)
    remove(home, model)
    assert not list((home / "blobs").iterdir()) and not (home / "latentloom").exists()
    assert fetched(model, cache)[0] == folder and resolve_source("org/name").folder == folder


def test_what_another_program_left_of_a_commit_is_filled_up(hub: FakeHub, cache: Path) -> None:
    model = look("org/name")
    folder = home_of(cache, "org/name") / "snapshots" / COMMIT
    (folder / "vae").mkdir(parents=True)
    shutil.copyfile(hub.folder / "model_index.json", folder / "model_index.json")
    (folder / "vae" / "config.json").write_text("of another size")
    hub.sent.clear()
    assert fetched(model, cache)[0] == folder and is_whole(home_of(cache, "org/name"), model)
    assert "model_index.json" not in hub.sent and resolve_source("org/name").folder == folder


def test_a_list_that_contradicts_itself_is_refused(hub: FakeHub) -> None:
    model = look("org/name")
    one, other = model.files[:2]
    for files in (
        (one, dataclasses.replace(one, hash="0" * 40)),
        (one, dataclasses.replace(other, hash=one.hash, num_bytes=one.num_bytes + 1)),
    ):
        with pytest.raises(NotFetched, match="twice, or one content with two sizes"):
            dataclasses.replace(model, files=files)
    assert (
        dataclasses.replace(model, files=(one, dataclasses.replace(one, name="README.md"))).num_bytes == one.num_bytes
    )


def test_of_what_is_no_weight_only_what_a_run_reads_is_fetched(hub: FakeHub) -> None:
    for name in ("LICENSE.py", "LICENSE.gguf", "LICENSE", "LICENSE.txt"):
        (hub.folder / name).write_bytes(b"x")
    (hub.folder / "LICENSES").mkdir()
    (hub.folder / "LICENSES" / "x.so").write_bytes(b"x")
    assert {name for name in names(look("org/name")) if "LICENSE" in name} == {"LICENSE", "LICENSE.md", "LICENSE.txt"}


def test_an_older_look_takes_no_revision_back(hub: FakeHub, cache: Path) -> None:
    home = home_of(cache, "org/name")
    home.mkdir(parents=True)
    before = time.time() - 60
    cache_files.name_commit(home, "", "a" * 40, looked=before)
    cache_files.name_commit(home, "", "b" * 40, looked=before)
    ref = home / "refs" / "main"
    assert ref.read_text() == "a" * 40
    cache_files.name_commit(home, "", "b" * 40, looked=time.time() + 1)
    cache_files.name_commit(home, "c" * 40, "c" * 40, looked=time.time() + 1)  # a commit needs no name
    assert ref.read_text() == "b" * 40 and sorted(path.name for path in home.rglob("*")) == ["main", "refs"]


def test_configs_and_files_that_are_too_large_are_refused(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as small:
        small.setattr(looking, "MOST_CONFIG_BYTES", 1000)
        assert "has configs of " in look("org/name").problem
        small.setattr(looking, "MOST_FILES", 3)
        assert re.search(r"has an index of \d+ bytes and \d+ files, which is no model's", look("org/name").problem)
    monkeypatch.setattr("huggingface_hub.constants.MAX_HTTP_DOWNLOAD_SIZE", 100_000)
    assert "LICENSE.md of org/name is too large to come over HTTP" in look("org/name").problem


def test_a_look_leaves_nothing_even_where_it_is_given_up(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    assert looked_at("org/name", "").problem == ""
    hub.is_silent = True
    with pytest.raises(NotFetched, match="nothing came from the hub"):
        looked_at("org/name", "", timeout_s=1.0)
    assert not list((tmp_path / "temporary").iterdir())
