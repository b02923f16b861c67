from typing import cast

from django.apps import AppConfig
from django.contrib import admin
from django.contrib.admin import apps as admin_apps
from django.contrib.admin import sites


class ContextoptConfig(AppConfig):
    name = "contextopt"
    default = True


class ContextoptAdminConfig(admin_apps.AdminConfig):
    default = False
    default_site = "contextopt.adminsite.ContextoptAdminSite"

    def ready(self) -> None:
        # Unfold's own app config puts its plain site in place of the default one; put ours back.
        admin.site = sites.site = cast(sites.AdminSite, sites.DefaultAdminSite())
        super().ready()
