"""What enters one prompt, decided and logged."""
