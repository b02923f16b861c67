"""Findings such as an analysis, a design or an implementation hands on."""

from collections.abc import Sequence
from typing import Any

from contextopt.engine.briefs.findings import Finding, parse_findings

# Explanations that agents add to findings: true, long, and of little use to the next phase.
_TALK = (
    "I went through {where} line by line before I wrote this down, since the names alone were misleading.",
    "The code around it has grown over several years and shows the habits of at least three authors.",
    "While reading I followed every import from {where} outwards and came back to the same place each time.",
    "It is worth remembering that the tests were written long after the code and follow it closely.",
    "There was some discussion in the comments about moving this elsewhere, and nothing came of it.",
    "Reading the history gives the impression that the present shape was reached by small steps.",
    "For a reader who comes to {what} for the first time the order of the calls is surprising.",
    "In the end the picture is consistent with what the documentation says in its introduction.",
    "I also looked at how the neighbouring code treats the question, and it goes about it in the same way.",
    "The naming follows the conventions of the rest of the project, which makes {what} easy to find.",
    "Looking at it from the side of the callers changes little about the conclusion.",
    "A later phase may want to come back to this with the running system at hand.",
    "The surrounding module is long, and most of its length is taken up by cases of the same kind.",
    "What I describe here was checked by reading alone; nothing was run for it.",
    "Taken together this is a fair amount of code for what it does, though none of it is in the way.",
    "The comments in {where} explain the intention well and are mostly up to date.",
)

type Spec = tuple[str, float, dict[str, Any], dict[str, Any]]

ANALYSIS: Sequence[Spec] = (
    ("constraints", 0.95, {
        "name": "PCI scope",
        "description": "Card numbers must never reach our database; only Stripe tokens may be stored.",
        "location": "payments/gateway.py",
    }, {"tags": ["security"]}),
    ("database_needs", 0.93, {
        "table": "refunds",
        "columns": [
            {"name": "id", "type": "bigint"}, {"name": "payment_id", "type": "bigint"},
            {"name": "amount_cents", "type": "integer"}, {"name": "reason", "type": "varchar(200)"},
            {"name": "created_at", "type": "timestamptz"},
        ],
        "indexes": ["refunds_payment_id_idx"],
    }, {"depends_on": ["F-003"]}),
    ("database_needs", 0.8, {
        "table": "payments",
        "columns": ["id", "order_id", "stripe_charge_id", "amount_cents", "currency", "status"],
        "description": "The table payments has 2,400,000 rows and no index on stripe_charge_id.",
    }, {}),
    ("existing_patterns", 0.85, {
        "pattern_name": "PaymentGateway",
        "location": "payments/gateway.py:41",
        "reusability": "high",
        "description": "PaymentGateway wraps the Stripe client and retries 3 times, 250 ms apart.",
        "gaps": "It does not support partial refunds.",
    }, {}),
    ("existing_patterns", 0.8, {
        "pattern_name": "IdempotencyKeyMiddleware",
        "location": "api/middleware/idempotency.py",
        "reusability": "medium",
        "description": "IdempotencyKeyMiddleware stores keys in Redis for 24 hours.",
    }, {}),
    ("existing_patterns", 0.75, {
        "pattern_name": "OutboxPublisher",
        "location": "events/outbox.py",
        "reusability": "high",
        "description": "OutboxPublisher polls the table outbox_events every 5 seconds for Kafka.",
    }, {}),
    ("dependencies", 0.85, {
        "tables": ["payments", "orders", "outbox_events"],
        "apis": ["POST /v1/refunds", "GET /v1/charges/{id}"],
        "services": ["ledger-service", "notification-service"],
    }, {}),
    ("dependencies", 0.7, {
        "package": "stripe", "version": "7.4.0",
        "description": "stripe 7.4.0 is pinned in requirements.txt; version 8 drops the retry hook.",
    }, {}),
    ("risks", 0.8, {
        "risk": "Double refund",
        "severity": "high",
        "description": "Two workers may process one webhook because process_webhook() does not lock the row.",
        "mitigation": "Use SELECT FOR UPDATE on payments.",
    }, {"tags": ["critical"], "depends_on": ["F-003"]}),
    ("risks", 0.7, {
        "risk": "Slow migration",
        "severity": "medium",
        "description": "A new index on payments could lock writes for about 90 seconds unless concurrent.",
        "mitigation": "CREATE INDEX CONCURRENTLY",
    }, {}),
    ("risks", 0.6, {
        "risk": "Webhook order",
        "severity": "low",
        "description": "charge.refunded can arrive before charge.succeeded.",
    }, {}),
    ("open_questions", 0.6, {
        "question": "Should refunds older than 180 days be refused?",
        "description": "Finance has not decided; Stripe itself refuses after 180 days for some cards.",
    }, {}),
    ("open_questions", 0.5, {
        "question": "Who may approve refunds above 500 EUR?",
    }, {}),
    ("existing_patterns", 0.3, {
        "pattern_name": "LegacyRefundJob",
        "description": "Perhaps jobs/legacy_refund.py was once meant to do the same.",
    }, {}),
    ("risks", 0.7, {
        "risk": "Currency rounding",
        "severity": "medium",
        "description": "Amounts in JPY have no cents, and Money.from_float() rounds half up.",
        "mitigation": "Use Decimal in payments/money.py.",
    }, {}),
    ("constraints", 0.85, {
        "name": "API version",
        "description": "The public API is frozen at 2024-06-01; new fields must be optional.",
        "location": "api/schema/openapi.yaml",
    }, {}),
)  # fmt: skip


def make_findings(specs: Sequence[Spec] = ANALYSIS, *, phase: str = "analysis") -> tuple[Finding, ...]:
    """Return the findings, with the explanations that agents write."""
    values = []
    for place, (category, confidence, content, more) in enumerate(specs):
        talk = {**content, "explanation": _explain(place, content, 9 if confidence > 0.9 or more else 22)}
        values.append({"category": category, "content": talk, "confidence": confidence, **more})
    return parse_findings(values, phase=phase)


def make_finding(**overrides: Any) -> Finding:
    values = {
        "id": "F-001",
        "phase": "analysis",
        "category": "risks",
        "content": {"description": "It may fail."},
    }
    return Finding(**{**values, **overrides})


def _explain(place: int, content: dict[str, Any], length: int) -> str:
    what = next(iter(content.values()))
    what = what if isinstance(what, str) else "this"
    where = content.get("location", "the module")
    sentences = [_TALK[(place * 5 + step) % len(_TALK)] for step in range(length)]
    return " ".join(sentences).format(what=what, where=where)
