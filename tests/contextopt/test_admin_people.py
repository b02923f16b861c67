"""Teams and users in the admin."""

from django.utils import timezone

from contextopt.models import Team, User
from tests import factories
from tests.adminpages import page


def test_team_counts(root, space, django_assert_max_num_queries):
    factories.make_user("anna", space.team)
    with django_assert_max_num_queries(6):
        response = root.get(page(Team, "changelist"))
    assert response.status_code == 200


def test_user_can_be_added(root):
    data = {
        "username": "nina",
        "password1": "correct horse",
        "password2": "correct horse",
        "usable_password": "true",
    }
    assert root.post(page(User, "add"), data).status_code == 302
    assert User.objects.filter(username="nina", date_joined__lte=timezone.now()).exists()
