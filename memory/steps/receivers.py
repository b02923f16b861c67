"""The files that a receiver has once it was sent a step."""

from contextopt.agents.inputs import present
from contextopt.agents.models import PATH_MAX
from contextopt.agents.retries import PlannedAttempt
from contextopt.engine.agents.composition import Composed
from contextopt.engine.agents.deltas import ReceiverFiles, SentFile, fully_sent, remember


def files_after(
    known: ReceiverFiles, composed: Composed, planned: PlannedAttempt | None
) -> dict[str, SentFile]:
    """Return the receiver's files after the step. Only what is whole in the text counts as sent in full."""
    files = dict(known) if planned is None else _after_retry(known, composed, planned)
    for file in composed.step.context.files:
        if len(file.path) > PATH_MAX:
            continue
        if file.path in composed.whole_files:
            files[file.path] = SentFile(file.content)
        else:
            files[file.path] = SentFile(files.get(file.path, SentFile(None)).content, is_partial=True)
    return files


def _after_retry(known: ReceiverFiles, composed: Composed, planned: PlannedAttempt) -> dict[str, SentFile]:
    """Return the files after the changes in the text. A file whose change is not in it stays as it was."""
    posted = planned.data.files
    files = dict(known) | fully_sent(present(planned.data.before))
    if planned.retry.plan.everything is not None:
        files = {path: file for path, file in files.items() if posted.get(path, "") is not None}
    retry = composed.step.retry
    for change in retry.changed_files if retry else ():
        remember(files, change, change.renamed_from or change.path, posted.get(change.path))
    return files
