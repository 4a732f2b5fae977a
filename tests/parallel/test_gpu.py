"""What only a GPU can tell of `parallel`: `pytest -m gpu`. One is enough: ranks that share it talk through gloo."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from latentloom.parallel.errors import OutOfMemory, RankFailed
from latentloom.parallel.pool.limits import Limits
from latentloom.parallel.pool.pool import Pool
from latentloom.parallel.pool.trial import trial
from support.gpu import DEVICE, GPU
from support.pool_processes import wait_until

X = torch.linspace(-1, 1, 12).view(3, 4)


@pytest.fixture(scope="module")
def one(request: pytest.FixtureRequest) -> Iterator[Pool]:
    """A rank that was forked for a GPU."""
    start = request.getfixturevalue("start_pool" if GPU.startswith("cuda") else "start_warm_pool")
    with start([GPU], limits=Limits(silence_s=30, work_s=120)) as pool:
        yield pool


def pid_after(pool: Pool) -> int:
    """The rank's process, once it has computed what it should."""
    found = pool.call("bodies.gpu:product", {"x": X})
    assert found["device"] == GPU and not found["is_in_bad_fork"] and (found["xx"] - X @ X.T).abs().max() <= 1e-4
    return found["pid"]


@pytest.mark.gpu(or_cpu="always")
def test_a_rank_that_is_forked_computes_on_its_gpu_with_the_kernel_that_it_chose(one: Pool) -> None:
    pid_after(one)
    found = one.call("bodies.gpu:product", {"x": X})
    assert found["is_cudnn_first"] == (found["kernel"] == "cudnn")


@pytest.mark.gpu
def test_a_gpu_that_is_named_by_its_uuid_is_found(
    start_pool: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid = torch.cuda.get_device_properties(0).uuid
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", f"GPU-{uuid}")
    with start_pool([GPU]) as pool:
        pid_after(pool)


@pytest.mark.gpu(or_cpu="always")
def test_a_gpu_without_room_is_told_in_a_sentence_and_the_rank_lives_on(one: Pool) -> None:
    before = pid_after(one)
    with pytest.raises(OutOfMemory, match=rf"^rank 0 \({GPU}\): .*[Tt]ried to allocate"):
        one.call("bodies.gpu:fill", {})
    assert pid_after(one) == before


@pytest.mark.gpu
def test_a_rank_whose_gpu_repeats_an_error_is_replaced(one: Pool) -> None:
    before = pid_after(one)
    with pytest.raises(RankFailed, match=r"^rank 0 \(cuda:0\): .*CUDA error"):
        one.call("bodies.gpu:trap", {})
    assert pid_after(one) != before


@pytest.mark.gpu
def test_a_spare_rank_takes_the_place_of_one_that_dies_and_attends_as_it_did(start_pool: Callable[..., Pool]) -> None:
    with start_pool([GPU], spare_ranks=True) as pool:
        (spare,), before = pool._supervisor._crew.spares.ranks, pool.call("bodies.gpu:product", {"x": X})
        wait_until(lambda: spare.is_ready)
        waiting = spare.pid
        os.kill(before["pid"], signal.SIGKILL)
        wait_until(lambda: pool.states()[0].pid == waiting)
        assert pid_after(pool) == waiting
        after = pool.call("bodies.gpu:product", {"x": X})
        assert [after[name] == before[name] for name in ("kernel", "is_cudnn_first")] == [True, True]


@pytest.mark.gpu(or_cpu="always")
def test_process_groups_of_nccl_come_and_go(one: Pool) -> None:
    assert one.call("bodies.gpu:groups", {}) == [0.0, 5.0, 10.0]


@pytest.mark.gpu(or_cpu="always")
def test_a_trial_of_the_gpu_names_its_attention_kernel() -> None:
    tried = trial([GPU])
    assert f"1 rank on {GPU} started, met and ended" in tried.says and "attention kernel: " in tried.says


@pytest.mark.gpu(or_cpu="always")
def test_ranks_of_tests_may_use_a_gpu(ranks: Any) -> None:
    """Nothing has asked the driver in the process that they are forked from, which would bar it to them."""
    assert ranks.run("bodies.gpu:may_use_a_gpu") == [(False, os.environ.get("CUDA_VISIBLE_DEVICES"))] * 4


@pytest.mark.gpu(or_cpu="asked")
@pytest.mark.parametrize("plan", ["ulysses=2", "ring=2", "allgather=2", "ulysses=2,ring=2"])
def test_in_bf16_several_ranks_are_as_near_to_fp32_as_one(ranks: Any, plan: str) -> None:
    found = [x for x in ranks.run("bench.shadow_rank:error", GPU, plan, deadline_s=280) if x is not None]
    assert all(0 < many <= 1.1 * alone for alone, many in found)


@pytest.mark.gpu(or_cpu="always")
@pytest.mark.parametrize(("kind", "shape"), [("flux", (2, 4, 11, 5)), ("wan", (2, 4, 3, 9, 5))])
def test_rows_are_decoded_on_a_gpu_as_by_one_rank(ranks: Any, kind: str, shape: tuple[int, ...]) -> None:
    found = [x for x in ranks.run("bodies.gpu:decoded_by_rows", GPU, kind, shape) if x is not None]
    assert max(x["difference"] / x["largest"] for x in found) <= 1e-2, "cuDNN multiplies in TF32"
    assert len({x["bits"] for x in found}) == 1


@pytest.mark.gpu(or_cpu="asked")
@pytest.mark.filterwarnings("default")  # of torch's compiler
@pytest.mark.parametrize("plan", ["ulysses=2", "ring=2", "allgather=2"])
def test_a_step_gives_the_same_compiled_and_as_a_cuda_graph(plan: str, capsys: pytest.CaptureFixture[str]) -> None:
    from bench.gpu.measuring import Bench
    from bench.gpu.steps import step

    assert step(Bench(device=DEVICE, is_tiny=True), ["flux-1024"], [plan]), capsys.readouterr().out


@pytest.mark.gpu
def test_a_cuda_graph_answers_each_call_as_the_eager_module_does() -> None:
    from latentloom.parallel.sharding.captured import Captured

    module = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.Linear(64, 16)).to(GPU)
    with torch.no_grad():
        given = [torch.randn(2 + step % 2, 16, device=GPU) for step in range(12)]  # two shapes in turns
        wanted = [module(x) for x in given]
        graphs = Captured(module)
        found = [module(x) for x in given]
        graphs.restore()
    assert not graphs.reasons and all(map(torch.equal, found, wanted))


@pytest.mark.gpu
def test_what_waits_for_the_gpu_runs_without_a_graph() -> None:
    from latentloom.parallel.sharding.captured import Captured

    class Waits(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch.cuda.current_stream().synchronize()
            return super().forward(x)

    module = Waits(4, 4).to(GPU)
    with torch.no_grad():
        given = [torch.randn(2, 4, device=GPU) for _ in range(5)]
        wanted = [module(x) for x in given]
        graphs = Captured(module)
        assert all(map(torch.equal, [module(x) for x in given], wanted))
    assert len(graphs.reasons) == 1, "capturing it failed, once"


def test_sections_for_one_gpu_run_through_on_a_cpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from bench import one_gpu

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["one_gpu.py", "kernels", "attention", "linear", "--tiny"])
    assert one_gpu.main() == 0
    said = capsys.readouterr().out
    assert "| cpu_flash | float32 |" in said and "auto chooses cpu_flash" in said and "linear: needs a GPU" in said
    assert "not as it should be" not in said


def test_blocks_for_one_gpu_are_done_in_15_minutes_and_name_what_is_there() -> None:
    from bench.gpu.blocks import BEFORE, PARTS, ROOT

    deadlines = {part: sum(max(block.deadline_s for block in wave) for wave in waves) for part, waves in PARTS.items()}
    assert deadlines["all"] <= 870 and max(deadlines["first"], deadlines["second"]) <= 570
    blocks = [block for wave in PARTS["all"] for block in wave]
    assert len({block.name for block in blocks}) == len(blocks) and BEFORE in {block.name for block in blocks}
    files = {part for block in blocks for part in block.command if part.endswith((".py", ".json"))}
    assert not {file for file in files if not (ROOT / file).exists()}


def test_a_block_ends_at_its_deadline_with_what_it_started_and_is_told_of(tmp_path: Path) -> None:
    from bench.gpu import blocks

    def block(name: str, code: str, *, deadline_s: int = 60, tree: str = "") -> blocks.Block:
        return blocks.Block(name=name, command=("-c", code), deadline_s=deadline_s, tree=tree)

    hangs = "import subprocess, sys; print('begun', flush=True); subprocess.run(['sleep', '1000'])"
    rows = "print('| one device | eager | 1.00 | 10.00 | 3 |'); print('| ulysses=8 | compiled | 1.00 | 5.00 | 3 |')"
    wave = [block("step", rows), block("hangs", hangs, deadline_s=1), block("gone", "", tree="nowhere")]
    where = blocks.Setting(device="cuda:0", is_dry=False, out=tmp_path, site=tmp_path)
    where.scratch.mkdir()
    (where.scratch / "before.log").write_text("| ulysses=8 | compiled | 1.00 | 10.00 | 3 |")
    ended = blocks.run_wave(wave, where, "NVIDIA L4")
    assert [each.how for each in ended] == [
        "as it should",
        "ended at its deadline of 1 s",
        "left out: nowhere is not here",
    ]
    said = blocks.report(ended, where, "NVIDIA L4")
    assert "begun" in said and "| ulysses=8 | compiled | 5.00 |  | 10.00 | 0.50 |" in said
    assert not blocks.is_all_good(ended)
