"""Many clients at once against `latentloom serve`: every run one result, none twice, and memory that stays flat.

python tests/bench/serve_load.py [--clients 50] [--runs 500]      also --keys: each sent twice with one Idempotency-Key

Runs make text only (Join Text), so that what is measured is the service: its queue, records, routes and worker. Prints
the seconds that a submit took, runs a second, and the resident memory of server and worker after the first runs and
after the last. Needs prometheus-client.
"""

import argparse
import json
import signal
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.service import TEXT, Serving, serve

FIRST = 50  # runs, after which memory is to be flat
MOST_BYTES = 50 << 20  # that it may grow from then on
WAIT_S = 600.0


class Load:
    """Clients that share one list of runs to submit."""

    def __init__(self, serving: Serving, num_runs: int, *, has_keys: bool) -> None:
        self.serving, self.has_keys = serving, has_keys
        self.left = list(range(num_runs))
        self.submit_s: list[float] = []
        self.made: dict[int, str] = {}
        self.wrong: list[str] = []
        self.lock = threading.Lock()

    def work(self) -> None:
        headers = dict(self.serving.client.headers)
        with httpx.Client(
            base_url=self.serving.client.base_url, headers=headers, timeout=120, trust_env=False
        ) as client:
            while True:
                with self.lock:
                    if not self.left:
                        return
                    number = self.left.pop()
                try:
                    self.one(client, number)
                except (httpx.HTTPError, KeyError, ValueError) as error:
                    self.wrong.append(f"run {number}: {error!r}")

    def one(self, client: httpx.Client, number: int) -> None:
        asked = {"graph": TEXT, "overrides": {"word": f"word{number}"}}
        headers = {"Idempotency-Key": f"key-{number}"} if self.has_keys else {}
        start = time.monotonic()
        answer = client.post("/loom/runs", json=asked, headers=headers)
        self.submit_s.append(time.monotonic() - start)
        if answer.status_code != 201:
            raise ValueError(f"{answer.status_code} {answer.text[:200]}")
        (run,) = answer.json()["runs"]
        if self.has_keys and (again := client.post("/loom/runs", json=asked, headers=headers).json()["runs"]) != [run]:
            raise ValueError(f"the same key made {again}, not {run}")
        end = time.monotonic() + WAIT_S
        while (state := client.get(f"/loom/runs/{run}").json()["state"]) in ("waiting", "running"):
            if time.monotonic() > end:
                raise ValueError(f"{run} is {state} after {WAIT_S:g} s")
            time.sleep(0.2)
        if state != "done":
            raise ValueError(f"{run} is {state}")
        with self.lock:
            self.made[number] = run


def memory(serving: Serving) -> dict[str, float]:
    """Resident bytes by process, as /metrics tells them."""
    from prometheus_client.parser import text_string_to_metric_families

    text = serving.client.get("/metrics").text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    return {each.labels["process"]: each.value for each in families["latentloom_memory_bytes"].samples}


def texts(serving: Serving) -> list[str]:
    """What all manifests below the output folder say was made."""
    found = []
    for file in sorted((serving.folder / "output").rglob("manifest.json")):
        found += [str(each.get("value")) for each in json.loads(file.read_text())["outputs"]]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--keys", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        serving = serve(Path(folder), "--max-waiting", "1000")
        try:
            load = Load(serving, given.runs, has_keys=given.keys)
            start, first = time.monotonic(), dict[str, float]()
            threads = [threading.Thread(target=load.work) for _ in range(given.clients)]
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                time.sleep(0.2)
                if not first and len(load.made) >= FIRST:
                    first = memory(serving)
            took_s, last = time.monotonic() - start, memory(serving)
            submit_s = sorted(load.submit_s)
            grown = {name: round((last[name] - first[name]) / (1 << 20), 1) for name in first}
            print(f"{len(load.made)} of {given.runs} runs by {given.clients} clients in {took_s:.1f} s")
            print(
                f"submit: median {statistics.median(submit_s):.3f} s, p99 {submit_s[int(0.99 * len(submit_s))]:.3f} s, "
                f"most {submit_s[-1]:.3f} s"
            )
            print(f"memory grew after the first {FIRST} by (MiB): {grown}; in the end {last}")
            told = texts(serving)
            wanted = sorted(f"word{number}, star" for number in range(given.runs))
            print(f"{len(told)} results, {len(set(told))} different")
            wrong = [*load.wrong]
            wrong += [] if sorted(told) == wanted else ["the results are not those that were asked for"]
            wrong += [f"{n} grew by {mib} MiB" for n, mib in grown.items() if mib > MOST_BYTES >> 20]
            print("\n".join(wrong[:20]) or "all held")
            return 1 if wrong else 0
        finally:
            serving.process.send_signal(signal.SIGTERM)
            serving.process.wait(60)


if __name__ == "__main__":
    sys.exit(main())
