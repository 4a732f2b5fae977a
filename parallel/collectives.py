"""The only file that issues collectives. It counts what this rank sends: bytes, and calls as the algorithm sees them.

Sizes are given by the caller, who knows them from the layout: nothing is sent to agree on them. Gloo takes tensors of
a GPU through host memory, because it cannot send those between two ranks.
"""

# N flat elements

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives  # makes the operators known that graphs hold
from torch import Tensor

from .group import Group

_TRACED = torch.ops._c10d_functional


def start_exchange(
    sends: Sequence[Sequence[Tensor]], receives: Sequence[Sequence[Tensor]], *, group: Group
) -> Callable[[], None]:
    """Collective: send the tensors `sends[i]` to member i, and receive what it sends into those of `receives[i]`.

    They are contiguous; what a rank has for itself is left alone. An all-to-all whose pieces land where they belong,
    with no copy. Returns at once; the function it gives back waits.
    """
    others = [member for member in range(group.size) if member != group.index]
    # Counted as the algorithm sees it, before anything is staged: `traffic.py` is held against these numbers.
    _count(group, sum(piece.numel() * piece.element_size() for member in others for piece in sends[member]))
    is_gloo = backend(group) == "gloo"  # which receives into the host's memory
    landings = [
        (piece, torch.empty_like(piece, device="cpu") if is_gloo and not piece.is_cpu else piece)
        for member in others
        for piece in receives[member]
    ]
    peers = [group.ranks[member] for member in others for _ in receives[member]]
    requests = _exchange(
        [(group.ranks[member], _staged(piece, group)) for member in others for piece in sends[member]],
        [(peer, landing) for peer, (_, landing) in zip(peers, landings, strict=True)],
        group,
    )

    def wait() -> None:
        for request in requests:
            request.wait()
        for piece, landing in landings:
            if landing is not piece:
                piece.copy_(landing)

    return wait


def exchange_into(
    out: Tensor, packed: Tensor, *, sizes: Sequence[int], sizes_out: Sequence[int], group: Group, is_async: bool = False
) -> dist.Work | None:
    """Collective: send flat `packed`, `sizes_out[i]` elements to member i, and receive `sizes[i]` of it into `out`.

    What a rank has for itself is copied. Gives back what to wait for, or None if it is done.
    """
    _count(group, packed.nbytes - sizes_out[group.index] * packed.element_size())
    return dist.all_to_all_single(out, packed, sizes, sizes_out, group=group.process_group, async_op=is_async)


def start_hop(send: Tensor, *, size_in: int, group: Group) -> Callable[[], Tensor]:
    """Collective: send flat `send` to the next member of the ring and receive `size_in` elements from the last one.

    Returns at once; the function it gives back waits for the received elements.
    """
    after, before = ((group.index + step) % group.size for step in (1, -1))
    if group.packs:  # an all-to-all of which one piece has a size: NCCL connects by pairs, and sends nothing else
        sizes, sizes_out = [0] * group.size, [0] * group.size
        sizes[before], sizes_out[after] = size_in, send.numel()
        received = send.new_empty(size_in)
        work = exchange_into(received, send, sizes=sizes, sizes_out=sizes_out, group=group, is_async=True)
        requests = [] if work is None else [work]
    else:
        _count(group, send.numel() * send.element_size())
        staged = _staged(send, group)
        received = staged.new_empty(size_in)
        requests = _exchange([(group.ranks[after], staged)], [(group.ranks[before], received)], group)

    def wait() -> Tensor:
        for request in requests:
            request.wait()
        return received.to(send.device)

    return wait


def gather(block: Tensor, *, sizes: Sequence[int], group: Group) -> Tensor:
    """Collective: gather flat blocks of `sizes` elements, in the members' order, into one flat tensor."""
    # With one buffer of equal parts, unless more than half of it would be room that nobody fills.
    if group.packs and group.size * max(sizes) <= 2 * sum(sizes):
        return _padded_gather(block, sizes=sizes, group=group)
    _count(group, block.numel() * block.element_size() * (group.size - 1))
    staged = _staged(block, group)
    gathered = staged.new_empty(sum(sizes))
    _trade(staged, gathered.split(list(sizes)), group)
    return gathered.to(block.device)


def gather_into(out: Tensor, block: Tensor, *, group: Group, is_async: bool) -> dist.Work | None:
    """Collective: gather flat blocks of one size into `out`, in the members' order; `block` may be its place in it.

    Gives back what to wait for, or None if it is done.
    """
    _count(group, block.numel() * block.element_size() * (group.size - 1))
    if not out.numel():
        return None
    if group.packs:
        into = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # its name before torch 2.13
        return into(out, block, group=group.process_group, async_op=is_async)
    staged = _staged(block, group)
    gathered = out if out.device == staged.device else staged.new_empty(out.shape)
    _trade(staged, gathered.split([block.numel()] * group.size), group)
    if gathered is not out:
        out.copy_(gathered)
    return None


def send(x: Tensor, *, group: Group, tag: int) -> None:
    """Send a contiguous tensor to the second of a group of two, who receives it by the same tag; returns at once."""
    _count(group, x.nbytes)
    staged = _staged(x, group)
    work = dist.isend(staged, group.ranks[1], group=group.process_group, tag=tag)
    # Kept by the group until it is received, however long: gloo ends a send of which nobody holds this, or the process.
    let_go(group)
    group.flying.append((work, staged))


def let_go(group: Group) -> None:
    """What was sent to the second of a group of two and has left is kept no longer."""
    group.flying = [each for each in group.flying if not each[0].is_completed()]


def receive(out: Tensor, *, group: Group, tag: int) -> None:
    """What the first of a group of two has sent, into a contiguous tensor of its size."""
    landing = torch.empty_like(out, device="cpu") if backend(group) == "gloo" and not out.is_cpu else out
    dist.recv(landing, group.ranks[0], group=group.process_group, tag=tag)
    if landing is not out:
        out.copy_(landing)


def add(value: Tensor, *, group: Group) -> Tensor:
    """Collective: the sum of every member's `value`, with the same bits on each."""
    _count(group, 2 * value.numel() * value.element_size() * (group.size - 1) // group.size)
    total = _staged(value, group).clone()
    dist.all_reduce(total, group=group.process_group)
    return total.to(value.device)


def highest(wish: int, process_group: dist.ProcessGroup) -> int:
    """Collective: the highest of all members' small numbers, over a group on the CPU; no exchange, and not counted."""
    ballot = torch.tensor([wish], dtype=torch.uint8)
    dist.all_reduce(ballot, op=dist.ReduceOp.MAX, group=process_group)
    return int(ballot)


def start_highest(values: Tensor, process_group: dist.ProcessGroup) -> Callable[[], Tensor]:
    """Collective: of each int64 value on the CPU the highest of all members, over such a group; not counted.

    Returns at once; the function it gives back waits.
    """
    found = values.clone()
    work = dist.all_reduce(found, op=dist.ReduceOp.MAX, group=process_group, async_op=True)

    def wait() -> Tensor:
        if work is not None:
            work.wait()
        return found

    return wait


def start_traced_exchange(
    packed: Tensor, sizes: Sequence[int], sizes_out: Sequence[int], name: str
) -> Callable[[], Tensor]:
    """Collective, in a graph: `exchange_into` by the group of that name. Who runs the graph counts what is sent."""
    arriving = _TRACED.all_to_all_single(packed, sizes, sizes_out, name)  # begun: what follows is done meanwhile
    return lambda: _TRACED.wait_tensor(arriving)


def traced_gather(block: Tensor, size: int, name: str) -> Tensor:
    """Collective, in a graph: the blocks of all members, all of one size, by the group of that name; not counted."""
    return _TRACED.wait_tensor(_TRACED.all_gather_into_tensor(block, size, name))


def set_up(process_groups: Sequence[dist.ProcessGroup]) -> None:
    """Collective: let NCCL connect each group now, all members at once; a first send between two would wait for all."""
    for process_group in process_groups:
        device = process_group.bound_device_id or "cuda"  # this rank's own, or this thread's where torchrun chose
        dist.all_reduce(torch.zeros(1, device=device), group=process_group)


def _count(group: Group, sent_bytes: int) -> None:
    group.count.sent_bytes += sent_bytes
    group.count.calls += 1


def backend(group: Group) -> str:
    """`gloo`, `nccl`, or what torch calls several at once; the devices of the tensors then decide which is used."""
    return dist.get_backend(group.process_group)


def _staged(tensor: Tensor, group: Group) -> Tensor:
    """Contiguous, and on the host for gloo."""
    return (tensor.cpu() if backend(group) == "gloo" else tensor).contiguous()


def _trade(block: Tensor, parts: Sequence[Tensor], group: Group) -> None:
    """Everybody's block into everybody's parts, hop by hop; the own may lie in its part."""
    if parts[group.index].data_ptr() != block.data_ptr():
        parts[group.index].copy_(block)
    # Gloo's own all-gather refuses uneven sizes, and costs 2.5 to 4.5 times the processor time.
    others = [member for member in range(group.size) if member != group.index]
    sends = [(group.ranks[member], block) for member in others]
    for request in _exchange(sends, [(group.ranks[member], parts[member]) for member in others], group):
        request.wait()


def _padded_gather(block: Tensor, *, sizes: Sequence[int], group: Group) -> Tensor:
    """Collective: `gather` in one buffer, with as much room for each as one needs."""
    most = max(sizes)
    buffer = block.new_empty(group.size * most)
    slot = buffer[group.index * most :][:most]
    slot[: block.numel()].copy_(block)
    gather_into(buffer, slot, group=group, is_async=False)
    if min(sizes) == most:
        return buffer
    return torch.cat([part[:size] for part, size in zip(buffer.split(most), sizes, strict=True)])


def _exchange(
    sends: Sequence[tuple[int, Tensor]], receives: Sequence[tuple[int, Tensor]], group: Group
) -> list[dist.Work]:
    """Sends and receives in one go, by rank, the n-th sent to a rank its n-th received; empty ones are not sent."""
    operations = []
    for kind, tensors in ((dist.isend, sends), (dist.irecv, receives)):
        tags: dict[int, int] = {}  # by which gloo tells several messages to one peer apart, whatever order they take
        for peer, tensor in tensors:
            tags[peer] = tags.get(peer, -1) + 1
            if tensor.numel():  # both sides know the sizes, and so that nothing comes
                operations.append(dist.P2POp(kind, tensor, peer, group=group.process_group, tag=tags[peer]))
    return dist.batch_isend_irecv(operations) if operations else []
