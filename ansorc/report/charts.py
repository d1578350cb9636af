"""The charts of a report, as Vega-Lite specifications (vega.github.io/vega-lite, version 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ansorc.codegen.base import MachineLimits
from ansorc.report.history import Forecast, History, RoundQuality
from ansorc.target.units import TimeUnit, time_unit

Spec: TypeAlias = dict[str, object]
"""A specification; its colours are those of the page."""
_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""The name of the schema; it is never fetched."""
_CONTAINER = {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}


def curve(history: History) -> Spec:
    """Return the chart of every trial's time and of the best so far; failures are at the bottom."""
    times = [trial.median_s for trial in history.records if trial.median_s is not None]
    least = min(times, default=1e-3)
    unit = time_unit(least)
    rows: list[Spec] = []
    for number, (record, best) in enumerate(
        zip(history.records, history.curve, strict=True), start=1
    ):
        what = "measured" if record.failure is None else record.failure.value
        shown_s = 0.9 * least if record.median_s is None else record.median_s
        rows.append({"trial": number, unit.name: _in(unit, shown_s), "what": what,
                     "best": None if best is None else _in(unit, best)})  # fmt: skip
    x = _axis("trial", "trial")
    points: Spec = {
        "mark": {"type": "point", "filled": True, "size": 24, "opacity": 0.7},
        "encoding": {
            "x": x, "y": _axis(unit.name, f"{unit.name} of one call", scale="log"),
            "color": {"field": "what", "type": "nominal", "title": None,
                      "legend": {"orient": "bottom"}},
            "shape": {"field": "what", "type": "nominal", "title": None},
            "tooltip": [{"field": "trial"}, {"field": unit.name}, {"field": "what"}],
        },
    }  # fmt: skip
    line: Spec = {
        "transform": [{"filter": "isValid(datum.best)"}],
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 2},
        "encoding": {"x": x, "y": _axis("best", f"{unit.name} of one call", scale="log")},
    }
    return _chart(rows, {"layer": [line, points]}, "Time of each trial, and the best so far", 280)


def seconds_by_phase(phases: Mapping[str, float]) -> Spec:
    """Return a bar for the seconds of each phase."""
    rows: list[Spec] = [{"phase": name, "seconds": _round(value)} for name, value in phases.items()]
    return _bars(rows, "phase", "seconds", "Seconds by phase")


def failures(history: History) -> Spec:
    """Return a bar for the failed trials of each class."""
    rows: list[Spec] = [
        {"class": name, "trials": count} for name, count in history.failures.most_common()
    ]
    return _bars(rows, "class", "trials", "Failed trials by class")


def predictions(forecasts: Sequence[Forecast]) -> Spec:
    """Return predicted over measured times, with the line where they are equal."""
    values = [
        value for forecast in forecasts for value in (forecast.measured_s, forecast.predicted_s)
    ]
    unit = time_unit(min(values))
    rows: list[Spec] = [
        {"trial": forecast.trial, "measured": _in(unit, forecast.measured_s),
         "predicted": _in(unit, forecast.predicted_s)}
        for forecast in forecasts
    ]  # fmt: skip
    ends: list[Spec] = [{"time": _in(unit, end)} for end in (min(values), max(values))]
    equal: Spec = {
        "data": {"values": ends},
        "mark": {"type": "line", "strokeDash": [4, 4], "opacity": 0.6},
        "encoding": {"x": _axis("time", f"measured {unit.name}", scale="log"),
                     "y": _axis("time", f"predicted {unit.name}", scale="log")},
    }  # fmt: skip
    points: Spec = {
        "mark": {"type": "point", "filled": True, "size": 24, "opacity": 0.7},
        "encoding": {
            "x": _axis("measured", f"measured {unit.name}", scale="log"),
            "y": _axis("predicted", f"predicted {unit.name}", scale="log"),
            "tooltip": [{"field": "trial"}, {"field": "measured"}, {"field": "predicted"}],
        },
    }
    return _chart(rows, {"layer": [equal, points]}, "Predicted over measured times", 300)


def ranking(rounds: Sequence[RoundQuality]) -> Spec:
    """Return the share of correctly ordered pairs of each round."""
    rows: list[Spec] = [
        {"trial": round_.first, "pairs": _round(round_.quality.pairwise)} for round_ in rounds
    ]
    body: Spec = {
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": _axis("trial", "first trial of the round"),
            "y": {"field": "pairs", "type": "quantitative", "title": "pairs ordered rightly",
                  "scale": {"domain": [0, 1]}, "axis": {"format": "%"}},
            "tooltip": [{"field": "trial"}, {"field": "pairs", "format": ".0%"}],
        },
    }  # fmt: skip
    return _chart(rows, body, "Pairs of programs that the model ordered rightly, by round", 200)


def roofline(
    intensity: float, rates: Mapping[str, float], limits: MachineLimits, *, one_core: bool
) -> Spec:
    """Return the limits of the machine, and programs by name with their FLOP/s.

    `intensity` is in floating-point operations for each byte.
    """
    peak = limits.fma_one if one_core else limits.fma_all
    read = limits.read_one if one_core else limits.read_all
    ridge = peak / read
    ends = sorted({min(ridge, intensity) / 8, ridge, max(ridge, intensity) * 8})
    roof: list[Spec] = [
        {"intensity": _round(intensity_), "rate": _round(min(peak, intensity_ * read) / 1e9)}
        for intensity_ in ends
    ]
    x = _axis("intensity", "FLOP for each byte of inputs and outputs", scale="log")
    y = _axis("rate", "GFLOP/s", scale="log")
    line: Spec = {
        "data": {"values": roof},
        "mark": {"type": "line", "strokeWidth": 2, "opacity": 0.7},
        "encoding": {"x": x, "y": y},
    }
    rows: list[Spec] = [
        {"intensity": _round(intensity), "rate": _round(rate / 1e9), "program": name}
        for name, rate in rates.items()
    ]
    points: Spec = {
        "mark": {"type": "point", "filled": True, "size": 80},
        "encoding": {
            "x": x, "y": y,
            "color": {"field": "program", "type": "nominal", "title": None,
                      "legend": {"orient": "bottom"}},
            "shape": {"field": "program", "type": "nominal", "title": None},
            "tooltip": [{"field": "program"}, {"field": "rate", "title": "GFLOP/s"}],
        },
    }  # fmt: skip
    return _chart(rows, {"layer": [line, points]}, "Roofline with the measured limits", 260)


def shares(rows: Sequence[tuple[str, float]]) -> Spec:
    """Return a bar for the time of each task in one call of a network; `rows` has one at least."""
    unit = time_unit(max(seconds for _, seconds in rows))
    bars: list[Spec] = [{"task": name, unit.name: _in(unit, seconds)} for name, seconds in rows]
    return _bars(bars, "task", unit.name, "Time of each task")


def trials_over_time(histories: Sequence[History]) -> Spec:
    """Return how many trials each task had had, over the minutes since the first."""
    made = [
        (record.created, number) for number, each in enumerate(histories) for record in each.records
    ]
    begin = min((created for created, _ in made), default=0.0)
    counts = [0] * len(histories)
    rows: list[Spec] = []
    for created, number in sorted(made):
        counts[number] += 1
        rows.append({"minutes": _round((created - begin) / 60), "trials": counts[number],
                     "task": histories[number].name})  # fmt: skip
    body: Spec = {
        "mark": {"type": "line", "interpolate": "step-after", "point": {"size": 16}},
        "encoding": {
            "x": _axis("minutes", "minutes since the first trial"), "y": _axis("trials", "trials"),
            "color": {"field": "task", "type": "nominal", "title": None,
                      "legend": {"orient": "bottom", "columns": 2, "symbolLimit": 12}},
            "tooltip": [{"field": "task"}, {"field": "trials"}, {"field": "minutes"}],
        },
    }  # fmt: skip
    return _chart(rows, body, "Trials of each task over time", 260)


def relative_bars(rows: Sequence[tuple[str, str, float]]) -> Spec:
    """Return bars of (workload, side, speed), grouped by workload; 1 is the fastest side."""
    bars: list[Spec] = [
        {"workload": workload, "side": side, "speed": _round(speed)}
        for workload, side, speed in rows
    ]
    body: Spec = {
        "mark": {"type": "bar"},
        "encoding": {
            "y": {"field": "workload", "type": "nominal", "sort": None, "title": None,
                  "axis": {"labelLimit": 200}},
            "yOffset": {"field": "side", "sort": None},
            "x": _axis("speed", "speed of calls from Python; 1 is the fastest"),
            "color": {"field": "side", "type": "nominal", "sort": None, "title": None},
        },
    }  # fmt: skip
    return _chart(bars, body, "Relative speed of each side", max(80, 18 * len(rows)))


def _bars(rows: list[Spec], name: str, value: str, title: str) -> Spec:
    body: Spec = {
        "mark": {"type": "bar"},
        "encoding": {
            "y": {"field": name, "type": "nominal", "sort": None, "title": None,
                  "axis": {"labelLimit": 160}},
            "x": _axis(value, value),
            "tooltip": [{"field": name}, {"field": value}],
        },
    }  # fmt: skip
    return _chart(rows, body, title, max(60, 24 * len(rows)))


def _axis(field: str, title: str, *, scale: str = "linear") -> Spec:
    axis: Spec = {"field": field, "type": "quantitative", "title": title}
    if scale != "linear":
        axis["scale"] = {"type": scale, "nice": False, "padding": 10}
    return axis


def _chart(rows: list[Spec], body: Spec, title: str, height: int) -> Spec:
    """Return a whole specification; `title` is also the text for screen readers."""
    return {
        "$schema": _SCHEMA, "description": title, "height": height, **_CONTAINER,
        "data": {"values": rows}, **body,
    }  # fmt: skip


def _in(unit: TimeUnit, seconds: float) -> float:
    return _round(seconds / unit.seconds)


def _round(value: float) -> float:
    """Return `value` with five digits, which is more than can be seen."""
    return float(f"{value:.5g}")
