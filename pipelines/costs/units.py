"""Seconds and bytes as people read them, with three digits."""


def duration(seconds: float) -> str:
    for limit, unit, name in ((1e-3, 1e-6, "us"), (1, 1e-3, "ms"), (120, 1, "s"), (7200, 60, "min")):
        if seconds < 0.9995 * limit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / 3600:.3g} h"


def volume(num_bytes: float) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if num_bytes >= 0.9995 * unit:
            return f"{num_bytes / unit:.3g} {name}"
    return f"{num_bytes / 1e3:.3g} KB"
