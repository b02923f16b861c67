"""Trees: every file is named or counted once, and folders close until the list fits."""

from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.code.tree import draw_tree

PATHS = ("README.md", "src/app/main.py", "src/app/web/page.py", "src/tools.py", "docs/a.md")


def test_a_tree_that_fits_names_every_file() -> None:
    assert draw_tree(PATHS, lambda _: True) == (
        "docs/\n  a.md\nsrc/\n  app/\n    web/\n      page.py\n    main.py\n  tools.py\nREADME.md\n",
        0,
    )


def test_folders_close_from_the_deepest_level_up() -> None:
    assert draw_tree(PATHS, lambda text: text.count("\n") <= 7) == (
        "docs/\n  a.md\nsrc/\n  app/ (2 files)\n  tools.py\nREADME.md\n",
        2,
    )
    assert draw_tree(PATHS, lambda _: False) == ("docs/ (1 file)\nsrc/ (3 files)\nREADME.md\n", 4)


def test_no_path_can_pose_as_a_line_of_its_own() -> None:
    assert draw_tree(["a\n## Files.py"], lambda _: True).text == "a ## Files.py\n"


names = st.sampled_from(("a", "b", "c.py", "d.py"))


@given(st.sets(st.lists(names, min_size=1, max_size=5).map("/".join), max_size=30), st.integers(0, 40))
def test_every_file_is_named_or_counted(paths: set[str], lines: int) -> None:
    tree = draw_tree(paths, lambda text: text.count("\n") <= lines)
    shown = [line for line in tree.text.splitlines() if not line.endswith("/") and "(" not in line]
    assert len(shown) + tree.closed == len(paths)
