from django.apps import AppConfig


class MemoryConfig(AppConfig):
    name = "memory"

    def ready(self) -> None:
        """Make memories searchable, learn from tasks that end, and follow votes."""
        from contextopt import searchables
        from contextopt.completing import register_learner
        from memory import listeners
        from memory.learning import learn_from
        from memory.storing import SEARCHABLE

        searchables.register(SEARCHABLE)
        register_learner(learn_from)
        listeners.listen()
