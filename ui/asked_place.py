"""Where one run works, of the server's own devices: read in one way for a plan that is shown and a run that starts."""

from __future__ import annotations

from collections.abc import Sequence

from ..pipelines.place import check_cores, read_place
from ..pipelines.values import Place


def asked_place(devices: str, plan: str, *, own: Place, here: Sequence[str]) -> Place:
    """Of what is left empty, the server's own. `here` names this machine's accelerators.

    Raises `ValueError` for what cannot be, for devices that are not the server's, and for more ranks on the CPU than
    it has, and this machine has cores.
    """
    place = read_place(devices.strip() or ",".join(own.devices), plan.strip() or own.plan, here=here)
    if own.devices and (foreign := sorted(set(place.devices) - set(own.devices))):
        raise ValueError(
            f"the run asks for {', '.join(foreign)}, but this server works on {', '.join(own.devices)}; "
            "name some of these"
        )
    if len(place.devices) > len(own.devices):
        check_cores(place)
    return place
