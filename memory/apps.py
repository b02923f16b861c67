from django.apps import AppConfig


class MemoryConfig(AppConfig):
    name = "memory"

    def ready(self) -> None:
        """Make memories searchable, follow votes, and take part in purges."""
        from contextopt.assemblies.purge import register_eraser
        from contextopt.search import registry
        from contextopt.spaces.spaces import register_space_eraser
        from memory import listeners
        from memory.memories.memories import SEARCHABLE
        from memory.memories.purge import purge_space_memories
        from memory.questions.evaluationresults import erase_from_evaluations

        registry.register(SEARCHABLE)
        register_eraser(erase_from_evaluations)
        register_space_eraser(purge_space_memories)
        listeners.listen()
