"""`manage.py rebuild_rollups`"""

from collections.abc import Mapping
from typing import Any

from contextopt.engine.wording import plural
from contextopt.management.base import DONE, Progress, ReportingCommand, team_of
from dashboard.models import QuarterRollup
from dashboard.rollups.fold import rebuild


class Command(ReportingCommand):
    help = (
        "Rebuild the rollups behind the Overview from the log, one day at a time. It can be interrupted "
        "safely, and pages stay correct while it runs."
    )
    days = 0

    def run(self, options: Mapping[str, Any]) -> int:
        team = team_of(options)
        progress = Progress(self.stderr)
        for day in rebuild(team):
            self.days += 1
            progress.show(f"{day:%Y-%m-%d}: {plural(self.days, 'day')} done")
        rollups = QuarterRollup.objects.filter(team=team).count()
        if options["json"]:
            self.print_json({"days": self.days, "rollups": rollups})
        else:
            self.stdout.write(f"Rebuilt {plural(self.days, 'day')}, {plural(rollups, 'rollup')}.")
        return DONE

    def how_far(self) -> str:
        return f"Interrupted after {plural(self.days, 'day')}. Run it again to rebuild the rest."
