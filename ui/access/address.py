"""Where a request comes from: the address that limits and throttles count by.

Behind a proxy every request comes from the proxy. One that the server's owner trusts tells in a header who asked it;
what anybody else says there is not believed.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
HOME_BITS = 64
"""How many bits of an IPv6 address count: whoever has one has all that share these, and would else be as many strangers
as they like."""


@dataclass(frozen=True)
class Asker:
    """Who a request or connection comes from."""

    address: str
    """The address as limits count it: an IPv6 one by its network."""
    is_proxy: bool
    """Whether the address is a trusted proxy's own, so that many may stand behind it."""


def asker_of(scope: Mapping[str, Any], trusted: Sequence[str]) -> Asker:
    """The socket's peer; of a peer that `trusted` names, the last hop of X-Forwarded-For, which that peer wrote."""
    peer = str((scope.get("client") or ("",))[0])
    if not is_trusted(peer, trusted):
        return Asker(_counted(peer), is_proxy=False)
    hops = forwarded(scope)
    # All hops before the last are whatever the client claims. A trusted peer that names none is itself the address.
    hop = _without_port(hops[-1].rpartition(",")[2].strip()) if hops else ""
    named = hop if _address(hop) is not None else peer
    return Asker(_counted(named), is_proxy=is_trusted(named, trusted))


def forwarded(scope: Mapping[str, Any]) -> list[str]:
    return [value.decode("latin-1") for name, value in scope.get("headers", ()) if name == b"x-forwarded-for"]


def is_trusted(peer: str, trusted: Sequence[str]) -> bool:
    """Whether an address is one of the proxies, each an address or a network."""
    address = _address(peer)
    return address is not None and any(address in read_network(each) for each in trusted)


@functools.cache
def read_network(text: str) -> Network:
    """`10.0.0.1` or `10.0.0.0/8`. Raises `ValueError`."""
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise ValueError(
            f"--trusted-proxy is {text[:50]!r} ({error}); give an address such as 10.0.0.1, or a network such as "
            "10.0.0.0/8"
        ) from None


def _counted(text: str) -> str:
    address = _address(text)
    if isinstance(address, ipaddress.IPv6Address) and not address.is_loopback:
        return str(ipaddress.ip_network((address, HOME_BITS), strict=False))
    return text if address is None else str(address)


def _without_port(hop: str) -> str:
    # some proxies write `192.0.2.1:5000` or `[2001:db8::1]:5000`
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
