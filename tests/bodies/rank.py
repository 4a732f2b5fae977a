"""What ranks do in the tests of `parallel`: each function runs on every rank and gives back plain data."""

import contextlib
import copy
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch._C import _len_torch_function_stack
from torch.overrides import BaseTorchFunctionMode

from bodies.meshes import by, by_plan, group_mesh, packing
from bodies.operator_cases import session_of
from latentloom.parallel import collectives
from latentloom.parallel.errors import BadWires
from latentloom.parallel.group import Axis, Group
from latentloom.parallel.layout import Stream, shares_of
from latentloom.parallel.mesh import Mesh, make_mesh_among, mesh_of
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.ranks import membership
from latentloom.parallel.sharding.fingerprint import check_same
from latentloom.parallel.sharding.halo import extended, trimmed
from latentloom.parallel.sharding.operator import Asked
from latentloom.parallel.sharding.shard import ShardedModule
from latentloom.parallel.sharding.split_plan import Halo
from latentloom.parallel.traffic import Shape, traffic_of
from latentloom.pipelines.spreading.transformer import shard
from support.cells import built, outputs

Bits = list[bytes]


def bits(tensors: list[Tensor]) -> Bits:
    return [x.contiguous().numpy().tobytes() for x in tensors]


def message(run: Callable[[], Any]) -> str:
    """What the ValueError says that `run` raises."""
    try:
        run()
    except ValueError as error:
        return str(error)
    return "nothing was raised"


# ---- traffic


def traffic(rank: int, calls: list[dict[str, Any]]) -> list[tuple[int, int, int, int] | None]:
    """Bytes and calls of one attention each: counted, then reckoned."""
    return [_traffic(**call) for call in calls]


def _traffic(
    plan: str, image: int, text: int, shards_text: bool, heads: int, kv_heads: int, batch: int, packs: bool = False
) -> tuple[int, int, int, int] | None:
    mesh = group_mesh(plan)
    if mesh is None:
        return None
    if packs:
        mesh = packing(mesh)
    session = session_of((("text", text, shards_text), ("image", image, True)), mesh)
    session.is_agreed = True
    layout = session.layout(session.split.order)
    q, k, v = (torch.randn(batch, each, layout.num_held(session.rank), 8) for each in (heads, kv_heads, kv_heads))
    before = sent(mesh)
    session.attend(Asked(q, k, v), 0)
    after = sent(mesh)
    shape = Shape(batch=batch, heads=heads, kv_heads=kv_heads, head_dim=8, itemsize=4)
    reckoned = traffic_of(layout, mesh, shape=shape)
    return after[0] - before[0], after[1] - before[1], reckoned.sent_bytes, reckoned.calls


def sent(mesh: Mesh) -> tuple[int, int]:
    counts = [group.count for group in mesh.groups.values()]
    return sum(count.sent_bytes for count in counts), sum(count.calls for count in counts)


@by_plan
def flux_calls(rank: int, mesh: Mesh) -> int:
    """Collectives of one forward of the tiny Flux, the second."""
    model, inputs, _ = built("flux", "odd_text")
    with sharded(model, mesh):
        outputs(model, inputs)
        before = sent(mesh)[1]
        outputs(model, inputs)
        return sent(mesh)[1] - before


# ---- pieces


@by("ulysses=4")
def exchanged(rank: int, mesh: Mesh, packs: bool) -> list[list[float]]:
    """Every collective with nothing to send from some ranks, over all four."""
    if packs:
        mesh = packing(mesh)
    group, own = mesh[Axis.SEQUENCE], torch.full((rank,), float(rank))
    gathered = collectives.gather(own, sizes=range(4), group=group)
    hopped = collectives.start_hop(own, size_in=(rank - 1) % 4, group=group)()
    pieces = [[own.new_empty(other), own.new_empty(1)] for other in range(4)]
    collectives.start_exchange([[own, own.new_full((1,), 9.0 + rank)]] * 4, pieces, group=group)()
    traded = torch.cat([each for other in range(4) if other != rank for each in pieces[other]])
    nothing = collectives.gather(own[:0], sizes=[0] * 4, group=group)
    total = collectives.add(own.new_full((1,), float(rank)), group=group)
    return [x.tolist() for x in (gathered, hopped, traded, nothing, total)]


@by("ulysses=4")
def convolved(rank: int, mesh: Mesh, rows: int, reach: int) -> float:
    """The largest difference of a convolution over shared rows to one over all."""
    torch.manual_seed(0)
    columns, conv = 3, nn.Conv2d(2, 2, 2 * reach + 1, padding=reach)
    stream = Stream("image", rows * columns, shares_of(rows * columns, 4, columns), columns)
    halo, picture = Halo("image", 2, reach), torch.randn(2, 2, rows, columns)
    start, end = (place // columns for place in stream.held(rank))
    with torch.no_grad():
        whole = conv(picture)[:, :, start:end]
        part = extended(picture[:, :, start:end], halo, stream, mesh[Axis.SEQUENCE])
        part = trimmed(conv(part), halo, stream, rank)
    assert part.shape == whole.shape, f"{tuple(part.shape)}, not {tuple(whole.shape)}"
    return float((part - whole).abs().max()) if whole.numel() else 0.0


@by("ulysses=4")
def fingerprints(rank: int, mesh: Mesh, given: list[list[dict[str, Any]]]) -> list[str]:
    """What each set of arguments, one for each rank, is answered with."""
    group = mesh[Axis.SEQUENCE]
    return [message(lambda case=case: check_same(case[rank], group, title="Toy", around=group)) for case in given]


@by("ulysses=2")
def short_table(rank: int, mesh: Mesh) -> str:
    """What is said of a table of positions with fewer rows than there are tokens."""
    model, inputs, _ = built("hunyuan_dit", "even")
    with sharded(model, mesh):
        table = tuple(each[:5] for each in inputs["image_rotary_emb"])
        return message(lambda: outputs(model, {**inputs, "image_rotary_emb": table}))


def device_meshes(rank: int) -> list[Any]:
    """Our mesh of torch meshes, and what is said to those that do not fit."""
    from torch.distributed.device_mesh import DeviceMesh

    plan = ParallelPlan.parse("ulysses=2,ring=2")
    named = ("ulysses", "fsdp", "ring")  # of these one dim is not ours, and of size 1
    good = DeviceMesh("cpu", torch.tensor([[3, 1], [2, 0]])[:, None], mesh_dim_names=named)
    mesh = mesh_of(plan, good)
    same = DeviceMesh("cpu", torch.arange(4).view(2, 2), mesh_dim_names=("ulysses", "ulysses_too"))
    flat = DeviceMesh("cpu", torch.arange(4)[:, None], mesh_dim_names=("ring", "ulysses"))
    more = DeviceMesh("cpu", torch.arange(4).view(2, 1, 2), mesh_dim_names=("ulysses", "ring", "fsdp"))
    part = DeviceMesh("cpu", torch.arange(2), mesh_dim_names=("ulysses",))
    wrong = [message(lambda each=each: mesh_of(plan, each)) for each in (same, flat)]
    wrong.append(message(lambda: mesh_of(ParallelPlan(ulysses=2), more)))
    wrong.append(message(lambda: mesh_of(ParallelPlan(ulysses=2), part)))
    wrong.append(message(lambda: make_mesh_among(range(4), ParallelPlan(ulysses=3))))
    groups = [mesh[axis] for axis in (Axis.ULYSSES, Axis.EXCHANGE, Axis.SEQUENCE)]
    has_order = [dist.get_process_group_ranks(each.process_group) == list(each.ranks) for each in groups]
    return [*(each.ranks for each in groups), has_order, *wrong]


@by("ulysses=4,weights=4")
def weights_group(rank: int, mesh: Mesh) -> list[Any]:
    """The ranks that share weights and a sequence, and whether they do so over one process group."""
    sequence, weights = mesh[Axis.SEQUENCE], mesh[Axis.WEIGHTS]
    return [sequence.ranks, weights.ranks, sequence.process_group is weights.process_group]


def groups_made(rank: int) -> list[int]:
    """How many process groups there are after the first mesh of a plan, and after three more."""
    from torch.distributed.distributed_c10d import _world

    found = []
    for _ in range(4):
        make_mesh_among(range(4), ParallelPlan(ulysses=2, ring=2))
        found.append(len(_world.pg_map))
    return found


def misbehave(rank: int, how: str) -> str:
    """Rank 1 does what a rank should not."""
    if rank == 1 and how == "raise":
        raise ValueError("no good")
    if rank == 1 and how == "die":
        os._exit(3)
    if rank == 1 and how == "hang":
        time.sleep(60)
    return "fine"


# ---- attached to a model


@contextlib.contextmanager
def sharded(model: nn.Module, mesh: Mesh) -> Iterator[ShardedModule]:
    handle = shard(model, mesh.plan, mesh)
    try:
        yield handle
    finally:
        handle.remove()


def hooks_of(model: nn.Module) -> dict[str, list[int]]:
    """The number of hooks of every kind on every module, and whether it has attributes of its own besides."""
    names = [name for name in vars(model) if "hooks" in name]
    return {path: [len(vars(each)[name]) for name in names] + [len(vars(each))] for path, each in model.named_modules()}


@by("ulysses=2,text=sharded")
def attached_again(rank: int, mesh: Mesh, times: int) -> dict[str, Any]:
    model, inputs, whole = built("flux", "both_odd")
    hooks = hooks_of(model)
    for number in range(times):
        with sharded(model, mesh):
            during = hooks_of(model)
            if number % 50 == 0:
                outputs(model, inputs)
    return {
        "bits": bits(outputs(model, inputs)) == bits(whole),
        "hooks": hooks_of(model) == hooks,
        "seen": during != hooks,
        "stack": _len_torch_function_stack(),
    }


@by("ulysses=2")
def failing(rank: int, mesh: Mesh, kind: str) -> dict[str, Any]:
    """A forward that fails in the middle of a block, a good one, and one that fails again."""
    model, inputs, whole = built("flux", "both_odd")
    error = {"error": RuntimeError, "interrupt": KeyboardInterrupt}[kind]

    def fail(*_: Any) -> None:
        raise error("stop")

    with sharded(model, mesh):
        hook: Any = model.get_submodule("single_transformer_blocks.0.attn").register_forward_hook(fail)
        with contextlib.suppress(error):
            outputs(model, inputs)
        left = _len_torch_function_stack()
        hook.remove()
        difference = _difference(outputs(model, inputs), whole)
        inside = _len_torch_function_stack()
        hook = model.get_submodule("single_transformer_blocks.0.attn").register_forward_hook(fail)
        with contextlib.suppress(error):
            outputs(model, inputs)
        hook.remove()
    return {"left": left, "inside": inside, "after": _len_torch_function_stack(), "difference": difference}


@by("ulysses=2")
def failing_in_a_mode(rank: int, mesh: Mesh) -> list[Any]:
    """A forward that fails before the session was entered, inside another mode: it is still there, and alone."""
    model, inputs, _ = built("flux", "both_odd")
    with sharded(model, mesh), BaseTorchFunctionMode():
        said = message(lambda: outputs(model, {**inputs, "timestep": inputs["timestep"] + rank}))
        return [said, _len_torch_function_stack()]


@by("ulysses=2")
def neighbour(rank: int, mesh: Mesh) -> dict[str, Any]:
    """Attention in another thread, and in this one, while a block of the sharded model runs."""
    model, inputs, _ = built("flux", "even")
    q = torch.randn(1, 2, 5, 8)
    alone, found = F.scaled_dot_product_attention(q, q, q), []

    def meanwhile(*_: Any) -> None:
        thread = threading.Thread(target=lambda: found.append(F.scaled_dot_product_attention(q, q, q)))
        thread.start()
        thread.join()
        found.append(message(lambda: F.scaled_dot_product_attention(q, q, q)))

    with sharded(model, mesh):
        hook = model.get_submodule("transformer_blocks.0.norm1").register_forward_hook(meanwhile)
        outputs(model, inputs)
        hook.remove()
    return {"other": torch.equal(found[0], alone), "this": found[1]}


TARGETS = ["to_q", "to_v", "add_k_proj", "to_out.0", "proj_out", "proj_mlp", "x_embedder", "context_embedder"]


@by("ulysses=2")
def with_processors_of_others(rank: int, mesh: Mesh, variant: str, processor: str) -> list[str]:
    """What is said when somebody replaces the attention processors of a sharded model, and after ours are back."""
    from diffusers.models import attention_processor

    model, inputs, _ = built(variant, "both_odd")
    model = copy.deepcopy(model)
    own = {each: each.processor for each in _attention(model)}
    with sharded(model, mesh):
        ours = {each: each.processor for each in own}
        for each in ours:
            each.processor = getattr(attention_processor, processor)()
        replaced = message(lambda: outputs(model, inputs))
        for each, kept in ours.items():
            each.processor = kept
        back = message(lambda: outputs(model, inputs))
        for each in ours:
            each.processor = getattr(attention_processor, processor)()
    return [replaced, back, str(all(each.processor is kept for each, kept in own.items()))]


@by("ulysses=2,text=sharded")
def block_of_two_models(rank: int, mesh: Mesh) -> list[bool]:
    """Whether the first block gives its own bits where another model calls it, before and after a sharded forward."""
    model, inputs, _ = built("flux", "both_odd")
    block: Any = model.get_submodule("transformer_blocks.0")
    given: dict[str, Any] = {}
    seen = block.register_forward_pre_hook(lambda _, args, kwargs: given.update(kwargs), with_kwargs=True)
    outputs(model, inputs)
    seen.remove()

    def called() -> Any:
        with torch.no_grad():
            return bits(list(block(**given)))

    own = called()
    with sharded(model, mesh):
        before = called()
        outputs(model, inputs)
        return [before == own, called() == own]


def _attention(model: nn.Module) -> list[Any]:
    return [each for name, each in model.named_modules() if name.endswith("attn1")]


@by_plan
def with_lora(rank: int, mesh: Mesh, moment: str) -> dict[str, float]:
    """A LoRA put on before or after sharding, in every place where Flux takes one: differences to one process."""
    from peft import LoraConfig, get_peft_model_state_dict

    model, inputs, bare = built("flux", "both_odd")
    model = copy.deepcopy(model)
    config = LoraConfig(r=2, lora_alpha=4, target_modules=TARGETS, init_lora_weights=False)

    def add() -> None:
        torch.manual_seed(7)
        model.add_adapter(config)

    if moment == "before":
        add()
    if moment == "loaded":
        add()
        saved = {name: each.clone() for name, each in get_peft_model_state_dict(model).items()}
        model.delete_adapters("default")
    with sharded(model, mesh):
        if moment != "before":
            outputs(model, inputs)
        if moment == "after":
            add()
        if moment == "loaded":
            metadata = {**config.to_dict(), "target_modules": TARGETS, "peft_type": "LORA"}
            model.load_lora_adapter(saved, prefix=None, adapter_name="default", metadata=metadata)
        got = outputs(model, inputs)
        model.delete_adapters("default")
        without = outputs(model, inputs)
    add()
    wanted = outputs(model, inputs)
    return {
        "changed": _difference(bare, wanted),
        "difference": _difference(got, wanted),
        "without": _difference(without, bare),
    }


def _difference(got: list[Tensor], wanted: list[Tensor]) -> float:
    return float((got[0] - wanted[0]).abs().max() / wanted[0].abs().max().clamp(min=1))


# ---- bad input


@by("ulysses=4")
def refusals(rank: int, mesh: Mesh) -> dict[str, str]:
    """What every kind of bad input is answered with, on this rank of four."""
    model, inputs, whole = built("flux", "even")
    said = {
        "degrees": message(lambda: shard(model, "ulysses=3")),
        "strategy": message(lambda: shard(model, "usp=4")),
        "class": message(lambda: shard(nn.Linear(2, 2), "ulysses=4")),
        "mesh": message(lambda: shard(model, "ring=4", mesh)),
    }
    other: Any = copy.deepcopy(model)
    other._parallel_config = object()
    said["diffusers"] = message(lambda: shard(other, "ulysses=4", mesh))
    with sharded(model, mesh):
        said["twice"] = message(lambda: shard(model, "ulysses=4", mesh))
        noise = torch.randn(inputs["hidden_states"].shape, generator=torch.Generator().manual_seed(rank))
        said["inputs"] = message(lambda: outputs(model, {**inputs, "hidden_states": noise}))
        said["shapes"] = message(lambda: outputs(model, {**inputs, "hidden_states": noise[:, : 12 + rank]}))
        said["gradients"] = message(lambda: model(**inputs))
        said["good"] = str(_difference(outputs(model, inputs), whole) < 1e-5)
    for name, tokens in (("attention", 50), ("attention_like_rank_0", _held_by_first(model, inputs, mesh))):
        said[name] = message(lambda tokens=tokens: _strange(model, inputs, mesh, tokens))
    said["afterwards"] = str(bits(outputs(model, inputs)) == bits(whole))
    return said


def _held_by_first(model: nn.Module, inputs: dict[str, Tensor], mesh: Mesh) -> int:
    """Tokens of rank 0 with one text token less, which rank 3 then does not have."""
    num_image, num_text = inputs["hidden_states"].shape[1], inputs["encoder_hidden_states"].shape[1] - 1
    return shares_of(num_image, 4)[0] + shares_of(num_text, 4)[0]


def _strange(model: nn.Module, inputs: dict[str, Any], mesh: Mesh, tokens: int) -> None:
    """A forward with an attention call in a block that no plan knows."""
    q = torch.randn(1, 2, tokens, 8)

    def attend(*_: Any) -> None:
        F.scaled_dot_product_attention(q, q, q)

    cut = {"encoder_hidden_states": inputs["encoder_hidden_states"][:, :-1], "txt_ids": inputs["txt_ids"][:-1]}
    hook = model.get_submodule("transformer_blocks.0.norm1").register_forward_hook(attend)
    try:
        with sharded(model, mesh):
            outputs(model, {**inputs, **cut})
    finally:
        hook.remove()


def alone(rank: int) -> list[bool]:
    """P = 1: the plan is the identity, and installs nothing."""
    model, inputs, whole = built("flux", "even")
    mesh = group_mesh("ulysses=1")
    hooks = hooks_of(model)
    if mesh is None:
        return [True]
    with sharded(model, mesh) as handle:
        return [handle.session is None, hooks_of(model) == hooks, bits(outputs(model, inputs)) == bits(whole)]


def process(rank: int) -> int:
    return os.getpid()


# ---- wires


def proved_wires(rank: int, faults: list[str], is_proven: bool = False) -> list[str]:
    """What is said of wires of which one way to send changes a number."""
    found = []
    for fault in faults:
        with contextlib.ExitStack() as stack:
            if fault != "nothing":
                stack.callback(setattr, membership, fault, getattr(membership, fault))
                setattr(membership, fault, _corrupting(getattr(membership, fault), fault))
            try:
                membership.prove(Group(range(4), rank, dist.group.WORLD), torch.device("cpu"), is_proven=is_proven)
                found.append("well")
            except BadWires as error:
                found.append(str(error))
    return found


def _corrupting(send: Callable[..., Any], name: str) -> Callable[..., Any]:
    def corrupting(*args: Any, **options: Any) -> Any:
        answer = send(*args, **options)
        if name == "add":
            answer[7] += 1
            return answer

        def wait() -> Any:
            arrived = answer()
            given = arrived if arrived is not None else next(tensors[0] for tensors in args[1] if tensors)
            given[7] += 1
            return arrived

        return wait

    return corrupting


# ---- measuring


def measured(rank: int, count: int) -> dict[str, Any]:
    """What a rank measures while all `count` do."""
    from latentloom.parallel.pool import measuring, trial
    from latentloom.parallel.progress import SILENT
    from latentloom.parallel.ranks.seat import Seat

    measuring.ROUNDS, measuring.ROUNDS_OF, measuring.STEADY_S = 1, (1, 1, 1), 0.0  # all of it, not for long
    measuring.REPEATS_ALONE = 3
    measuring.SIZES = {"cpu": (16 << 10, 64 << 10, 256 << 10)}
    measuring.ATTENTIONS = {"cpu": ((64, 8, 24), (128, 8, 24))}
    measuring.TOKENS = {"cpu": ((32, 192), (128, 192))}
    measuring.CONVOLUTIONS = {"cpu": (32, 32)}
    asked = {"kinds": trial.groups_of(count)}
    return measuring.on_rank(asked, SILENT, Seat(rank=rank, num_ranks=count, device="cpu"))
