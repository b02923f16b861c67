"""What the HTTP API says of what was learned. `config.api` puts it beside the rest."""
