"""`psibench check`: is this table what its provenance says; is this config valid."""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from psibench.all_tables import ALL_TABLES
from psibench.commands.base import Command, config_file
from psibench.commands.check_languages import language_lines
from psibench.commands.check_sources import source_lines
from psibench.config.files import read_yaml
from psibench.config.paths import DEFAULT_CONFIG, REGISTRY
from psibench.errors import InputError, refuse
from psibench.generate.benchmarks import Benchmark, GeneratedBenchmark
from psibench.plan.config import load_config, resolve_rerankers
from psibench.plan.plan import make_plan
from psibench.tables import hash_rows, read_provenance, read_table
from psibench.tables.domains import with_labels
from psibench.tables.provenance import hash_params

CONFIG_SUFFIXES = {".yaml", ".yml"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the files to check."""
    parser.add_argument(
        "files", nargs="+", type=config_file, metavar="FILE", help="Parquet or YAML"
    )


def run_check(args: argparse.Namespace) -> None:
    """Check every file; the first problem ends the command with exit code 2."""
    for path in args.files:
        check = check_config if path.suffix.lower() in CONFIG_SUFFIXES else check_table
        print(check(path))


def check_table(path: Path) -> str:
    """Verify a table's schema, key and content hash; return its provenance as text.

    Raises
    ------
    InputError
        If the file is not a psibench table, or its rows are not those it was written with.
    """
    record = read_provenance(path)
    if record is None:
        raise InputError(f"{path}: carries no psibench provenance; it was not written by psibench")
    name = record.get("table")
    if name not in ALL_TABLES:
        raise InputError(f"{path}: unknown table {name!r}. Known: {', '.join(ALL_TABLES)}")
    table = pq.ParquetFile(path).read()
    read_table(path, with_labels(ALL_TABLES[name], table.column_names))
    rows_hash = hash_rows(table)
    if rows_hash != record["rows_hash"]:
        raise InputError(
            f"{path}: its rows hash to {rows_hash}, but it was written with {record['rows_hash']}; "
            "the file was changed after it was made. Make it again."
        )
    if hash_params(record["params"]) != record["params_hash"]:
        raise InputError(f"{path}: its params do not hash to params_hash; the record was changed")
    return f"{path}: {name}, {table.num_rows} rows, unchanged since written\n" + _lines(record)


def _lay_over(config: dict[str, Any], other: Mapping[str, Any]) -> None:
    """Update ``config`` by ``other``, mappings key by key."""
    for key, value in other.items():
        if isinstance(value, Mapping) and isinstance(config.get(key), dict):
            _lay_over(config[key], value)
        else:
            config[key] = value


def check_config(*paths: Path) -> str:
    """Validate a config laid over the default one; return what it would run, and on what texts.

    Of several, each is laid over the one before, key by key, as Snakemake does.

    All problems of one kind (schema, unknown ids, files, texts) are told at once. Local files and
    folders need not exist yet: those missing are named.

    Raises
    ------
    InputError
        If the workflow would refuse the config, whatever files there were, or cannot read a file.
    """
    given: dict[str, Any] = {}
    for path in paths:
        _lay_over(given, read_yaml(path))
    config, models = load_config(DEFAULT_CONFIG, given, registry=REGISTRY)
    not_there: list[str] = []
    plan = make_plan(config, models, missing=not_there)
    missing = f", but {len(not_there)} that it needs not there yet" if not_there else ""
    lines, problems = [f"{', '.join(map(str, paths))}: valid{missing}"], list[str]()
    for name, section in config.benchmarks.items():
        lines.append(f"  benchmark {name}: {_steps(section)}")
        lines += [f"    {line}" for line in language_lines(plan, name)]
        for place in plan.benchmarks[name].places:
            try:
                lines += [f"    {line}" for line in source_lines(plan, name, place)]
            except InputError as error:
                problems.append(str(error))
    refuse(problems)
    lines += [f"  model {name}: {entry.backend}" for name, entry in models.items()]
    lines += [
        f"  language model {name}: {llm.model}, backend {llm.backend}"
        for name, llm in plan.llms.items()
    ]
    lines += [
        f"  reranker {name}: {entry.backend}"
        for name, entry in resolve_rerankers(config, models).items()
    ]
    lines += [f"  not there yet: {what}" for what in not_there]
    return "\n".join(lines)


def _steps(section: Benchmark) -> str:
    """Say what a benchmark is made by, and what its queries have to pass."""
    if not isinstance(section, GeneratedBenchmark):
        return section.recipe
    chain: list[str] = [section.recipe]
    for name in section.filters:
        verify = section.verify if name == "verify" else None
        chain.append(name if verify is None else f"verify by {verify.rule}")
    chain += ["audit"] if section.audit is not None else []
    if section.false_negatives is not None:
        chain.append(f"false negatives by {section.false_negatives.protocol}")
    return ", ".join(chain)


def _lines(record: dict[str, Any]) -> str:
    shown = {key: value for key, value in record.items() if value not in (None, {}, [])}
    return "\n".join(
        f"  {key}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for key, value in sorted(shown.items())
    )


COMMAND = Command(
    description="Parquet: verify schema, key and content hash and print the provenance. YAML: "
    "validate a config laid over the default one and print what it would run, how long the local "
    "texts are and what share of them each model will not see; what is wrong with it is an error, "
    "files and folders that are missing are named.",
    add_arguments=add_arguments,
    run=run_check,
)
