"""`manage.py demo load|remove`"""

from dataclasses import asdict

from django.core.management.base import CommandParser
from django.utils import timezone

from contextopt.management.base import ACTOR, DONE, Options, ReportingCommand, team_of
from dashboard.demo import load_demo, remove_demo


class Command(ReportingCommand):
    help = "Load three example spaces with two weeks of assemblies, or remove exactly those."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=["load", "remove"])

    def run(self, options: Options) -> int:
        team = team_of(options)
        if options["action"] == "load":
            self.stderr.write("Loading the demo. This can take a minute or two.")
            done, verb = load_demo(team, now=timezone.now(), actor=ACTOR), "loaded"
        else:
            done, verb = remove_demo(team, actor=ACTOR), "removed"
        text = f"{verb.capitalize()} {done}" if done.spaces else f"Nothing was {verb}."
        self.print_answer(options, asdict(done), text)
        return DONE
