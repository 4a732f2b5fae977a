"""What Spread Model holds in a real ComfyUI on the CPU, and what crosses its border: numbers beside their bars.

COMFYUI_DIR=DIR COMFYUI_PYTHON=PYTHON python tests/bench/comfyui_memory.py [PART...]

DIR and PYTHON are as in `comfyui_session.py`; the parts are the names of PARTS, without one all. The model is a random
FLUX of a gigabyte in fp32. Memory is that of the server and all its processes: each page once, a shared one by shares
(PSS), every 50 ms. What a LoRA changes is each rank's own, and is not looked at. Exits 1 where a bar is not kept, and 0
with a word where ComfyUI is not here. COMFYUI_LOG=FILE gets the servers' logs.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent))
from comfyui_native import NODES, Session, apart, prepared
from comfyui_session import Host, comfyui

KINDS = ("flux_gb", "wan", "h3")
SAMPLE_S, FREE_S = 0.05, 5.0
LOOK = 10  # samples after which new processes are looked for
HOST_SHARE, ALL_SHARE, GROWTH_MB = 0.1, 1.15, 20.0  # of the model; of the file
TURNS, FROM = 20, 5
BIG = {"kind": "flux_gb", "cfg": 1.0, "steps": 2, "size": (64, 64)}
FLAGS: tuple[tuple[str, ...], ...] = (
    (),
    ("--cache-none",),
    ("--cache-lru", "2"),
    ("--cache-classic",),
    ("--cache-ram", "100000", "100000"),  # more than there is: all that can be is evicted, all the time
)


def tree(pid: int) -> list[int]:
    """A process and all that it has started."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
    found = [pid]
    for each in found:
        found.extend(parents.get(each, ()))
    return found


def told(pid: int, file: str, name: str) -> float:
    """A number of /proc in MB; 0 for a process that is gone."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) / 1e3 * 1.024
    return 0.0


def held(host: Host, pids: list[int] | None = None) -> float:
    """MB of the server and all its processes."""
    return sum(told(pid, "smaps_rollup", "Pss") for pid in pids or tree(host.pid))


def private(pid: int) -> float:
    return told(pid, "status", "RssAnon")


def owned(host: Host, pids: list[int] | None = None) -> float:
    """MB of it that is no other's, which takes no time to ask."""
    return sum(private(pid) for pid in pids or tree(host.pid))


@contextlib.contextmanager
def watched(host: Host, of: Callable[..., float] = held) -> Iterator[list[float]]:
    """What was held, from now to the end of the block."""
    found, is_over = [of(host)], threading.Event()

    def watch() -> None:
        began = time.monotonic()
        while not is_over.is_set():
            if len(found) % LOOK == 1:
                pids = tree(host.pid)
            found.append(of(host, pids))
            is_over.wait(began + SAMPLE_S * len(found) - time.monotonic())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        is_over.set()
        thread.join()


def with_weights(host: Host) -> list[int]:
    """The processes beside the server that have weights of a model mapped."""
    found = []
    for pid in tree(host.pid)[1:]:
        with contextlib.suppress(OSError):
            maps = Path(f"/proc/{pid}/maps").read_text()
            if "latentloom-weights" in maps or "/diffusion_models/" in maps:
                found.append(pid)
    return found


def without_weights(host: Host) -> float:
    """Seconds until no rank has weights; FREE_S where some still have."""
    began = time.monotonic()
    while with_weights(host) and time.monotonic() < began + FREE_S:
        time.sleep(SAMPLE_S)
    return min(FREE_S, time.monotonic() - began)


def counted(session: Session) -> Mapping[str, Any]:
    session._number += 1
    return session.ended(session.queue({"counts": ("TestCounts", {"turn": session._number})}))["outputs"]["counts"]


def loaded(session: Session, kind: str) -> None:
    load = ("UNETLoader", {"unet_name": f"tiny_{kind}.safetensors", "weight_dtype": "default"})
    session.ended(session.queue({"load": load, "keep": ("TestKeep", {"model": ["load", 0]})}))


def must(session: Session, **given: Any) -> Any:
    found, why = session.sampled(**given)
    assert found is not None, why
    return found


# -- the parts


def memory(session: Session) -> None:
    """The host's own memory, and that of all, through load and one prompt."""
    host = session.host
    file = (host.base / "models" / "diffusion_models" / "tiny_flux_gb.safetensors").stat().st_size / 1e6
    must(session, plan="ulysses=2", kind="flux", size=(64, 64), cfg=1.0, steps=2)
    imports, before, owned_before = held(host), private(host.pid), owned(host)
    with watched(host) as loading:
        loaded(session, "flux_gb")
    print(f"  the file {file:.0f} MB; imports {imports:.0f} MB; the host's own {before:.0f} MB before", flush=True)
    print(
        f"  ComfyUI's own loader alone: the host's own {private(host.pid) - before:+.0f} MB, "
        f"all together up to {max(loading) - imports:.0f} MB beyond imports",
        flush=True,
    )
    began = time.monotonic()
    with watched(host) as running, watched(host, owned) as owns:
        must(session, plan="ulysses=2", **BIG)
    took_s = time.monotonic() - began
    own, most = private(host.pid) - before, max(running) - imports
    line = f"the host's own memory after the hand-over {own:+.0f} MB, of {HOST_SHARE * file:.0f} allowed"
    session.tell(line, is_right=own <= HOST_SHARE * file)
    line = f"all together from the hand-over on, {len(running)} samples in {took_s:.1f} s: "
    session.tell(
        f"{line}up to {most:.0f} MB beyond imports, {most / file:.2f} of the file, of {ALL_SHARE} allowed",
        is_right=most <= ALL_SHARE * file,
    )
    owns = [each - owned_before for each in owns]
    owns = owns[next(index for index, each in enumerate(owns) if each <= HOST_SHARE * file) :]
    line = f"of {len(owns)} samples behind it, what is each process's own: up to {max(owns):+.0f} MB"
    print(f"  {line}, with the check of the plan", flush=True)
    own_of_ranks = ", ".join(f"{private(pid):.0f}" for pid in with_weights(host))
    print(f"  afterwards {held(host) - imports:.0f} MB beyond imports; ranks' own {own_of_ranks} MB", flush=True)
    with watched(host) as again:
        must(session, plan="ulysses=2", **BIG, seed=6)
    print(f"  a second prompt: up to {max(again) - imports:.0f} MB beyond imports", flush=True)
    whole = must(session, **BIG)
    found = must(session, plan="ulysses=2", **BIG)
    session.tell(f"whole by the host against ranks: {apart(whole, found):.1e}", is_right=apart(whole, found) <= 1e-6)


def turns(session: Session) -> None:
    """Two models in turn."""
    found, pids = [], set()
    for turn in range(TURNS):
        given: dict[str, Any] = dict(BIG) if turn % 2 else {**BIG, "kind": "flux"}
        must(session, plan="ulysses=2", **given, seed=3000 + turn)
        found.append(held(session.host))
        pids |= set(with_weights(session.host))
        print(f"  prompt {turn + 1}: {found[-1]:.0f} MB", flush=True)
    # Of each model, because ComfyUI's cache lets go of the one that is not asked for.
    growth = max(found[-1] - found[FROM], found[-2] - found[FROM - 1])
    session.tell(f"{len(pids)} processes have held weights", is_right=len(pids) == 2)
    line = f"from prompt {FROM} to {TURNS} {growth:+.1f} MB, of {GROWTH_MB:.0f} allowed"
    session.tell(line, is_right=growth <= GROWTH_MB)


def texts(session: Session) -> None:
    """A model whose host computes with some of its weights before it samples: those alone are there, with a LoRA's."""
    for label, strengths in (("without a LoRA", ()), ("LoRA 0.8", (0.8,)), ("0.3", (0.3,)), ("none again", ())):
        rows = {
            f"h3_{number}": ("LoraLoaderModelOnly", {"lora_name": "tiny_h3.safetensors", "strength_model": each})
            for number, each in enumerate(strengths)
        }
        whole = session.compare(f"h3, {label}, before", "ulysses=2", kind="h3", before=rows)
        session.compare(f"h3, {label}, behind", "ulysses=2", kind="h3", whole=whole, after=rows)


def free(session: Session) -> None:
    """What ComfyUI is asked to free goes from the ranks, with the graph's results and without."""
    for flags in ({"unload_models": True, "free_memory": True}, {"unload_models": True}):
        must(session, plan="ulysses=2", **BIG, seed=4000 + len(flags))
        before, has_it = held(session.host), with_weights(session.host)
        session.host.ask("/free", flags)
        waited = without_weights(session.host)
        left = with_weights(session.host)
        line = f"POST /free {', '.join(flags)}: {len(has_it)} ranks had the weights, {len(left)} after {waited:.1f} s; "
        line += f"{before:.0f} MB before, {held(session.host):.0f} after"
        session.tell(line, is_right=len(has_it) == 2 and not left)
    whole = must(session, kind="flux", seed=44)
    found = must(session, plan="ulysses=2", kind="flux", seed=44)
    session.tell(f"the next prompt is {apart(whole, found):.1e} off", is_right=apart(whole, found) <= 1e-6)


def counts(session: Session) -> None:
    """What goes with each call, and how often the answer is copied."""
    counted(session)
    for label, given in (("flux, cfg 3", {"kind": "flux"}), ("h3, cfg 3", {"kind": "h3"})):
        must(session, plan="ulysses=2", seed=700, **given)
        rows = counted(session)["rows"]
        for number, row in enumerate(rows[:4]):
            print(f"  {label}, call {number + 1}: {row}", flush=True)
        # The first step asks for both texts, in one call or two.
        per_step = len(rows) // 4
        later = sum(row["conditioning"] for row in rows[per_step:])
        line = f"{label}: {rows[0]['conditioning']} bytes of conditioning with the first call of {len(rows)}, {later} "
        session.tell(f"{line}with those of later steps", is_right=rows[0]["conditioning"] > 0 and not later)
        copies = max(row["copies in the host"] for row in rows)
        session.tell(
            f"{label}: an answer is written once by its rank, and copied {copies} times here", is_right=not copies
        )


def overhead(session: Session) -> None:
    """Of 200 calls: told, not judged."""
    must(session, plan="ulysses=2", kind="flux", size=(64, 64), cfg=1.0, steps=2, seed=800)
    counted(session)
    must(session, plan="ulysses=2", kind="flux", size=(64, 64), cfg=1.0, steps=200, seed=801)
    found = counted(session)
    of = found["overhead"][0]
    line = (
        f"  median of {len(found['rows'])} calls: {of['border']:.2f} ms at the border, {of['pool']:.2f} ms for a call "
    )
    print(f"{line}of two ranks that do nothing (target on an idle machine: 5 ms together)", flush=True)


def under(session: Session, flags: tuple[str, ...]) -> None:
    """A few prompts in a server of these flags."""
    label = " ".join(flags) or "no flags"
    offs, stale, let_go = [], [], ""
    must(session, plan="ulysses=2", seed=1)
    pids = session.ranks()
    for given in ({"seed": 1}, {"seed": 2}, {"seed": 2, "lora": (0.8,)}, {"seed": 3}, {"seed": 3, "kind": "h3"}):
        whole, found = must(session, **given), must(session, plan="ulysses=2", **given)
        offs.append(apart(whole, found))
    if flags[:1] != ("--cache-lru",):  # that one may keep the results of a graph that is not asked for any more
        assert session.ranks() == pids, "ranks go on with another model"
        waited, stale = without_weights(session.host), with_weights(session.host)
        let_go = f"; ranks had let go of what the cache had after {waited:.1f} s, {len(stale)} of them not"
    worst = max(offs)
    line = f"{label}: {len(offs)} prompts, the worst {'the same bits' if not worst else f'{worst:.1e} off'}"
    session.tell(line + let_go, is_right=worst <= 1e-6 and not stale)
    pids = session.ranks()
    session.host.ask("/free", {"unload_models": True, "free_memory": True})
    time.sleep(FREE_S)
    left = [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    whole, found = must(session, seed=9), must(session, plan="ulysses=2", seed=9)
    off = apart(whole, found)
    line = f"{label}: POST /free leaves {len(left)} of {len(pids)} ranks, the next prompt is {off:.1e} off"
    session.tell(line, is_right=not left and bool(pids) and off <= 1e-6)


PARTS = {"memory": memory, "texts": texts, "turns": turns, "free": free, "counts": counts, "overhead": overhead}


def main(parts: list[str]) -> int:
    checkout, python = os.environ.get("COMFYUI_DIR", ""), os.environ.get("COMFYUI_PYTHON", sys.executable)
    if not checkout or not (Path(checkout) / "main.py").is_file():
        print("blocked: COMFYUI_DIR names no checkout of ComfyUI")
        return 0
    folder, num_checked, failed = Path(checkout).resolve(), 0, []
    with tempfile.TemporaryDirectory(prefix="comfyui-models-") as made:
        store = Path(made)
        (store / "custom_nodes").mkdir()
        os.environ["XDG_CACHE_HOME"] = str(store / "cache")  # no plan was checked before
        prepared(folder, python, store, KINDS)

        def prepare(base: Path) -> None:
            (base / "custom_nodes" / NODES.name).symlink_to(NODES, target_is_directory=True)
            (base / "models").symlink_to(store / "models", target_is_directory=True)
            (base / "output").mkdir()

        servers = dict.fromkeys(FLAGS, ()) if not parts or "flags" in parts else {}
        servers[()] = tuple(name for name in PARTS if not parts or name in parts)
        if FLAGS[0] in servers and len(servers) > 1:
            print("blocked: --lowvram, which ComfyUI takes with a GPU only")
        for flags, names in servers.items():
            with comfyui(folder, python, "--use-pytorch-cross-attention", *flags, prepare=prepare) as host:
                session = Session(host)
                for name in names:
                    print(name, flush=True)
                    PARTS[name](session)
                if not parts or "flags" in parts:
                    under(session, flags)
                num_checked, failed = num_checked + session.num_checked, [*failed, *session.failed]
                if copy := os.environ.get("COMFYUI_LOG"):
                    with Path(copy).open("ab") as log:
                        log.write(host.log.read_bytes())
    print(f"{num_checked} bars, {len(failed)} not kept")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
