from django.apps import AppConfig


class MemoryConfig(AppConfig):
    name = "memory"

    def ready(self) -> None:
        """Make memories searchable, learn from tasks that end, follow votes, have a part in the demo."""
        from contextopt import searchables
        from contextopt.completing import register_learner
        from contextopt.demo.chapters import register_chapter
        from memory import listeners
        from memory.demo import MEMORY
        from memory.learning import learn_from
        from memory.storing import SEARCHABLE

        searchables.register(SEARCHABLE)
        register_learner(learn_from)
        listeners.listen()
        register_chapter(MEMORY)
