"""Imports the modules that define tables, because Django looks for an app's tables here."""
# ruff: noqa: F401 - nothing is imported from here

import dashboard.beats
import dashboard.kit.filters
import dashboard.rollups.models
