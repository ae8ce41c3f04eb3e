"""Trainyard from Python: the verbs of the command as functions that return the JSON of --json as a dict.

A scenario is the path of a file, or a dict with the content of such a file. Keywords change fields, as --set does; two
underscores stand for a dot:

    import trainyard
    trainyard.run("scenarios/gpt2-xl-ddp-dgx-a100.yaml", plan__micro_batch_size=16)["step_time_s"]
    trainyard.run(scenario, **{"cluster.hca.rate": "400 Gbit/s"})

Each call runs on a thread of its own. Any thread may call, several calls may run at the same time, and Ctrl-C ends them. A
long call calls `progress` with lines of text. `to_frame` makes a table of an answer, and `plot` draws it. `ask` returns the
answer of any verb with --json, and `command` the text of any verb. `write_schedule` and `write_collective` write what a
generator yields to a file that scenarios name. Bad input raises `Error`. Calls use the working folder and the environment
of the process, which must not change while a call runs.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Union

from . import _native
from ._files import write_collective, write_schedule
from ._tables import plot, to_frame, to_pandas

__all__ = ["Error", "ask", "bench", "command", "compare", "explain", "fleet", "learn", "names", "plan", "plot", "run"]
__all__ += ["share", "size", "sweep", "to_frame", "to_pandas", "validate", "write_collective", "write_schedule"]
__version__: str = _native.version

Scenario = Union[str, "os.PathLike[str]", Mapping[str, Any]]
Progress = Callable[[str], object]
Result = dict[str, Any]

_PLACE = re.compile(r"(?P<file>[^\n]+?):(?P<line>\d+):(?P<column>\d+): (?P<message>.*)", re.DOTALL)
_NEAREST = re.compile(r'did you mean "([^"]*)"\?')


class Error(ValueError):
    """Bad input, with the one-line message of the command.

    `file`, `line` and `column` say where the error is, `message` what it is; `nearest` is the name that was probably meant.
    Each is None if there is none. A dict has no lines, so that the text has its name and the path of the key:
    "scenario: cluster.nods: unknown key …".
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        place = _PLACE.fullmatch(text)
        self.file: str | None = place["file"] if place else None
        self.line: int | None = int(place["line"]) if place else None
        self.column: int | None = int(place["column"]) if place else None
        self.message: str = place["message"] if place else text
        nearest = _NEAREST.search(text)
        self.nearest: str | None = nearest[1] if nearest else None


def run(
    scenario: Scenario,
    *,
    name: str = "scenario",
    what_if: bool = True,
    fold: bool = True,
    transport: str | None = None,
    prices: Scenario | None = None,
    timing: bool = False,
    progress: Progress | None = None,
    **fields: Any,
) -> Result:
    """Simulates one training step of a scenario: time, breakdown, memory, bottleneck.

    `name`: the name of a scenario that is a dict.
    """
    call = _Call("run", progress)
    call.scenario(scenario, name)
    call.flag("no-what-if", not what_if)
    call.flag("timing", timing)
    call.options(fold=_folding(fold), transport=transport)
    call.prices(prices)
    call.sets(fields)
    return call.answer()


def sweep(
    scenario: Scenario,
    values: Mapping[str | tuple[str, ...], Iterable[Any]] | None = None,
    *,
    name: str = "scenario",
    where: Sequence[str] = (),
    points: str | os.PathLike[str] | None = None,
    prices: Scenario | None = None,
    sort: str | None = None,
    top: int | None = None,
    baseline: int | None = None,
    progress: Progress | None = None,
    **fields: Any,
) -> Result:
    """Simulates a scenario, or a study, at every combination of the values; the last list varies fastest.

    `values`: lists by field, {"cluster.nodes": [1, 2, 4]}, or a text in the form of --set, "log-range(1, 4)". A tuple of
    fields changes together, {("cluster.nodes", "plan.global_batch_size"): [(1, 8), (2, 16)]}. An impossible point has an
    `error`. `points`: a file that keeps the finished points, so that the same call can resume.
    """
    call = _Call("sweep", progress)
    call.scenario(scenario, name)
    for paths, listed in (values or {}).items():
        if isinstance(paths, str):
            call.option("--set", _axis(paths, listed))
        else:
            columns = list(zip(*listed, strict=True))
            call.option("--set", " & ".join(_axis(*each) for each in zip(paths, columns, strict=True)))
    for condition in where:
        call.option("--where", condition)
    call.options(points=points, sort=sort, top=top, baseline=baseline)
    call.prices(prices)
    call.sets(fields, each=_item)
    return call.answer()


def plan(
    scenario: Scenario | None = None,
    *,
    name: str = "scenario",
    model: str | None = None,
    on: str | None = None,
    nodes: int | None = None,
    batch: int | None = None,
    software: str | None = None,
    prices: Scenario | None = None,
    vary: Mapping[str, Iterable[Any]] | None = None,
    strategy: str | None = None,
    headroom: str | float | None = None,
    offload: bool = False,
    work: float | str | None = None,
    budget: str | None = None,
    top: int | None = None,
    upgrades: bool = False,
    brief: bool = False,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    **fields: Any,
) -> Result:
    """Finds the plan with the least step time that fits. Instead of a scenario: `model`, `on` (a type of node), `nodes`,
    `batch`.

    `work`: largest number of simulated operations of the search; the answer is the same on every machine (default: until
    the best plan is proved). `budget`: a limit of wall time instead, "30 s"; another run may then find another plan.
    """
    call = _Call("plan", progress)
    call.scenario(scenario, name)
    for path, listed in (vary or {}).items():
        call.option("--vary", _axis(path, listed))
    for flag, is_set in (("offload", offload), ("upgrades", upgrades), ("brief", brief)):
        call.flag(flag, is_set)
    call.options(
        model=model, on=on, nodes=nodes, batch=batch, software=software, strategy=strategy, headroom=headroom,
        work=work, budget=budget, top=top, out=out,
    )
    call.prices(prices)
    call.sets(fields)
    return call.answer()


def bench(
    operation: str,
    on: Scenario,
    *,
    name: str = "scenario",
    nodes: int | None = None,
    fabric: str | None = None,
    gpus: int | None = None,
    groups: str | None = None,
    minbytes: str | int | None = None,
    maxbytes: str | int | None = None,
    stepfactor: float | None = None,
    algorithm: str | None = None,
    fidelity: str | None = None,
    channels: int | None = None,
    chunk: str | None = None,
    torus: str | None = None,
    root: int | None = None,
    op: str | None = None,
    datatype: str | None = None,
    check: bool = True,
    fold: bool = True,
    compare: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    **fields: Any,
) -> Result:
    """Times a collective over a range of sizes, as nccl-tests does, on a node of the catalog or a scenario's cluster."""
    call = _Call("bench", progress)
    call.option("OPERATION", operation)
    call.source("--on", on, name)
    call.options(nodes=nodes, fabric=fabric, gpus=gpus, groups=groups)
    call.options(minbytes=minbytes, maxbytes=maxbytes, stepfactor=stepfactor, algorithm=algorithm)
    call.options(fidelity=fidelity, channels=channels, chunk=chunk, torus=torus, root=root, op=op)
    call.options(datatype=datatype, fold=_folding(fold), compare=compare)
    call.flag("no-check", not check)
    call.sets(fields)
    return call.answer()


def size(
    scenario: Scenario | None = None,
    *,
    days: float | str,
    name: str = "scenario",
    model: str | None = None,
    family: str | None = None,
    tokens: float | str | None = None,
    tokens_per_parameter: float | None = None,
    budget: float | str | None = None,
    purchase: bool = False,
    by: str | None = None,
    network: str | None = None,
    switch: str | None = None,
    confidence: float | str | None = None,
    site: str | Mapping[str, Any] | None = None,
    prices: Scenario | None = None,
    nodes_of: str | Sequence[str] | None = None,
    gpus: int | None = None,
    unit: int | None = None,
    batch_tolerance: str | float | None = None,
    work: float | str | None = None,
    search: str | None = None,
    headroom: str | float | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    **fields: Any,
) -> Result:
    """Finds which nodes, and how many, train a model in time: for each type of node the best plan, with failures, energy
    and money.

    `work`: largest number of simulated operations of the search for the plan of one cluster; the answer is the same on
    every machine (default: that of the command). `search`: a limit of wall time instead, "30 s"; another run may then
    find another plan.
    """
    call = _Call("size", progress)
    call.scenario(scenario, name)
    call.options(days=days, model=model, family=family, tokens=tokens, budget=budget, gpus=gpus)
    call.options(unit=unit, work=work, search=search, headroom=headroom, out=out, confidence=confidence)
    call.options(site=None if site is None else _text(site), by=by, network=network, switch=switch)
    call.flag("purchase", purchase)
    types = nodes_of if nodes_of is None or isinstance(nodes_of, str) else ",".join(nodes_of)
    call.options(**{"tokens-per-parameter": tokens_per_parameter, "nodes-of": types, "batch-tolerance": batch_tolerance})
    call.prices(prices)
    call.sets(fields)
    return call.answer()


def fleet(
    fleet: Scenario,
    *,
    nodes: int | str | None = None,
    spares: int | None = None,
    most_nodes: int | None = None,
    prices: Scenario | None = None,
    progress: Progress | None = None,
    **fields: Any,
) -> Result:
    """Simulates trainings that queue on one cluster, often for a year: how many nodes do they need?

    `fleet`: the path of a file, or a dict with its content; files that a dict names are relative to the working folder.
    `nodes`: their number, or "choose". `to_frame(answer)` has the arrivals of the shown run, `to_frame(answer, "groups")`
    the trainings.
    """
    options = {"nodes": nodes, "spares": spares, "most_nodes": most_nodes}
    return _ask_of_files("fleet", [fleet], prices, options, fields, progress)


def compare(
    *scenarios: Scenario, prices: Scenario | None = None, progress: Progress | None = None, **fields: Any
) -> Result:
    """Simulates scenarios and shows them side by side; keywords change a field in all of them. `to_frame(answer)` has a row
    for each scenario."""
    return _ask_of_files("compare", scenarios, prices, {}, fields, progress)


def share(
    cluster: Scenario,
    *,
    steps: int | None = None,
    seed: int | None = None,
    prices: Scenario | None = None,
    progress: Progress | None = None,
    **fields: Any,
) -> Result:
    """Simulates several trainings on one cluster at the same time: how much each is slowed by the others."""
    return _ask_of_files("share", [cluster], prices, {"steps": steps, "seed": seed}, fields, progress)


def learn(
    scenario: Scenario,
    *,
    compare: str | Sequence[str] | None = None,
    seeds: int | None = None,
    progress: Progress | None = None,
    **fields: Any,
) -> Result:
    """Trains a model on small data with the mechanism of a scenario, beside the time of each step. `compare`: fields with
    their values, "plan.data_parallel.local_steps=1,8"."""
    return _ask_of_files("learn", [scenario], None, {"compare": compare, "seeds": seeds}, fields, progress)


def ask(verb: str, *words: str | os.PathLike[str], progress: Progress | None = None, **options: Any) -> Result:
    """Returns what a verb writes with --json, for example ask("topo", "design", hosts=1024, switch="quantum-2").

    Keywords are its flags, with underscores for dashes: True sets a flag, None and False leave it out, a list repeats it.
    """
    return _answer(verb, *(_word(word) for word in words), *_flags(options), progress=progress)


def explain(
    scenario: str | os.PathLike[str],
    *,
    layers: bool = False,
    batch: bool = False,
    limits: bool = False,
    doubt: bool = False,
    progress: Progress | None = None,
    **fields: Any,
) -> Result:
    """Explains why the step of a scenario's file takes this long; or its layers, batches, limits or doubt."""
    views = {"--layers": layers, "--batch": batch, "--limits": limits, "--doubt": doubt}
    sets = [f"--set={path.replace('__', '.')}={_text(value)}" for path, value in fields.items()]
    words = [flag for flag, is_set in views.items() if is_set] + sets
    return _answer("explain", _word(scenario), *words, progress=progress)


def validate(
    measurements: str,
    *,
    points: bool = False,
    family: Sequence[str] = (),
    left_out: bool = False,
    knobs: bool = False,
    progress: Progress | None = None,
) -> Result:
    """Compares the simulator with a set of measurements, such as "kernels" or "training"."""
    flags = {"--points": points, "--left-out": left_out, "--knobs": knobs}
    words = [flag for flag, is_set in flags.items() if is_set] + [f"--family={name}" for name in family]
    return _answer("validate", measurements, *words, progress=progress)


def names(kind: str | None = None) -> Result:
    """The names that scenarios can use, with their main figures, as `trainyard list` shows them: names("gpus")["gpus"]."""
    return _answer("list", *([kind] if kind else []))


def command(*words: str | os.PathLike[str], progress: Progress | None = None) -> str:
    """Runs any verb with the words of its command line, and returns what it prints.

    Example: command("topo", "show", "gpt2-one-a100"). Limits that are not met (exit code 1) are no error here.
    """
    return _native.command([_word(word) for word in words], progress)[1]


def _flags(options: Mapping[str, Any]) -> list[str]:
    """Flags of the command line with their values."""
    flags = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if each is True:
                flags.append(flag)
            elif each is not None and each is not False:
                flags.append(f"{flag}={_text(each)}")
    return flags


def _ask_of_files(
    verb: str,
    files: Sequence[Scenario],
    prices: Scenario | None,
    options: Mapping[str, Any],
    fields: Mapping[str, Any],
    progress: Progress | None,
) -> Result:
    """The answer of a verb that takes files. Dicts become files in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="trainyard-") as folder:

        def path_of(content: Scenario, name: str) -> str:
            if not isinstance(content, Mapping):
                return _word(content)
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(_json(content))
            return path

        words = [path_of(content, f"{verb}-{number}.yaml") for number, content in enumerate(files, 1)]
        words += [] if prices is None else [f"--prices={path_of(prices, 'prices.yaml')}"]
        words += [f"--set={path.replace('__', '.')}={_text(value)}" for path, value in fields.items()]
        return _answer(verb, *words, *_flags(options), progress=progress)


def _answer(*words: str, progress: Progress | None = None) -> Result:
    answer: Result = json.loads(_native.command([*words, "--json", "-"], progress)[1])
    return answer


class _Call:
    """A verb, its options as texts, and the scenario if it is a dict."""

    def __init__(self, verb: str, progress: Progress | None) -> None:
        self.verb = verb
        self.texts: list[tuple[str, str]] = []
        self.document: tuple[str, str] | None = None
        self.progress = progress

    def option(self, name: str, value: str | os.PathLike[str]) -> None:
        self.texts.append((name, _word(value)))

    def source(self, option: str, scenario: Scenario, name: str) -> None:
        if isinstance(scenario, Mapping):
            self.document = (name + ".yaml", _json(scenario))
            self.option(option, self.document[0])
        else:
            self.option(option, scenario)

    def scenario(self, scenario: Scenario | None, name: str) -> None:
        if scenario is not None:
            self.source("SCENARIO", scenario, name)

    def prices(self, prices: Scenario | None) -> None:
        if isinstance(prices, Mapping):
            self.option("--set", "prices=" + _json(prices))
        elif prices is not None:
            self.option("--prices", prices)

    def flag(self, flag: str, is_set: bool) -> None:
        if is_set:
            self.option("--" + flag, "true")

    def options(self, **options: Any) -> None:
        for flag, value in options.items():
            if value is not None:
                self.option("--" + flag, str(value))

    def sets(self, fields: Mapping[str, Any], each: Callable[[Any], str] | None = None) -> None:
        for path, value in fields.items():
            self.option("--set", f"{path.replace('__', '.')}={(each or _text)(value)}")

    def answer(self) -> Result:
        answer: Result = json.loads(_native.ask(self.verb, self.texts, self.document, self.progress))
        return answer


def _json(value: Any) -> str:
    """The value as JSON. Numbers of numpy become numbers, and paths become text."""

    def plain(other: Any) -> Any:
        if isinstance(other, os.PathLike):
            return os.fspath(other)
        if hasattr(other, "item"):
            return other.item()
        raise Error(f"a {type(other).__name__} in a scenario: numbers, text, lists and dicts expected")

    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1, default=plain)
    except Error:
        raise
    except ValueError as error:
        raise Error(f"a scenario has a number that is not finite: {error}") from None


def _folding(fold: bool) -> str | None:
    """The option --fold. Raises `Error` for anything but True and False."""
    if not isinstance(fold, bool):
        raise Error(f"fold: True or False expected, not {fold!r}")
    return None if fold else "off"


def _word(value: Any) -> str:
    """A word of a command line: text, a path or a number. Raises `Error` for anything else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, (str, os.PathLike)):
        raise Error(f"a {type(value).__name__} as an argument: a text, the path of a file or a number expected")
    return os.fspath(value)


def _text(value: Any) -> str:
    """The value in the form of --set: text unchanged, everything else as YAML (of which JSON is a part)."""
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    return _json(value).replace("\n", "")


def _item(value: Any) -> str:
    """The value as an item of a list of --set. Text with commas, ampersands and the like is quoted."""
    text = _text(value)
    special = isinstance(value, str) and re.search(r"[,&\"'\[\](){}]", value)
    return json.dumps(text, ensure_ascii=False) if special else text


def _axis(path: str, values: Iterable[Any]) -> str:
    if isinstance(values, str):
        return f"{path}={values}"
    return f"{path}={','.join(_item(value) for value in values)}"
