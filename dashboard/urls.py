"""The pages' addresses."""

from django.urls import path

from dashboard.views import (
    assemblies,
    configs,
    overview,
    phases,
    records,
    repositories,
    retries,
    search,
    spaces,
    team,
)

app_name = "dashboard"
urlpatterns = [
    path("", overview.overview, name="overview"),
    path("overview/<slug:slug>.csv", overview.overview_csv, name="overview_csv"),
    path("assemblies/", assemblies.assemblies, name="assemblies"),
    path("assemblies.csv", assemblies.assemblies_csv, name="assemblies_csv"),
    path("assemblies/<int:assembly_id>/", assemblies.assembly, name="assembly"),
    path("assemblies/<int:assembly_id>/text", assemblies.assembly_text, name="assembly_text"),
    path("spaces/", spaces.spaces, name="spaces"),
    path("spaces/new", spaces.space_create, name="space_create"),
    path("spaces/<slug:slug>/", spaces.space, name="space"),
    path("spaces/<slug:slug>/edit", configs.space_edit, name="space_edit"),
    path("spaces/<slug:slug>/preview/", spaces.space_preview, name="space_preview"),
    path("spaces/<slug:slug>/import/", spaces.space_import, name="space_import"),
    path("spaces/<slug:slug>/settings/", configs.space_settings, name="space_settings"),
    path("spaces/<slug:slug>/settings/budget", configs.budget_preview, name="space_budget"),
    path(
        "spaces/<slug:slug>/settings/<int:version>/activate",
        configs.config_activate,
        name="space_config_activate",
    ),
    path("spaces/<slug:slug>/records/new/", records.record_new, name="record_new"),
    path("spaces/<slug:slug>/records/<int:record_id>/", records.record, name="record"),
    path("spaces/<slug:slug>/records/<int:record_id>/edit", records.record_edit, name="record_edit"),
    path("spaces/<slug:slug>/records/<int:record_id>/delete", records.record_delete, name="record_delete"),
    path("spaces/<slug:slug>/records/<int:record_id>/restore", records.record_restore, name="record_restore"),
    path("spaces/<slug:slug>/records/<int:record_id>/pin", records.record_pin, name="record_pin"),
    path(
        "spaces/<slug:slug>/records/<int:record_id>/undo/<int:number>",
        records.record_undo,
        name="record_undo",
    ),
    path("spaces/<slug:slug>/records/<int:record_id>/purge", records.record_purge, name="record_purge"),
    path("search/", search.search, name="search"),
    path("phases/", phases.phases, name="phases"),
    path("phases/charts/<slug:slug>.csv", phases.phases_csv, name="phases_csv"),
    # A phase's name may hold anything, a slash too: it is no part of the path.
    path("phases/profile/", phases.phase, name="phase"),
    path("phases/profile/activate", phases.phase_activate, name="phase_activate"),
    path("retries/", retries.retries, name="retries"),
    path("retries/<int:task_id>/", retries.retry, name="retry"),
    path("repositories/", repositories.repositories, name="repositories"),
    path("repositories/<int:repository_id>/", repositories.repository, name="repository"),
    path("settings/", team.settings, name="settings"),
    path("settings/team", team.settings_team, name="settings_team"),
    path("settings/keys", team.key_create, name="key_create"),
    path("settings/keys/<int:key_id>/revoke", team.key_revoke, name="key_revoke"),
    path("team", team.switch_team, name="switch_team"),
    path("demo/", team.demo_status, name="demo_status"),
    path("demo/load", team.demo_load, name="demo_load"),
    path("demo/remove", team.demo_remove, name="demo_remove"),
]
