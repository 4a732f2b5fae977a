"""Where a request comes from, and whether it was meant for this server.

Limits and throttles count by address. Behind a proxy every request comes from the proxy: one that the server's owner
trusts tells in a header who asked it; what anybody else says there is not believed.

Host stops DNS rebinding: a foreign page whose name is made to point at this machine. Origin stops forged requests from
foreign pages, which carry the user's cookie.
"""

import functools
import ipaddress
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
# How many bits of an IPv6 address count: whoever has one has all that share these, and would else be as many strangers
# as they like.
HOME_BITS = 64


@dataclass(frozen=True)
class Asker:
    """Who a request or connection comes from."""

    address: str  # the address as limits count it: an IPv6 one by its network
    is_proxy: bool  # whether the address is a trusted proxy's own, so that many may stand behind it


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


def _address(text: str) -> Address | None:
    # a socket that listens for both kinds tells an IPv4 peer as ::ffff:192.0.2.1
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


LOOPBACK_NAMES = ("localhost", "localhost.localdomain")
WILDCARDS = ("0.0.0.0", "::", "")


@dataclass(frozen=True, kw_only=True)
class Door:
    """The names under which this server is asked for."""

    host: str  # what it is bound to
    public_netloc: str = ""  # what browsers see behind a proxy
    names: tuple[str, ...] = ()  # others by which its owner lets it be asked for, such as a service's in a cluster

    def takes_host(self, header: str) -> bool:
        # an address cannot be rebound, so where the server is public, every one of them is good
        name = host_name(header)
        if not name:
            return False
        if is_loopback(name) or name in (host_name(self.public_netloc), *self.names):
            return True
        if is_loopback(self.host):
            return False
        if name == self.host.lower() or _address(name.strip("[]")) is not None:
            return True
        return self.host in WILDCARDS and name in _own_names()

    def takes_origin(self, origin: str, *, host: str) -> bool:
        """The page's own origin: the host that was asked for, or the one that browsers see behind a proxy."""
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        if parts.scheme not in ("http", "https") or not parts.netloc:
            return False
        return parts.netloc.lower() in {host.lower(), self.public_netloc.lower()}


def host_name(header: str) -> str:
    """`Example.org:7860` without its port, in lower case; empty for what is no host."""
    try:
        return (urlsplit(f"//{header}").hostname or "") if header and not set(header) & set("/@\\ ?#") else ""
    except ValueError:
        return ""


def is_loopback(name: str) -> bool:
    """Whether a host name or address stays on this machine."""
    address = _address(name.strip("[]"))
    return address.is_loopback if address is not None else name.lower() in LOOPBACK_NAMES


@functools.cache
def _own_names() -> tuple[str, str]:
    # asked once: the second may come from a name server that takes seconds, while all requests wait
    return socket.gethostname().lower(), socket.getfqdn().lower()
