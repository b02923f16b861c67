"""Tells a collector of OpenTelemetry about prompts, with the names of its GenAI conventions.

Nothing is imported or done unless `OTEL_EXPORTER_OTLP_ENDPOINT` is set.
"""
