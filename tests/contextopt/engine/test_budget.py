import pytest

from contextopt.engine.budget import allocate
from contextopt.engine.settings import ContextConfig
from contextopt.engine.validation import BudgetExceeded, InvalidValue
from contextopt.engine.values import PartSizes, TokenAllocation
from contextopt.engine.wording import plural

CONFIG = ContextConfig()


@pytest.mark.parametrize(
    ("system", "history", "context", "response"),
    [
        (None, None, 2000, 1000),
        (800, 1000, 2000, 1000),
        (0, 0, 2000, 2800),
        (500, None, 2000, 1300),
        (1500, 1000, 1300, 1000),
        (None, 2500, 500, 1000),
        (0, 1500, 1500, 1800),
        (800, 3000, 0, 1000),
        (0, 3800, 0, 1000),
    ],
)
def test_context_gives_way_first(
    system: int | None, history: int | None, context: int, response: int
) -> None:
    parts = allocate(CONFIG, PartSizes(system, history))
    assert parts == TokenAllocation(
        4800, 800 if system is None else system, 1000 if history is None else history, context, response
    )


@pytest.mark.parametrize(
    ("system", "history", "missing"), [(3000, 1000, 200), (None, 3001, 1), (0, 3801, 1), (10**6, 0, 996_200)]
)
def test_says_by_how_much(system: int | None, history: int, missing: int) -> None:
    with pytest.raises(BudgetExceeded, match=f"by {plural(missing, 'token')},") as caught:
        allocate(CONFIG, PartSizes(system, history))
    assert caught.value.missing == missing


def test_stage_3_has_its_own_share() -> None:
    assert allocate(CONFIG.replace(stage=3)) == TokenAllocation(6800, 800, 1000, 4000, 1000)
    assert allocate(CONFIG, stage=3).context == 4000


def test_a_fixed_total_takes_from_the_context() -> None:
    config = CONFIG.replace(response_tokens=1600, total_tokens=4800)
    assert allocate(config) == TokenAllocation(4800, 800, 1000, 1400, 1600)
    assert allocate(CONFIG.replace(response_tokens=1600)).context == 2000
    assert allocate(CONFIG.replace(total_tokens=9000)).response == 5200


@pytest.mark.parametrize("size", [-1, 1.5, True, "8"])
def test_invalid_sizes_are_refused(size: object) -> None:
    with pytest.raises(InvalidValue, match="system_tokens"):
        allocate(CONFIG, PartSizes(size))  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="history_tokens"):
        allocate(CONFIG, PartSizes(None, size))  # type: ignore[arg-type]
