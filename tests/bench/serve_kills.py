"""Kill `latentloom serve` under its runs, and a rank under its worker; then ask it to end in the middle of a run.

python tests/bench/serve_kills.py [--runs 100] [--kills 5]

Each run makes its own text, each fifth a picture. Every one has to be there once, whole: none lost, none twice, none
torn. A submit whose answer was lost is sent again with the same Idempotency-Key. Needs prometheus-client.
"""

import argparse
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import psutil
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from serve_load import texts

from support.first_picture import small
from support.ports import free_port
from support.service import TEXT, Serving, serve, wait

EACH = 12  # runs that end between two kills, so that no run is hit by three


def graph_of(number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    return (small(), {"seed": number}) if number % 5 == 0 else (TEXT, {"word": f"word{number}"})


class Killed:
    """A service that is killed and started again at the same address."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.serving = serve(folder, port=self.port)

    def kill(self) -> None:
        self.serving.process.kill()
        self.serving.process.wait()
        self.serving = serve(self.folder, port=self.port)

    def rows(self) -> list[dict[str, Any]]:
        return self.serving.client.get("/loom/runs", params={"limit": 200}).json()

    def num_done(self) -> int:
        return sum(row["state"] == "done" for row in self.rows())


def submit(killed: Killed, num_runs: int, made: dict[int, str]) -> None:
    """All runs, one after the other; what was refused or cut off is sent again."""
    for number in range(num_runs):
        graph, overrides = graph_of(number)
        while number not in made:
            try:
                answer = killed.serving.client.post(
                    "/loom/runs",
                    json={"graph": graph, "overrides": overrides},
                    headers={"Idempotency-Key": f"run-{number}"},
                )
                if answer.status_code == 201:
                    (made[number],) = answer.json()["runs"]
            except httpx.TransportError:
                time.sleep(0.2)
        time.sleep(0.1)


def under_kills(folder: Path, num_runs: int, num_kills: int) -> list[str]:
    killed, made = Killed(folder), dict[int, str]()
    sender = threading.Thread(target=submit, args=(killed, num_runs, made))
    sender.start()
    for number in range(num_kills):
        wanted = (number + 1) * min(EACH, num_runs // (num_kills + 1))
        wait(lambda wanted=wanted: killed.num_done() >= wanted, 600)
        print(f"kill {number + 1}: {Counter(row['state'] for row in killed.rows())}, {len(made)} submitted", flush=True)
        killed.kill()
    sender.join()
    wait(lambda: all(row["state"] not in ("waiting", "running") for row in killed.rows()), 600)
    rows = {row["id"]: row for row in killed.rows()}
    print(f"in the end: {Counter(row['state'] for row in rows.values())}")
    wrong = [f"{id} is {row['state']}: {row['error']}" for id, row in rows.items() if row["state"] != "done"]
    wrong += [f"run {number} is lost" for number, id in made.items() if id not in rows]
    wrong += [f"{len(rows) - len(made)} runs that nobody knows of"] if len(rows) != len(made) else []
    told = [text for text in texts(killed.serving) if "word" in text]
    wanted = [f"word{number}, star" for number in range(num_runs) if number % 5]
    wrong += [] if sorted(told) == sorted(wanted) else [f"{len(told)} texts, {len(set(told))} different"]
    pictures = sorted((folder / "output").rglob("*.png"))
    for picture in pictures:
        Image.open(picture).load()  # raises where it is torn
    wrong += [] if len(pictures) == num_runs - len(wanted) else [f"{len(pictures)} pictures"]
    wrong += [f"{path} was left" for path in (folder / "output").rglob(".*") if path.is_file()]
    end(killed.serving)
    return wrong


def rank_restarts(serving: Serving) -> float:
    lines = serving.client.get("/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("latentloom_rank_restarts_total "))


def under_a_dead_rank(folder: Path) -> list[str]:
    serving = serve(folder, "--devices", "cpu*2", "--plan", "ulysses=2")
    run = serving.client.post("/loom/runs", json={"graph": small()}).json()["runs"][0]
    wait(lambda: serving.client.get(f"/loom/runs/{run}").json()["state"] == "done", 300)
    before = rank_restarts(serving)
    worker = next(each for each in psutil.Process(serving.process.pid).children() if each.children())
    max(worker.children(recursive=True), key=lambda each: each.num_threads()).kill()  # what forks ranks has one thread
    wait(lambda: rank_restarts(serving) == 1, 60)
    ready = serving.code("/readyz")
    graph = small()
    run = serving.client.post("/loom/runs", json={"graph": graph, "overrides": {"seed": 99}}).json()["runs"][0]
    wait(lambda: serving.client.get(f"/loom/runs/{run}").json()["state"] == "done", 300)
    print(f"rank restarts: {before:g}, then {rank_restarts(serving):g}; ready {ready}")
    end(serving)
    return [] if (before, ready) == (0, 200) else ["the rank's death was not told"]


def drained(folder: Path) -> list[str]:
    serving = serve(folder, "--grace", "60")
    graph = small()
    graph["nodes"]["denoise"]["inputs"]["steps"] = 60
    asked = {"graph": graph, "sweep": ["seed=1..2"]}
    one, two = serving.client.post("/loom/runs", json=asked).json()["runs"]
    wait(lambda: (serving.client.get(f"/loom/runs/{one}").json()["done"] or 0) > 5, 120)
    serving.process.send_signal(signal.SIGTERM)
    start, codes = time.monotonic(), list[tuple[float, int, int]]()
    while serving.process.poll() is None and time.monotonic() - start < 90:
        codes.append((time.monotonic() - start, serving.code("/readyz"), serving.code("/livez")))
        time.sleep(0.02)
    unready_s = next((at for at, ready, _ in codes if ready == 503), 99.0)
    lives = {live for _, ready, live in codes if ready == 503} <= {200, 0} and codes[1][2] == 200  # 0: it has ended
    rc = serving.process.wait()
    print(f"drain: /readyz 503 after {unready_s:.2f} s, /livez 200 meanwhile: {lives}; end after {codes[-1][0]:.1f} s")
    again = serve(folder)
    ended = again.client.get(f"/loom/runs/{one}").json()
    wait(lambda: again.client.get(f"/loom/runs/{two}").json()["state"] == "done", 120)
    end(again)
    held = unready_s <= 0.5 and lives and rc == 0 and (ended["state"], ended["note"]) == ("done", "")
    return [] if held else [f"the drain: exit code {rc}, {ended['state']} {ended['note']}"]


def end(serving: Serving) -> None:
    serving.process.send_signal(signal.SIGTERM)
    serving.process.wait(90)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--kills", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wrong = drained(Path(folder) / "drain")
        wrong += under_a_dead_rank(Path(folder) / "ranks")
        wrong += under_kills(Path(folder) / "kills", given.runs, given.kills)
    print("\n".join(wrong[:30]) or "all held")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
