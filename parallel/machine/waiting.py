"""How threads of one computation wait for each other, where the CPU's cores are not theirs alone.

OpenMP's threads spin between two computations, some hundred thousand turns, and so each is there at once when the next
one begins. Where other processes want the cores, those turns are what the others wait for, and then the last thread of
each computation waits for a core: the steps of a first picture took ten times as long beside two busy loops a core. A
thread that sleeps instead is woken in microseconds (`tests/bench/busy.py` times both).

An OpenMP library reads its environment once, when it is loaded: torch loads one. So it is set before, for a process
that is ours; in a host's own process it is the host's to set.
"""

from collections.abc import Mapping

# All of them, GNU's, and LLVM's with Intel's.
ASLEEP = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}


def asleep(environment: Mapping[str, str]) -> dict[str, str]:
    """What is to be added to an environment for threads that sleep as they wait; nothing where its user chose."""
    return {} if any(name in environment for name in ASLEEP) else ASLEEP
