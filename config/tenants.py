"""Says whose a request is before anything is done for it: a team's, or else a stranger's at an address.

A key or session says nothing until it was checked, so whoever sends one counts as a stranger until then.
Strangers with and without one are told apart, so that a team's new keys keep nobody from the log-in page.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Hashable
from io import BytesIO
from typing import NamedTuple

from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.http import parse_cookie

from contextopt.asgi import Scope
from contextopt.people.addresses import client_address
from contextopt.people.keychecks import read_secret

CREDENTIALS_MAX = 10_000


class Sender(NamedTuple):
    """The team or the address that a request counts for, and the digest of its key or session, if any."""

    tenant: Hashable
    credential: bytes


class Tenants:
    """The teams of the keys and sessions that this process has checked lately."""

    def __init__(self) -> None:
        self._teams: OrderedDict[bytes, int] = OrderedDict()

    def find(self, scope: Scope) -> Sender:
        """Return whose the request is. This reads its headers alone."""
        request = ASGIRequest(scope, BytesIO())
        secret = read_secret(request.headers)
        if not secret and "cookie" in request.headers:
            secret = parse_cookie(request.headers["cookie"]).get(settings.SESSION_COOKIE_NAME, "")
        credential = hashlib.blake2b(secret.encode(), digest_size=16).digest() if secret else b""
        team_id = self._teams.get(credential)
        stranger = (client_address(request), bool(credential))
        return Sender(stranger if team_id is None else team_id, credential)

    def note(self, credential: bytes, team_id: int | None) -> None:
        """Remember the team of a key or session that was checked; None if it opens nothing any longer."""
        if not credential:
            return
        self._teams.pop(credential, None)
        if team_id is not None:
            self._teams[credential] = team_id
            if len(self._teams) > CREDENTIALS_MAX:
                self._teams.popitem(last=False)
