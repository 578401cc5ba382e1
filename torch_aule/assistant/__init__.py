"""An assistant that looks at a model on the device, says what would make it faster, and tries what is safe.

Its rules hold a trace of the model against what the device can reach. It asks no network, and it keeps no change that
it has not compared by outputs and time.
"""

from __future__ import annotations

import copy
import inspect
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn as nn

from torch_aule import profiling
from torch_aule.assistant import changes, rules, show, source
from torch_aule.backend.fallback import strict
from torch_aule.indices import DeviceLike, checked_index
from torch_aule.measure import roof as roofs
from torch_aule.measure.errors import called, difference, evaluating, host_tensors
from torch_aule.measure.models import moved
from torch_aule.measure.numbers import percent_text, writer
from torch_aule.measure.runs import median_seconds

__all__ = ["Applied", "OptimizationAssistant", "Outcome", "Recommendation", "Result"]


@dataclass(frozen=True)
class Recommendation:
    """One thing to do.

    Parameters
    ----------
    type : str
        "placement", "fallback", "synchronisation", "mode", "graph_breaks", "attention", "compile", "layout",
        "precision" or "graphs".
    priority : str
        "high" (1.5 times as fast and more, or an operator on the CPU), "medium" (1.1) or "low".
    description, finding, explanation : str
        What to do; what was found in this model; why that costs time.
    steps : tuple of str
        One after the other.
    expected_improvement : float
        How many times as fast a call is at most, from the trace and the device's roof.
    difficulty : str
        "easy", "medium" or "hard".
    code_example : str
        How it is written.
    page : str
        The page of the documentation, from the repository's root.
    safe : bool
        Whether :meth:`OptimizationAssistant.apply_recommendations` does it unasked.
    """

    type: str
    priority: str
    description: str
    finding: str
    explanation: str
    steps: tuple[str, ...]
    expected_improvement: float
    difficulty: str
    code_example: str
    page: str
    safe: bool


@dataclass(frozen=True)
class Outcome:
    """The outcome of a recommendation.

    Parameters
    ----------
    type : str
        The recommendation's.
    kept : bool
        Whether the model has it now.
    reason : str
        Why, or why not.
    error, tolerance : float or None
        Largest difference of the outputs from those of the model before all changes, relative to the largest element,
        and its limit. None if it was not tried.
    before_seconds, after_seconds : float or None
        Medians of a call without and with the change; None if it was not timed.
    """

    type: str
    kept: bool
    reason: str
    error: float | None = None
    tolerance: float | None = None
    before_seconds: float | None = None
    after_seconds: float | None = None


@dataclass(frozen=True)
class Applied:
    """A model with the changes that were kept.

    Parameters
    ----------
    model : torch.nn.Module
        To be called in place of the one that was given, whose parameters it shares.
    outcomes : list of Outcome
        One for each recommendation.
    """

    model: nn.Module
    outcomes: list[Outcome]

    def __str__(self) -> str:
        return "\n".join(map(show.outcome_line, self.outcomes))


@dataclass
class Result:
    """The assistant's findings; printing them shows everything.

    Parameters
    ----------
    model : torch.nn.Module
        On the device: the one that was given, or a copy of one on the CPU.
    model_info : dict
        "name", "parameters", "bytes", "modules", "dtypes", "input", "device", "seconds" (median of a call).
    bottlenecks, current_optimizations, notes : list of str
        What takes the time; what is already in use; what could not be looked at.
    score : float
        The least time for the model's work by the device's roof, of the time of a call: 0 to 1.
    improvement_potential : float
        The most that one of the recommendations can bring, as times faster; 1 without any.
    recommendations : list of Recommendation
        The most urgent first.
    report : torch_aule.profiling.Report
        What all of it was read from.
    applied : Applied or None
        What interactive mode did.
    """

    model: nn.Module
    model_info: dict[str, Any]
    bottlenecks: list[str]
    current_optimizations: list[str]
    notes: list[str]
    score: float
    improvement_potential: float
    recommendations: list[Recommendation]
    report: profiling.Report
    applied: Applied | None = field(default=None)

    def __str__(self) -> str:
        return "\n".join(show.result_lines(self))


def _refuse_script(function: str, model: nn.Module) -> None:
    """Modules of TorchScript take no hooks, and Dynamo does not look into them."""
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            where = f"its part {name!r}" if name else "model"
            raise TypeError(
                f"{function}: {where} is a ScriptModule, whose source cannot be looked at; give the module that "
                "torch.jit made it of"
            )


def _called(model: nn.Module, inputs: tuple | dict):
    with torch.no_grad():
        return called(model, inputs)


def _derived(model: nn.Module) -> tuple[torch.Tensor]:
    """An input for a model whose first layer with parameters says what it takes."""
    model = getattr(model, "_orig_mod", model)
    needed = [p for p in inspect.signature(model.forward).parameters.values()
              if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]  # fmt: skip
    first = next((m for m in model.modules() if next(m.parameters(recurse=False), None) is not None), None)
    if len(needed) <= 1 and isinstance(first, nn.Linear):
        return (torch.randn(32, first.in_features, dtype=first.weight.dtype),)
    if len(needed) <= 1 and isinstance(first, nn.Conv2d):
        return (torch.randn(4, first.in_channels, 64, 64, dtype=first.weight.dtype),)
    if len(needed) <= 1 and isinstance(first, nn.Embedding):
        return (torch.randint(first.num_embeddings, (4, 64)),)
    names = ", ".join(p.name for p in needed) or "nothing"
    raise ValueError(
        f"optimize_model: sample_input is needed: forward of {type(model).__name__} takes {names}, and the first layer "
        f"({type(first).__name__ if first is not None else 'none with parameters'}) is no Linear, Conv2d or Embedding "
        "that tells what one input is"
    )


def _inputs(model: nn.Module, sample_input: Any, device: torch.device) -> tuple | dict:
    if sample_input is None:
        given: Any = _derived(model)
    elif isinstance(sample_input, Mapping):
        given = dict(sample_input)
    else:
        given = tuple(sample_input) if isinstance(sample_input, (tuple, list)) else (sample_input,)
    return moved(given, device, None)


def _in_use(model: nn.Module, seen: rules.Seen) -> list[str]:
    kernels = seen.report.trace.kernels
    sixteen = any(p.dtype in (torch.float16, torch.bfloat16) for p in model.parameters())
    convolutions = rules._convolutions(model)
    last = [m for m in convolutions if m.weight.is_contiguous(memory_format=torch.channels_last)]
    found = [
        ("torch.compile", seen.compiled),
        ("scaled_dot_product_attention", any("attention" in k.operator for k in kernels)),
        ("16-bit parameters", sixteen),
        ("16-bit products", not sixteen and any(k.flops and k.dtype in ("float16", "bfloat16") for k in kernels)),
        ("channels-last convolutions", bool(last)),
    ]
    return [name for name, there in found if there]


class OptimizationAssistant:
    """Looks at models, one device at a time.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.
    runs : int, default 10
        Calls of a model that are timed for each number.
    roof : torch_aule.measure.roof.Roof, optional
        What the device can reach. Default: what ``python -m torch_aule.benchmark roof`` kept, else it is measured
        (and kept) when the first model is looked at, which takes some seconds.
    ask : callable, default input
        Question -> answer, for interactive mode.
    write : callable, optional
        Prints a line. Default: rich's console if it is installed, else print.

    Raises
    ------
    RuntimeError
        If the device does not exist.
    ValueError
        If `runs` is not positive.

    Examples
    --------
    >>> assistant = torch_aule.assistant.OptimizationAssistant()
    >>> result = assistant.optimize_model(model, x)
    >>> print(result)
    >>> faster = assistant.apply_recommendations(result.model, result.recommendations, sample_input=x).model
    """

    def __init__(
        self,
        device: DeviceLike = None,
        *,
        runs: int = 10,
        roof: roofs.Roof | None = None,
        ask: Callable[[str], str] = input,
        write: Callable[[str], object] | None = None,
    ):
        if runs < 1:
            raise ValueError(f"OptimizationAssistant: runs must be positive, got {runs}")
        self.device = torch.device("aule", checked_index(device))
        self.runs = runs
        self._roof, self._ask = roof, ask
        self._write = write or writer()

    def _reach(self) -> roofs.Roof:
        self._roof = self._roof or roofs.load(self.device) or roofs.measure(self.device)
        return self._roof

    def optimize_model(
        self,
        model: nn.Module,
        sample_input: Any = None,
        interactive: bool = False,
        optimization_level: str = "balanced",
    ) -> Result:
        """Look at a model's inference, and recommend.

        The model runs in evaluation mode, with operators on the CPU allowed; its modes and strict mode are put back.
        TorchDynamo forgets what it had compiled in this process.

        Parameters
        ----------
        model : torch.nn.Module
            On the device or on the CPU; of one on the CPU, a copy goes to the device.
        sample_input : torch.Tensor, tuple, list or dict, optional
            Its input, inputs by position, or by name. Default: random numbers for the first layer, if that is a Linear,
            Conv2d or Embedding and the model takes one input.
        interactive : bool, default False
            Print the result, ask about each recommendation that the assistant can carry out, and apply those that were
            answered with y or yes.
        optimization_level : str, default "balanced"
            "conservative": what is wrong in the model's source and placement; "balanced": also compilation, layout,
            attention and 16-bit products; "aggressive": also recorded graphs.

        Returns
        -------
        Result
            Findings and recommendations.

        Raises
        ------
        TypeError
            If `model` is no module, or it or a part of it is a ScriptModule.
        ValueError
            If the level is none of these, no input can be derived, or the model does not run with the one derived.
        """
        if not isinstance(model, nn.Module):
            raise TypeError(f"optimize_model: expected model to be a torch.nn.Module, got {type(model).__name__}")
        _refuse_script("optimize_model", model)
        if optimization_level not in rules.LEVELS:
            expected = ", ".join(rules.LEVELS)
            raise ValueError(f"optimize_model: expected optimization_level to be one of {expected}, got "
                             f"{optimization_level!r}")  # fmt: skip
        with strict(False), torch.aule.device(self.device):
            result, inputs = self._looked_at(model, sample_input, optimization_level)
        if interactive:
            for line in show.result_lines(result):
                self._write(line)
            chosen = [one for one in result.recommendations if one.type in changes.APPLICABLE and self._agreed(one)]
            result.applied = self.apply_recommendations(result.model, chosen, True, inputs)
            for line in str(result.applied).splitlines():
                self._write(line)
        return result

    def _agreed(self, one: Recommendation) -> bool:
        try:
            return self._ask(f"{one.description}? [y/N] ").strip().lower() in ("y", "yes")
        except EOFError:  # nobody is there to answer
            return False

    def _looked_at(self, model: nn.Module, sample_input: Any, level: str) -> tuple[Result, tuple | dict]:
        training = any(module.training for module in model.modules())
        inputs = _inputs(model, sample_input, self.device)
        on_host = all(t.device.type == "cpu" for t in (*model.parameters(), *model.buffers()))
        with evaluating(model):
            try:
                cpu = self._seconds_on_host(model, inputs) if on_host else None
                here = copy.deepcopy(model).to(self.device) if on_host else model
                report = profiling.profile_model_inference(here, inputs, runs=self.runs, roof=self._reach())
            except RuntimeError as error:
                if sample_input is not None:
                    raise
                raise ValueError(
                    f"optimize_model: the model does not run with the input that its first layer suggests "
                    f"({profiling._words(inputs)}): {str(error).splitlines()[0]}. Give sample_input"
                ) from error
            found = source.look(here, lambda m: _called(m, inputs))
        seen = rules.Seen(here, report, found, cpu, training)
        return self._result(seen, level), inputs

    def _seconds_on_host(self, model: nn.Module, inputs: tuple | dict) -> float:
        cpu = torch.device("cpu")
        host = moved(inputs, cpu, None)
        return median_seconds(lambda: _called(model, host), cpu, self.runs, warm=1)

    def _result(self, seen: rules.Seen, level: str) -> Result:
        report, model = seen.report, seen.model
        recommendations = []
        for rule, finding, gain in rules.applying(seen, level):
            code = rule.code.replace("{dtype}", str(rules.faster_dtype(report)).removeprefix("torch."))
            recommendations.append(
                Recommendation(
                    rule.type, rules.priority(rule, gain), rule.title, finding, rule.explanation, rule.steps, gain,
                    rule.difficulty, code, rule.page, rule.type in changes.SAFE,
                )
            )  # fmt: skip
        order = ("high", "medium", "low")
        recommendations.sort(key=lambda one: (order.index(one.priority), -one.expected_improvement))
        dearest = [
            f"{k.name} of {k.operator or 'no operator'}: {percent_text(report.share(k.seconds))} of the device's time, "
            f"{percent_text(k.roof_share)} of the roof"
            for k in report.dearest[:3]
        ]
        parameters = list(model.parameters())
        least = sum(k.roof_seconds for k in report.trace.kernels)
        notes = [f"torch._dynamo could not trace the model: {seen.source.failure}"] if seen.source.failure else []
        if seen.cpu_seconds is not None and seen.cpu_seconds < seen.wall:
            notes.append(f"the CPU is faster with this input: {seen.cpu_seconds * 1e3:.3g} ms a call")
        return Result(
            model=model,
            model_info={
                "name": report.model,
                "parameters": sum(p.numel() for p in parameters),
                "bytes": sum(p.numel() * p.element_size() for p in parameters),
                "modules": sum(1 for _ in model.modules()),
                "dtypes": sorted({str(p.dtype).removeprefix("torch.") for p in parameters}),
                "input": report.inputs,
                "device": report.device,
                "seconds": seen.wall,
            },
            bottlenecks=[*dearest, *(one.finding for one in report.advice)],
            current_optimizations=_in_use(model, seen),
            notes=notes,
            score=min(1.0, least / seen.wall) if seen.wall else 0.0,
            improvement_potential=max((one.expected_improvement for one in recommendations), default=1.0),
            recommendations=recommendations,
            report=report,
        )

    def apply_recommendations(
        self,
        model: nn.Module,
        recs: Sequence[Recommendation],
        auto_implement: bool = False,
        sample_input: Any = None,
    ) -> Applied:
        """Carry out recommendations, one after the other, and keep those that hold.

        A change is kept if the outputs agree with those before all changes and a call takes at most 98 % of the time
        before it. Everything runs without gradients, in evaluation mode.

        Parameters
        ----------
        model : torch.nn.Module
            On the device. Its convolutions' weights are channels-last afterwards if that was kept.
        recs : sequence of Recommendation
            Of :meth:`optimize_model`; what needs a change of the model's source is passed over.
        auto_implement : bool, default False
            Also those that round differently ("precision").
        sample_input : optional
            As of :meth:`optimize_model`: what outputs and times are of.

        Returns
        -------
        Applied
            The model to call, and what became of each recommendation.

        Raises
        ------
        TypeError
            If `model` or a part of it is a ScriptModule.
        ValueError
            If the model is not on the device, or no input can be derived.
        """
        _refuse_script("apply_recommendations", model)
        wrong = [t.device for t in (*model.parameters(), *model.buffers()) if t.device != self.device]
        if wrong:
            raise ValueError(f"apply_recommendations: expected model on {self.device}, but a part is on {wrong[0]}")
        inputs = _inputs(model, sample_input, self.device)
        state, outcomes = changes.State(model), []
        with torch.aule.device(self.device), evaluating(model):
            expected = host_tensors(_called(model, inputs))
            again = host_tensors(_called(model, inputs))
            random = difference(again, expected) > changes.tolerance(expected, state)
            for one in sorted(recs, key=lambda one: (*changes.APPLICABLE, one.type).index(one.type)):
                if one.type not in changes.APPLICABLE:
                    outcomes.append(Outcome(one.type, False, "it needs a change of the model's source"))
                elif not one.safe and not auto_implement:
                    outcomes.append(Outcome(one.type, False, "it changes rounding: auto_implement=True tries it"))
                elif not expected or random:
                    why = "outputs differ between two calls" if expected else "the model returns no tensor"
                    outcomes.append(Outcome(one.type, False, f"{why}: nothing can be compared"))
                else:
                    state, outcome = self._tried(state, one, inputs, expected)
                    outcomes.append(outcome)
        return Applied(state.built(), outcomes)

    def _tried(self, state: changes.State, one: Recommendation, inputs, expected) -> tuple[changes.State, Outcome]:
        dtype = torch.float16 if one.type == "precision" and "torch.float16" in one.code_example else state.dtype
        with_it = changes.State(state.model, (*state.changes, one.type), dtype)
        before = self._median(state.built(), inputs)
        undo = changes.to_channels_last(state.model) if one.type == "layout" else lambda: None
        limit = changes.tolerance(expected, with_it)
        try:
            built = with_it.built()
            error = difference(host_tensors(_called(built, inputs)), expected)
            if error > limit:
                undo()
                return state, Outcome(one.type, False, "outputs differ", error, limit, before)
            after = self._median(built, inputs)
        except (
            Exception
        ) as failure:  # the compiler's or the model's: the model stays as it was, and the outcome says so
            undo()
            first = (str(failure).splitlines() or [""])[0]
            return state, Outcome(one.type, False, f"it failed: {type(failure).__name__}: {first}", tolerance=limit)
        if after > changes.FASTER * before:
            undo()
            return state, Outcome(one.type, False, "it is not faster here", error, limit, before, after)
        return with_it, Outcome(one.type, True, "outputs agree", error, limit, before, after)

    def _median(self, built: nn.Module, inputs) -> float:
        for _ in range(3):  # kernels are made, graphs are recorded
            _called(built, inputs)
        return statistics.median(profiling._timed(lambda: _called(built, inputs), self.runs, self.device)[0])
