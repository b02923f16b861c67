import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.repositories.checkouts import name_of
from contextopt.repositories.models import REPOSITORY_NAME_MAX


@pytest.mark.parametrize(
    ("folder", "origin", "name"),
    [
        ("/a/b.git/", "", "b"),
        ("/", "", "repository"),
        ("/ø å/", "", "repository"),
        ("/.hidden", "", "hidden"),
        ("/srv/shop", "git@example.org:team/cart.git", "shop"),
        ("/srv/cart/repo", "", "cart"),
        ("/srv/pallets+flask/repo", "", "pallets-flask"),
        ("/srv/cart/repo", "git@example.org:team/shop.git", "shop"),
        ("/srv/cart/repo", "https://example.org/shop/repo.git/", "cart"),
        ("/home/ann/shop/src/", "", "shop"),
        ("/shop/.git", "", "shop"),
        ("C:\\work\\Shop\\Repo", "", "Shop"),
        ("/repo", "", "repo"),
        ("/srv/src/repo", "", "repo"),
        ("/srv/cart/repo", "git@example.org:shop.git", "shop"),
    ],
)
def test_a_name_tells_what_the_repository_is(folder: str, origin: str, name: str) -> None:
    assert name_of(folder, origin) == name


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_folder_has_a_plain_name(folder: str, origin: str) -> None:
    name = name_of(folder, origin)
    assert 0 < len(name) <= REPOSITORY_NAME_MAX - 8
    assert name.isascii()
    assert "/" not in name
