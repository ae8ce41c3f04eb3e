from collections.abc import Callable

version: str

def ask(question: str, progress: Callable[[str], object] | None = None) -> str: ...
