import os
from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub import snapshot_download

from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.models.source import find_snapshot, resolve_source, split_source


def hub_model(cache: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A hub cache that holds org/name at one commit; returns the commit."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    snapshot = cache / "models--org--name" / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (snapshot / "model_index.json").write_text("{}")
    (cache / "models--org--name" / "refs").mkdir()
    (cache / "models--org--name" / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    return commit


def test_a_folder_is_found_from_any_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m").mkdir()
    monkeypatch.chdir(tmp_path)
    found = resolve_source("m")
    assert (found.kind, found.folder, found.id) == ("folder", tmp_path / "m", str(tmp_path / "m"))


def test_relative_paths_are_looked_up_in_the_roots(tmp_path: Path) -> None:
    (tmp_path / "b" / "m").mkdir(parents=True)
    (tmp_path / "a").mkdir()
    assert resolve_source("m", roots=[tmp_path / "a", tmp_path / "b"]).folder == tmp_path / "b" / "m"


@pytest.mark.parametrize("source", ["../outside", "{tmp}/outside", "{tmp}/nothing", "link", "/etc"])
def test_folders_outside_the_roots_are_refused_links_followed(tmp_path: Path, source: str) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "root" / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(ValueError, match=r"outside the allowed folders .*; move it there"):
        resolve_source(source.format(tmp=tmp_path), roots=[tmp_path / "root"])


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("", "give a model folder"),
        ("a\0b", "give a model folder"),
        ("nowhere", "does not exist"),
        ("x" * 3000, "does not exist"),
        ("builtin:bobin", "did you mean builtin:bobbin"),
        ("model.ckpt", "pickle"),
        ("missing.safetensors", "does not exist"),
        ("org/name", "run `latentloom models pull org/name` first"),
    ],
)
def test_what_cannot_be_found_says_what_to_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ValueError, match=words):
        resolve_source(source)


def test_a_revision_is_for_hub_ids_only(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="only hub ids have revisions"):
        resolve_source(str(tmp_path), revision="main")


@pytest.mark.parametrize("revision", ["dev", "v1/../../../secret", "refs", "pr", "f" * 40])
def test_no_ref_leads_out_of_the_cache_or_to_what_was_not_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, revision: str
) -> None:
    commit = hub_model(tmp_path / "cache", monkeypatch)
    home = tmp_path / "cache" / "models--org--name"
    (home / "refs" / "pr").mkdir()
    (home / "refs" / "dev").write_text("../../../outside")
    (tmp_path / "cache" / "secret").write_text("a text that is no commit")
    (tmp_path / "outside").mkdir()
    with pytest.raises(ValueError, match="pull org/name --revision"):
        resolve_source("org/name", revision=revision, roots=[])
    (home / "refs" / "pr" / "1").write_text(f"{commit}\n")
    assert resolve_source("org/name", revision="pr/1", roots=[]).revision == commit


def test_a_hub_id_is_looked_up_as_the_hub_client_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub_model(tmp_path, monkeypatch)
    theirs = snapshot_download("org/name", local_files_only=True, allow_patterns=["*model_index.json"])
    assert find_snapshot("org/name") == Path(theirs)


def test_a_hub_id_is_looked_up_in_the_local_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = hub_model(tmp_path, monkeypatch)
    found = resolve_source("org/name", roots=[])
    assert (found.kind, found.id, found.revision, found.folder.name) == ("hub", "org/name", commit, commit)
    with pytest.raises(ValueError, match="pull org/name --revision dev"):
        resolve_source("org/name", revision="dev")


def test_a_pull_that_left_files_out_is_still_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """huggingface_hub 2.4 calls such a snapshot incomplete when it has listed the repository."""
    from huggingface_hub import _tree_cache

    commit = hub_model(tmp_path, monkeypatch)
    entry = _tree_cache.TreeCacheEntry
    files = {name: entry(size=1, blob_id="b" * 40, xet_hash=None) for name in ("model_index.json", "big.bin")}
    _tree_cache.write_tree_cache(tmp_path / "models--org--name", commit, files)
    assert resolve_source("org/name").revision == commit


def test_a_single_file_needs_a_base(tmp_path: Path) -> None:
    (tmp_path / "t.safetensors").write_bytes(b"")
    with pytest.raises(ValueError, match=r"t\.safetensors@FOLDER"):
        resolve_source(str(tmp_path / "t.safetensors"))


@pytest.mark.parametrize("name", ["t.safetensors", "t.gguf", "T.GGUF"])
def test_a_single_file_takes_the_rest_from_its_base(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    (tmp_path / "base").mkdir()
    found = resolve_source(f"{name}@base", roots=[tmp_path])
    assert (found.file, found.folder) == (tmp_path / name, tmp_path / "base")
    assert split_source(found.id) == (str(found.file), str(found.folder))


def test_a_local_name_of_two_parts_wins_over_the_hub(tmp_path: Path) -> None:
    (tmp_path / "org" / "name").mkdir(parents=True)
    assert resolve_source("org/name", roots=[tmp_path]).kind == "folder"


def test_a_hub_model_is_described_with_links_into_its_blobs(
    tiny: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = hub_model(tmp_path, monkeypatch)
    snapshot = tmp_path / "models--org--name" / "snapshots" / commit
    (snapshot / "model_index.json").unlink()
    blobs = tmp_path / "models--org--name" / "blobs"
    blobs.mkdir()
    for number, file in enumerate(sorted(path for path in tiny("flux").rglob("*") if path.is_file())):
        link = snapshot / file.relative_to(tiny("flux"))
        link.parent.mkdir(exist_ok=True)
        os.link(file, blobs / str(number))
        link.symlink_to(Path(*[".."] * (len(link.relative_to(tmp_path).parts) - 2), "blobs", str(number)))
    model = describe_model("org/name", device="cpu", roots=[])
    assert (model.source, model.revision, model.family) == ("org/name", commit, "flux")
