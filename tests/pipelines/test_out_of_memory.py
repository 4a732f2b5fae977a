"""What is told of a lack of memory."""

import pytest

from latentloom.pipelines.out_of_memory import shortage

CUDA = (
    "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.20 GiB is free."
)
CPU = "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 4294967296 bytes. Error code 12"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (CUDA, " (2.50 GiB more was asked for, 1.20 GiB was free)"),
        (CPU, " (4.00 GiB more was asked for)"),
        ("no room", ""),
    ],
)
def test_the_shortage_is_read_from_what_torch_says(text: str, told: str) -> None:
    assert shortage(RuntimeError(text)) == told
