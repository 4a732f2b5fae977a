"""A failure is one sentence for the user."""

import pytest

from latentloom.nodes.execution.failure import MORE, sentence
from latentloom.nodes.files.workspace import ALLOW, FIND, INSTALL, PULL, SMALLER
from latentloom.parallel.errors import OutOfMemory


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("steps is -1; give 1"), "steps is -1; give 1"),
        (OutOfMemory("cpu ran out of memory; make it smaller"), "cpu ran out of memory; make it smaller"),
        (MemoryError(), "it ran out of memory (MemoryError); use a smaller size, batch or model"),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
            "it ran out of memory (DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes); "
            "use a smaller size, batch or model",
        ),
        (
            FileNotFoundError(2, "No such file", "x"),
            "a file could not be read or written at 'x': No such file; check the path and the free space",
        ),
        (RuntimeError("odd\nmore"), "it stopped with RuntimeError: odd; run again with --debug to see where"),
    ],
)
def test_an_error_becomes_one_sentence(error: Exception, expected: str) -> None:
    assert sentence(error, "command line") == expected


@pytest.mark.parametrize("words", [ALLOW, FIND, INSTALL, PULL, SMALLER, MORE])
def test_only_the_command_line_is_told_its_options(words: dict[str, str]) -> None:
    assert [host for host, told in words.items() if "--" in told or "`latentloom" in told] in ([], ["command line"])
