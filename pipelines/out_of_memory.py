"""How much memory was lacking, as far as torch tells."""

from __future__ import annotations

import re


def shortage(error: BaseException) -> str:
    """How much was asked for and how much was there, as far as torch's text tells; "" where it does not."""
    text = str(error)
    asked = re.search(r"[Tt]ried to allocate ([\d.]+) (\w+)", text)
    if asked is None:
        return ""
    free = re.search(r"of which ([\d.]+ \w+) is free", text)
    amount = f"{asked[1]} {asked[2]}" if asked[2] != "bytes" else f"{int(asked[1]) / 2**30:.2f} GiB"
    return f" ({amount} more was asked for{f', {free[1]} was free' if free else ''})"
