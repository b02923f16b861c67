import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.agents.errorlogs import latest_error, latest_error_within
from contextopt.engine.agents.logmarkers import Marker, classify
from contextopt.engine.validation import InvalidValue
from tests.contextopt.engine.factories import TOKENIZER
from tests.contextopt.engine.strategies import clean_texts
from tests.speed import within

START = [f"Unpacking package-{number} (1.{number}.0) over (1.{number - 1}.9) ..." for number in range(1_500)]
END = [f"Removing temporary folder {number}" for number in range(400)]


def bury(*failure: str) -> str:
    """Put the lines of a failure deep inside a long log."""
    return "\n".join([*START, *failure, *END])


@pytest.mark.parametrize(
    "line",
    [
        "E       AssertionError: assert 5 == 6",
        "src/shop/cart.py:31: error: Incompatible return value type  [return-value]",
        "error[E0308]: mismatched types",
        "src/api/client.ts(88,13): error TS2345: Argument of type 'string' is not assignable",
        "  12:7   error  'total' is assigned a value but never used  no-unused-vars",
        "--- FAIL: TestAdd (0.00s)",
        "FAIL\texample.com/calc\t0.004s",
        "[ERROR] Failed to execute goal org.apache.maven.plugins:maven-compiler-plugin:3.1",
        "npm ERR! code ERESOLVE",
        "npm error code E404",
        "ERROR: Could not find a version that satisfies the requirement flask==99",
        "a.c:3:44: error: 'thing' undeclared (first use in this function)",
        '#9 ERROR: process "/bin/sh -c npm ci" did not complete successfully: exit code: 1',
        "##[error]The operation was canceled.",
        "thread 'main' panicked at src/main.rs:4:5:",
        "panic: runtime error: index out of range [5] with length 3",
        "Traceback (most recent call last):",
        "Caused by: java.lang.NullPointerException: name",
        "CMake Error at CMakeLists.txt:9 (find_package):",
        "  ● cart › adds an item",
        "not ok 3 - adds",
        "fatal: not a git repository",
        "FAILED tests/test_cart.py::test_total - assert 5 == 6",
        "Error from server (Forbidden): pods is forbidden",
        "ModuleNotFoundError: No module named 'shop'",
        "     ArgumentError:",
        "java.lang.AssertionError:",
        "> Task :core:test FAILED",
        "- keeps its balance *** FAILED ***",
        "[  FAILED  ] RetryPolicy.CapsAtMax (2 ms)",
        "  Failed Shop.Tests.AppliesTier(units: 120) [12 ms]",
        "e: file:///src/Repo.kt:31:17 Type mismatch: String? but String was expected",
        "E: Unable to locate package libfoo",
        "[ERROR] templates/ingress.yaml:18:24: nil pointer",
        "#   Failed test 'rate is rounded'",
        "    cart_test.go:31: Total() = 6, want 7",
        "Warning, treated as error:",
        "lib.c:4: main: Assertion `x > 0' failed.",
        "remote: Permission to acme/deploy.git denied to ci.",
        "00:12 +41 -1: login_test.dart: Login disables the button [E]",
        '  in "deploy/values.yaml", line 14, column 11',
        "Failing Scenarios:",
    ],
)
def test_the_first_error_line_is_never_lost(line: str) -> None:
    assert classify(line) >= Marker.EXIT
    assert line.strip() in latest_error(bury(line))
    assert line.strip() in latest_error_within(bury(line), 450, TOKENIZER)


@pytest.mark.parametrize(
    "line",
    [
        "tests/test_errors.py::test_fails_without_reference PASSED   [ 10%]",
        "test tests/fail/macros_join.rs [should fail to compile] ... ok",
        "shell: /usr/bin/bash --noprofile --norc -e -o pipefail {0}",
        "  fail-on-cache-miss: false",
        "error_upload_url: https://conda.io/conda-post/unexpected-error",
        "[INFO] error-prone annotations loaded",
        "PASS src/errors.test.ts",
        "  ✓ requireHooks throws an error if there are two finders (7 ms)",
        "> Task :api:generateErrors",
        "> Task :api:collectValidationErrors UP-TO-DATE",
        "CC src/error_table.o",
        "[ERROR] Re-run Maven using the -X switch to enable full debug logging.",
        "  fail-fast:",
    ],
)
def test_lines_that_only_sound_like_errors_are_none(line: str) -> None:
    assert classify(line) is Marker.NONE


@pytest.mark.parametrize(
    "line",
    [
        "psql:schema/0007.sql:3: FEHLER:  Relation »lager« existiert nicht",
        "2026-03-02 08:00:01 FEIL  Kaia svarte ikke",
        "02.03.2026 08:00:01 [main] FEIL Kaia svarte ikke",
        "lager | FEHLER Verbindung getrennt",
        "ERREUR:  la relation « quai » n'existe pas",
        "psql: ERREUR : la connexion a échoué",
        "ОШИБКА:  отношение не существует",
        "ошибка: файл не найден",
        "エラー: ファイルが見つかりません",
        "[エラー] 接続できません",
        "错误:找不到文件",
        "오류: 파일을 찾을 수 없습니다",
        "BŁĄD: brak pliku",
        "2026-03-02 08:00:01,120 ERRO conexão recusada",
        "kai.c:12:4: fel: okänd typ",
        "Feil ved sending av kvittering",
    ],
)
def test_the_word_for_an_error_in_other_languages_marks_its_line(line: str) -> None:
    assert classify(line) is Marker.ERROR
    shown = line.split("2026-03-02 08:00:01 ")[-1].split(",120 ")[-1]
    assert shown in latest_error("\n".join(["Behandler ordre"] * 900 + [line] + ["INSERT 0 1"] * 400))


@pytest.mark.parametrize(
    ("line", "marker"),
    [
        ("3 Fehler, 1 Warnung", Marker.SUMMARY),
        ("Tests: 12 (4 erreurs)", Marker.SUMMARY),
        ("エラー2個", Marker.SUMMARY),
        ("0 Fehler, 0 Warnungen", Marker.NONE),
        ("エラー0個", Marker.NONE),
        ("Keine Fehler gefunden", Marker.MENTION),
        ("Feilsøking pågår", Marker.MENTION),
        ("make[2]: *** [kai.o] Fehler 1", Marker.EXIT),
        ("INFO  ingen feil: 0", Marker.NONE),
    ],
)
def test_a_number_of_errors_in_other_languages_is_a_summary(line: str, marker: Marker) -> None:
    assert classify(line) is marker


def test_the_lines_around_it_the_summary_and_the_exit_come_with_it() -> None:
    text = latest_error(
        bury(
            "___________ test_total ___________",
            "    def test_total():",
            ">       assert total([1, 2, 3]) == 6",
            "E       assert 5 == 6",
            "",
            "test_cart.py:9: AssertionError",
            *(f"slow test {number}: 0.1 s" for number in range(80)),
            "==== 1 failed, 300 passed in 2.11s ====",
            "Process completed with exit code 1.",
        )
    )
    for part in (
        "assert total([1, 2, 3]) == 6",
        "E       assert 5 == 6",
        "test_cart.py:9",
        "1 failed, 300 passed",
        "code 1",
    ):
        assert part in text
    assert "Unpacking" not in text
    assert len(text) <= 1_000


def test_the_step_that_failed_goes_before_other_steps() -> None:
    text = latest_error(
        "\n".join(
            [
                "##[group]Run setup",
                "##[endgroup]",
                *(f"Error: optional package {number} could not be built" for number in range(200)),
                "##[group]Run make ci",
                'echo "Error: never printed"',
                "##[endgroup]",
                *START,
                "main.c:9:2: error: expected ';'",
                "##[error]Process completed with exit code 2.",
                *END,
            ]
        )
    )
    assert "##[group]Run make ci" in text
    assert "main.c:9:2: error: expected ';'" in text
    assert text.index("main.c") < text.index("exit code 2")


def test_a_log_without_errors_shows_its_end() -> None:
    text = latest_error("\n".join([*START, *END]))
    assert text.endswith(END[-1])
    assert START[0] not in text


def test_colours_times_and_overwritten_text_go() -> None:
    log = (
        "2026-04-22T16:11:56.9997008Z \x1b[31;1mFAIL\x1b[0m a\n"
        "[12:01:02] ^[[31mError: b^[[0m\n"
        "10 %\r50 %\r100 % done\r\n"
        "2026-04-22 16:11:56,123 ERROR c\n"
    )
    assert latest_error(log) == "FAIL a\nError: b\n100 % done\nERROR c"


def test_an_overwritten_error_stays() -> None:
    log = "10 %\r2026-04-22T16:11:56Z ERROR: disk full\r50 %\r100 %\r\r\nstopped\r"
    assert latest_error(log) == "ERROR: disk full\n100 %\nstopped"


def test_repeated_lines_are_written_once() -> None:
    assert latest_error("Error: a\n" + "retrying\n" * 50) == "Error: a\nretrying (×50)"


def test_a_long_line_keeps_its_start_and_its_end() -> None:
    text = latest_error(bury("ERROR: Could not connect " + "x" * 5_000 + " (too many 502 responses)"))
    assert "ERROR: Could not connect" in text
    assert "(too many 502 responses)" in text


def test_a_short_log_stays_whole() -> None:
    assert latest_error("e" * 1_000) == "e" * 1_000
    assert latest_error("") == ""


def repeat_line(line: str) -> str:
    """Repeat the line, numbered, up to the million characters that an error may have."""
    return "\n".join(f"{line} {number}" for number in range(1_000_000 // (len(line) + 7)))


@pytest.mark.parametrize(
    "log",
    [
        "\n".join(f"ERROR: connection refused by host db{number}" for number in range(24_000)),
        "\n".join(f"FAILED tests/test_cart.py::test_{number} - assert 1 == 2" for number in range(20_000)),
        "\n".join(bury(f"src/m{number}.py:3: error: bad") for number in range(20))[:1_000_000],
        repeat_line("×"),
        repeat_line("1," * 990 + "error"),
        repeat_line("fail" * 490),
        repeat_line("error:" + "://" * 650 + " x"),
        repeat_line("error" + "." * 1_900),
        repeat_line(" " * 1_900 + "error"),
        repeat_line("error: " + "“" * 290),
        repeat_line("error: " + "x" * 290),
        repeat_line("!" * 1_900 + "error"),
        "> " + "@" * 100_000 + "\nerror: x\n" + "y" * 800_000,
        "error: " + "a b/" * 250_000,
        "'" * 300_000 + "\n" + "error " * 100_000,
        repeat_line("Failed " + "a" * 1_900),
        repeat_line("A" * 1_900 + "Error:"),
        repeat_line("a." * 900 + "Error"),
        repeat_line("error\n" + "a(" * 240),
        repeat_line("Assertion " * 190),
        repeat_line("error " + " " * 1_900 + "x"),
        "error:" + "\n" * 990_000,
        "error: a\n\n\n" * 90_000,
    ],
    ids=[
        *("one kind", "one test", "many", "short", "numbers", "word", "address", "dots", "blanks"),
        *("quotes", "letters", "signs", "command", "one line", "two lines"),
        *("failed", "capitals", "packages", "calls", "assertions", "spaces", "blank lines", "gaps"),
    ],
)
def test_a_million_characters_are_quick(log: str) -> None:
    # Up to one and a half seconds on a slow machine; quadratic algorithms took six and more.
    with within(4):
        assert len(latest_error(log)) <= 1_000


@pytest.mark.parametrize(
    ("line", "marker"),
    [
        ("x0,12 tests failed", Marker.SUMMARY),
        (",3 failed", Marker.SUMMARY),
        ("0,0 failed", Marker.MENTION),
        ("a1 failed", Marker.MENTION),
        ("error.url: https://example.com/a://b", Marker.NONE),
        ("error.url: https://example.com/a b", Marker.MENTION),
        ("test_cart .......Failed", Marker.ERROR),
        ("  - Expected: 3", Marker.DETAIL),
        ("Failed tests:  2", Marker.SUMMARY),
        ("ℹ fail 1", Marker.SUMMARY),
        ("ℹ fail 0", Marker.MENTION),
        ("61 files would be reformatted", Marker.SUMMARY),
        ("-- Configuring incomplete, errors occurred!", Marker.SUMMARY),
        ("2 issues:", Marker.SUMMARY),
        ("ERROR: connection refused (attempt 1/5), retrying", Marker.DETAIL),
        ("[info] Tests: succeeded 330, failed 1, canceled 0", Marker.SUMMARY),
        ("[info] Tests: succeeded 330, failed 0, canceled 0", Marker.NONE),
        ("[warn] Could not resolve 2 files.", Marker.DETAIL),
    ],
)
def test_numbers_addresses_and_signs_are_told_apart(line: str, marker: Marker) -> None:
    assert classify(line) is marker


@pytest.mark.parametrize(
    ("command", "is_shown"),
    [("> shop@1.0.0 test", True), ("> @acme/shop@1.0.0 test", True), ("> @acme/shop test", False)],
)
def test_the_command_is_the_last_that_names_a_package(command: str, is_shown: bool) -> None:
    text = latest_error("\n".join([*START, command, *START, "Error: no", *END]))
    assert (command in text) is is_shown


fragments = st.one_of(
    clean_texts,
    st.sampled_from(
        [
            "error: x\n",
            "FAILED a::b\n",
            "\x1b[31m",
            "##[error]no\n",
            "##[group]Run x\n",
            "漢" * 200 + "\n",
            "\r\n",
            "…\n",
        ]
    ),
)


@given(parts=st.lists(fragments, max_size=60), chars=st.integers(100, 400), tokens=st.integers(50, 120))
def test_never_over_budget(parts: list[str], chars: int, tokens: int) -> None:
    log = "".join(parts)
    assert len(latest_error(log, chars)) <= chars
    assert TOKENIZER.count(latest_error_within(log, tokens, TOKENIZER)) <= tokens


def test_limits_are_checked() -> None:
    with pytest.raises(InvalidValue):
        latest_error("x", 10)
    with pytest.raises(InvalidValue):
        latest_error_within("x", 0, TOKENIZER)
    with pytest.raises(InvalidValue):
        latest_error("\ud800")


NOISE = [f"10:00:{number % 60:02} fetched page {number}, errors so far: 0" for number in range(800)]
HANDLED = [
    'ERROR:  relation "schema_migrations" does not exist at character 14',
    "acme.QueueEmpty: no message within 1 s",
    "PASS tests/queue.test.js",
]


def bury_among_handled(*failure: str) -> str:
    """Put a failure at the end of a step in which other errors were handled before."""
    return "\n".join(
        [*START, *HANDLED, *NOISE, *HANDLED, *NOISE, *failure, "##[error]Process completed with exit code 1."]
    )


@pytest.mark.parametrize(
    ("failure", "wanted"),
    [
        (
            [
                "InvoiceIT > voids an invoice FAILED", "    java.lang.AssertionError:",
                "    Expecting actual:", '      "OPEN"', "    to be equal to:", '      "VOID"',
                *[f"        at org.junit.jupiter.api.Step{step}.run(Step.java:{step})" for step in range(9)],
                "        at no.acme.InvoiceIT.voids(InvoiceIT.java:73)", "", "> Task :billing:test FAILED",
                "", "FAILURE: Build failed with an exception.", "", "* Where:",
                "Build file 'build.gradle' line: 88", "",
                "* What went wrong:", "Execution failed for task ':billing:test'.", "", "* Try:",
                "> Run with --scan to get full insights.", "", "BUILD FAILED in 2m 9s",
            ],
            [
                "voids an invoice FAILED", '"OPEN"', '"VOID"', "InvoiceIT.java:73",
                "Execution failed for task ':billing:test'", "BUILD FAILED in 2m 9s",
            ],
        ),
        (
            ["src/ui/cart.js", *[f"  {n}:5  warning  'a{n}' is never used  no-unused-vars" for n in range(9)],
             "  90:9  error  'foo' is not defined  no-undef", "", "✖ 10 problems (1 error, 9 warnings)"],
            ["src/ui/cart.js", "'foo' is not defined", "10 problems"],
        ),
        (
            ["--- FAIL: TestPut (0.00s)", "panic: assignment to entry in nil map [recovered]", "",
             "goroutine 7 [running]:", "testing.tRunner.func1.2({0x508ec0, 0x551d00})",
             "\t/usr/lib/go-1.19/src/testing/testing.go:1396 +0x24e", "panic({0x508ec0, 0x551d00})",
             "\t/usr/lib/go-1.19/src/runtime/panic.go:884 +0x212",
             "example.com/ledger/store.(*Store).Put(...)",
             "\t/src/ledger/store/store.go:5 +0x45", "FAIL\texample.com/ledger/store\t0.2s"],
            ["TestPut", "assignment to entry in nil map", "/src/ledger/store/store.go:5"],
        ),
        (
            ["Traceback (most recent call last):", '  File "/srv/sync/main.py", line 91, in <module>',
             "    run()",
             '  File "/srv/sync/main.py", line 77, in run', "    assert page.cursor", "AssertionError"],
            ["line 77, in run", "assert page.cursor", "AssertionError"],
        ),
        (
            ["#12 [build 5/9] RUN pip install -r requirements.txt", "#12 2.1 Collecting fastapi",
             "#12 5.3 ERROR: No matching distribution found for torchaudio==9",
             '#12 ERROR: process "/bin/sh -c pip install" did not complete successfully: exit code: 1'],
            ["RUN pip install -r requirements.txt", "No matching distribution found for torchaudio==9"],
        ),
    ],
    ids=["announced", "heading", "own frame", "frame above", "same step"],
)  # fmt: skip
def test_a_failure_keeps_its_details_among_handled_errors(failure: list[str], wanted: list[str]) -> None:
    text = latest_error_within(bury_among_handled(*failure), 450, TOKENIZER)
    assert [part for part in wanted if part not in text] == []


def test_the_first_of_many_similar_failures_is_kept() -> None:
    errors = [f"src/m{number}.py:{number}: error: Module has no attribute x  [attr]" for number in range(300)]
    text = latest_error_within(bury_among_handled(*errors, "Found 300 errors in 9 files"), 450, TOKENIZER)
    assert errors[0] in text
    assert "Found 300 errors in 9 files" in text


def test_annotations_do_not_end_a_step() -> None:
    log = "\n".join(
        [
            "##[group]Run make check", "##[endgroup]", *START,
            "##[error]src/a.ts(1,2): error TS2322: no", *NOISE,
            "Error: the last check failed", "##[error]Process completed with exit code 2.", *END,
        ]
    )  # fmt: skip
    text = latest_error_within(log, 450, TOKENIZER)
    assert "the last check failed" in text
    assert "exit code 2" in text
