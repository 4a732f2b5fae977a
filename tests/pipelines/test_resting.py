"""Models that do not fit their device: the same picture as if they did, whatever else is asked for."""

import contextlib
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from bodies.resting import change_loras, compare, limited, resting, transformers
from latentloom.parallel.errors import EASED, OutOfMemory
from latentloom.parallel.pool.job import End, failure, first_cause
from latentloom.parallel.streaming import pinned
from latentloom.pipelines import placement, stages
from latentloom.pipelines.components import shelf
from latentloom.pipelines.components.memory import HOST_SHARE, MEMORY, default_budget, memory_limit, read_bytes
from latentloom.pipelines.components.resting import Resting, blocks_of, spread
from latentloom.pipelines.components.store import ComponentStore, store
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.requests import Denoise, EncodeText
from latentloom.pipelines.values import Latents, Lora, Model, from_plain, to_plain
from support.lora_files import write_lora
from support.packed_files import write_gguf
from support.ranks import Ranks
from support.told import Told


def check(found: list[tuple[str, str, bool, int, int]], num_cells: int) -> None:
    assert len(found) == 4 * num_cells and all(same for _, _, same, _, _ in found), found
    for some, none in zip(found[::4], found[2::4], strict=True):
        assert some[3] == some[4] // 2 and none[3] == 0 and some[4], found


@pytest.fixture(scope="module")
def lora(tiny: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    def written(seed: int) -> dict[str, Any]:
        from diffusers import FluxTransformer2DModel

        from latentloom.pipelines.models.regular_file import sha256_of

        module = FluxTransformer2DModel.from_pretrained(tiny("flux"), subfolder="transformer")
        path = tmp_path_factory.mktemp("lora") / f"{seed}.safetensors"
        write_lora(path, module, prefix="transformer", layers=("to_q", "proj_mlp", "x_embedder"), seed=seed)
        return to_plain(Lora(path=str(path), sha256=sha256_of(path), scale=0.8, adapter=f"a{seed}"))

    return written


@pytest.mark.parametrize("kind", ["plain", "guided", "odd", "int8", "first_block", "taylorseer"])
def test_one_rank_gives_the_same_bits(model: Callable[..., Any], kind: str) -> None:
    check(compare(0, model("flux"), ["ulysses=1"], [kind]), 1)


@pytest.mark.parametrize("way", ["one.gguf", "one.safetensors"])
def test_a_single_file_does_on_one_rank_and_on_two_with_a_lora_too(
    pair: Ranks, tiny: Callable[[str], Path], lora: Callable[..., dict[str, Any]], tmp_path: Path, way: str
) -> None:
    """Packed by Q8_0, which is unpacked when it is loaded; and as it is, mapped."""
    weights, path = load_file(tiny("flux") / "transformer" / "diffusion_pytorch_model.safetensors"), tmp_path / way
    if way == "one.gguf":
        write_gguf(path, weights)
    else:
        save_file(weights, path)
    model = to_plain(describe_model(f"{path}@{tiny('flux')}", device="cpu"))
    check(compare(0, model, ["ulysses=1"], ["plain"]), 1)
    for found in pair.run("bodies.resting:compare", model, ["ulysses=2"], ["plain"], lora(1)):
        check(found, 1)


@pytest.mark.parametrize("family", ["qwen_image", "sd3", "wan22", "flux_2", "ltx_2", "z_image"])
def test_every_family_does(model: Callable[..., Any], family: str) -> None:
    check(compare(0, model(family), ["ulysses=1"], ["plain"], width=64), 1)


def test_ranks_do_by_every_plan(pair: Ranks, model: Callable[..., Any]) -> None:
    plans, kinds = ("ulysses=2", "ring=2", "allgather=2", "cfg=2"), ("guided", "first_block")
    for found in pair.run("bodies.resting:compare", model("flux"), plans, kinds, deadline_s=200):
        check(found, len(plans) * len(kinds))


@pytest.mark.parametrize("plan", ["ulysses=2", "ring=2", "allgather=2"])
def test_ranks_gather_what_each_brings_a_share_of(pair: Ranks, plan: str) -> None:
    """With fewer blocks there than one of them has room for, and after each block failed on both."""
    for found in pair.run("bodies.streamed_cells:cell", "flux", "both_odd", plan, "gathered"):
        assert found["bits"] and found["blocks"] > 1
        assert found.get("difference", 0.0) <= 1e-5 * max(1.0, found.get("largest", 1.0))


def test_a_denoise_gathers_where_ranks_do(pair: Ranks, model: Callable[..., Any]) -> None:
    plans, kinds = ("ulysses=2",), ("guided", "first_block")
    for found in pair.run("bodies.resting:compare", model("flux"), plans, kinds, None, True):
        check(found, len(plans) * len(kinds))


def test_a_rank_whose_blocks_rest_where_those_of_another_do_not_brings_whole_ones(pair: Ranks, model: Any) -> None:
    assert pair.run("bodies.resting:one_rests", model("flux"), "ulysses=2") == [[True] * 6] * 2


@pytest.mark.by_hand
@pytest.mark.parametrize("plan", ["ulysses=1", "ulysses=2", "ring=2", "allgather=2"])
def test_compiled_blocks_do(pair: Ranks, model: Callable[..., Any], plan: str) -> None:
    for found in pair.run("bodies.resting:compare", model("flux"), [plan], ["compiled"], deadline_s=280):
        check(found, 1)


def test_a_lora_does_before_and_behind_the_blocks(model: Callable[..., Any], lora: Callable[..., Any]) -> None:
    check(compare(0, model("flux"), ["ulysses=1"], ["plain"], lora(1)), 1)
    assert change_loras(0, model("flux"), [lora(1), {**lora(1), "scale": 0.3}, lora(2)], "ulysses=1") == [True] * 6


def test_text_encoders_and_vaes_do(model: Callable[..., Any], canvas: Callable[..., Any], paint: Any) -> None:
    def made() -> list[torch.Tensor]:
        text = stages.encode_text({"model": model("flux"), "prompt": "a red circle", "text_length": 33}).positive
        latents = to_plain(paint(model("flux"), canvas("flux"), steps=1))
        return [*text.values(), stages.decode({"model": model("flux"), "latents": latents}).pixels]

    store().clear()
    whole = made()
    for share in (0.5, 0.0):
        with resting(share):
            for _ in range(2):
                assert all(map(torch.equal, made(), whole))
            names = {key[2]: entry.resting for key, entry in store()._entries.items() if entry.resting}
            assert {"text_encoder", "text_encoder_2", "transformer", "vae"} <= names.keys()
            assert all(len(each.blocks) > 1 for each in names.values())


# ---- Within a limit


@pytest.fixture(scope="module")
def bobbin() -> dict[str, Any]:
    """The built-in model: 25 MB of a transformer, most of it in eight blocks."""
    return to_plain(describe_model("builtin:bobbin", device="cpu", dtype="fp32"))


def painted(bobbin: Any, **changes: Any) -> torch.Tensor:
    model = {**bobbin, **changes}
    text = stages.encode_text({"model": model, "prompt": "a red star"})
    canvas = to_plain(Latents(family=bobbin["family"], width=128, height=128))
    asked = {"model": model, "conditioning": text, "latents": canvas, "seed": 3, "steps": 2}
    return stages.decode({"model": model, "latents": to_plain(stages.denoise(asked))}).pixels


@pytest.fixture(scope="module")
def whole(bobbin: Any) -> torch.Tensor:
    store().clear()
    return painted(bobbin)


@pytest.mark.parametrize(("limit", "num_resident"), [("19MB", 1), ("23MB", 3), ("27MB", 5), ("200MB", 8)])
def test_as_many_blocks_stay_as_fit(bobbin: Any, whole: torch.Tensor, limit: str, num_resident: int) -> None:
    with limited(limit):
        for _ in range(2):
            assert torch.equal(painted(bobbin), whole) and store().num_bytes <= memory_limit()
            (entry,) = transformers().values()
            assert (entry.resting.num_resident if entry.resting else 8) in (0, num_resident)  # 0 while a VAE decodes
        stages.encode_text({"model": bobbin, "prompt": "a blue star"})
        assert store().num_bytes <= memory_limit() and transformers(), "it rests, and is not read again"


def test_a_budget_below_one_block_is_refused_with_the_least(bobbin: Any, whole: torch.Tensor) -> None:
    with (
        limited("5MB"),
        pytest.raises(ValueError, match=r"allows 0.005 GB, and transformer needs (\S+) GB even") as refused,
    ):
        painted(bobbin)
    least = float(str(refused.value).partition(" needs ")[2].split()[0])
    with limited(f"{least * 1e6 + 60:.0f}kB"):
        assert torch.equal(painted(bobbin), whole)
    with limited(f"{least * 1e6 - 200:.0f}kB"), pytest.raises(ValueError, match="even with its blocks brought"):
        painted(bobbin)


def test_graphs_that_are_asked_for_are_refused(bobbin: Any) -> None:
    with limited("19MB"), pytest.raises(ValueError, match="CUDA graphs"):
        painted(bobbin, graphs="on")


def test_a_use_that_fails_leaves_the_next_one_right(bobbin: Any, whole: torch.Tensor) -> None:
    class Ends(BaseException):
        pass

    def fail(*_: Any) -> None:
        raise Ends

    with limited("19MB"):
        assert torch.equal(painted(bobbin), whole)
        (entry,) = transformers().values()
        assert entry.resting is not None
        hook = entry.resting.blocks[-1].register_forward_pre_hook(fail)
        with pytest.raises(Ends):
            painted(bobbin)
        hook.remove()
        assert entry.resting.num_bytes == entry.resting.outside_bytes, "nobody knows in which state it was left"
        assert torch.equal(painted(bobbin), whole)


# ---- Memory that runs out in spite of all that was reckoned


def test_a_run_whose_memory_runs_out_is_made_with_less_and_told_once(bobbin: Any) -> None:
    """Planted at a random call of a random block, 50 times: none is lost, each is told once, all bits are the same."""
    dice, model = random.Random(4), from_plain(Model, bobbin)
    text = placement.encode_text(EncodeText(model=model, prompt="a red star"))
    canvas = Latents(family=model.family, width=128, height=128)
    asked = Denoise(model=model, conditioning=text, latents=canvas, seed=3, steps=2)
    whole, num_times = placement.denoise(asked).tensor, 50
    assert whole is not None
    for _ in range(num_times):
        with limited("23MB"):
            store().load(model, ("transformer",))
            (entry,) = transformers().values()
            assert entry.resting is not None
            left, stayed = dice.randrange(2), entry.resting.num_resident

            def run_out(*_: Any) -> None:
                nonlocal left
                left -= 1
                if left == -1:
                    raise MemoryError

            dice.choice(entry.resting.blocks).register_forward_pre_hook(run_out)
            told = Told()
            found = placement.denoise(asked, told).tensor
            assert found is not None and torch.equal(found, whole) and left < 0
            assert (
                sum(phase.startswith("starting again with less on the device: cpu ran") for phase in told.phases) == 1
            )
            assert entry.resting.num_resident == stayed // 2


def test_memory_that_runs_out_for_ever_is_told_in_the_end(bobbin: Any) -> None:
    model, told = from_plain(Model, bobbin), Told()
    text = placement.encode_text(EncodeText(model=model, prompt="a red star"))
    asked = Denoise(model=model, conditioning=text, latents=Latents(family=model.family, width=128, height=128))

    def run_out(*_: Any) -> None:
        raise MemoryError

    with limited("25MB"):
        store().load(model, ("transformer",))
        (entry,) = transformers().values()
        assert entry.resting is not None
        entry.resting.blocks[2].register_forward_pre_hook(run_out)
        with pytest.raises(OutOfMemory, match="ran out of memory"):
            placement.denoise(asked, told)
        assert [phase.partition(":")[0] for phase in told.phases].count("starting again with less on the device") == 2
        assert entry.resting.num_resident == 0


def test_what_was_there_whole_rests_once_memory_ran_out(bobbin: Any, whole: torch.Tensor) -> None:
    with limited("300MB"):
        assert torch.equal(painted(bobbin), whole) and transformers()["transformer"].resting is None
        assert store().ease(from_plain(Model, bobbin), ("transformer",)) and not transformers()
        assert torch.equal(painted(bobbin), whole)
        entry = transformers()["transformer"]
        assert entry.resting is not None and entry.resting.num_resident == 8
        assert store().ease(from_plain(Model, bobbin), ("transformer", "guider?"))
        assert torch.equal(painted(bobbin), whole) and entry.resting.num_resident == 4
    assert not store().ease(from_plain(Model, bobbin), ("transformer",)), "on a CPU without a limit there is no device"


def test_less_stays_in_uses_that_need_as_much_as_the_one_whose_memory_ran_out(bobbin: Any) -> None:
    model, large, small = from_plain(Model, bobbin), 5_000_000, 1_000_000

    def stay(working_bytes: int) -> int | None:
        with store().lent(model, ("transformer",), working_bytes=working_bytes):
            rests = transformers()["transformer"].resting
            return None if rests is None else rests.num_resident

    with limited("23MB"):
        both = stay(small), stay(large)
        assert both == (3, 2) and store().ease(model, ("transformer",))
        assert (stay(large), stay(large + 1), stay(small), stay(large)) == (1, 1, 3, 1)
        assert store().ease(model, ("transformer",)) and (stay(large), stay(small)) == (0, 3)
        assert stay(large) == 0 and not store().ease(model, ("transformer",))
        assert stay(large) == 2, "what took the memory may be gone"
    with limited("300MB"):
        assert stay(large) is None and store().ease(model, ("transformer",))
        assert (stay(small), stay(large), stay(small)) == (None, 8, 8)


def test_what_begins_to_rest_while_others_wait_for_it_is_lent_to_one_at_a_time(model: Callable[..., Any]) -> None:
    described, name = from_plain(Model, model("flux")), "text_encoder"
    asked, goes_on, both = threading.Barrier(3, timeout=60), threading.Event(), threading.Barrier(2, timeout=0.5)
    real = ComponentStore._use

    def use(*given: Any) -> Any:
        found = real(*given)
        asked.wait()
        goes_on.wait(60)
        return found

    def are_both_there() -> bool:
        with store().lent(described, (name,)), contextlib.suppress(threading.BrokenBarrierError):
            return both.wait() >= 0
        return False

    with limited("300MB"), ThreadPoolExecutor(2) as threads:
        store().load(described, (name,))
        with patch.object(ComponentStore, "_use", use):
            futures = [threads.submit(are_both_there) for _ in range(2)]
            asked.wait()
        assert store().ease(described, (name,))
        store().load(described, (name,))
        assert [entry.resting is not None for entry in store()._entries.values()] == [True]
        goes_on.set()
        assert [each.result(60) for each in futures] == [False, False]


@pytest.mark.parametrize("code", [OutOfMemory.code, EASED])
def test_the_host_hears_from_a_rank_whether_it_keeps_less(code: str, tmp_path: Path) -> None:
    ends = {0: End("failed", code="peer-lost", reason="a"), 1: End("failed", code=code, reason="no room")}
    assert first_cause(ends)[0] == 1
    error = failure(ends[1], "rank 1 (cuda:1)", log=tmp_path, are_alike=False)
    assert isinstance(error, OutOfMemory) and error.code == code and str(error) == "rank 1 (cuda:1): no room"


# ---- What is reckoned


@pytest.mark.parametrize(("text", "num_bytes"), [("10GB", 10**10), ("1.5 gib", 3 << 29), ("700MB", 7 * 10**8)])
def test_an_amount_is_read_as_people_write_it(text: str, num_bytes: int) -> None:
    assert read_bytes(text) == num_bytes


@pytest.mark.parametrize("text", ["", "10", "GB", "-1GB", "0GB", "1e3GB", "10 TB", "0.0001kB"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write an amount of memory above 0, like 10GB or 700MB"):
        read_bytes(text)


def test_a_limit_bounds_what_components_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = default_budget("cpu")
    monkeypatch.setenv(MEMORY, "1MB")
    assert (memory_limit(), default_budget("cpu")) == (10**6, 940_000)
    monkeypatch.setenv(MEMORY, "900000GB")
    assert default_budget("cpu") == whole


@pytest.mark.parametrize(
    ("num_bytes", "can_share", "left", "has_room"),
    [
        (40, True, ["new", "old", "used"], True),
        (60, True, ["new", "used"], True),
        (80, True, ["used"], True),
        (81, True, ["used"], False),
        (40, False, ["used"], True),  # each of two ranks needs as much
        (41, False, ["used"], False),
    ],
)
def test_what_is_pinned_makes_way_for_what_is_to_be_until_there_is_room(
    num_bytes: int, can_share: bool, left: list[str], has_room: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host lends 100 bytes; 20 are pinned for each of three, of which one is in use."""
    monkeypatch.setattr(shelf, "host_bytes", lambda: 100 / HOST_SHARE)
    monkeypatch.setattr(pinned, "shared_room", lambda contents: 10**9 if can_share else 0)
    monkeypatch.setenv(MEMORY, "1MB")  # what is said of devices is not said of the host
    kept, found = {("used",)}, shelf.Shelf(None)
    found.share_host(2)
    for last_use, name in enumerate(("old", "new", "used")):
        resting: Any = SimpleNamespace(host_bytes=20, num_bytes=0, end=lambda: None, free=lambda: None)
        entry = shelf.StoredComponent(nn.Linear(1, 1), 0, "cpu", last_use, resting=resting)
        found._entries[name,] = entry
    assert found._make_host_room(num_bytes, "contents", kept) is has_room
    assert sorted(name for (name,) in found._entries) == left


@pytest.mark.parametrize("num_blocks", [1, 2, 7, 57])
def test_blocks_that_stay_are_spread_evenly(num_blocks: int) -> None:
    for count in range(num_blocks + 1):
        stay = spread(num_blocks, count)
        assert len(stay) == len(set(stay)) == count
        gaps = [after - before for before, after in zip((-1, *stay), (*stay, num_blocks), strict=True)]
        assert max(gaps, default=0) - min(gaps[:-1], default=max(gaps)) <= 1


def test_blocks_are_the_members_of_the_outermost_lists() -> None:
    inner = nn.Sequential(nn.Linear(2, 2))
    inner.layers = nn.ModuleList([nn.Linear(2, 2)])  # type: ignore[assignment]
    module = nn.Module()
    module.lists = nn.ModuleList([nn.ModuleList([inner, nn.Identity()]), nn.ModuleDict({"a": nn.Linear(2, 2)})])
    module.part = nn.Module()
    module.part.blocks = nn.ModuleList([nn.Linear(3, 3)])
    assert [type(each).__name__ for each in blocks_of(module)] == ["Sequential", "Linear"]


def test_the_first_parameter_stays_on_the_device() -> None:
    """Libraries ask it where the whole component is."""
    module = nn.Module()
    module.blocks = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
    resting = Resting(module, "transformer", "cpu")
    assert resting.blocks == list(module.blocks)[1:]
    assert resting.outside_bytes >= 64 * 65 * 4
    assert resting.least_bytes == resting.outside_bytes + 2 * resting.sizes[0]
