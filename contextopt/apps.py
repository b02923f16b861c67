from django.apps import AppConfig
from django.contrib.admin import apps as admin_apps


class ContextoptConfig(AppConfig):
    name = "contextopt"
    default = True

    def ready(self) -> None:
        # Models cannot be imported before the apps are ready.
        from django.contrib.auth.signals import user_logged_in

        from contextopt.assemblies.purge import register_eraser
        from contextopt.gateway.purge import erase_from_requests
        from contextopt.models import Record, RecordEmbedding
        from contextopt.people.logins import note_log_in
        from contextopt.search import registry

        registry.register(
            registry.Searchable(
                name="record",
                model=Record,
                embedding=RecordEmbedding,
                owner_column="record_id",
                corpus_column="space_id",
                text_columns=("title", "title", "notes"),
                live_sql="t.deleted_at IS NULL",
                source_column="source",
                has_windows=True,
            )
        )
        user_logged_in.connect(note_log_in)
        register_eraser(erase_from_requests)


class ContextoptAdminConfig(admin_apps.AdminConfig):
    default = False
    default_site = "contextopt.adminsite.site.ContextoptAdminSite"
