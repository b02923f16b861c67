"""What the demo's records say: scenes with gaps, and what may fill the gaps."""

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

GAP = re.compile(r"\{(\w+)\}")


class Scene(NamedTuple):
    """One kind of record; every `{gap}` is filled from the story's words, the same in title and notes."""

    type: str
    tags: tuple[str, ...]
    title: str
    notes: str


class Told(NamedTuple):
    """A record's words with no gaps left."""

    type: str
    tags: tuple[str, ...]
    title: str
    notes: str


@dataclass(frozen=True, slots=True)
class Story:
    """A demo space: what it is called, its guides, its scenes and its words.

    `second_settings` come into force half-way through the demo's two weeks.
    """

    slug: str
    name: str
    description: str
    categories: tuple[str, ...]
    pinned: tuple[tuple[str, str], ...]
    scenes: tuple[Scene, ...]
    words: Mapping[str, tuple[str, ...]]
    second_note: str
    second_settings: Mapping[str, object] = field(default_factory=dict)


def tell(story: Story, number: int, rng: random.Random) -> Told:
    """Fill the next scene's gaps. Scenes take turns, so that no kind of record is missing for long."""
    scene = story.scenes[(number * 7) % len(story.scenes)]
    chosen = {gap: rng.choice(words) for gap, words in story.words.items()}
    chosen["n"] = str(rng.randrange(2, 40))
    chosen["number"] = str(4_000 + number)

    def fill(text: str) -> str:
        return GAP.sub(lambda found: chosen[found[1]], text)

    tags = tuple(dict.fromkeys(fill(tag) for tag in scene.tags))
    return Told(scene.type, tags, fill(scene.title), fill(scene.notes))


SUPPORT = Story(
    slug="demo-support",
    name="Demo: Support notes",
    description="What customers of an invoicing product asked, and what helped. Example data.",
    categories=("tickets", "calls", "answers that work"),
    pinned=(
        (
            "How we answer: refunds",
            "Refund within 30 days without asking why. After that, offer credit for the unused months. Never "
            "promise a date for the bank transfer: it leaves us the same day, banks take one to three more.",
        ),
        (
            "Words we do not use",
            "Say what happens and what to do next. No 'unfortunately', no 'as mentioned', no ticket numbers "
            "in the first sentence.",
        ),
    ),
    scenes=(
        Scene("ticket", ("invoices", "{plan}"), "{customer}: invoice {number} was sent twice",
              "Two mails within {n} seconds. The send button had been clicked again while the page waited for "
              "{provider}. Credited the second one; asked engineering to make sending idempotent."),
        Scene("ticket", ("login",), "{customer} cannot log in after changing {thing}",
              "The reset mail went to the old address. Confirmed identity by the last invoice amount, moved the "
              "account, and logged out {n} old sessions."),
        Scene("call", ("pricing", "{plan}"), "Call with {customer}: is {plan} too much for them?",
              "{person} pays for {n} seats and uses three. Explained that seats can be reduced mid-term and the "
              "rest becomes credit. Follow up before the renewal."),
        Scene("ticket", ("import",), "{customer}: import from {system} stops at row {n}",
              "The file had semicolons and a decimal comma. Re-exported with UTF-8 and it went through. We should "
              "say which row and which column in the message instead of 'invalid file'."),
        Scene("answer", ("tax",), "What to say about tax on sales to {country}",
              "Reverse charge applies when the buyer has a valid tax number; the check is under Settings, Tax. "
              "Without a number the local rate of {country} goes on the invoice."),
        Scene("ticket", ("api", "{plan}"), "{customer} gets 429 from the API during {event}",
              "They poll every invoice once a second. Showed {person} the change feed: one call a minute does the "
              "same. Raised their limit for {n} days until they have moved."),
        Scene("ticket", ("pdf",), "Logo looks blurred on {customer}'s invoices",
              "The upload was {n} pixels wide. Asked for an SVG; meanwhile scaled it without smoothing. Third time "
              "this month: the upload page could warn."),
        Scene("call", ("cancellation",), "{customer} wants to leave for {system}",
              "{person} needs approval by two people before an invoice leaves. We have it in {plan}, hidden under "
              "Roles. Showed it; they stay for the quarter and decide after {event}."),
        Scene("ticket", ("payments",), "Payment from {customer} is not matched to its invoice",
              "The bank sends the reference in the free text. Matching by amount and date found it; added the "
              "pattern of {provider} to the rules, which settles {n} more."),
        Scene("answer", ("export",), "How to get all data out before {event}",
              "Settings, Export, choose CSV. It takes about {n} minutes for ten thousand invoices and a mail says "
              "when it is ready. Attachments come as a second archive."),
        Scene("ticket", ("reminders",), "{customer}: reminders went out although the invoice was paid",
              "The payment arrived {n} minutes after the nightly run had chosen its invoices. Apologised in their "
              "name to the two recipients. The run should look again just before it sends."),
        Scene("praise", ("feedback",), "{customer} likes the new {thing} page",
              "{person} says month-end takes an hour less. Asked whether we may quote that; yes, with first name "
              "only."),
        Scene("ticket", ("mobile",), "Receipt photos from {person}'s phone are upside down",
              "Orientation is in the metadata, which our resize drops. A workaround is to crop by one pixel. "
              "Affects {n} photos of {customer}."),
    ),
    words={
        "customer": ("Bakeriet Nord", "Harbour Legal", "Miller & Sons", "Studio Okapi", "Green Lane Dental",
                     "Tveit Transport", "Paper Moon Press", "Alba Cycles", "Kestrel Audio", "Rosenlund School",
                     "Cobalt Joinery", "Fen Brewery", "Lumen Optics", "Vidda Sport", "Oakfield Vets"),
        "person": ("Ingrid", "Tom", "Priya", "Marek", "Sofia", "Anders", "Grace", "Yusuf", "Helen", "Nils"),
        "plan": ("starter", "team", "business"),
        "provider": ("the mail provider", "the card processor", "the bank feed", "the post office gateway"),
        "system": ("a spreadsheet", "their old ledger", "a competitor", "the accountant's system"),
        "country": ("Sweden", "Germany", "the United Kingdom", "Ireland", "Denmark", "Poland"),
        "event": ("month end", "the audit", "the summer closing", "their fair", "the tax deadline"),
        "thing": ("the mail domain", "reconciliation", "approval", "customer list", "dashboard"),
    },
    second_note="half as many records: answers stayed as good",
    second_settings={"max_records": 10},
)  # fmt: skip

ENGINEERING = Story(
    slug="demo-engineering",
    name="Demo: Engineering journal",
    description="Decisions, incidents and findings of a small platform team. Example data.",
    categories=("decisions", "incidents", "reviews", "notes"),
    pinned=(
        (
            "Before a release",
            "Migrations run on a copy of production first. Two people read the change. The flag is off. The "
            "rollback was tried, not only written down.",
        ),
    ),
    scenes=(
        Scene("incident", ("{service}", "latency"), "{service}: p95 rose to {n}00 ms after the {change}",
              "A query lost its index when {column} became nullable. Found by comparing plans before and after. "
              "Fixed with a partial index; the alert now watches the plan's cost as well."),
        Scene("decision", ("{service}", "storage"), "Keep {data} in {store}",
              "Considered {other}. We would gain little at {n} GB and lose joins. Looked at again when writes pass "
              "two thousand a second. {person} and {person2} agreed."),
        Scene("review", ("{service}",), "Review: {change} in {service}",
              "{person} asked why the retry has no limit. Now at most {n} tries with jitter, and the last error is "
              "kept for whoever looks at the dead letters."),
        Scene("incident", ("{service}", "queue"), "Backlog of {n} thousand jobs in {service}",
              "One poison message was taken and given back in a circle. It is set aside after five tries now. "
              "Nothing was lost; the oldest job waited fifty minutes."),
        Scene("note", ("testing",), "Flaky test in {service} explained",
              "It compared {column} of two rows made in the same millisecond. Sorted by id as well, ran it {n} "
              "hundred times, and removed the retry that had hidden it for a year."),
        Scene("decision", ("api",), "Pages of {data} by cursor, not by number",
              "Offsets past ten thousand took {n} seconds and skipped rows while others wrote. A cursor of "
              "({column}, id) is stable and costs the same on every page."),
        Scene("note", ("{service}", "memory"), "{service} grows by {n} MB an hour",
              "The cache is keyed by the whole request, which holds a time stamp, so nothing is ever found again. "
              "Keyed by what matters it has a hit rate of 94 percent and stays flat."),
        Scene("incident", ("deploy",), "Deploy of {service} rolled back",
              "The new version wrote {column} in a form that the old one could not read, and both ran for {n} "
              "minutes. Rule: read both forms one release before writing the new one."),
        Scene("decision", ("security",), "Tokens of {service} live {n} hours",
              "Long enough for a working day, short enough that a lost laptop is not a catastrophe. {person} will "
              "write down how a person is logged out everywhere."),
        Scene("review", ("{service}", "migration"), "Review: rename {column} in {store}",
              "Do it in three releases: add, copy and read both, drop. {person2} measured the copy on last night's "
              "backup: {n} minutes in batches of ten thousand, no lock held longer than 40 ms."),
        Scene("note", ("observability",), "What the traces of {service} say",
              "Of 180 ms, {n} are spent waiting for a connection. The pool was sized for the old machine. Twice the "
              "pool made it worse; half the workers made it better."),
        Scene("note", ("costs",), "Where last month's {store} bill went",
              "Two thirds is {data} that nobody has read for a year. A lifecycle rule moves it after {n} days. "
              "{person} checks that exports still find it."),
        Scene("incident", ("clock",), "{data} dated tomorrow",
              "A machine's clock was {n} minutes ahead. We accept a little skew now and count it as today; anything "
              "further ahead is refused with the reason."),
    ),
    words={
        "service": ("checkout", "search", "billing", "mailer", "gateway", "reports"),
        "change": ("schema change", "library upgrade", "new retry logic", "split of the worker", "cache rewrite"),
        "column": ("due_date", "customer_id", "status", "updated_at", "currency"),
        "data": ("sessions", "audit events", "price history", "uploaded receipts", "search logs"),
        "store": ("PostgreSQL", "object storage", "the queue", "the cache"),
        "other": ("a document store", "a separate service", "a log broker", "files on disk"),
        "person": ("Maja", "Owen", "Li", "Fatima", "Jonas"),
        "person2": ("Ruth", "Dmitri", "Camille", "Sven", "Aiko"),
    },
    second_note="a smaller context: most answers come from the first records",
    second_settings={"context_tokens": 500},
)  # fmt: skip

RESEARCH = Story(
    slug="demo-research",
    name="Demo: Product research",
    description="Interviews, surveys and observations about a scheduling app for clinics. Example data.",
    categories=("interviews", "observations", "surveys", "ideas"),
    pinned=(
        (
            "What we want to learn this quarter",
            "Why clinics keep a paper calendar beside the app, and what would have to be true for them to put "
            "it away. Everything else can wait.",
        ),
    ),
    scenes=(
        Scene("interview", ("{role}", "calendar"), "Interview with a {role} in {city}",
              "Keeps a paper calendar 'because it never logs me out'. Opens the app {n} times a day, mostly to see "
              "who is next. Would give up paper if {wish}."),
        Scene("observation", ("{place}",), "An hour at the {place} in {city}",
              "{n} patients arrived, four asked how long it would take. The {role} answered from memory, not from "
              "the screen, and was right every time."),
        Scene("survey", ("{topic}",), "Survey on {topic}: {n} answers so far",
              "Half say it saves time, a third cannot say. Free text is about {wish} more than about anything we "
              "asked. The next round should ask for the last time it happened."),
        Scene("usability", ("{topic}", "{role}"), "Test of {topic} with a {role}",
              "Found the button after {n} seconds, thought that it would send a message at once, and stopped. The "
              "word 'Confirm' is taken for 'tell the patient'."),
        Scene("idea", ("{topic}",), "Idea: {wish}",
              "Came up in {city} and again by mail. Small version: only for tomorrow, only for one room. Try it on "
              "paper with the {role} before anything is built."),
        Scene("interview", ("no-shows",), "Why patients do not come, says a {role}",
              "Not forgetting: the bus, the shift, the child. Reminders two days ahead help the first; for the rest "
              "a way to move the appointment at {n} at night would."),
        Scene("observation", ("phone",), "Phone log of the {place}, {city}",
              "Of {n} calls, a third only asked whether the appointment still stands. Each took two minutes and "
              "interrupted somebody at the desk."),
        Scene("synthesis", ("{topic}", "quarter"), "What {n} conversations say about {topic}",
              "Three groups: those who plan by the room, by the person and by the machine. We show only the second. "
              "The {role} always belongs to another group than we expect."),
        Scene("interview", ("switching", "{role}"), "Left us: a {role} from {city}",
              "Liked the app, left because the new {place} uses something else and nobody wanted two. Would come "
              "back for {wish}. Took the data along without trouble."),
        Scene("note", ("accessibility",), "Screen reader session on {topic}",
              "The day view reads out {n} empty slots before the first appointment. A list of what is booked, with "
              "gaps named once, was done in a third of the time."),
        Scene("survey", ("pricing",), "What clinics in {city} pay for {topic} today",
              "Between nothing and {n} euros a month for each room. Those who pay most also print most. Price was "
              "never the first thing they named."),
    ),
    words={
        "role": ("receptionist", "dentist", "practice manager", "physiotherapist", "nurse", "trainee"),
        "city": ("Bergen", "Leeds", "Gothenburg", "Cork", "Aarhus", "Utrecht", "Graz"),
        "place": ("front desk", "waiting room", "second practice", "group clinic"),
        "topic": ("moving appointments", "waiting lists", "room planning", "reminders", "the day view"),
        "wish": ("the day could be printed with one click", "two rooms were visible side by side",
                 "colours meant the same for everybody", "it worked while the network is down",
                 "a delay were passed on to the next patients"),
    },
    second_note="a longer memory: interviews stay true for a month",
    second_settings={"window_days": 30, "max_records": 8},
)  # fmt: skip

STORIES = (SUPPORT, ENGINEERING, RESEARCH)
