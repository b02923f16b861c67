"""`manage.py mcp`"""

import gc
import os
from collections.abc import Callable

from contextopt_connect.codingagents import KEY_VARIABLE
from django.db import connection

from contextopt.errors import InvalidInput
from contextopt.management.base import ACTOR, DONE, Options, ReportingCommand, team_of
from contextopt.people.keys import find_key
from contextopt.people.models import Scope, Way
from contextopt.spaces.importing.files import check_input
from memory.mcp.callers import Caller, enter
from memory.mcp.server import build_server


class Command(ReportingCommand):
    help = (
        "Serve the tools for models (MCP) on standard input and output, as a program that an agent starts. "
        "With CONTEXTOPT_KEY set, it acts with that key, else in the team, with all rights."
    )

    def run(self, options: Options) -> int:
        # The server would fail with a traceback.
        check_input("-")
        find = caller_finder(options)
        # Fail at once if the key is misconfigured. Later calls check it again: it may be revoked.
        find()
        connection.close()
        enter(find)
        server = build_server()
        gc.freeze()
        gc.enable()
        server.run("stdio")
        return DONE


def caller_finder(options: Options) -> Callable[[], Caller]:
    """Return a function that identifies the caller of each tool call.

    It raises InvalidInput if CONTEXTOPT_KEY is not a valid key.

    Raises:
        NotFound: there is no such team.
    """
    secret = os.environ.get(KEY_VARIABLE, "").strip()
    if not secret:
        caller = Caller(team_of(options), ACTOR, Scope.ADMIN)
        return lambda: caller
    return lambda: find_caller(secret)


def find_caller(secret: str) -> Caller:
    """Raises: InvalidInput."""
    key = find_key(secret, Way.MCP)
    if key is None:
        raise InvalidInput.of(KEY_VARIABLE, "is not a valid key")
    return Caller.of_key(key)
