"""`manage.py create_api_key NAME`"""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser

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
        key, secret = create_key(team=team, data=asked, actor=ACTOR)
        if options["json"]:
            self.print_json(
                {"key": secret, "id": key.pk, "name": key.name, "scope": key.scope, "team": team.slug}
            )
            return DONE
        # Print only the key on standard output, so that a shell can take it: KEY=$(manage.py create_api_key
        # ci).
        self.stdout.write(secret)
        self.stderr.write(
            f"A key named {key.name!r} for team {team.slug!r} with scope {key.scope}. Copy it now; you "
            "won't see it again."
        )
        return DONE
