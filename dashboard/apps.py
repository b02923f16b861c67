from django.apps import AppConfig

from contextopt.assemblies.placement.modelcatalog import register_prices


class DashboardConfig(AppConfig):
    name = "dashboard"

    def ready(self) -> None:
        from dashboard.rollups.models import own_prices  # models exist only once the apps are loaded

        register_prices(own_prices)
