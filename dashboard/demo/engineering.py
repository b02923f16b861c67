"""The journal of a small platform team."""

from dashboard.demo.stories import Guide, Scene, Story

ENGINEERING = Story(
    slug="demo-engineering",
    name="Demo: Engineering journal",
    description="Decisions, incidents and findings of a small platform team. Example data.",
    categories=("decisions", "incidents", "reviews", "notes"),
    pinned=(
        Guide(
            "Before a release",
            "Migrations run on a copy of production first. Two people read the change. The flag is off. The"
            " rollback was tried, not only written down.",
        ),
    ),
    scenes=(
        Scene(
            "incident",
            ("{service}", "latency"),
            "{service}: p95 rose to {n}00 ms after the {change}",
            "A query lost its index when {column} became nullable. Found by comparing plans before and "
            "after. Fixed with a partial index; the alert now watches the plan's cost as well.",
        ),
        Scene(
            "decision",
            ("{service}", "storage"),
            "Keep {data} in {store}",
            "Considered {other}. We would gain little at {n} GB and lose joins. Looked at again when writes"
            " pass two thousand a second. {person} and {person2} agreed.",
        ),
        Scene(
            "review",
            ("{service}",),
            "Review: {change} in {service}",
            "{person} asked why the retry has no limit. Now at most {n} tries with jitter, and the last "
            "error is kept for whoever looks at the dead letters.",
        ),
        Scene(
            "incident",
            ("{service}", "queue"),
            "Backlog of {n} thousand jobs in {service}",
            "One poison message was taken and given back in a circle. It is set aside after five tries now."
            " Nothing was lost; the oldest job waited fifty minutes.",
        ),
        Scene(
            "note",
            ("testing",),
            "Flaky test of {column} in {service} explained",
            "It compared {column} of two rows made in the same millisecond. Sorted by id as well, ran it "
            "{n} hundred times, and removed the retry that had hidden it for a year.",
        ),
        Scene(
            "decision",
            ("api",),
            "Pages of {data} by cursor, not by number",
            "Offsets past ten thousand took {n} seconds and skipped rows while others wrote. A cursor of "
            "({column}, id) is stable and costs the same on every page.",
        ),
        Scene(
            "note",
            ("{service}", "memory"),
            "{service} grows by {n} MB an hour",
            "The cache is keyed by the whole request, which holds a time stamp, so nothing is ever found "
            "again. Keyed by what matters it has a hit rate of 94 percent and stays flat.",
        ),
        Scene(
            "incident",
            ("deploy",),
            "Deploy of {service} rolled back over {column}",
            "The new version wrote {column} in a form that the old one could not read, and both ran for {n}"
            " minutes. Rule: read both forms one release before writing the new one.",
        ),
        Scene(
            "decision",
            ("security",),
            "Tokens of {service} live {n} hours",
            "Long enough for a working day, short enough that a lost laptop is not a catastrophe. {person} "
            "will write down how a person is logged out everywhere.",
        ),
        Scene(
            "review",
            ("{service}", "migration"),
            "Review: rename {column} in {store}",
            "Do it in three releases: add, copy and read both, drop. {person2} measured the copy on last "
            "night's backup: {n} minutes in batches of ten thousand, no lock held longer than 40 ms.",
        ),
        Scene(
            "note",
            ("observability",),
            "What the traces of {service} say about {data}",
            "Of 180 ms, {n} are spent waiting for a connection. The pool was sized for the old machine. "
            "Twice the pool made it worse; half the workers made it better.",
        ),
        Scene(
            "note",
            ("costs",),
            "Where last month's {store} bill went",
            "Two thirds is {data} that nobody has read for a year. A lifecycle rule moves it after {n} "
            "days. {person} checks that exports still find it.",
        ),
        Scene(
            "incident",
            ("clock",),
            "{data} of {service} dated tomorrow",
            "A machine's clock was {n} minutes ahead. We accept a little skew now and count it as today; "
            "anything further ahead is refused with the reason.",
        ),
    ),
    words={
        "service": ("checkout", "search", "billing", "mailer", "gateway", "reports"),
        "change": (
            "schema change",
            "library upgrade",
            "new retry logic",
            "split of the worker",
            "cache rewrite",
        ),
        "column": ("due_date", "customer_id", "status", "updated_at", "currency"),
        "data": ("sessions", "audit events", "price history", "uploaded receipts", "search logs"),
        "store": ("PostgreSQL", "object storage", "the queue", "the cache"),
        "other": ("a document store", "a separate service", "a log broker", "files on disk"),
        "person": ("Maja", "Owen", "Li", "Fatima", "Jonas"),
        "person2": ("Ruth", "Dmitri", "Camille", "Sven", "Aiko"),
    },
    records_a_day=4,
    second_note="a smaller context: most answers come from the first records",
    second_settings={"context_tokens": 400},
)
