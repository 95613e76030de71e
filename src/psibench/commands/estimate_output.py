"""How an estimate is told: a table per benchmark, the language models, what is assumed."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from psibench.commands.estimate_assumptions import assumptions
from psibench.llm.estimate import StageEstimate
from psibench.stages.llm_estimate_results import BenchmarkEstimate, ConfigEstimate, LlmEstimate
from psibench.stages.llm_estimate_task import TaskEstimate, add_stages

HEAD = ("task", "llm", "requests", "answered", "to ask", "input tokens", "output tokens", "USD")
NONE = "No benchmark of this config asks a language model."


def estimate_text(found: ConfigEstimate) -> str:
    """Return an estimate as text for people."""
    if not found.benchmarks:
        return NONE
    lines = [line for row in found.benchmarks for line in _benchmark(row)]
    lines += ["language models", *(f"  {line}" for row in found.llms for line in _llm(row)), ""]
    lines += ["assumed", *(f"  - {line}" for line in assumptions(found))]
    return "\n".join(lines)


def plain_estimate(found: ConfigEstimate) -> dict[str, Any]:
    """Return an estimate as plain data, unrounded."""
    return {
        "usd": found.usd,
        "is_bound": any(row.is_bound for row in found.benchmarks),
        "benchmarks": [
            {
                "id": row.name,
                "recipe": row.recipe,
                "places": [asdict(place) for place in row.places],
                "documents": row.n_documents,
                "documents_estimated": row.n_here,
                "usd": _sum(row.tasks).usd,
                "is_bound": row.is_bound,
                "notes": list(row.notes),
                "uncounted": list(row.uncounted),
                "unread": list(row.unread),
                "tasks": [_plain_task(task) for task in row.tasks],
            }
            for row in found.benchmarks
        ],
        "llms": [_plain_llm(row) for row in found.llms],
    }


def _plain_task(task: TaskEstimate) -> dict[str, Any]:
    return {
        "task": task.stage.stage,
        "language": task.language,
        "llm": task.llm,
        "requests": task.stage.n_requests,
        "requests_basis": task.requests_basis,
        "answered": task.stage.n_answered,
        "input_tokens": task.stage.usage.input_tokens,
        "output_tokens": task.stage.usage.output_tokens,
        "output_basis": task.basis,
        "expansion": task.expansion,
        "usd": task.stage.usd,
        "at_most_usd": task.at_most_usd,
    }


def _plain_llm(row: LlmEstimate) -> dict[str, Any]:
    return {
        "id": row.llm,
        "model": row.settings.model,
        "backend": row.settings.backend,
        "price": None if row.price is None else row.price.model_dump(mode="json"),
        "tokenizer": row.tokenizer,
        "to_ask": row.n_to_ask,
        "input_tokens": row.usage.input_tokens,
        "output_tokens": row.usage.output_tokens,
        "usd": row.usd,
        "is_bound": row.is_bound,
        "at_most_usd": row.at_most_usd,
        "budget_usd": row.settings.budget_usd,
        "spent_usd": row.spent_usd,
        "left_usd": row.left_usd,
    }


def _benchmark(row: BenchmarkEstimate) -> Iterator[str]:
    yield f"{row.name} ({row.recipe}): {row.n_documents:,} documents{_places(row)}"
    yield from (f"  estimated from {note}" for note in row.notes)
    cells = [
        _cells(task.stage, task.llm, task.language, scaled=task.is_scaled, bound=task.is_bound)
        for task in row.tasks
    ]
    total = _cells(_sum(row.tasks), "", scaled=row.is_scaled, bound=row.is_bound)
    if cells:
        yield from (f"  {line}" for line in _aligned([HEAD, *cells, total]))
    yield ""


def _places(row: BenchmarkEstimate) -> str:
    """Count the languages and domains, where there are several."""
    if len(row.places) == 1:
        return ""
    n_languages = len({place.language for place in row.places})
    n_domains = len({place.domain for place in row.places})
    return f" in {len(row.places)} places (languages {n_languages}, domains {n_domains})"


def _sum(tasks: Sequence[TaskEstimate]) -> StageEstimate:
    return add_stages("total", (task.stage for task in tasks))


def _cells(
    stage: StageEstimate, llm: str, language: str | None = None, *, scaled: bool, bound: bool
) -> tuple[str, ...]:
    mark = "~" if scaled and stage.n_answered else ""
    counts = (stage.n_to_ask, stage.usage.input_tokens, stage.usage.output_tokens)
    return (
        " ".join(filter(None, (stage.stage, language))) + (", at most" if bound else ""),
        llm,
        f"{stage.n_requests:,}",
        f"{mark}{stage.n_answered:,}",
        *(f"{count:,}" for count in counts),
        money(stage.usd),
    )


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    for row in rows:
        names = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
        counts = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
        yield "  ".join([*names, *counts]).rstrip()


def money(usd: float | None) -> str:
    """Write US dollars: cents up to a hundred, whole dollars above."""
    if usd is None:
        return "no price"
    if 0 < usd < 0.01:
        return "<0.01"
    return f"{usd:,.2f}" if usd < 100 else f"{usd:,.0f}"


def _llm(row: LlmEstimate) -> Iterator[str]:
    yield f"{row.llm}: {row.settings.model}, backend {row.settings.backend}"
    wanted = row.settings.tokenizer
    instead = "" if wanted == row.tokenizer else f" ({wanted} cannot be loaded here)"
    yield f"  tokens counted with {row.tokenizer}{instead}"
    if row.price is None:
        yield (
            f"  no price: add `prices: {{{row.settings.model}: {{input_usd: ..., output_usd: ..., "
            "as_of: ...}}` to your config to see money"
        )
        return
    share = row.price.batch_share if row.settings.backend == "openai-batch" else 1.0
    half = f", of which batches cost {share:.0%}" if share != 1 else ""
    yield (
        f"  {row.price.input_usd:g} USD per million input tokens, {row.price.output_usd:g} output"
        f"{half}; as of {row.price.as_of} ({row.price.source or 'no source given'})"
    )
    less = " or less" if row.is_bound and row.usd else ""
    asked = f"{row.n_to_ask:,} requests{' or fewer' if row.is_bound else ''}"
    yield f"  {money(row.usd)} USD{less} to ask {asked}{_bound(row)}"
    if row.left_usd is not None:
        verb = "may" if row.is_bound else "will"
        lack = "" if row.left_usd >= 0 else f": it {verb} stop before the end"
        yield (
            f"  budget {row.settings.budget_usd:g} USD, spent {money(row.spent_usd)}, left after "
            f"this {row.left_usd:,.2f}{lack}"
        )


def _bound(row: LlmEstimate) -> str:
    """Say what it costs at the most: a model that thinks is billed for its thoughts, too."""
    if not row.at_most_usd:
        return ""
    bound = row.settings.sampling.max_output_tokens
    return f"; at most {money(row.at_most_usd)} USD, with {bound:,} output tokens for each"
