"""The dashboard's own tables, by concept."""

from dashboard.models.beats import Duty, WorkerBeat
from dashboard.models.prices import ModelPrice
from dashboard.models.rollups import DayRollup, QuarterRollup, RollupZone, StaleDay, UnfoldedAssembly
from dashboard.models.savedviews import SavedView
from dashboard.models.summaries import DaySummary, HourSummary

__all__ = [
    "DayRollup",
    "DaySummary",
    "Duty",
    "HourSummary",
    "ModelPrice",
    "QuarterRollup",
    "RollupZone",
    "SavedView",
    "StaleDay",
    "UnfoldedAssembly",
    "WorkerBeat",
]
