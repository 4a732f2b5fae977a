"""Environments of servers' own, each in a folder that is kept: what they pin is no part of ours."""

import subprocess
import sys
import sysconfig
from pathlib import Path


def environment(folder: Path, *packages: str, is_over_ours: bool) -> Path:
    """The interpreter of an environment with these packages, made in the folder if it is not there yet.

    Over ours, what it pins comes first and everything else is from the environment that runs this.
    """
    python = folder / "bin" / "python"
    if not (folder / "made").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        if is_over_ours:
            asked = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
            site = Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
            # addsitedir: an editable install's own .pth must be read, too
            (site / "over.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        (folder / "made").write_text("\n".join(packages))
    return python
