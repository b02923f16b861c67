"""The commands as a shell sees them: exit codes, one JSON object, errors only on standard error."""

import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import get_commands, load_command_class

from contextopt.assemblies.models import Assembly, AssemblyPayload
from contextopt.engine.settings import REQUESTED
from contextopt.engine.validation import ALL
from contextopt.management.base import Progress, ReportingCommand, quiet_logs
from contextopt.people.models import ApiKey, Scope, Team, hash_key
from contextopt.spaces.models import Record, Space
from tests.commands import Run, Write, manage, shell_environment
from tests.concurrency import wait_until
from tests.factories import NOW, make_assembly, make_record, make_space
from tests.queries import count_queries

AS_OF = NOW.isoformat()
type Answer = dict[str, Any]


def test_assemble_answers_with_the_fields_of_the_contract(default_space: Space, run: Run) -> None:
    code, out, err = run("assemble", "support", "--as-of", AS_OF, "--json")
    answer: Answer = json.loads(out)
    assert (code, err, len(out.splitlines())) == (0, "", 1)
    assert {"text", "stats", "certificate", "included", "dropped", "counts"} <= answer.keys()
    certified = {
        "tokens", "carried_tokens", "total_tokens", "encoding", "tokenizer_version", "sha256",
        "model", "factor", "factor_mean", "factor_source", "factor_prompts", "tokens_at_most",
    }  # fmt: skip
    assert answer["certificate"].keys() == certified
    entry = {"id", "source", "external_id", "score", "parts", "tokens"}
    assert entry <= answer["included"][0].keys()
    assert {*entry, "reason"} <= answer["dropped"][0].keys()
    assert (len(answer["included"]), len(answer["dropped"])) == (20, 5)
    assert answer["counts"]["over_record_limit"] == 5
    assert Assembly.objects.get(pk=answer["id"]).actor == "command"


def test_assemble_names_the_blocks_to_keep(default_space: Space, run: Run) -> None:
    options = ["--placement", "append", "--conversation", "c-1", "--as-of", AS_OF]
    _, first, _ = run("assemble", "support", "--max-records", 3, *options)
    held = Assembly.objects.get()
    _, second, _ = run("assemble", "support", "--max-records", 5, *options, "--in-sight", held.pk)
    added = Assembly.objects.latest("pk")
    assert f"--in-sight {held.pk}\n" in first
    assert f"--in-sight {held.pk},{added.pk}\n" in second
    assert f"{added.new_tokens:,} new and {added.carried_tokens:,} in sight, together" in second
    _, plain, _ = run("assemble", "support", "--as-of", AS_OF)
    assert "in sight" not in plain


def test_assemble_overrides_whatever_the_api_overrides(default_space: Space, run: Run) -> None:
    given = {name: str(setting.write(setting.default) or ALL) for name, setting in REQUESTED.items()}
    given["total_tokens"] = "6000"
    options = [text for name, value in given.items() for text in (f"--{name.replace('_', '-')}", value)]
    code, out, err = run("assemble", "support", *options, "--query", "queue", "--json", "--no-log")
    assert (code, err) == (0, "")
    overrides = json.loads(out)["overrides"]
    assert {name: str(value) for name, value in overrides.items()} == given


def test_assemble_takes_every_setting(default_space: Space, run: Run) -> None:
    options = {
        "--stage": 4, "--window-days": "all", "--max-records": "all", "--context-tokens": 300,
        "--system-tokens": 10, "--history-tokens": 20, "--response-tokens": 1_500, "--total-tokens": 6_000,
        "--as-of": "2026-06-15", "--encoding": "cl100k_base", "--record-order": "stable",
    }  # fmt: skip
    pairs = [text for pair in options.items() for text in pair]
    code, out, err = run("assemble", "support", *pairs, "--json", "--no-log")
    answer: Answer = json.loads(out)
    assert (code, err) == (0, "")
    assert answer["id"] is None
    assert not Assembly.objects.exists()
    assert answer["overrides"]["window_days"] == "all"
    assert answer["allocation"]["total"] == 6_000
    assert answer["certificate"]["tokens"] <= 300
    assert answer["as_of"] == "2026-06-15T00:00:00Z"


def test_a_share_of_the_models_window_limits_the_context(default_space: Space, run: Run) -> None:
    options = ["--model", "gpt-4", "--window-share", "0.02", "--budget-mode", "adaptive"]
    code, out, _ = run("assemble", "support", "--as-of", AS_OF, *options, "--json")
    answer: Answer = json.loads(out)
    assert code == 0
    assert answer["allocation"]["context"] == 163
    assert answer["certificate"]["tokens"] <= 163
    assert answer["overrides"] == {"budget_mode": "adaptive", "context_tokens": 163, "window_share": "0.02"}
    assert Assembly.objects.get(pk=answer["id"]).model == "gpt-4"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "SPACE: there is no space 'nowhere'; there are: support"),
        (["no such slug"], "SPACE: "),
        (["support", "--window-days", "soon"], "--window-days: "),
        (["support", "--window-days", "0"], "--window-days: "),
        (["support", "--max-records", "-1"], "--max-records: "),
        (["support", "--context-tokens", "1e9"], "--context-tokens: "),
        (["support", "--response-tokens", "999"], "--response-tokens: "),
        (["support", "--total-tokens", "99999999999999999999"], "--total-tokens: "),
        (["support", "--as-of", "noon"], "--as-of: "),
        (["support", "--as-of", "2026-01-01T00:00:00"], "--as-of: "),
        (["support", "--encoding", "morse"], "--encoding: "),
        (["support", "--record-order", "random"], "--record-order: "),
        (["support", "--budget-mode", "loose"], "--budget-mode: "),
        (["support", "--window-share", "0.1"], "--model: is needed with --window-share"),
        (["support", "--model", "nobody-9", "--window-share", "0.1"], "--model: the context window of "),
        (["support", "--model", "gpt-4", "--window-share", "1.5"], "--window-share: "),
        (["support", "--placement", "tail", "--in-sight", "5"], "--in-sight: is only for"),
        (
            ["support", "--placement", "append", "--in-sight", "999"],
            "There is no assembly 999 of the space 'support' (--in-sight).",
        ),
        (["support", "--stage", "6"], "--stage"),
        (["support", "--system-tokens", "3900"], "100 short"),
        (["support", "--system-tokens", "100000"], "or raise --total-tokens."),
        (["window_share"], "there is no space 'window_share'"),
        (["support", "--queries", "missing.jsonl"], "does not exist"),
        (["support", "--team", "nobody"], "--team: there is no team 'nobody'"),
    ],
)
def test_an_unusable_call_names_the_option_and_prints_no_answer(
    default_space: Space, run: Run, arguments: list[str], message: str
) -> None:
    code, out, err = run("assemble", *arguments, "--json")
    assert (out, Assembly.objects.count()) == ("", 0)
    assert message in err
    # argparse itself rejects a wrong choice; in a shell the exit code is 2 as well.
    assert code == 2 or "--stage" in arguments


def test_the_readable_answer_shows_text_division_and_ledger(default_space: Space, run: Run) -> None:
    code, out, _ = run("assemble", "support", "--as-of", AS_OF)
    assert code == 0
    assert out.startswith("Space: Support notes\n")
    assert "Prompt of 4,800: system 800, history 1,000, context 2,000, response 1,000" in out
    assert "Records: 20 kept, 5 dropped, 0 outside the window, 0 deleted" in out
    assert "logged as assembly" in out
    assert sum(line.startswith("kept ") for line in out.splitlines()) == 20
    assert sum(line.endswith("over record limit") for line in out.splitlines()) == 5


def test_the_readable_answer_to_a_question_shows_what_decided(default_space: Space, run: Run) -> None:
    notes = "The queue was stuck since the broker had no memory left for any of the messages."
    first, second = (make_record(default_space, title="Queue", notes=notes) for _ in range(2))
    code, out, _ = run("assemble", "support", "--as-of", AS_OF, "--query", "stuck queue")
    assert code == 0
    _, _, table = out.partition("logged as assembly")
    header, *rows = table.splitlines()[2:]
    assert " ".join(header.split()) == "record score recency frequency meaning words neighbours tokens why"
    (kept,) = (row for row in rows if row.startswith(f"kept     {second.pk} "))
    assert "10.00" in kept.split()
    (repeated,) = (row for row in rows if row.startswith(f"dropped  {first.pk} "))
    assert repeated.endswith(f"repeats {second.pk}")


@pytest.mark.parametrize("stage", [2, 3])
def test_the_readable_answer_of_the_other_stages(default_space: Space, run: Run, stage: int) -> None:
    code, out, _ = run("assemble", "support", "--stage", stage, "--as-of", AS_OF, "--no-log")
    assert code == 0
    assert "nothing to compare with" in out
    assert "preview, not logged" in out


def test_queries_answer_one_line_each_and_name_the_bad_ones(
    default_space: Space, run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "queries.jsonl"
    lines = [
        {"id": "a", "as_of": AS_OF},
        "nonsense",
        {"id": 7, "as_of": AS_OF, "max_records": 3},
        {"as_of": AS_OF},
        {"id": "b", "max_record": 3},
        {"id": "c", "system_tokens": 3_900},
        {"id": "d", "encoding": "morse"},
        {"id": "e", "space": "elsewhere"},
        {"id": 9, "as_of": AS_OF, "space": "support"},
        {"id": 7, "as_of": AS_OF},
    ]
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    code, out, err = run("assemble", "support", "--queries", path, "--window-days", "7", "--stage", "4")
    answers = [json.loads(line) for line in out.splitlines()]
    assert code == 1
    assert [answer["id"] for answer in answers] == ["a", 7, 9]
    assert [len(answer["included"]) for answer in answers] == [20, 3, 20]
    assert all(answer["overrides"]["window_days"] == 7 for answer in answers)
    assert {answer["assembly_id"] for answer in answers} == set(Assembly.objects.values_list("id", flat=True))
    for number, field in [
        (2, "row"),
        (4, "id"),
        (5, "max_record"),
        (6, "row"),
        (7, "encoding"),
        (8, "space"),
    ]:
        assert f"rejected line {number}: {field}: " in err
    assert "rejected line 10: id: repeats the ID of line 3\n" in err


def test_a_line_needs_a_question_unless_the_stage_has_none(
    default_space: Space, run: Run, write: Write
) -> None:
    path = write('{"id": 1}\n{"id": 2, "query": null}\n{"id": 3, "query": ""}\n{"id": 4, "stage": 3}\n')
    code, out, err = run("assemble", "support", "--queries", path)
    assert code == 1
    assert err == "rejected line 1: query: is missing\nrejected line 2: query: is missing\n"
    assert [json.loads(line)["id"] for line in out.splitlines()] == [3, 4]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ({}, "is missing"),
        ({"id": None}, "is missing"),
        ({"id": {}}, "must be text or a whole number"),
        ({"id": 1.5}, "must be text or a whole number"),
        ({"id": True}, "must be text or a whole number"),
        ({"id": "\0"}, "contains a NUL character, which cannot be stored"),
    ],
)
def test_an_id_that_is_missing_or_wrong_is_named(
    default_space: Space, run: Run, write: Write, line: Answer, fault: str
) -> None:
    code, out, err = run("assemble", "support", "--queries", write(json.dumps({**line, "query": "x"})))
    assert (code, out, err) == (1, "", f"rejected line 1: id: {fault}\n")


def test_queries_cost_the_same_statements_each(default_space: Space, run: Run, tmp_path: Path) -> None:
    def count(lines: int) -> int:
        path = tmp_path / f"{lines}.jsonl"
        path.write_text("".join(json.dumps({"id": n, "as_of": AS_OF}) + "\n" for n in range(lines)))
        return count_queries(lambda: run("assemble", "support", "--queries", path, "--stage", "4"))

    # Team and space, its tokenizer's name, then three statements a line.
    assert (count(2), count(12)) == (3 + 2 * 3, 3 + 12 * 3)


def test_a_key_is_printed_once_and_stored_as_a_hash(db: None, run: Run) -> None:
    code, out, err = run("create_api_key", "ci", "--scope", "read")
    secret = out.strip()
    key = ApiKey.objects.get()
    assert code == 0
    assert (key.name, key.scope, key.team.slug) == ("ci", Scope.READ, "default")
    assert key.secret_hash == hash_key(secret)
    assert secret not in err


def test_a_key_as_json_for_another_team(team: Team, run: Run) -> None:
    code, out, err = run("create_api_key", "ci", "--team", team.slug, "--expires-at", "2030-01-01", "--json")
    answer: Answer = json.loads(out)
    assert (code, err) == (0, "")
    assert list(answer) == ["key", "id", "name", "scope", "team"]
    assert (answer["scope"], answer["team"]) == ("write", team.slug)
    assert ApiKey.objects.get(secret_hash=hash_key(answer["key"])).expires_at is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["  "], "NAME: must not be blank"),
        (["x" * 121], "NAME: "),
        (["nul \x00"], "NAME: "),
        (["ok", "--expires-at", "never"], "--expires-at: "),
        (["ok", "--team", "nobody"], "--team: "),
    ],
)
def test_a_key_that_cannot_be_made(db: None, run: Run, arguments: list[str], message: str) -> None:
    code, out, err = run("create_api_key", *arguments)
    assert (code, out, ApiKey.objects.count()) == (2, "", 0)
    assert message in err


def test_savings_are_verified_and_a_wrong_figure_is_found(default_space: Space, run: Run) -> None:
    results = [make_assembly(default_space) for _ in range(3)]
    code, out, err = run("verify_savings", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "teams": ["default"], "checked": 3, "purged": 0, "tasks": 0, "rollups": 0, "evaluations": 0,
        "ratings": 0, "costs": 0, "replays": 0, "unreplayable": 0, "corrections": [], "differences": [],
    }  # fmt: skip
    payload = AssemblyPayload.objects.get(pk=results[1].id)
    payload.text += "- one more\n"
    payload.save()
    code, out, _ = run("verify_savings", "--json")
    answer: Answer = json.loads(out)
    assert code == 1
    assert answer["checked"] == 3
    assert {item["assembly"] for item in answer["differences"]} == {results[1].id}
    assert {"tokens_after", "sha256"} <= {item["figure"] for item in answer["differences"]}
    assert {"assembly", "figure", "stored", "recomputed", "team"} == set(answer["differences"][0])
    code, out, _ = run("verify_savings")
    assert code == 1
    assert f"assembly {results[1].id}: sha256 is stored as" in out


def test_savings_of_one_space_one_team_and_one_time(default_space: Space, run: Run, team: Team) -> None:
    make_assembly(default_space, created_at=NOW)
    make_assembly(make_space(default_space.team, "other"))
    make_assembly(make_space(team, "theirs"))
    for arguments, checked in [
        ([], 3),
        (["--space", "support"], 1),
        (["--since", "2026-06-16"], 2),
        (["--team", team.slug], 1),
    ]:
        assert json.loads(run("verify_savings", *arguments, "--json")[1])["checked"] == checked
    assert run("verify_savings", "--space", "nowhere")[0] == 2
    assert "--since: " in run("verify_savings", "--since", "whenever")[2]


def test_verification_goes_by_bounded_chunks(
    default_space: Space, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.management.commands.verify_savings.CHUNK", 2)
    for _ in range(5):
        make_assembly(default_space)
    # The default team and all teams, three chunks and an empty one that ends the loop, and the corrections.
    assert count_queries(lambda: run("verify_savings", "--since", "2020-01-01")) == 2 + 4 + 1


class Interrupted(ReportingCommand):
    def run(self, options: Any) -> int:
        raise KeyboardInterrupt


def test_an_interrupted_command_says_what_is_kept(db: None, run: Run) -> None:
    code, out, err = run(Interrupted())
    assert (code, out) == (130, "")
    assert "Interrupted; nothing was changed." in err


@pytest.mark.django_db(transaction=True)
def test_an_interrupted_import_says_how_far_it_got() -> None:
    rows = "".join(f'{{"title": "Note {number}"}}\n' for number in range(2_500))
    with subprocess.Popen(
        [sys.executable, "manage.py", "import_records", "shell", "-"],
        cwd=settings.BASE_DIR,
        env=shell_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A program in the background, as tests may be, ignores it, and so do those it starts.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as process:
        assert process.stdin is not None
        process.stdin.write(rows.encode())
        process.stdin.flush()
        # It waits for the rest of the third batch.
        wait_until(lambda: Record.objects.count() == 2_000)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b"")
    assert re.search(rb"Interrupted\. ([12],000) read: \1 created, 0 updated", err)


def test_progress_is_shown_now_and_then() -> None:
    sink = io.StringIO()
    seldom, always = Progress(sink, seconds=60), Progress(sink, seconds=0)
    seldom.show("seldom")
    always.show("always")
    assert sink.getvalue() == "always"


def test_routine_events_are_kept_out_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger("contextopt")
    before = logger.level
    monkeypatch.delenv("LOG_LEVEL", raising=False)
    with quiet_logs(1):
        assert logger.level == logging.WARNING
    with quiet_logs(2):
        assert logger.level == before
    monkeypatch.setenv("LOG_LEVEL", "INFO")
    with quiet_logs(1):
        assert logger.level == before


def test_every_command_takes_json_and_team() -> None:
    names = [
        "assemble",
        "create_api_key",
        "demo",
        "import_git",
        "import_markdown",
        "import_records",
        "verify_savings",
    ]
    for name in names:
        command = load_command_class(get_commands()[name], name)
        assert isinstance(command, ReportingCommand)
        options = {action.dest for action in command.create_parser("manage.py", name)._actions}
        assert {"json", "team"} <= options
        assert command.help


@pytest.mark.django_db(transaction=True)
def test_a_whole_round_from_a_shell(tmp_path: Path) -> None:
    rows = b"".join(
        b'{"title": "Note %d", "date": "2026-06-14", "notes": "\xc3\xa6"}\n' % n for n in range(30)
    )
    done = manage("import_records", "shell", "-", "--json", stdin=rows + b"bad\n")
    assert done.returncode == 1, done.stderr.decode()
    assert json.loads(done.stdout)["created"] == 30
    done = manage("assemble", "shell", "--as-of", AS_OF, "--json", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr.decode()
    assert "æ" in json.loads(done.stdout)["text"]
    assert done.stdout.isascii()
    assert done.stderr == b""
    done = manage("assemble", "shell", "--as-of", AS_OF, PYTHONIOENCODING="latin-1")
    assert done.returncode == 0, done.stderr.decode()
    assert ": æ" in done.stdout.decode("latin-1")
    assert rb"\u2026" in done.stdout
    done = manage("assemble", "shell", "--stage", "9")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"--stage" in done.stderr
    done = manage("assemble", "missing")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"Traceback" not in done.stderr


@pytest.mark.django_db(transaction=True)
def test_a_closed_pipe_leaves_no_trace_from_a_shell(tmp_path: Path) -> None:
    queries = tmp_path / "queries.jsonl"
    queries.write_text("".join(f'{{"id": {n}, "query": ""}}\n' for n in range(300)))
    manage("import_records", "shell", "-", stdin=b'{"title": "A"}\n')
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.Popen(
        [sys.executable, "manage.py", "assemble", "shell", "--queries", str(queries)],
        cwd=settings.BASE_DIR,
        env=shell_environment(),
        stdout=writer,
        stderr=subprocess.PIPE,
    )
    os.close(writer)
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err.decode()) == (141, "")
