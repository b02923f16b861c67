"""`manage.py create_api_key NAME`"""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser
from django.db import transaction

from contextopt.management.base import ACTOR, DONE, ReportingCommand, parse_input, team_of
from contextopt.models import Scope
from contextopt.people.inputs import KeyIn
from contextopt.people.keys import create_key

OPTIONS = ("name", "scope", "expires_at", "spaces", "requests_per_minute")


class Command(ReportingCommand):
    help = "Create an API key and print it. Only its hash is stored, so it cannot be shown again."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument(
            "name", metavar="NAME", help="a name for the key, such as the application that uses it"
        )
        parser.add_argument("--scope", choices=Scope.values, default=Scope.WRITE, help="default: write")
        parser.add_argument("--expires-at", metavar="MOMENT", help="default: never")
        parser.add_argument(
            "--space", dest="spaces", metavar="SLUG", action="append",
            help="limit the key to this space; repeatable (default: all spaces)",
        )  # fmt: skip
        parser.add_argument("--requests-per-minute", metavar="N", help="default: KEY_REQUESTS_PER_MINUTE")

    def run(self, options: Mapping[str, Any]) -> int:
        asked = parse_input(
            KeyIn, {name: options[name] for name in OPTIONS}, {"name": "NAME", "spaces": "--space"}
        )
        team = team_of(options)
        # A key that could not be shown is not kept.
        with transaction.atomic():
            key, secret = create_key(team=team, data=asked, actor=ACTOR)
            # Only the key goes to standard output, so that a shell can take it:
            # KEY=$(manage.py create_api_key ci).
            shown = {"key": secret, "id": key.pk, "name": key.name, "scope": key.scope, "team": team.slug}
            self.print_answer(options, shown, secret)
            self.stdout.flush()
        if not options["json"]:
            self.stderr.write(
                f"A key named {key.name!r} for team {team.slug!r} with scope {key.scope}. Copy it now; you "
                "won't see it again."
            )
        return DONE
