"""A process is killed in the middle of a batch, and another one finishes its backtest."""

import os
import subprocess
import sys
import time

import pytest
from django.conf import settings as conf
from django.db import transaction

from contextopt.spaces.configs import ContextConfig
from contextopt.spaces.models import Record, Space
from contextopt.sql import own_conninfo
from memory.backtests.backtests import BACKTESTS, start_backtest
from memory.backtests.figures import figures_of
from memory.backtests.inputs import BacktestIn
from memory.backtests.models import BacktestState
from memory.work import BATCH
from tests.memory.backtests.conftest import ask_all

WORK = "import django; django.setup(); from memory.tasks import backtest; backtest({pk})"


@pytest.mark.django_db(transaction=True)
def test_a_killed_process_is_continued_without_doubling(
    space: Space, talk: list[Record], draft: ContextConfig
) -> None:
    ask_all(space, rounds=6)
    found = start_backtest(space=space, data=BacktestIn(config=draft.version), actor="test")
    database = own_conninfo()
    environment = {**os.environ, "DATABASE_URL": database, "DJANGO_SETTINGS_MODULE": "config.settings"}
    command = [sys.executable, "-c", WORK.format(pk=found.pk)]
    with transaction.atomic():
        # The second batch cannot be stored while its rows are locked.
        second = found.rows.order_by("-pk").values_list("pk", flat=True)[BATCH : 2 * BATCH]
        list(found.rows.select_for_update().filter(pk__in=list(second)))
        with subprocess.Popen(command, env=environment, cwd=conf.BASE_DIR) as worker:
            until = time.monotonic() + 30
            while figures_of(found).done < BATCH and time.monotonic() < until:
                time.sleep(0.05)
            worker.kill()
    stored = dict(found.rows.replayed().values_list("pk", "tokens_after"))
    assert len(stored) == BATCH
    BACKTESTS.complete(found)
    rows = dict(found.rows.values_list("pk", "tokens_after"))
    assert found.state == BacktestState.DONE
    assert len(rows) == len(set(found.rows.values_list("assembly_id"))) == 24
    assert None not in rows.values()
    assert stored.items() <= rows.items()
