import subprocess
import sys
import threading
import time

import psutil
import pytest

from latentloom.parallel.machine.deadline import output_of, within


def test_a_commands_output_is_given() -> None:
    assert output_of([sys.executable, "-c", "print('é')"], timeout_s=30) == "é\n"


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ([sys.executable, "-c", "import sys; sys.exit('bad\\nworse')"], "code 1: worse"),
        (["no-such-command-here"], "No such file"),
    ],
)
def test_a_command_that_fails_is_one_kind_of_error(command: list[str], sentence: str) -> None:
    with pytest.raises(OSError, match=sentence):
        output_of(command, timeout_s=30)


def test_a_late_command_is_killed() -> None:
    start = time.monotonic()
    with pytest.raises(TimeoutError, match=r"did not end in 0\.3 s"):
        output_of([sys.executable, "-c", "import time; time.sleep(60)"], timeout_s=0.3)
    assert time.monotonic() - start < 20
    assert not [child for child in psutil.Process().children() if "sleep(60)" in " ".join(child.cmdline())]


def test_a_functions_answer_or_error_is_given() -> None:
    assert within(lambda: 7, timeout_s=30) == 7
    assert within(lambda: None, timeout_s=30) is None
    with pytest.raises(KeyError, match="gone"):
        within(lambda: {}["gone"], timeout_s=30)


def test_a_late_function_is_left_behind() -> None:
    release = threading.Event()
    with pytest.raises(TimeoutError, match=r"no answer in 0.1 s"):
        within(release.wait, timeout_s=0.1)
    release.set()


def test_a_process_that_hangs_ends_and_says_in_what() -> None:
    code = (
        "import time; from latentloom.parallel.machine.deadline import or_end\n"
        "def stuck():\n    time.sleep(60)\n"
        "with or_end('a short wait', limit_s=60):\n    print('done')\n"
        "with or_end('a call into a driver', limit_s=0.2):\n    stuck()\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (1, "done\n")
    assert "in stuck" in ended.stderr
    assert ended.stderr.endswith("\nit hung: a call into a driver took over 0.2 s\n")
