"""The assistant's words: with rich where it is installed, in plain text elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch_aule.measure.numbers import bytes_text, count_text, time_text

if TYPE_CHECKING:
    from torch_aule.assistant import Outcome, Recommendation, Result


def recommendation_lines(number: int, one: Recommendation) -> list[str]:
    return [
        f"{number}. {one.description} [{one.priority}, {one.difficulty}, at most {one.expected_improvement:.2f} x]",
        f"   {one.finding}. {one.explanation}. See {one.page}.",
        *(f"   - {step}" for step in one.steps),
        *(f"       {line}" for line in one.code_example.splitlines()),
    ]


def result_lines(result: Result) -> list[str]:
    info = result.model_info
    lines = [
        f"{info['name']}: {info['parameters']} parameters, {bytes_text(info['bytes'])}, input {info['input']}",
        f"on {info['device']}, {time_text(info['seconds'])} a call",
        f"score {result.score:.2f} of 1: the roof's time for this work, of the time that it took",
        f"most that one change can bring: {result.improvement_potential:.2f} x",
        "",
        "in use: " + (", ".join(result.current_optimizations) or "nothing of what the assistant knows"),
        "bottlenecks:" if result.bottlenecks else "bottlenecks: none that a rule finds",
        *(f"  - {text}" for text in result.bottlenecks),
        *(f"note: {text}" for text in result.notes),
        "",
        count_text(len(result.recommendations), "recommendation"),
    ]
    for number, one in enumerate(result.recommendations, 1):
        lines += recommendation_lines(number, one)
    return lines


def outcome_line(one: Outcome) -> str:
    numbers = ""
    if one.before_seconds is not None and one.after_seconds is not None:
        numbers = (
            f": {time_text(one.before_seconds)} -> {time_text(one.after_seconds)}, largest relative difference "
            f"{one.error:.1e} (limit {one.tolerance:.0e})"
        )
    return f"{one.type}: {'kept' if one.kept else 'not kept'}, {one.reason}{numbers}"
