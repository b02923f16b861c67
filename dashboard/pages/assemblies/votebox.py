"""The vote buttons below an answer: others' votes and the visitor's own."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from contextopt.assemblies.models import Assembly
from contextopt.chat.models import Author, Message
from memory.feedback.models import Rating, Vote

# The reasons offered on pages. The API accepts any text.
REASONS = {
    Rating.UP.value: ("correct", "complete", "well put"),
    Rating.DOWN.value: ("wrong", "incomplete", "outdated", "off topic", "too long", "other"),
}
VOTES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class VoteBox:
    """The form for one answer: `dom_id` is its element's id, `kind` and `subject_id` make its URL."""

    kind: str
    subject_id: int
    up: int
    down: int
    mine: Vote | None
    assembly_id: int | None

    @property
    def dom_id(self) -> str:
        return f"vote-{self.kind}-{self.subject_id}"

    @property
    def is_up(self) -> bool:
        return self.mine is not None and self.mine.rating == Rating.UP

    @property
    def is_down(self) -> bool:
        return self.mine is not None and self.mine.rating == Rating.DOWN

    @property
    def reasons(self) -> tuple[str, ...]:
        """Return the reasons that fit the vote, plus the given one if it is not among them."""
        if self.mine is None:
            return ()
        offered = REASONS[self.mine.rating]
        given = self.mine.reason
        return offered if not given or given in offered else (*offered, given)


def message_boxes(answers: Sequence[Message], actor: str) -> dict[int, VoteBox]:
    """Return the box of each answer, keyed by the message it replies to, in one query."""
    if not answers:
        return {}
    votes: dict[int, list[Vote]] = {answer.pk: [] for answer in answers}
    for vote in Vote.objects.filter(message__in=answers):
        votes[vote.message_id or 0].append(vote)
    return {
        answer.reply_to_id or 0: _box(
            "message", answer.pk, votes[answer.pk], actor, assembly_id=answer.assembly_id
        )
        for answer in answers
    }


@dataclass(frozen=True, slots=True)
class AssemblyFeedback:
    """Feedback on an assembly: the visitor's box, the newest votes, and its answer in a conversation."""

    box: VoteBox
    votes: tuple[Vote, ...]
    answer: Message | None


def read_assembly_feedback(assembly: Assembly, actor: str) -> AssemblyFeedback:
    """Return an assembly's feedback. Votes go to its answer in a conversation, if it has one."""
    answer = assembly.messages.filter(author=Author.ASSISTANT).first()
    votes = Vote.objects.filter(assembly=assembly)
    shown = votes.select_related("external_message").order_by("-updated_at", "-id")[:VOTES_SHOWN]
    own = votes.filter(message=answer, external_message=None)
    box = _box("assembly", assembly.pk, own, actor, assembly_id=assembly.pk if assembly.space_id else None)
    return AssemblyFeedback(box, tuple(shown), answer)


def _box(
    kind: str, subject_id: int, votes: Iterable[Vote], actor: str, *, assembly_id: int | None
) -> VoteBox:
    found = list(votes)
    up = sum(vote.rating == Rating.UP for vote in found)
    mine = next((vote for vote in found if vote.rater == actor), None)
    return VoteBox(kind, subject_id, up, len(found) - up, mine, assembly_id)
