"""`manage.py rebuild_rollups`"""

from contextopt.engine.wording import plural
from contextopt.management.base import DONE, Options, Progress, ReportingCommand, teams_of
from dashboard.rollups.fold import rebuild
from dashboard.rollups.models import QuarterRollup


class Command(ReportingCommand):
    help = (
        "Rebuild the rollups behind the Overview from the log, of all teams or of one, one day at a time. It "
        "can be interrupted safely, and pages stay correct while it runs."
    )
    team_help = "slug of the only team to rebuild (default: all teams)"
    days = 0

    def run(self, options: Options) -> int:
        teams = teams_of(options)
        progress = Progress(self.stderr)
        self.days = 0
        for team in teams:
            for day in rebuild(team):
                self.days += 1
                progress.show(f"{team.slug}, {day:%Y-%m-%d}: {plural(self.days, 'day')} done")
        rollups = QuarterRollup.objects.filter(team__in=teams).count()
        answer = {"teams": len(teams), "days": self.days, "rollups": rollups}
        where = f" in {plural(len(teams), 'team')}" if len(teams) > 1 else ""
        text = f"Rebuilt {plural(self.days, 'day')}, {plural(rollups, 'rollup')}{where}."
        self.print_answer(options, answer, text)
        return DONE

    def how_far(self) -> str:
        return f"Interrupted after {plural(self.days, 'day')}. Run it again to rebuild the rest."
