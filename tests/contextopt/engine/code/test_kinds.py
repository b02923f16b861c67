import pytest

from contextopt.engine.code.kinds import CHANGELOG, DOCUMENTATION, EXAMPLE, MIGRATION, Kinds, kind_by_path
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


def test_a_long_word_takes_linear_time() -> None:
    # It takes milliseconds; a quadratic algorithm took a minute.
    with within(5):
        Kinds.of(PATHS).steps("x" * 100_000)


def test_no_files_have_no_steps() -> None:
    assert Kinds.of(()).steps("docs").tolist() == []
