from django.apps import AppConfig


class MemoryConfig(AppConfig):
    name = "memory"

    def ready(self) -> None:
        """Make memories searchable and follow votes."""
        from contextopt.search import registry
        from memory import listeners
        from memory.memories.memories import SEARCHABLE

        registry.register(SEARCHABLE)
        listeners.listen()
