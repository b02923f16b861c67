"""The dashboard's own tables, by concept."""

from dashboard.beats import Duty, WorkerBeat
from dashboard.kit.filters import SavedView
from dashboard.rollups.models import (
    DayRollup,
    DaySummary,
    HourSummary,
    ModelPrice,
    QuarterRollup,
    RollupZone,
    StaleDay,
    TrafficDay,
    TrafficQuarter,
    UnfoldedAssembly,
)

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
    "TrafficDay",
    "TrafficQuarter",
    "UnfoldedAssembly",
    "WorkerBeat",
]
