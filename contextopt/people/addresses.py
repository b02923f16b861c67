"""Finds the address a request came from."""

from ipaddress import IPv6Address, ip_address

from django.conf import settings
from django.http import HttpRequest


def client_address(request: HttpRequest) -> str:
    """Return the client's IPv4 address, or the /64 network that holds its IPv6 address.

    Each trusted proxy appends to X-Forwarded-For the address that called it, so the client's entry is
    TRUSTED_PROXIES places from the end. Entries before it come from the client and cannot be trusted. If that
    entry is not an address, return the socket's.
    """
    remote = request.META.get("REMOTE_ADDR", "")
    hops = [*request.headers.get("X-Forwarded-For", "").split(","), remote]
    return _read(hops[-1 - min(settings.TRUSTED_PROXIES, len(hops) - 1)]) or _read(remote)


def _read(hop: str) -> str:
    """Return the address of one hop, without its port; an empty string if it is not an address."""
    text = hop.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return ""
    if not isinstance(address, IPv6Address):
        return str(address)
    # A household or server usually has a whole /64 and can change its address within it at will.
    return str(address.ipv4_mapped or IPv6Address(int(address) >> 64 << 64))
