import pytest

from contextopt.spaces.configs import ContextConfig
from tests.contextopt.api.conftest import fields_of
from tests.factories import NOW, make_record

CONFIGS = "/spaces/support/configs"


def test_publish_carries_over_what_is_not_given(api, space):
    first = api.post(CONFIGS, {"max_records": 5, "recency_weight": "0.25", "note": "fewer"})
    assert first.status_code == 201
    assert first["Location"] == "/api/v1/spaces/support/configs/2"
    second = api.post(CONFIGS, {"window_days": 30}).json()
    assert second["version"] == 3
    assert second["max_records"] == 5
    assert second["recency_weight"] == "0.250"
    assert second["is_active"]
    assert second["created_by"] == "key:admin-key"
    assert api.post("/assemblies", {"space": "support"}).json()["config_version"] == 3


def test_all_has_one_word(api, space):
    config = api.post(CONFIGS, {"window_days": "all", "question_max_records": 40}).json()
    assert (config["window_days"], config["question_max_records"]) == ("all", 40)
    assert (config["question_window_days"], config["question_notes_chars"]) == ("all", "all")
    config = api.post(CONFIGS, {"question_max_records": "all", "question_window_days": 90}).json()
    assert (config["question_max_records"], config["question_window_days"]) == ("all", 90)
    for number in range(21):
        make_record(space, title=str(number))
    assert api.post(CONFIGS, {"max_records": "all"}).json()["max_records"] == "all"
    answer = api.post("/assemblies", {"space": "support", "as_of": NOW.isoformat()}).json()
    assert len(answer["included"]) == 21


def test_list_and_read(api, space, django_assert_num_queries):
    api.post(CONFIGS, {"max_records": 5})
    with django_assert_num_queries(3):  # the key, the space, the versions
        items = api.get(CONFIGS).json()["items"]
    assert [(item["version"], item["is_active"]) for item in items] == [(2, True), (1, False)]
    assert api.get(f"{CONFIGS}/1").json() == items[1]


def test_activate_an_earlier_version(api, space):
    api.post(CONFIGS, {"max_records": 5})
    response = api.post(f"{CONFIGS}/1/activate")
    assert response.json()["is_active"]
    assert response.json()["version"] == 1
    assert list(ContextConfig.objects.active().values_list("version", flat=True)) == [1]
    assert api.post(f"{CONFIGS}/1/activate").status_code == 200
    assert api.post(CONFIGS, {}).json()["version"] == 3


@pytest.mark.parametrize("path", ["/9", "/9/activate"])
def test_missing_version(api, space, path):
    response = api.post(CONFIGS + path) if path.endswith("activate") else api.get(CONFIGS + path)
    assert response.status_code == 404


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"window_days": 8}, "window_days"),
        ({"window_days": None}, "window_days"),
        ({"max_records": 0}, "max_records"),
        ({"max_records": None}, "max_records"),
        ({"question_window_days": 3_651}, "question_window_days"),
        ({"question_max_records": 1_001}, "question_max_records"),
        ({"question_notes_chars": 0}, "question_notes_chars"),
        ({"question_notes_chars": None}, "question_notes_chars"),
        ({"notes_chars": 500}, "notes_chars"),
        ({"recency_weight": -1}, "recency_weight"),
        ({"encoding": "klingon"}, "encoding"),
        ({"encoding": ""}, "encoding"),
        ({"response_tokens": 10}, "response_tokens"),
        ({"total_tokens": 2_800}, "total_tokens"),
        ({"total_tokens": 3_000, "history_tokens": 1_200}, "total_tokens"),
        ({"total_tokens": 2_000_000}, "total_tokens"),
        ({"record_order": "random"}, "record_order"),
        ({"stage3_context_tokens": 10**12}, "stage3_context_tokens"),
        ({"note": "x" * 201}, "note"),
    ],
    ids=str,
)
def test_refused_settings_publish_nothing(api, space, data, field):
    response = api.post(CONFIGS, data)
    assert response.status_code == 422, response.content
    assert fields_of(response) == {field}
    assert ContextConfig.objects.get().version == 1
