from django.apps import AppConfig


class ContextoptConfig(AppConfig):
    name = "contextopt"
