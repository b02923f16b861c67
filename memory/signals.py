"""Signals that other apps may listen to.

`feedback_changed` is sent when a vote was stored, changed or taken back, after the commit. It carries
`team_id`, `assembly_id`, `rater`, and the rating `before` and `after` ("up", "down", or "" for none).
"""

from django.dispatch import Signal

feedback_changed = Signal()
