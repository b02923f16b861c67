"""Settings of a space in the admin: each save publishes a version."""

import pytest

from contextopt.spaces.configs import ContextConfig
from contextopt.spaces.forms import shown_settings
from memory.questions.sets import set_minimum
from tests.adminpages import page
from tests.memory.questions.conftest import make_questions, make_talk


class TestConfig:
    def form(self, space, **overrides):
        data = shown_settings(space.configs.active().get().settings) | {"note": "", "space": space.pk}
        return {name: "" if value is None else value for name, value in data.items()} | overrides

    def test_add_publishes_the_next_version(self, root, space):
        root.post(page(ContextConfig, "add"), self.form(space, max_records=7, note="fewer"))
        config = space.configs.active().get()
        assert (config.version, config.settings.max_records, config.created_by) == (2, 7, "user:root")

    def test_form_begins_with_the_active_settings(self, root, space):
        ContextConfig.objects.publish(space=space, created_by="test", max_records=17)
        response = root.get(page(ContextConfig, "add"), {"space": space.pk})
        assert b'value="17"' in response.content

    @pytest.mark.parametrize("space_id", ["x", "9" * 40, "-1", "999999"])
    def test_form_of_no_space(self, root, space_id):
        assert root.get(page(ContextConfig, "add"), {"space": space_id}).status_code == 200

    @pytest.mark.parametrize(
        "overrides",
        [{"encoding": "klingon"}, {"response_tokens": 10}, {"total_tokens": 1_000, "response_tokens": 2_000}],
        ids=str,
    )
    def test_bad_settings_publish_nothing(self, root, space, overrides):
        assert root.post(page(ContextConfig, "add"), self.form(space, **overrides)).status_code == 200
        assert space.configs.count() == 1

    def test_settings_below_a_minimum_recall_are_refused(self, root, space):
        make_talk(space)
        set_minimum(question_set=make_questions(space), min_recall=0.9, actor="test")
        refused = root.post(page(ContextConfig, "add"), self.form(space, question_notes_chars=10))
        assert b"below its minimum of 90.0 %" in refused.content
        assert space.configs.count() == 1
        root.post(page(ContextConfig, "add"), self.form(space, max_records=7))
        assert space.configs.count() == 2

    def test_versions_are_not_edited(self, root, space):
        config = space.configs.get()
        assert root.post(page(ContextConfig, "change", config.pk), {"max_records": 9}).status_code == 403
