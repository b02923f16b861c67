"""Support notes of an invoicing product."""

from dashboard.demo.stories import Guide, Scene, Story

SUPPORT = Story(
    slug="demo-support",
    name="Demo: Support notes",
    description="What customers of an invoicing product asked, and what helped. Example data.",
    categories=("tickets", "calls", "answers that work"),
    pinned=(
        Guide(
            "How we answer: refunds",
            "Refund within 30 days without asking why. After that, offer credit for the unused months. "
            "Never promise a date for the bank transfer: it leaves us the same day, banks take one to three"
            " more.",
        ),
        Guide(
            "Words we do not use",
            "Say what happens and what to do next. No 'unfortunately', no 'as mentioned', no ticket numbers"
            " in the first sentence.",
        ),
    ),
    scenes=(
        Scene(
            "ticket",
            ("invoices", "{plan}"),
            "{customer}: invoice {number} was sent twice",
            "Two mails within {n} seconds. The send button had been clicked again while the page waited for"
            " {provider}. Credited the second one; asked engineering to make sending idempotent.",
        ),
        Scene(
            "ticket",
            ("login",),
            "{customer} cannot log in after changing {thing}",
            "The reset mail went to the old address. Confirmed identity by the last invoice amount, moved "
            "the account, and logged out {n} old sessions.",
        ),
        Scene(
            "call",
            ("pricing", "{plan}"),
            "Call with {customer}: is {plan} too much for them?",
            "{person} pays for {n} seats and uses three. Explained that seats can be reduced mid-term and "
            "the rest becomes credit. Follow up before the renewal.",
        ),
        Scene(
            "ticket",
            ("import",),
            "{customer}: import from {system} stops at row {n}",
            "The file had semicolons and a decimal comma. Re-exported with UTF-8 and it went through. We "
            "should say which row and which column in the message instead of 'invalid file'.",
        ),
        Scene(
            "answer",
            ("tax",),
            "What to say about tax on sales to {country}",
            "Reverse charge applies when the buyer has a valid tax number; the check is under Settings, "
            "Tax. Without a number the local rate of {country} goes on the invoice.",
        ),
        Scene(
            "ticket",
            ("api", "{plan}"),
            "{customer} gets 429 from the API during {event}",
            "They poll every invoice once a second. Showed {person} the change feed: one call a minute does"
            " the same. Raised their limit for {n} days until they have moved.",
        ),
        Scene(
            "ticket",
            ("pdf",),
            "Logo looks blurred on {customer}'s invoices",
            "The upload was {n} pixels wide. Asked for an SVG; meanwhile scaled it without smoothing. Third"
            " time this month: the upload page could warn.",
        ),
        Scene(
            "call",
            ("cancellation",),
            "{customer} wants to leave for {system}",
            "{person} needs approval by two people before an invoice leaves. We have it in {plan}, hidden "
            "under Roles. Showed it; they stay for the quarter and decide after {event}.",
        ),
        Scene(
            "ticket",
            ("payments",),
            "Payment from {customer} is not matched to its invoice",
            "The bank sends the reference in the free text. Matching by amount and date found it; added the"
            " pattern of {provider} to the rules, which settles {n} more.",
        ),
        Scene(
            "answer",
            ("export",),
            "How to get all data out before {event}",
            "Settings, Export, choose CSV. It takes about {n} minutes for ten thousand invoices and a mail "
            "says when it is ready. Attachments come as a second archive.",
        ),
        Scene(
            "ticket",
            ("reminders",),
            "{customer}: reminders went out although the invoice was paid",
            "The payment arrived {n} minutes after the nightly run had chosen its invoices. Apologised in "
            "their name to the two recipients. The run should look again just before it sends.",
        ),
        Scene(
            "praise",
            ("feedback",),
            "{customer} likes the new {thing} page",
            "{person} says month-end takes an hour less. Asked whether we may quote that; yes, with first "
            "name only.",
        ),
        Scene(
            "ticket",
            ("mobile",),
            "Receipt photos from {person}'s phone are upside down",
            "Orientation is in the metadata, which our resize drops. A workaround is to crop by one pixel. "
            "Affects {n} photos of {customer}.",
        ),
    ),
    words={
        "customer": (
            "Bakeriet Nord",
            "Harbour Legal",
            "Miller & Sons",
            "Studio Okapi",
            "Green Lane Dental",
            "Tveit Transport",
            "Paper Moon Press",
            "Alba Cycles",
            "Kestrel Audio",
            "Rosenlund School",
            "Cobalt Joinery",
            "Fen Brewery",
            "Lumen Optics",
            "Vidda Sport",
            "Oakfield Vets",
        ),
        "person": ("Ingrid", "Tom", "Priya", "Marek", "Sofia", "Anders", "Grace", "Yusuf", "Helen", "Nils"),
        "plan": ("starter", "team", "business"),
        "provider": ("the mail provider", "the card processor", "the bank feed", "the post office gateway"),
        "system": ("a spreadsheet", "their old ledger", "a competitor", "the accountant's system"),
        "country": ("Sweden", "Germany", "the United Kingdom", "Ireland", "Denmark", "Poland"),
        "event": ("month end", "the audit", "the summer closing", "their fair", "the tax deadline"),
        "thing": ("the mail domain", "reconciliation", "approval", "customer list", "dashboard"),
    },
    records_a_day=5,
    second_note="a third of the records: answers stayed as good",
    second_settings={"max_records": 7},
)
