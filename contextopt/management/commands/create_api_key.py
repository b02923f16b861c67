"""`manage.py create_api_key NAME`"""

from django.core.management.base import CommandParser
from django.db import transaction

from contextopt.management.base import ACTOR, DONE, Options, ReportingCommand, team_of
from contextopt.management.fields import add_fields, read_fields
from contextopt.people.inputs import KeyIn
from contextopt.people.keys import create_key


class Command(ReportingCommand):
    help = "Create an API key and print it. Only its hash is stored, so it cannot be shown again."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument(
            "name", metavar="NAME", help="a name for the key, such as the application that uses it"
        )
        about = {
            "scope": "what the key may do",
            "expires_at": "when it expires (default: never)",
            "spaces": "limit the key to this space (default: all spaces)",
            "requests_per_minute": "how often it may be used (default: KEY_REQUESTS_PER_MINUTE)",
        }
        add_fields(parser, KeyIn, about, spaces="--space SLUG")

    def run(self, options: Options) -> int:
        asked = read_fields(KeyIn, options)
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
