"""The schedule as the product runs it."""

from datetime import timedelta
from pathlib import Path

from config.celery import app
from config.worker import Scheduler


def test_the_schedule_goes_on_after_the_clock_was_ahead(tmp_path: Path) -> None:
    scheduler = Scheduler(app, schedule_filename=str(tmp_path / "schedule"))
    try:
        for entry in scheduler.schedule.values():
            entry.last_run_at += timedelta(days=30)
        assert scheduler.tick() <= 3
    finally:
        scheduler.close()
