from django.apps import AppConfig


class MemoryConfig(AppConfig):
    name = "memory"

    def ready(self) -> None:
        """Make memories searchable, learn from tasks that end, follow votes, have a part in the demo."""
        from contextopt.search import registry
        from dashboard.demo.chapters import register_chapter
        from dashboard.demo.memory import MEMORY
        from memory import listeners
        from memory.memories.memories import SEARCHABLE
        from memory.strategies.lessons import learn_from
        from memory.strategies.reports import register_learner

        registry.register(SEARCHABLE)
        register_learner(learn_from)
        listeners.listen()
        register_chapter(MEMORY)
