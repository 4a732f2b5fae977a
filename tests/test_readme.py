"""What the README says is true: its Python runs, its files exist, its commands are the ones that CI uses."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_python_of_the_readme_makes_a_picture(tmp_path: Path) -> None:
    code, *_ = blocks("python")
    boot = f"import runpy; runpy.run_path({str(ROOT / 'tests' / 'support' / 'checkout.py')!r})\n"
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", boot + code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "output" / "ring.png").is_file()
    assert result.stderr == ""


def test_the_torchrun_script_of_the_readme_makes_the_picture_of_one_process(tmp_path: Path) -> None:
    *_, code = blocks("python")
    model = ROOT / "pipelines" / "bobbin" / "model"
    for gpu, cpu in (
        ('"nccl"', '"gloo"'),
        ("torch.cuda.set_device(dist.get_rank())\n", "torch.set_num_threads(1)\n"),
        ('"black-forest-labs/FLUX.1-dev"', repr(str(model))),
        ("torch.bfloat16", "torch.float32"),
        ('.to("cuda")', ""),
        ("generator=", "num_inference_steps=2, height=64, width=64, max_sequence_length=32, generator="),
        ("ulysses=4", "ulysses=2"),
    ):
        assert gpu in code
        code = code.replace(gpu, cpu)
    code += (
        "whole = pipeline('a lighthouse at dusk', num_inference_steps=2, height=64, width=64, max_sequence_length=32,"
    )
    code += " generator=torch.Generator('cpu').manual_seed(0)).images[0]\nassert picture.tobytes() == whole.tobytes()\n"
    (tmp_path / "spread.py").write_text(
        f"import runpy; runpy.run_path({str(ROOT / 'tests' / 'support' / 'checkout.py')!r})\n{code}"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "spread.py"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=240)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "lighthouse.png").is_file()


def test_every_workflow_and_file_that_the_readme_names_exists() -> None:
    names = set(re.findall(r"`((?:nodes|pipelines|parallel|ui|tests|workflows)/[\w./-]*)`", README))
    names |= set(re.findall(r"(workflows/[\w/]+\.(?:json|png))", README))
    names |= set(re.findall(r"\]\((?!http|#)([\w./-]+)\)", README))
    assert names
    assert [name for name in sorted(names) if not (ROOT / name).exists()] == []


def test_tree_in_the_readme_names_every_module() -> None:
    modules = {p.name for folder in ("nodes", "pipelines", "parallel", "ui") for p in (ROOT / folder).glob("*.py")} - {
        "__init__.py"
    }
    assert sorted(name for name in modules if f" {name}" not in README) == []


def test_ci_runs_the_command_of_the_readme() -> None:
    assert "test command" in (ROOT / ".ci" / "run").read_text()
    assert sum("pytest" in block for block in blocks("bash")) == 1


def test_no_file_names_the_machine_it_was_written_on() -> None:
    pattern = re.compile(rb"(^|[^A-Za-z0-9_.-])/(work|root|farm)/")
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    texts = [ROOT / f for f in listing.splitlines() if not f.endswith((".safetensors", ".png", ".jpg"))]
    assert [str(p) for p in texts if p.name != "test_readme.py" and pattern.search(p.read_bytes())] == []
