"""Where a request comes from."""

from ipaddress import IPv6Address, ip_address

from django.conf import settings
from django.http import HttpRequest


def client_address(request: HttpRequest) -> str:
    """Return the client's IPv4 address, or the /64 network that its IPv6 address is in.

    Each trusted proxy appends to X-Forwarded-For the address that it was called from, so the client is that
    many places from the end; whatever stands before was sent by the client itself. Where no address stands
    there, the socket's counts.
    """
    remote = request.META.get("REMOTE_ADDR", "")
    hops = [*request.headers.get("X-Forwarded-For", "").split(","), remote]
    return _read(hops[-1 - min(settings.TRUSTED_PROXIES, len(hops) - 1)]) or _read(remote)


def _read(hop: str) -> str:
    """Return the address of one hop, which may carry a port; nothing where there is none."""
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
    # One household or server has a /64 and may change its address in it at will.
    return str(address.ipv4_mapped or IPv6Address(int(address) >> 64 << 64))
