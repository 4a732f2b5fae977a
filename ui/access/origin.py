"""Whether a request was meant for this server and comes from its own page: the Host and Origin headers.

Host stops DNS rebinding: a foreign page whose name is made to point at this machine. Origin stops forged requests from
foreign pages, which carry the user's cookie.
"""

from __future__ import annotations

import functools
import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

LOOPBACK_NAMES = ("localhost", "localhost.localdomain")
WILDCARDS = ("0.0.0.0", "::", "")


@dataclass(frozen=True, kw_only=True)
class Door:
    """The names under which this server is asked for."""

    host: str
    """What it is bound to."""
    public_netloc: str = ""
    """What browsers see behind a proxy."""

    def takes_host(self, header: str) -> bool:
        # an address cannot be rebound, so where the server is public, every one of them is good
        name = host_name(header)
        if not name:
            return False
        if is_loopback(name) or header.lower() == self.public_netloc.lower() or name == host_name(self.public_netloc):
            return True
        if is_loopback(self.host):
            return False
        if name == self.host.lower() or _address(name) is not None:
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
    address = _address(name)
    return address.is_loopback if address is not None else name.lower() in LOOPBACK_NAMES


@functools.cache
def _own_names() -> tuple[str, str]:
    # asked once: the second may come from a name server that takes seconds, while all requests wait
    return socket.gethostname().lower(), socket.getfqdn().lower()


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return None
