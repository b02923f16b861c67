"""What others may listen to.

`feedback_changed` is sent once a vote was stored, changed or taken back, after its transaction: with
`team_id`, `assembly_id`, `rater`, and the rating `before` and `after` ("up", "down", or "" for none).
"""

from django.dispatch import Signal

feedback_changed = Signal()
