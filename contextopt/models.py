"""Imports the modules that define tables, because Django looks for an app's tables here."""
# ruff: noqa: F401 - nothing is imported from here

import contextopt.agents.completions
import contextopt.agents.handoffs.models
import contextopt.agents.models
import contextopt.agents.phaselinks
import contextopt.agents.retrysettings
import contextopt.agents.standingdocuments
import contextopt.assemblies.corrections
import contextopt.assemblies.models
import contextopt.assemblies.tokenfactors
import contextopt.chat.models
import contextopt.gateway.models
import contextopt.importruns.models
import contextopt.people.models
import contextopt.repositories.models
import contextopt.search.models
import contextopt.spaces.configs
import contextopt.spaces.models
