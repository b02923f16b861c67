import pytest

from contextopt.engine.code.kinds import (
    CHANGELOG,
    DOCUMENTATION,
    EXAMPLE,
    GENERATED,
    MIGRATION,
    TEMPLATE,
    Kinds,
    is_issue_text,
    kind_by_path,
)
from tests.speed import within


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("README", DOCUMENTATION),
        ("README.md", DOCUMENTATION),
        ("packages/docs/content/api.mdx", DOCUMENTATION),
        ("docs/conf.py", DOCUMENTATION),
        ("doc/rg.1.txt.tpl", DOCUMENTATION),
        ("doc/man_docs.go", ""),
        ("website/views.py", ""),
        ("website/index.html", DOCUMENTATION),
        ("CHANGES.rst", CHANGELOG),
        ("changelog.d/12.fixed", CHANGELOG),
        ("src/changes.py", ""),
        ("src/history/view.ts", ""),
        ("examples/tutorial/flaskr/db.py", EXAMPLE),
        ("crates/ignore/examples/walk.rs", EXAMPLE),
        ("dashboard/demo/stories.py", ""),
        ("demo/data.json", EXAMPLE),
        ("shop/migrations/0002_price.py", MIGRATION),
        ("shop/migrations/__init__.py", ""),
        ("django/db/migrations/autodetector.py", ""),
        ("db/migrate/20130205_create_carts.rb", MIGRATION),
        ("prisma/migrations/20240101_init/migration.sql", MIGRATION),
        ("alembic/versions/ae1027a6acf0_add_cart.py", MIGRATION),
        ("src/main/resources/db/migration/V1__init.sql", MIGRATION),
        ("requirements/docs.txt", ""),
        ("requirements.txt", ""),
        ("CMakeLists.txt", ""),
        ("LICENSE.txt", DOCUMENTATION),
        (".gitignore", ""),
        ("src/flask/app.py", ""),
        ("web/dist/app.js", GENERATED),
        ("vendor/github.com/spf13/pflag/flag.go", GENERATED),
        ("src/pip/_vendor/rich/text.py", GENERATED),
        ("third_party/zlib/inflate.c", GENERATED),
        ("static/js/plotly.min.js", GENERATED),
        ("static/js/app.js.map", GENERATED),
        ("api/v1/types.pb.go", GENERATED),
        ("api/types_pb2.py", GENERATED),
        ("web/package-lock.json", GENERATED),
        ("go.sum", GENERATED),
        ("dist.py", ""),
        ("src/vendor.ts", ""),
        ("src/admin.js", ""),
        ("maps/oslo.map", ""),
        (".github/ISSUE_TEMPLATE/bug_report.yml", TEMPLATE),
        (".github/ISSUE_TEMPLATE.md", TEMPLATE),
        (".github/PULL_REQUEST_TEMPLATE.md", TEMPLATE),
        (".gitlab/merge_request_templates/Default.md", TEMPLATE),
        ("docs/releases/5.1.txt", CHANGELOG),
        ("blog/_posts/2026-01-02-faster.md", CHANGELOG),
        ("blog/models.py", ""),
        ("", ""),
    ],
)
def test_a_path_tells_the_kind(path: str, kind: str) -> None:
    assert kind_by_path(path) == kind


PATHS = ("CHANGES.rst", "docs/api.md", "examples/a.py", "shop/cart.py", "shop/migrations/0002_price.py")


@pytest.mark.parametrize(
    ("task", "steps"),
    [
        ("Round prices", [0.8, 0.8, 0.8, 0, 1]),
        ("", [0.8, 0.8, 0.8, 0, 1]),
        ("Add a migration for prices", [0.8, 0.8, 0.8, 0, 0]),
        ("Fix a typo in the docs", [0.8, 0, 0.8, 0, 1]),
        ("Skriv eksempel og endringslogg", [0, 0.8, 0, 0, 1]),
        ("Round prices\n\nThe documentation says half up.", [0.8, 0.4, 0.8, 0, 1]),
        ("Round prices\n\nas said in docs/api.md", [0.8, 0, 0.8, 0, 1]),
        ("0002_price.py rounds down", [0.8, 0.8, 0.8, 0, 0]),
    ],
)
def test_a_kind_is_ranked_lower_unless_the_task_mentions_it(task: str, steps: list[float]) -> None:
    assert Kinds.of(PATHS).steps(task).tolist() == steps


ISSUE = """Prices are rounded the wrong way

### Steps to reproduce

1. Add a migration with example prices, after the last release.
2. Round them.

### Expected behaviour

Half up, as in the changelog.
"""


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        (ISSUE, True),
        ("Title\n\n## One\nText\n## Two\nText\n", True),
        ("Round prices\n\nThey were rounded\nhalf down until now,\nwhich was wrong.", False),
        ("Environment", False),
        ("", False),
    ],
)
def test_a_text_below_the_headings_of_a_form_is_an_issue(task: str, expected: bool) -> None:
    assert is_issue_text(task) == expected


WRITTEN = ("CHANGES.rst", ".github/ISSUE_TEMPLATE/bug.md", "dist/cart.js", "shop/cart.py", "shop/cart_pb2.py")


@pytest.mark.parametrize(
    ("task", "damping"),
    [
        ("Round prices", [1, 0.1, 0.1, 1, 0.1]),
        ("Rebuild the bundle", [1, 0.1, 1, 1, 1]),
        ("Ask for the version in the issue template", [1, 1, 0.1, 1, 0.1]),
        ("cart_pb2.py is stale", [1, 0.1, 0.1, 1, 1]),
        (ISSUE, [0.3, 0.1, 0.1, 1, 0.1]),
        (f"The changelog lacks prices\n{ISSUE}", [1, 0.1, 0.1, 1, 0.1]),
    ],
)
def test_words_of_files_that_others_write_count_less(task: str, damping: list[float]) -> None:
    assert Kinds.of(WRITTEN).damping(task).tolist() == damping


def test_the_body_of_an_issue_mentions_no_kind() -> None:
    assert Kinds.of(PATHS).steps(ISSUE).tolist() == [0.8, 0.8, 0.8, 0, 1]


def test_a_file_that_says_so_is_generated() -> None:
    assert Kinds.of(PATHS, {"shop/cart.py"}).steps("Round prices").tolist() == [0.8, 0.8, 0.8, 1, 1]


def test_a_long_word_takes_linear_time() -> None:
    # It takes milliseconds; a quadratic algorithm took a minute.
    with within(5):
        Kinds.of(PATHS).steps("x" * 100_000)


def test_no_files_have_no_steps() -> None:
    assert Kinds.of(()).steps("docs").tolist() == []
