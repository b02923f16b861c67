"""Reports prompts to an OpenTelemetry collector, under the names of the GenAI conventions.

Nothing is imported or done unless `OTEL_EXPORTER_OTLP_ENDPOINT` is set.
"""
