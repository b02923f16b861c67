"""Updates the strategies that a task was given, once it ends: freshness, trust, tokens saved.

A strategy is credited with the difference between similar tasks without it and those with it, in
tokens of everything that was logged as sent for a task. Similar tasks have the same pattern and repository,
and succeeded. Nothing is credited unless there are tasks of both sorts to compare. Tasks whose contexts were
logged are compared only with such tasks.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from django.db.models import F, OuterRef, Subquery, Sum, TextField, Value
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce, NullIf

from contextopt.agents.completions import Completion
from contextopt.agents.models import TaskState
from contextopt.assemblies.models import Assembly, Kind
from memory.memories.memories import access_memories
from memory.memories.models import Memory
from memory.strategies.models import StrategyUse
from memory.strategies.strategies import note_outcome

# Compare only the latest similar tasks: costs change over time.
COMPARED_TASKS = 500


def settle_uses(*, completion: Completion, pattern: str, repository: str, failure: str) -> None:
    """Refresh the strategies that the ended task used, move their trust by its outcome, and credit them.

    `failure` is the reason why the task is no success for strategies; it is empty if it is one.
    """
    task = completion.task
    totals = measure_tasks(_similar_tasks(completion, pattern, repository))
    # A task counts once for each strategy, however often it was given the hint.
    used = set(StrategyUse.objects.filter(task=task).values_list("memory_id", flat=True))
    compared = set(StrategyUse.objects.filter(task__in=totals).values_list("memory_id", flat=True))
    # Lock all rows that may be written: votes lock strategies, too.
    lock_strategies(used | compared)
    access_memories(memory_ids=sorted(used))
    for memory_id in sorted(used):
        note_outcome(
            memory_id=memory_id,
            has_succeeded=not failure,
            reason=f"task {task.pk}: {failure or 'it succeeded'}",
            actor=completion.created_by,
        )
    _credit(totals, compared)


def _similar_tasks(completion: Completion, pattern: str, repository: str) -> list[int]:
    """Return the ids of the tasks to compare, including the one that ends if it succeeded."""
    like = (
        Completion.objects.filter(team=completion.team_id, task__state=TaskState.COMPLETED)
        .annotate(
            pattern=KT("learned__pattern"),
            repository=Coalesce(
                NullIf(KT("report__repository"), Value("")), F("task__repository"), output_field=TextField()
            ),
        )
        .filter(pattern=pattern, repository=repository)
        .order_by("-id")
        .values_list("task_id", flat=True)[:COMPARED_TASKS]
    )
    own = [completion.task_id] if completion.task.state == TaskState.COMPLETED else []
    return [*own, *like]


def measure_tasks(task_ids: Collection[int]) -> dict[int, int]:
    """Return the tokens that were sent for each task, leaving out tasks without a log."""
    sums = (
        Assembly.objects.filter(task__in=task_ids, is_sent=True)
        .values_list("task")
        .annotate(Sum("tokens_after"))
    )
    return dict(sums.order_by())


def split_comparable(totals: Mapping[int, int]) -> list[dict[int, int]]:
    """Return the tasks whose contexts were logged, and the others, which only seem to cost less."""
    rows = Assembly.objects.filter(task__in=totals, kind__in=(Kind.PHASE, Kind.AGENT))
    logged = set(rows.values_list("task", flat=True).distinct())
    return [
        {task_id: tokens for task_id, tokens in totals.items() if (task_id in logged) is is_logged}
        for is_logged in (True, False)
    ]


def savings(totals: Mapping[int, int], used: Collection[int]) -> dict[int, int]:
    """Return how much less each task that used a strategy cost than the mean of those that did not."""
    without = [tokens for task_id, tokens in totals.items() if task_id not in used]
    if not without:
        return {}
    mean = sum(without) / len(without)
    return {task_id: round(mean - totals[task_id]) for task_id in used if task_id in totals}


def _credit(totals: Mapping[int, int], memory_ids: Iterable[int]) -> None:
    """Store the saving of each use, and the sum for each strategy. A task counts once per strategy."""
    uses: dict[int, dict[int, StrategyUse]] = defaultdict(dict)
    for use in StrategyUse.objects.filter(task__in=totals).order_by("id"):
        uses[use.memory_id].setdefault(use.task_id or 0, use)
    changed: list[StrategyUse] = []
    groups = split_comparable(totals)
    for by_task in uses.values():
        saved = {key: tokens for group in groups for key, tokens in savings(group, by_task.keys()).items()}
        for task_id, use in by_task.items():
            if use.tokens_saved != saved.get(task_id):
                use.tokens_saved = saved.get(task_id)
                changed.append(use)
    StrategyUse.objects.bulk_update(changed, ["tokens_saved"], batch_size=500)
    total = (
        StrategyUse.objects.filter(memory=OuterRef("pk"))
        .order_by()
        .values("memory")
        .annotate(total=Sum("tokens_saved"))
        .values("total")
    )
    Memory.objects.filter(pk__in=memory_ids).update(tokens_saved=Subquery(total))


def lock_strategies(memory_ids: Collection[int]) -> None:
    """Lock the rows at once and in order."""
    rows = Memory.objects.filter(pk__in=memory_ids).order_by("pk")
    list(rows.select_for_update(no_key=True).values_list("pk"))
