"""To which addresses a connection to a web server may go."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence

from singerlake.attached.sources.locations import CORRECT
from singerlake.errors import UnreadableSourceError

Resolve = Callable[[str, int], Sequence[str]]
"""Gives the addresses of a host and a port. Raises ``OSError``."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_UNICAST = ipaddress.IPv6Network("2000::/3")
"""All that was given out of IPv6. Python counts what lies outside as global where no registry has a name for it, also
where such addresses once stood for IPv4 ones or for those of a site."""
_IPv4 = 32


def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses that the system knows, each once, in its order. Raises ``OSError``."""
    found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def checked_addresses(host: str, port: int, *, private: bool, resolve: Resolve) -> Sequence[str]:
    """The addresses of a host, all of which are of the public internet, unless ``private`` ones are allowed. Raises
    ``UnreadableSourceError``."""
    try:
        addresses = resolve(host, port)
    except (OSError, UnicodeError) as error:
        raise UnreadableSourceError("the name of its host is not known", hint=CORRECT, passing=True) from error
    if not private and not all(map(is_public, addresses)):
        raise UnreadableSourceError(
            "its host has an address that is not of the public internet",
            hint="set file_private_addresses if it is yours, or on_missing_file to record",
        )
    return addresses


def is_public(text: str) -> bool:
    """Whether an address is one of the public internet, and so is the IPv4 address that it may stand for."""
    address = ipaddress.ip_address(text.partition("%")[0])
    inside = _inside(address)
    if isinstance(address, ipaddress.IPv6Address) and not inside and address not in _UNICAST:
        return False
    return all(each.is_global and not each.is_multicast for each in (address, *inside))


def _inside(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> Sequence[ipaddress.IPv4Address]:
    if isinstance(address, ipaddress.IPv4Address):
        return []
    inside = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64:
        inside.append(ipaddress.IPv4Address(int(address) & ((1 << _IPv4) - 1)))
    return [each for each in inside if each is not None]
