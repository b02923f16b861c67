"""Imports the modules that define tables, because Django looks for an app's tables here."""
# ruff: noqa: F401 - nothing is imported from here

import memory.backtests.models
import memory.feedback.models
import memory.memories.models
import memory.memories.rules
import memory.questions.models
import memory.review.models
import memory.strategies.models
