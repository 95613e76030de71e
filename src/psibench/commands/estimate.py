"""`psibench estimate`: what the models of a config that are paid will be asked, use and cost."""

import argparse
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psibench.commands.base import Command, add_config, read_config
from psibench.commands.plan import number
from psibench.commands.text_table import aligned
from psibench.errors import InputError
from psibench.plan.config import load_config

if TYPE_CHECKING:
    import polars as pl

    from psibench.plan.measured import Measured

RESULTS = Path("results")
NONE = "No benchmark of this config asks a language model."
HEAD = (
    *("task", "language", "llm", "by", "requests", "answered"),
    *("input tokens", "output tokens", "USD", "replies by"),
)
API_HEAD = ("model", "benchmark", "language", "by", "texts", "stored", "tokens", "USD")
BASIS = {"tables": "run", "source": "source", "plan": "config", "unknown": "?"}
RESTS_ON = (
    "Counts rest on tables of a run, the source or the config (by), replies on a run, on the "
    "example in the template's header or on PosIR's translations; documents and replies have three "
    "to five characters a token, filters leave a tenth to a half. docs/running.md, `What a plan "
    "rests on`, has the sources."
)
SUMS = ("items", "tokens_in", "tokens_out", "usd", "gpu_minutes")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add config, and form of the output."""
    add_config(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run_estimate(args: argparse.Namespace) -> None:
    """Estimate what language models and embedding APIs will be asked, and print it."""
    from psibench.plan.measured import Measured
    from psibench.plan.plan import make_plan
    from psibench.plan.work import work_table

    config, models = load_config(read_config(args))
    measured = Measured(make_plan(config, models, missing=[]), RESULTS)
    found = _plain(measured, work_table(measured))
    if args.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    lines = [line for row in found["benchmarks"] for line in (*_benchmark(row), "")] or [NONE]
    if found["benchmarks"]:
        lines += ["language models", *(f"  {line}" for row in found["llms"] for line in _llm(row))]
        lines += ["", RESTS_ON]
    if found["embedding_apis"]:
        lines += ["", "embedding APIs", *(f"  {line}" for line in _apis(found["embedding_apis"]))]
    print("\n".join(lines))


def money(usd: float | None) -> str:
    """Write US dollars: cents up to a hundred, whole dollars above."""
    if usd is None:
        return "no price"
    if 0 < usd < 0.01:
        return "<0.01"
    return f"{usd:,.2f}" if usd < 100 else f"{usd:,.0f}"


def _plain(measured: "Measured", table: "pl.DataFrame") -> dict[str, Any]:
    """Return everything as plain data, unrounded; no sum of money where a part has no price."""
    import polars as pl

    plan = measured.plan
    names = [task for planned in plan.benchmarks.values() for task in planned.tasks]
    tasks = table.filter(pl.col("stage").is_in(names))
    benchmarks = []
    for name in tasks["benchmark"].unique(maintain_order=True):
        rows, planned = tasks.filter(benchmark=name), plan.benchmarks[name]
        counts = [measured.counts(name, language) for language in planned.native]
        documents = sum(one.texts.n_documents for one in counts if one is not None)
        unknown = rows.filter(basis="unknown")["language"].unique(maintain_order=True).to_list()
        found = {"id": name, "recipe": planned.section.recipe, "documents": documents}
        benchmarks.append(found | {"tasks": rows.to_dicts(), "not_counted": unknown, **_sums(rows)})
    encoded = table.filter(
        (pl.col("stage") == "encode") | pl.col("stage").str.starts_with("probe_")
    )
    by_api = encoded.filter([plan.is_api(model) for model in encoded["by"]])
    llms, apis = (rows["by"].unique(maintain_order=True) for rows in (tasks, by_api))
    return {
        **_sums(tasks),
        "benchmarks": benchmarks,
        "llms": [_llm_data(measured, llm, tasks.filter(by=llm)) for llm in llms],
        "embedding_apis": [_api_data(measured, api, by_api.filter(by=api)) for api in apis],
    }


def _sums(rows: "pl.DataFrame") -> dict[str, Any]:
    """Add up rows; None of money or GPU minutes where a row that asks something has none."""
    import polars as pl

    known = rows.filter(pl.col("basis") != "unknown")
    asking = known.filter(pl.col("tokens_in_high") > 0)
    sums: dict[str, Any] = {"answered": known["answered"].sum()}
    for name in (f"{one}_{end}" for one in SUMS for end in ("low", "high")):
        sums[name] = None if asking[name].null_count() else known[name].sum()
    return sums


def _llm_data(measured: "Measured", llm: str, rows: "pl.DataFrame") -> dict[str, Any]:
    from psibench.llm.sections import price_of

    settings, price, spent = measured.plan.llms[llm], None, None
    _, retired = settings.retirement() or (False, None)
    with suppress(InputError):
        price = price_of(settings.model, measured.plan.prices)
    if settings.budget_usd is not None and price is not None:
        spent = price.cost(measured.spent(llm), is_batch=settings.backend == "openai-batch")
    return {
        "id": llm,
        "model": settings.model,
        "backend": settings.backend,
        "retired": retired,
        "price": None if price is None else price.model_dump(mode="json"),
        "on_cpu": settings.backend == "vllm" and settings.vllm.gpus == 0,
        **_with_budget(_sums(rows), settings.budget_usd, spent),
    }


def _api_data(measured: "Measured", model: str, rows: "pl.DataFrame") -> dict[str, Any]:
    entry: Any = measured.plan.models[model]
    spent = measured.spent_on_vectors(model, entry.price)
    return {
        "id": model,
        "model": entry.model,
        "price": entry.price,
        **_with_budget(_sums(rows), entry.budget_usd, spent),
        "benchmarks": rows.to_dicts(),
    }


def _with_budget(sums: dict[str, Any], budget: float | None, spent: float | None) -> dict[str, Any]:
    """Add a budget, and what is left of it after what is asked at most, and at least."""
    left: dict[str, Any] = {"left_usd_low": None, "left_usd_high": None}
    if budget is not None and spent is not None and sums["usd_high"] is not None:
        left["left_usd_low"] = budget - spent - sums["usd_high"]
        left["left_usd_high"] = budget - spent - sums["usd_low"]
    return {**sums, "budget_usd": budget, "spent_usd": spent, **left}


def _ends(row: dict[str, Any], name: str, write: Any = "{:,}".format) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    if high is None:
        return "no price" if name == "usd" else "?"
    return " to ".join(dict.fromkeys((write(low), write(high))))


def _cells(row: dict[str, Any], *names: str) -> tuple[str, ...]:
    """Write an items column, what is answered of them, columns of tokens, and money."""
    if row.get("basis") == "unknown":
        return "?", "?", *("?" for _ in names), "?"
    tokens = (_ends(row, name) for name in names)
    return (_ends(row, "items"), f"{row['answered'] or 0:,}", *tokens, _ends(row, "usd", money))


def _benchmark(row: dict[str, Any]) -> Iterator[str]:
    yield f"{row['id']} ({row['recipe']}): {row['documents']:,} documents"
    rows: list[tuple[str, ...]] = [HEAD]
    for task in row["tasks"]:
        labels = (task["stage"], task["language"], task["by"], BASIS[task["basis"]])
        numbers = _cells(task, "tokens_in", "tokens_out")
        rows.append((*labels, *numbers, task["output_basis"] or "?"))
    rows.append(("total", "", "", "", *_cells(row, "tokens_in", "tokens_out"), ""))
    yield from (f"  {line}" for line in aligned(rows, n_text=4))
    if row["not_counted"]:
        yield (
            f"  not counted: {', '.join(row['not_counted'])}: nobody can tell how many texts there "
            "are before it is built; build it first, with its data tables as targets"
        )


def _llm(row: dict[str, Any]) -> Iterator[str]:
    yield f"{row['id']}: {row['model']}, backend {row['backend']}"
    if row["retired"] is not None:
        yield f"  {row['retired']}"
    hours = _ends(row, "gpu_minutes", lambda minutes: number(minutes / 60))
    price, is_here = row["price"], row["backend"] == "vllm"
    if row["gpu_minutes_high"] is not None and row["tokens_in_high"]:
        yield f"  served {'here' if is_here else 'elsewhere'}: {hours} GPU hours (`psibench plan`)"
    elif is_here and row["on_cpu"]:
        yield "  served here, on CPUs: `psibench plan` counts its hours by `vllm.tokens_per_s`"
    elif is_here:
        yield "  served here: its GPU hours are not counted; give `vllm: {parameters_b: ...}`"
    elif price is None:
        yield "  served elsewhere: its GPU hours are not counted (docs/vllm.md says how they are)"
    if price is None:
        yield (
            f"  no price: add `prices: {{{row['model']}: {{input_usd: ..., output_usd: ..., "
            "as_of: ...}}` to your config to see money"
        )
        return
    is_batch = row["backend"] == "openai-batch" and price["batch_share"] != 1
    half = f", of which batches cost {price['batch_share']:.0%}" if is_batch else ""
    yield (
        f"  {price['input_usd']:g} USD per million input tokens, {price['output_usd']:g} output"
        f"{half}; as of {price['as_of']} ({price['source'] or 'no source given'})"
    )
    n_requests = f"{_ends(row, 'items')} requests, {row['answered']:,} of them answered"
    yield f"  {_ends(row, 'usd', money)} USD for {n_requests}"
    yield from _left(row)


def _left(row: dict[str, Any]) -> Iterator[str]:
    if row["left_usd_low"] is None:
        return
    lack = ""
    if row["left_usd_low"] < 0:
        lack = f": it {'will' if row['left_usd_high'] < 0 else 'may'} stop before the end"
    left = _ends(row, "left_usd", "{:,.2f}".format)
    spent = money(row["spent_usd"])
    yield f"  budget {row['budget_usd']:g} USD, spent {spent}, left after this {left}{lack}"


def _apis(apis: list[dict[str, Any]]) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [API_HEAD]
    for api in apis:
        for one in api["benchmarks"]:
            probe = one["stage"].removeprefix("probe_")
            read = one["benchmark"] if probe == "encode" else f"{one['benchmark']}, {probe}"
            labels = (api["id"], read, one["language"], BASIS[one["basis"]])
            rows.append((*labels, *_cells(one, "tokens_in")))
        rows.append((api["id"], "total", "", "", *_cells(api, "tokens_in")))
    yield from aligned(rows, n_text=4)
    yield "tokens by the documents' lengths; a service may add prompts of its own"
    for api in apis:
        yield f"{api['id']}: {api['model']}"
        if api["price"] is None:
            yield "  no price: set price in its entry, US dollars per million tokens, to see money"
            continue
        spent = f"spent so far {money(api['spent_usd'])} USD"
        yield f"  {api['price']:g} USD per million tokens; {spent}"
        yield from _left(api)


COMMAND = Command(
    description="Print requests, those already answered, tokens and money per task, benchmark and "
    "language model, of translations per language, and of embedding APIs the texts that have no "
    "vector yet: the part of `psibench plan` that is paid, as ranges. What a run has measured "
    "takes the place of the config's numbers. Run it where you run the workflow: it uses the "
    "tables, answers and vectors made so far.",
    add_arguments=add_arguments,
    run=run_estimate,
)
