from django.apps import AppConfig


class MemoryConfig(AppConfig):
    name = "memory"

    def ready(self) -> None:
        """Make memories searchable, and learn from tasks that end."""
        from contextopt import searchables
        from contextopt.completing import register_learner
        from memory.learning import learn_from
        from memory.storing import SEARCHABLE

        searchables.register(SEARCHABLE)
        register_learner(learn_from)
