"""Run deploy/slurm's scripts under Debian's Slurm, unpacked and not installed, on two machines that are namespaces.

python tests/bench/deploy/slurm.py [FOLDER [PART...]]     # as root, on Debian or Ubuntu; FOLDER keeps packages (4 MB)

Each machine has processes, a network, a name and a folder of Ray's own, and nothing but this script's processes can
reach it. Printed: an array of two that shares a sweep of four; a sweep of three that is requeued by the administrator
after two; one that is told of its time limit, ends with 75 and requeues itself; a sweep over both machines by Ray.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
RECIPES = ROOT / "deploy" / "slurm"
FIRST = str(ROOT / "workflows" / "bobbin" / "first_picture.json")
PACKAGES = ["slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "libmunge2", "libhwloc15", "liblua5.1-0"]
NUMBERS = (1, 2)  # of the machines: n1, n2
LATEST_S = 300.0
CONFIG = """
ClusterName=drill
SlurmctldHost=ctl(10.77.0.1)
AuthType=auth/none
AuthInfo=cred_expire=5
CredType=cred/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/ctl.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/ctl.log
SlurmdLogFile={folder}/%n.log
PluginDir={libraries}/slurm-wlm
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MinJobAge=3600
KillWait=1
ReturnToService=2
NodeName=n1 NodeAddr=10.77.0.11 CPUs=1
NodeName=n2 NodeAddr=10.77.0.12 CPUs=1
PartitionName=all Nodes=n1,n2 Default=YES State=UP
"""


def unpacked(folder: Path) -> Path:
    """Where Debian's packages are, fetched if they are not."""
    packages, root = folder / "debs", folder / "root"
    if not (root / "usr/sbin/slurmctld-wlm").exists():
        packages.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "-o", "APT::Sandbox::User=root", "download", *PACKAGES], cwd=packages, check=True)
        for package in packages.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, root], check=True)
    return root


def sh(command: str) -> str:
    return subprocess.run(command, shell=True, check=True, capture_output=True, text=True).stdout


def until(holds: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + LATEST_S
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} is not so after {LATEST_S:g} s")
        time.sleep(0.5)


def start(root: Path, folder: Path) -> None:
    """A controller here, and two machines behind a bridge."""
    libraries = root / "usr/lib/x86_64-linux-gnu"
    config = folder / "slurm.conf"
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")  # not looked for: none of its parts is used
    config.write_text(CONFIG.format(folder=folder, libraries=libraries))
    (folder / "hosts").write_text("127.0.0.1 localhost\n10.77.0.1 ctl\n10.77.0.11 n1\n10.77.0.12 n2\n")
    (folder / "state").mkdir()
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{root / 'usr/bin'}:{os.environ['PATH']}"
    os.environ |= {"SLURM_CONF": str(config), "LD_LIBRARY_PATH": f"{libraries}/slurm-wlm:{libraries}"}
    os.environ |= {"OMP_NUM_THREADS": "1", "OUT": str(folder / "out")}
    sh(f"hostname ctl; mount --bind {folder}/hosts /etc/hosts; mkdir -p /run/netns; mount -t tmpfs none /run/netns")
    sh("ip link set lo up; ip link add br0 type bridge; ip addr add 10.77.0.1/24 dev br0; ip link set br0 up")
    subprocess.Popen([root / "usr/sbin/slurmctld-wlm", "-D", "-c"], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    for number in NUMBERS:
        sh(
            f"ip netns add n{number}; ip link add v{number} type veth peer name eth0 netns n{number}; "
            f"ip link set v{number} master br0 up; ip -n n{number} link set lo up; "
            f"ip -n n{number} addr add 10.77.0.1{number}/24 dev eth0; ip -n n{number} link set eth0 up"
        )
        own = f"hostname n{number}; mkdir -p /tmp/ray; mount -t tmpfs none /tmp/ray"
        daemon = f"{own}; exec {root}/usr/sbin/slurmd-wlm -D -d {root}/usr/sbin/slurmstepd-wlm"
        spaces = ["unshare", "--uts", "--pid", "--fork", "--mount", "--mount-proc"]
        subprocess.Popen(
            ["nsenter", f"--net=/run/netns/n{number}", *spaces, "sh", "-c", daemon],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        )
    until(
        lambda: subprocess.run("sinfo -h -t idle -o %D", shell=True, capture_output=True, text=True).stdout == "2\n",
        "up",
    )


class Job:
    """A job of one script; what its tasks print is in one file each."""

    def __init__(self, folder: Path, name: str, script: str, *arguments: str, options: str = "") -> None:
        self.told, self.since = folder / name, time.monotonic()
        self.told.mkdir()
        os.environ["OUT"] = str(self.told / "out")
        command = ["sbatch", "--parsable", f"--output={self.told}/%A_%a.jsonl", *options.split()]
        self.id = subprocess.run(
            [*command, RECIPES / script, FIRST, "--no-cache", *arguments], capture_output=True, text=True, check=True
        ).stdout.strip()

    def lines(self, kind: str) -> list[dict[str, Any]]:
        """What all tasks and restarts have told of this kind, in the order of each file."""
        texts = [path.read_text() for path in sorted(self.told.glob("*.jsonl"))]
        lines = [json.loads(line) for text in texts for line in text.splitlines() if line.startswith("{")]
        return [line for line in lines if line["kind"] == kind]

    def until_made(self, count: int) -> None:
        until(
            lambda: sum(each["state"] == "ok" for each in self.lines("result")) >= count,
            f"{count} results of {self.told}",
        )

    def tasks(self) -> list[dict[str, str]]:
        said = subprocess.run(
            ["scontrol", "-o", "show", "job", self.id], capture_output=True, text=True, check=True
        ).stdout
        return [dict(re.findall(r"(\S+?)=(\S*)", line)) for line in said.splitlines() if line]

    def end(self, what: str) -> None:
        until(
            lambda: all(each["JobState"] in ("COMPLETED", "FAILED", "CANCELLED") for each in self.tasks()),
            f"end of {what}",
        )
        print(f"\n{what} ({time.monotonic() - self.since:.0f} s)")
        for task in self.tasks():
            number = f"_{task['ArrayTaskId']}" if "ArrayTaskId" in task else ""
            ended = f"exit code {task['ExitCode']}, restarts {task['Restarts']}"
            print(f"  {self.told.name}{number}: {task['JobState']} on {task['NodeList']}, {ended}")
        print("  " + ", ".join(f"{Path(each['folder']).name} {each['state']}" for each in self.lines("result")))


def array(folder: Path) -> None:
    job = Job(
        folder, "array", "sweep.sbatch", "--set", "denoise.steps=2", "--sweep", "seed=1..4", options="--array=0-1"
    )
    job.end("An array of two, a sweep of four")
    assert {each["JobState"] for each in job.tasks()} == {"COMPLETED"} and len(job.tasks()) == 2
    assert sorted(each["point"] for each in job.lines("result") if each["state"] == "ok") == [1, 2, 3, 4]


# Without a rank of its own, a picture comes after the next one's denoise.
RANK = ["--devices", "cpu"]


def requeued(folder: Path) -> None:
    job = Job(folder, "requeued", "sweep.sbatch", *RANK, "--sweep", "denoise.steps=20,21,300")
    job.until_made(2)
    sh(f"scontrol requeue {job.id}")  # the third gets no time to end: KillWait is 1 s
    job.end("A sweep of three, `scontrol requeue` after two")
    states = [each["state"] for each in job.lines("result") if each["state"] != "cancelled"]
    assert job.tasks()[0]["Restarts"] == "1" and states == ["ok", "ok", "resumed", "resumed", "ok"], states


def limit(folder: Path) -> None:
    job = Job(folder, "limit", "sweep.sbatch", *RANK, "--sweep", "denoise.steps=20,150,151,152,153,154")
    job.until_made(1)
    sh(f"scancel --batch --signal=TERM {job.id}")  # what --signal=B:TERM@120 does, two minutes before the limit
    job.end("A sweep of six, told of its limit after one: what is under way is finished, 75 requeues the rest")
    states = [each["state"] for each in job.lines("result")]
    assert job.tasks()[0]["Restarts"] == "1" and states.count("ok") == 6 and "resumed" in states, states


def nodes(folder: Path) -> None:
    # The number of groups is told: what is predicted, and learned from runs before, may be that one ends it sooner.
    swept = ["--devices", "cpu*2", "--replicas", "2", "--set", "denoise.steps=60", "--sweep", "seed=1..4"]
    job = Job(folder, "nodes", "nodes.sbatch", *swept, options="--nodes=2")
    job.end("Two nodes by Ray, a sweep of four")
    ranks = [(each["run"], rank) for each in job.lines("spread") for rank in each.get("ranks", [])]
    machines = {run: rank["machine"].split()[1] for run, rank in ranks}  # of "machine 10.77.0.12 (c1203d)"
    print("  made on " + ", ".join(machines[each["run"]] for each in job.lines("result")))
    assert {*machines.values()} == {"10.77.0.11", "10.77.0.12"}, machines
    assert [each["state"] for each in job.lines("result")] == ["ok"] * 4


PARTS = {"array": array, "requeued": requeued, "limit": limit, "nodes": nodes}


def main() -> None:
    if "--inside" not in sys.argv:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="slurm-")).resolve()
        root = unpacked(folder)
        spaces = ["unshare", "--net", "--uts", "--pid", "--fork", "--mount", "--mount-proc"]
        arguments = [sys.executable, __file__, "--inside", root, tempfile.mkdtemp(prefix="run-", dir=folder)]
        arguments += sys.argv[2:]
        raise SystemExit(subprocess.run([*spaces, *arguments]).returncode)
    (root, folder), names = map(Path, sys.argv[2:4]), sys.argv[4:]
    start(root, folder)
    print(sh("sinfo --version; sinfo -N -o '%N %c CPUs %t'").strip())
    for name in names or PARTS:
        PARTS[name](folder)


if __name__ == "__main__":
    main()
