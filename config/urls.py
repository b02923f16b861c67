"""Mounts the API, the pages and the admin."""

from django.contrib import admin
from django.contrib.auth import views as auth_views
from django.urls import include, path
from django.views.generic import RedirectView

from config.health import healthz
from contextopt.api import api
from dashboard.api import router as health_router
from dashboard.metrics import metrics
from memory.api import ROUTERS

admin.autodiscover()

for router in (*ROUTERS, health_router):
    api.add_router("/v1", router)

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("metrics", metrics, name="metrics"),
    path("api/", api.urls),
    # Our own page limits how often the old password may be guessed.
    path("admin/password_change/", RedirectView.as_view(pattern_name="dashboard:password")),
    path("admin/", admin.site.urls),
    path("accounts/login/", auth_views.LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("accounts/logout/", auth_views.LogoutView.as_view(), name="logout"),
    path("", include("dashboard.urls")),
]

handler403 = "dashboard.kit.frame.forbidden"
handler404 = "dashboard.kit.frame.not_found"
handler500 = "dashboard.kit.frame.server_error"
