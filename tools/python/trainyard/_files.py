"""Files of pipeline schedules and collectives, from generators."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Union

Path = Union[str, "os.PathLike[str]"]
Pass = Union[str, tuple[str, int], tuple[str, int, int]]


def write_schedule(
    path: Path, passes: Callable[[int], Iterable[Pass]], stages: int, *, chunks: int = 1, placement: str = "loop"
) -> str:
    """Writes the file of a pipeline schedule, and returns its path, which plan.pipeline.schedule takes.

    `passes(stage)` yields the passes of a stage in their order: "F3" or ("F", 3), with several chunks "F3.1" or
    ("F", 3, 1). F is a forward and B a backward pass, I and W are gradients of inputs and of weights. The number is the
    micro-batch, then the chunk. `run` and the other verbs check the order, and raise `Error` with the line of a fault.
    """
    lines = [f"chunks: {chunks}", f"placement: {placement}", "stages:"]
    for stage in range(stages):
        lines.append(f"  - [{', '.join(_pass_name(item) for item in passes(stage))}]")
    return _write(path, ".yaml", lines)


def write_collective(
    path: Path, steps: Iterable[Iterable[Mapping[str, Any]]], *, collective: str, ranks: int, chunks: int
) -> str:
    """Writes the file of a collective, and returns its path, which `bench` and a plan take in place of an algorithm.

    `steps` yields the transfers of one step after another: {"from": 0, "to": 1, "chunk": 0}, with "reduce" and "into" as
    in such a file. `collective` is all-reduce, all-gather, reduce-scatter or all-to-all.
    """
    lines = [f"collective: {collective}", f"ranks: {ranks}", f"chunks: {chunks}", "steps:"]
    for number, transfers in enumerate(steps):
        lines.extend(f"  - {json.dumps({'step': number, **transfer})}" for transfer in transfers)
    return _write(path, ".yaml", lines)


def _pass_name(item: Pass) -> str:
    if isinstance(item, str):
        return item
    return item[0] + ".".join(str(number) for number in item[1:])


def _write(path: Path, ending: str, lines: list[str]) -> str:
    name = os.fspath(path)
    if not name.endswith(ending):
        raise ValueError(f"{name}: the name of such a file ends in {ending}")
    with open(name, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return name
