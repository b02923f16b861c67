from django.apps import AppConfig
from django.contrib.admin import apps as admin_apps


class ContextoptConfig(AppConfig):
    name = "contextopt"
    default = True


class ContextoptAdminConfig(admin_apps.AdminConfig):
    default = False
    default_site = "contextopt.adminsite.ContextoptAdminSite"
