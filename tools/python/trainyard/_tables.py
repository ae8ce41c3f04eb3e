"""Tables of answers, and curves of their columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import matplotlib.axes
    import pandas

Result = dict[str, Any]


def to_frame(result: Result, table: str | None = None) -> pandas.DataFrame | list[dict[str, Any]]:
    """Returns the table of an answer: points of a sweep, best plans, sizes of a cluster, arrivals of a fleet, compared
    scenarios, jobs that share a cluster, rows of a benchmark. `table`: the key of another list of the answer, such as
    "choices" or "networks.rows" of `size`, or "groups" of `fleet`.

    It is a DataFrame of pandas, or without pandas a list of dicts, one a row. Keys of inner objects have dots.
    """
    rows = _rows(result, table)
    try:
        from pandas import DataFrame
    except ImportError:
        return rows
    return DataFrame(rows)


def to_pandas(result: Result, table: str | None = None) -> pandas.DataFrame:
    """The same as `to_frame`, but needs pandas."""
    try:
        from pandas import DataFrame
    except ImportError as error:
        raise ImportError("trainyard.to_pandas needs pandas (Debian: python3-pandas)") from error
    return DataFrame(_rows(result, table))


def plot(
    result: Result, x: str | None = None, y: str | None = None, ax: matplotlib.axes.Axes | None = None
) -> matplotlib.axes.Axes:
    """Draws one column of an answer's table against another, and returns the axes. Needs Matplotlib.

    Default: of a sweep the step time against the field that varies, of plans and compared scenarios the step time, of sizes
    the cost (or the device-hours) against the days, of a fleet the time of each training's wait, of a benchmark the bus
    bandwidth against the size. Rows without both values are left out. Sizes on each type of nodes have a curve of their own.
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("trainyard.plot needs Matplotlib (Debian: python3-matplotlib)") from error
    x, y, all_points = _curve(result, x, y)
    axes = ax if ax is not None else pyplot.subplots()[1]
    curves = [(None, all_points)]
    if "deadline_days" in result and x != "node":
        nodes = sorted({row["node"] for row in result["rows"] if x in row and y in row})
        curves = [(node, _curve({**result, "rows": [r for r in result["rows"] if r["node"] == node]}, x, y)[2]) for node in nodes]
    for label, points in curves:
        axes.plot([point[0] for point in points], [point[1] for point in points], marker="o", label=label)
    if len(curves) > 1:
        axes.legend()
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if x == "size_bytes":
        axes.set_xscale("log", base=2)
    return axes


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The object without inner objects: their keys follow those of the outer ones after a dot."""
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            flat.update(_flat(inner, f"{prefix}{key}."))
        else:
            flat[prefix + key] = inner
    return flat


def _rows(result: Result, table: str | None = None) -> list[dict[str, Any]]:
    if table is not None:
        found: Any = result
        for key in table.split("."):
            found = found.get(key) if isinstance(found, Mapping) else None
        if not isinstance(found, list) or not all(isinstance(row, Mapping) for row in found):
            known = sorted(key for key, value in result.items() if isinstance(value, list))
            raise ValueError(f"no table {table} in the answer; known: {', '.join(known)}")
        return [_flat(row) for row in found]
    if "points" in result:
        return [{**point["set"], **_flat({k: v for k, v in point.items() if k != "set"})} for point in result["points"]]
    for key in ("best", "rows", "trainings", "scenarios", "jobs"):
        if key in result:
            return [_flat(row) for row in result[key]]
    raise ValueError("an answer of sweep, plan, size, fleet, compare, share or bench expected, or the name of a table")


def _number(value: Any) -> float | None:
    """The number of a value, which may have a unit: "400 Gbit/s" is 400."""
    try:
        return float(str(value).split(" ")[0])
    except ValueError:
        return None


def _curve(result: Result, x: str | None, y: str | None) -> tuple[str, str, list[tuple[Any, float]]]:
    """The columns of the curve, and its points. Values of x that are no numbers are drawn as texts, one beside the other."""
    rows = _rows(result)
    if not rows:
        raise ValueError("the answer has no rows to draw")
    if "points" in result:
        varied = [key for key in result["points"][0]["set"] if len({str(row.get(key)) for row in rows}) > 1]
        defaults = ((varied or list(result["points"][0]["set"]))[0], "step_time_s")
    elif "best" in result:
        defaults = ("plan", "step_time_s")
    elif "deadline_days" in result:
        defaults = ("days", "money" if any("money" in row for row in rows) else "gpu_hours")
    elif "trainings" in result:
        defaults = ("name", "waiting_s")
    elif "scenarios" in result:
        defaults = ("scenario", "step_time_s")
    elif "jobs" in result:
        defaults = ("name", "step_s")
    else:
        defaults = ("size_bytes", "busbw_GBps")
    x, y = x or defaults[0], y or defaults[1]
    for column in (x, y):
        if not any(column in row for row in rows):
            known = sorted({key for row in rows for key in row})
            raise ValueError(f"no column {column}; known: {', '.join(known)}")
    points = [(row[x], _number(row[y])) for row in rows if row.get(x) is not None and _number(row.get(y)) is not None]
    is_text = any(_number(place) is None for place, _ in points)
    return x, y, [(str(place) if is_text else _number(place), height) for place, height in points]
