from collections.abc import Callable, Sequence

version: str

def ask(
    verb: str,
    options: Sequence[tuple[str, str]],
    document: tuple[str, str] | None = None,
    progress: Callable[[str], object] | None = None,
) -> str: ...
def command(words: Sequence[str], progress: Callable[[str], object] | None = None) -> tuple[int, str]: ...
