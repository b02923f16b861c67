from django.apps import AppConfig
from django.contrib.admin import apps as admin_apps


class ContextoptConfig(AppConfig):
    name = "contextopt"
    default = True

    def ready(self) -> None:
        # Models cannot be imported before the apps are ready.
        from django.contrib.auth.signals import user_logged_in

        from contextopt.assemblies.purge import erase_space_from_agents, register_eraser
        from contextopt.gateway.policies import erase_from_requests, erase_space_from_requests
        from contextopt.people.logins import note_log_in
        from contextopt.search import registry
        from contextopt.spaces.records import SEARCHABLE
        from contextopt.spaces.spaces import register_space_eraser

        registry.register(SEARCHABLE)
        user_logged_in.connect(note_log_in)
        register_eraser(erase_from_requests)
        register_space_eraser(erase_space_from_agents)
        register_space_eraser(erase_space_from_requests)


class ContextoptAdminConfig(admin_apps.SimpleAdminConfig):
    """The admin without its pages, which config/urls.py loads: most commands never show one."""

    default = False
    default_site = "contextopt.adminsite.ContextoptAdminSite"
