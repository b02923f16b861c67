"""A story told to the API: one request for every operation, with values as a team would send them."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from contextopt import tasks
from contextopt.assemblies.models import Assembly
from contextopt.people.models import Team
from contextopt.search import registry
from contextopt.search.vectors.fill import ensure_embedded
from contextopt.spaces.models import Space
from dashboard.beats import Duty, note_beats
from memory.backtests.backtests import start_backtest
from memory.backtests.inputs import BacktestIn
from memory.review.queue import refresh_assembly
from tests.contextopt.api.conftest import Caller
from tests.contextopt.api.documented import described_paths

TEXT_CHARS = 400
LIST_ITEMS = 2
SECRET = "ctx_shown-only-once"

CART = "def total(prices):\n    return sum(prices)\n"
ROUNDED = "def total(prices):\n    return round(sum(prices), 2)\n"
CONTEXT = {
    "tree": "shop/\n  cart.py\n  prices.py",
    "tree_paths": ["shop/cart.py", "shop/prices.py"],
    "package_manifest": '[project]\nname = "shop"\n',
    "files": [{"path": "shop/cart.py", "content": CART}],
    "memories": ["Prices are decimals, never floats."],
    "docs": ["Money: amounts are rounded half up, at the last step."],
    "tools": [{"name": "run_tests", "content": "Runs the test suite."}],
}
DIAGNOSIS = {
    "root_cause": "implementation_error",
    "reason": "Rounded before the sum.",
    "suggested_action": "Round once, at the end.",
}
FAILURE = {
    "error": "FAILED tests/test_cart.py::test_total\nAssertionError: assert 10.0 == 9.99",
    "plan": "Write a failing test\nRound the total\nRun all tests",
    "diagnosis": DIAGNOSIS,
}
REPORT = {
    "description": "Fix the bug that prices in the cart are rounded wrongly",
    "repository": "shop",
    "outcome": "completed",
    "plan": "Write a failing test\nRound at the last step\nRun all tests",
    "attempts": [{"step_index": 0, "action": "wrote tests/test_cart.py", "result": "success"}],
    "quality_score": 9,
    "files_changed": ["shop/cart.py"],
    "decisions": [{"content": "Totals are rounded half up, once.", "category": "money", "tags": ["prices"]}],
    "error_patterns": [{"content": "Rounding each line loses cents.", "category": "money"}],
}


@dataclass
class Story:
    """Sends requests as one caller and keeps request and response by operation id.

    `names` holds the ids that later requests use; paths and bodies refer to them as `{record}`.
    """

    caller: Caller
    names: dict[str, object] = field(default_factory=dict)
    told: dict[str, dict[str, Any]] = field(default_factory=dict)

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        query: dict[str, str | int | bool] | None = None,
        **keep: str,
    ) -> Any:
        """Send a request. Each keyword keeps a field of the response under its name: `record="id"`."""
        path, body = self._filled(path), json.loads(self._filled(json.dumps(body)))
        url = path + (f"?{urlencode(query)}" if query else "")
        send = {"get": self.caller.get, "delete": self.caller.delete}.get(method)
        response = send(url) if send else self.caller.send(method, url, body)
        sent = response.getvalue().decode()
        assert response.status_code < 300, f"{method} {path}: {sent}"
        answer = (
            json.loads(sent) if response.get("Content-Type", "").split(";")[0] == "application/json" else None
        )
        self.names |= {name: answer[key] for name, key in keep.items()}
        operation, given = operation_at(method, path)
        example = {"path": given, "query": query or {}, "body": body, "status": response.status_code}
        self.told.setdefault(operation, example | {"response": shortened(answer)})
        return answer

    def _filled(self, text: str) -> str:
        text = re.sub(r'"\{(\w+)\}"', lambda found: json.dumps(self.names[found[1]]), text)
        return re.sub(r"\{(\w+)\}", lambda found: str(self.names.get(found[1], found[0])), text)


def operation_at(method: str, path: str) -> tuple[str, dict[str, str | int]]:
    """Return the operation's id and the path parameters in the address."""
    for template, operations in described_paths().items():
        pattern = re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", template.removeprefix("/api/v1"))
        found = re.fullmatch(pattern, path)
        if found and method in operations and not _is_literal_elsewhere(template, path):
            given = {
                key: int(value) if value.isdigit() else value for key, value in found.groupdict().items()
            }
            return operations[method]["operationId"], given
    raise AssertionError(f"no operation at {method} {path}")


def _is_literal_elsewhere(template: str, path: str) -> bool:
    """Prefer /assemblies/batch to /assemblies/{assembly_id}."""
    return "{" in template and f"/api/v1{path}" in described_paths()


def shortened(value: Any) -> Any:
    """Return a response with short lists and texts, and without secrets."""
    if isinstance(value, dict):
        return {key: SECRET if key == "secret" else shortened(part) for key, part in value.items()}
    if isinstance(value, list):
        return [shortened(part) for part in value[:LIST_ITEMS]]
    if isinstance(value, str) and len(value) > TEXT_CHARS:
        return value[: TEXT_CHARS - 1] + "…"
    return value


def tell(story: Story, team: Team) -> None:
    """Play every chapter in order. Later ones use what earlier ones create; deletions come last."""
    chapters: tuple[Callable[[Story], None], ...] = (
        tell_of_records, tell_of_contexts, tell_of_conversations, tell_of_phases, tell_of_retries,
        tell_of_findings, tell_of_repositories, tell_of_lessons, tell_of_memories, tell_of_steps,
    )  # fmt: skip
    for chapter in chapters:
        chapter(story)
    tell_of_reviews(story, team)
    tell_of_keys(story)
    tell_of_deletions(story)


def tell_of_records(story: Story) -> None:
    ask = story.ask
    ask("post", "/spaces", {
        "slug": "support", "name": "Support notes", "description": "Incidents and what helped.",
        "categories": ["incident", "runbook"],
    })  # fmt: skip
    ask("get", "/spaces")
    ask("patch", "/spaces/support", {
        "name": "Customer support", "description": "Incidents, and the steps that solved them.",
    })  # fmt: skip
    ask("get", "/spaces/support")
    ask("post", "/spaces/support/records", {
        "title": "Queue stuck after deploy", "type": "incident", "date": "2026-11-20T09:30:00Z",
        "tags": ["ops", "queue"], "notes": "Workers held the old lock. Restart them one at a time.",
        "source": "tickets", "external_id": "4711", "thread": "queue", "position": 1, "language": "en",
        "metadata": {"severity": "high"},
    }, record="id")  # fmt: skip
    ask("post", "/spaces/support/records/bulk", {"records": [
        {"title": "Restore a backup", "type": "runbook", "notes": "Stop writers, restore, then replay.",
         "source": "wiki", "external_id": "restore", "pinned": True, "thread": "queue", "position": 2},
        {"title": ""},
    ]})  # fmt: skip
    ask("get", "/spaces/support/records", query={"type": "incident", "tag": "ops", "limit": 10})
    ask("get", "/records/{record}", query={"count_view": False})
    ask("patch", "/records/{record}", {"tags": ["ops", "queue", "deploy"], "position": 1})
    ask("get", "/records/{record}/revisions")
    ask("post", "/records/{record}/revisions/1/restore")
    ask("get", "/spaces/support/configs")
    ask("post", "/spaces/support/configs", {
        "max_records": 10, "window_days": 30, "recency_weight": "0.700", "note": "Fewer records.",
    })  # fmt: skip
    ask("get", "/spaces/support/configs/1")
    ask("post", "/spaces/support/configs/1/activate")
    ask("patch", "/spaces/support/gateway", {"mode": "insert", "insert_percent": 50, "keep": "question"})
    ask("get", "/spaces/support/gateway")


def tell_of_contexts(story: Story) -> None:
    ask = story.ask
    question = {"space": "support", "query": "Why is the queue stuck after a deploy?", "system_tokens": 600}
    ensure_embedded(registry.get("record"), Space.objects.get(slug="support").pk, limit=99)
    ask("post", "/assemblies", question | {
        "conversation": "ticket-4711", "history": "Customer: nothing moves.", "model": "gpt-4o-mini",
    }, assembly="id")  # fmt: skip
    ask("post", "/assemblies/preview", question | {"max_records": 5, "notes_chars": "all"})
    ask("post", "/assemblies/batch", {"space": "support", "queries": [
        {"id": "q1", "query": "How do we restore a backup?"}, {"id": "q2", "stage": 3},
    ]})  # fmt: skip
    ask("get", "/assemblies", query={"space": "support", "stage": 5, "kind": "space"})
    ask("get", "/assemblies/{assembly}")
    ask("get", "/assemblies/{assembly}/verification")
    ask("post", "/assemblies", {"space": "support", "awaits_delivery": True}, hook="id")
    ask("post", "/assemblies/{hook}/delivery")
    ask("get", "/assemblies/{assembly}/explain", query={"expect": "wiki:restore"})
    ask("post", "/assemblies/{assembly}/replay", {"config": 2, "settings": {"context_tokens": 500}})
    ask("post", "/placement-simulations", {
        "name": "Incidents", "context_tokens": 500, "model": "gpt-4o-mini",
        "records": [
            {"title": "Queue stuck", "date": "2026-11-20T09:30:00Z", "notes": "Workers held the old lock.",
             "external_id": "4711"},
            {"title": "Mail late", "date": "2026-11-21T09:30:00Z", "notes": "The relay was full."},
        ],
        "turns": [
            {"query": "Why is the queue stuck?", "answer": "An old lock.", "expected": ["4711"]},
            {"query": "And why was the mail late?"},
        ],
    })  # fmt: skip
    ask("post", "/search", {
        "query": "restore the backup", "space": "support", "kinds": ["record"], "types": ["runbook"],
        "limit": 5,
    })  # fmt: skip


def tell_of_conversations(story: Story) -> None:
    ask = story.ask
    ask(
        "post",
        "/conversations",
        {"space": "support", "title": "The queue", "model": "small"},
        conversation="id",
    )
    ask("get", "/conversations", query={"space": "support"})
    ask("get", "/conversations/{conversation}")
    ask("post", "/conversations/{conversation}/messages", {"text": "Why is the queue stuck?"}, message="id")
    tasks.send_messages()
    ask("get", "/messages/{message}")
    ask("get", "/messages/{message}/prompt")
    ask("get", "/conversations/{conversation}/messages")
    ask("post", "/conversations/{conversation}/messages", {"text": "And since when?"}, second="id")
    ask("post", "/messages/{second}/cancel")
    ask("post", "/messages/{second}/retry")


def tell_of_phases(story: Story) -> None:
    ask = story.ask
    task = {"task": "Round prices to cents"}
    ask("post", "/phases/diagnosis/filter", {"context": CONTEXT | task, "encoding": "cl100k_base"})
    ask("get", "/phases")
    ask("post", "/phases/diagnosis/profiles", {
        "budget_tokens": 4000, "fields": ["memories", "files"], "note": "Files help to find the cause.",
    })  # fmt: skip
    ask("get", "/phases/diagnosis/profiles")
    ask("get", "/phases/diagnosis/profiles/1")
    ask("post", "/phases/diagnosis/profiles/1/activate")
    ask("post", "/phases/security/links", {
        "profile": "reviewing", "receives": "design", "note": "Security reviews read the design.",
    })  # fmt: skip
    ask("get", "/phase-links")
    ask("get", "/phases/security/links")
    ask("get", "/phases/security/links/1")
    ask("post", "/phases/security/links/1/activate")


def tell_of_retries(story: Story) -> None:
    ask = story.ask
    ask("post", "/tasks", {
        "description": "Round prices to cents", "external_id": "CART-17", "repository": "shop",
        "files": {"shop/cart.py": CART},
    }, task="id")  # fmt: skip
    ask("get", "/tasks", query={"state": "open", "repository": "shop", "external_id": "CART-17"})
    limits = {"error_tokens": 450, "diff_lines": 20, "diff_characters": 500, "uncut": False}
    ask("post", "/tasks/{task}/attempts", {"files": {"shop/cart.py": ROUNDED}, **limits, **FAILURE})
    ask("get", "/tasks/{task}/attempts", query={"receiver": "agent"})
    ask("get", "/tasks/{task}/attempts/1")
    ask("post", "/retry-delta", {
        "task": "Round prices to cents", "attempt": 1, "before": {"shop/cart.py": CART},
        "after": {"shop/cart.py": ROUNDED}, "context": CONTEXT, **limits, **FAILURE,
    })  # fmt: skip


def tell_of_findings(story: Story) -> None:
    ask = story.ask
    risk = {
        "category": "risks",
        "content": {"description": "Rounding each line loses cents.", "severity": "high"},
    }
    ask("post", "/compress-findings", {"phase": "analysis", "findings": [risk], "budget": 200})
    ask("post", "/tasks/{task}/findings", risk | {"confidence": 0.95, "tags": ["critical"]})
    ask("post", "/tasks/{task}/findings", {
        "category": "patterns", "content": {"pattern_name": "Money", "location": "shop/prices.py"},
        "decision": "open", "depends_on": ["F-001"],
    })  # fmt: skip
    ask("get", "/tasks/{task}/findings", query={"phase": "analysis"})
    ask("patch", "/tasks/{task}/findings/F-002", {"tags": ["money"], "depends_on": ["F-001"]})
    ask("post", "/tasks/{task}/findings/F-002/resolutions", {"answer": "Half up, at the last step."})
    ask("get", "/tasks/{task}/findings/F-002/resolutions")
    ask("get", "/tasks/{task}/findings/F-002")
    ask("post", "/tasks/{task}/compress", {"phase": "analysis"})
    ask("get", "/tasks/{task}/compressions", query={"phase": "analysis"})
    ask("post", "/tasks/{task}/advance", {"to": "design"})
    ask("post", "/tasks/{task}/bundle", {"context": CONTEXT})
    ask("post", "/tasks/{task}/findings", {
        "category": "components", "content": {"description": "shop/money.py rounds half up."},
    })  # fmt: skip
    ask("post", "/tasks/{task}/advance", {"to": "implementation"})
    ask("post", "/tasks/{task}/findings", {
        "category": "changes", "content": {"description": "total() calls money.round_half_up."},
    })  # fmt: skip
    ask("post", "/tasks/{task}/compress")
    ask("get", "/tasks/{task}/status")
    ask("get", "/tasks/{task}")
    ask("get", "/tasks/{task}/timeline", query={"kind": "handoff"})


def tell_of_repositories(story: Story) -> None:
    ask = story.ask
    files = {
        "shop/cart.py": f"from shop import prices\n\n{CART}",
        "shop/prices.py": "import shop.money\n\nCENTS = 2\n",
    }
    ask("post", "/repos", {"name": "shop", "files": files}, repo="id")
    ask("get", "/repos")
    ask("get", "/repos/{repo}")
    ask(
        "post", "/repos/{repo}/files", {"files": {"shop/money.py": "HALF_UP = True\n"}, "deleted": ["old.py"]}
    )
    ask(
        "post",
        "/repos/{repo}/relevant",
        {"task": "Round the total of the cart", "budget": 500, "seeds": ["shop/cart.py"]},
    )


def tell_of_lessons(story: Story) -> None:
    ask = story.ask
    done = ask("post", "/completions", REPORT)
    story.names["strategy"] = next(each["id"] for each in done["stored"] if each["memory_type"] == "strategy")
    ask("post", "/task-patterns", {"task": "Fix wrong rounding of prices in the cart"})
    ensure_embedded(registry.get("memory"), None, limit=99)
    ask(
        "post",
        "/strategy-hints",
        {"task": "Fix wrong rounding of prices in the cart", "repository": "shop"},
        use="use_id",
    )
    ask("post", "/strategy-uses/{use}/rating", {"rating": 1})
    ask("post", "/strategies/{strategy}/retire", {"reason": "The money library rounds now."})
    ask("post", "/strategies/{strategy}/reinstate")


def tell_of_memories(story: Story) -> None:
    ask = story.ask
    ask("post", "/memories", {
        "content": "Prices are decimals, never floats.", "title": "Money", "memory_type": "decision",
        "repository": "shop", "category": "money", "tags": ["prices"], "trust_level": "user",
        "space": "support", "payload": {"since": "2026-11"},
    }, memory="id")  # fmt: skip
    ask("get", "/memories", query={"memory_type": "decision", "repository": "shop", "category": "money"})
    ask("get", "/memories/{memory}")
    ask("patch", "/memories/{memory}", {"tags": ["prices", "money"]})


def tell_of_steps(story: Story) -> None:
    ask = story.ask
    ask("post", "/standing-documents", {
        "repository": "shop", "title": "Conventions", "content": "Prices are decimals. Round once.",
    }, document="id")  # fmt: skip
    ask("get", "/standing-documents", query={"repository": "shop"})
    ask("get", "/standing-documents/{document}")
    ask("post", "/agent-context", {
        "task": "Fix wrong rounding of prices in the cart", "repository": "shop", "space": "support",
        "phase": "planning", "budget": 4000, "context": {"tree": "shop/\n  cart.py"}, "receiver": "planner",
        "model": "gpt-4o-mini",
    }, step="task_id")  # fmt: skip
    ask("post", "/agent-context", {
        "task_id": "{step}", "phase": "building", "receiver": "planner",
        "failure": {"files": {"shop/cart.py": ROUNDED}, **FAILURE},
    })  # fmt: skip


def tell_of_reviews(story: Story, team: Team) -> None:
    ask = story.ask
    ask("patch", "/reviews/rules", {"sample_share": 0.1, "verdicts_wanted": 2})
    ask("get", "/reviews/rules")
    ask("post", "/feedback", {
        "external_message_id": "m-4711", "assembly_id": "{assembly}", "rater": "ann", "rating": "down",
        "reason": "outdated", "comment": "The lock is gone since May.",
        "answer": "Workers still hold the old lock. Restart them.",
    })  # fmt: skip
    ask("get", "/feedback", query={"rating": "down", "rater": "ann"})
    ask("get", "/feedback/trends", query={"by": "reason", "space": "support"})
    for assembly in Assembly.objects.filter(team=team):
        refresh_assembly(team_id=team.pk, assembly_id=assembly.pk)
    ask("get", "/reviews", query={"state": "open"})
    reserved = ask("post", "/reviews/reserve", {"reviewer": "ben", "skip": []})
    story.names["review"] = reserved["item"]["id"]
    ask("post", "/reviews/{review}/assign", {"username": None})
    ask("post", "/reviews/{review}/release", {"reviewer": "ben"})
    ask("post", "/reviews/{review}/verdict", {
        "reviewer": "ben", "verdict": "context_missing", "note": "No runbook.", "record_ids": ["{record}"],
    })  # fmt: skip
    ask("post", "/reviews/{review}/verdict", {"reviewer": "eva", "verdict": "context_missing"})
    ask("get", "/reviews/{review}", query={"reviewer": "ben"})
    ask("get", "/reviews/summary")
    tell_of_questions(story)
    ask("get", "/reviews/export", query={"format": "jsonl"})
    ask("post", "/feedback/withdraw", {"external_message_id": "m-4711", "rater": "ann"})


def tell_of_questions(story: Story) -> None:
    ask = story.ask
    ask("post", "/spaces/support/question-sets", {"name": "Queue"}, set="id")
    ask("patch", "/question-sets/{set}", {"name": "Queue questions"})
    ask("get", "/spaces/support/question-sets")
    ask("post", "/question-sets/{set}/questions", {
        "id": "q-1", "query": "Why is the queue stuck?", "record_ids": ["{record}"],
        "answer": "Workers hold an old lock.", "as_of": "2026-06-15T12:00:00Z",
    }, question="id")  # fmt: skip
    ask("patch", "/questions/{question}", {"answer": "Workers hold the old lock."})
    ask("post", "/question-sets/{set}/questions/bulk", {
        "questions": [
            {"id": "q-2", "query": "Who restarts the workers?", "record_ids": ["{record}"]},
            {"id": "q-3", "query": "Which queue?", "expected": ["T-9"]},
        ],
    })  # fmt: skip
    ask("get", "/question-sets/{set}/questions")
    ask("post", "/question-sets/{set}/evaluations", {
        "settings": {"question_max_records": 5}, "context_tokens": 1000,
    }, evaluation="id")  # fmt: skip
    ask("get", "/question-sets/{set}/evaluations")
    ask("get", "/evaluations/{evaluation}")
    ask("get", "/evaluations/{evaluation}/questions")
    ask("post", "/spaces/support/backtests", {"config": 1, "last": 2}, backtest="id")
    ask("get", "/spaces/support/backtests")
    ask("get", "/backtests/{backtest}")
    ask("get", "/backtests/{backtest}/rows")
    # One that a worker has not begun yet.
    waiting = start_backtest(space=Space.objects.get(slug="support"), data=BacktestIn(config=1), actor="test")
    ask("post", f"/backtests/{waiting.pk}/cancel")
    ask("put", "/question-sets/{set}/minimum", {"min_recall": 0.8})
    ask("get", "/question-sets/{set}")
    ask("post", "/reviews/{review}/question")
    ask("post", "/assemblies/{assembly}/question")
    ask("delete", "/questions/{question}")
    ask("delete", "/question-sets/{set}")


def tell_of_keys(story: Story) -> None:
    ask = story.ask
    ask("get", "/me")
    limits = {"spaces": ["support"], "requests_per_minute": 600}
    ask("post", "/keys", {"name": "chat", "expires_at": "2030-01-01T00:00:00Z", **limits}, key="id")
    ask("get", "/keys")
    note_beats(*Duty)
    ask("get", "/health")
    ask("post", "/keys/{key}/rotate", {"overlap_hours": 24})
    ask("delete", "/keys/{key}")


def tell_of_deletions(story: Story) -> None:
    ask = story.ask
    ask("delete", "/standing-documents/{document}")
    ask("delete", "/memories/{memory}")
    ask("post", "/memories/{memory}/restore")
    ask("post", "/memories/{memory}/purge")
    ask("delete", "/repos/{repo}")
    ask("delete", "/records/{record}")
    ask("post", "/records/{record}/restore")
    ask("post", "/records/{record}/purge")
    ask("delete", "/spaces/support")
    # Nothing more can be asked with it.
    ask("delete", "/me")
