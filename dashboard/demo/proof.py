"""The demo's proof: verdicts on cut answers, a question set, and a draft with its backtest.

The active settings keep too little of each note. Reviews say so, the question set measures it, and the
backtest shows what the remedy costs.
"""

import re
from collections.abc import Iterator

from contextopt.assemblies.models import DEMO_ACTOR, AssemblyPayload
from contextopt.chat.endpoint import Completion
from contextopt.chat.inputs import ConversationIn, MessageIn
from contextopt.chat.models import Author, Conversation, Message, MessageState
from contextopt.chat.outbox import begin_conversation, send_message, store_answer
from contextopt.people.models import Team
from contextopt.spaces.configs import draft_settings
from contextopt.spaces.models import Record, Space
from dashboard.demo.stories import Chapter, Stage, read_texts
from memory.backtests.backtests import BACKTESTS, start_backtest
from memory.backtests.inputs import BacktestIn
from memory.backtests.models import Backtest
from memory.questions.evaluations import EVALUATIONS, request_evaluation
from memory.questions.growth import Proposal, add_proposal, propose_from_assembly, propose_from_review
from memory.questions.inputs import EvaluationIn, QuestionIn
from memory.questions.models import QuestionSet
from memory.questions.sets import add_question, create_set, set_minimum
from memory.review.inputs import VerdictIn
from memory.review.models import ReviewItem
from memory.review.queue import fill_queue
from memory.review.reservations import give_verdict

_TEXTS = read_texts("proof")


def load_proof(stage: Stage) -> None:
    space = stage.spaces[_TEXTS["space"]]
    for proposal in (*_judge(stage.team, space, stage), *_upvoted(space)):
        if proposal and proposal.record_ids:
            add_proposal(proposal=proposal, actor=DEMO_ACTOR)
    known = _add_set(space)
    draft = draft_settings(space=space, created_by=DEMO_ACTOR, **_TEXTS["draft"])
    # The active version comes last, so that its result is the one shown.
    for version in (1, draft.version, 2):
        asked = EvaluationIn(config_version=version)
        EVALUATIONS.complete(request_evaluation(question_set=known, data=asked, actor=DEMO_ACTOR))
    last = BacktestIn(config=draft.version, last=_TEXTS["backtested"])
    BACKTESTS.complete(start_backtest(space=space, data=last, actor=DEMO_ACTOR))


def _judge(team: Team, space: Space, stage: Stage) -> Iterator[Proposal | None]:
    """Give verdicts on some downvoted answers, and yield the questions that they were about."""
    told = _TEXTS["review"]
    fill_queue(team, now=stage.now)
    items = ReviewItem.objects.of(team).filter(space=space, config_version=2, stage=5)
    for item in items.select_related("team").order_by("-assembly_id")[: told["judged"]]:
        order = AssemblyPayload.objects.get(assembly=item.assembly_id).ledger["order"]
        dated = set(Record.objects.filter(pk__in=order, pinned=False).values_list("pk", flat=True))
        first = next((pk for pk in order if pk in dated), None)
        data = VerdictIn(verdict=told["verdict"], note=told["note"], record_ids=[first] if first else [])
        yield propose_from_review(item, [give_verdict(item=item, reviewer=told["reviewer"], data=data)])


def _upvoted(space: Space) -> Iterator[Proposal | None]:
    """Yield the questions of the chat's answers, all of which were upvoted."""
    answers = Message.objects.filter(conversation__space=space, author=Author.ASSISTANT)
    for message in answers.select_related("assembly__space__team"):
        if message.assembly is not None:
            yield propose_from_assembly(message.assembly)


def _add_set(space: Space) -> QuestionSet:
    found = create_set(space=space, name=_TEXTS["name"], actor=DEMO_ACTOR)
    titles = dict(Record.objects.filter(space=space).order_by("-date", "-id").values_list("pk", "title"))
    for given in _TEXTS["questions"]:
        by_customer: dict[str, list[int]] = {}
        for pk, title in titles.items():
            if match := re.fullmatch(given["title"], title):
                by_customer.setdefault(match["customer"], []).append(pk)
        for customer, ids in list(by_customer.items())[: _TEXTS["asked"]]:
            query = given["query"].format(customer=customer)
            data = QuestionIn(query=query, answer=given["answer"], record_ids=ids)
            add_question(question_set=found, data=data, actor=DEMO_ACTOR)
    return set_minimum(question_set=found, min_recall=_TEXTS["min_recall"], actor=DEMO_ACTOR)


def count_proof(team: Team) -> dict[str, int]:
    return {
        "question sets": QuestionSet.objects.of(team).filter(space__is_demo=True).count(),
        "backtests": Backtest.objects.of(team).filter(space__is_demo=True).count(),
    }


PROOF = Chapter(load_proof, count=count_proof)


QUESTIONS: dict[str, list[str]] = read_texts("questions")
ANSWERED = (
    "demo-support",
    "A bakery's import stopped half way. What was it the last time?",
    "The last times it was the file: semicolons between the columns. As UTF-8 it went through.",
)
HELD = ("demo-engineering", "What should we look at first when p95 rises after a schema change?")


def load_conversations(stage: Stage) -> None:
    """Create two conversations: one answered, one waiting for an endpoint. Nothing is sent."""
    slug, question, answer = ANSWERED
    message = _ask(stage, slug, question)
    Message.objects.filter(pk=message.pk).update(state=MessageState.SENDING, tries=1, next_try_at=stage.now)
    store_answer(message, Completion(answer, "an example", 640, 48, 1_250.0))
    follow_up = send_message(
        conversation=message.conversation,
        data=MessageIn(text="And how do we say so without blaming them?"),
        actor=DEMO_ACTOR,
    )
    _hold(follow_up)
    _ask(stage, *HELD)


def _ask(stage: Stage, slug: str, text: str) -> Message:
    data = ConversationIn(space=stage.spaces[slug].slug)
    message = begin_conversation(team=stage.team, data=data, first=MessageIn(text=text), actor=DEMO_ACTOR)
    _hold(message)
    return message


def _hold(message: Message) -> None:
    """Hold a message back from any configured endpoint: examples are not worth its tokens."""
    Message.objects.filter(pk=message.pk).update(state=MessageState.HELD, next_try_at=None)


def count_conversations(team: Team) -> dict[str, int]:
    return {"conversations": Conversation.objects.of(team).filter(space__is_demo=True).count()}


CONVERSATIONS = Chapter(load_conversations, count=count_conversations)
