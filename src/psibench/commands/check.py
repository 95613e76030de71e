"""`psibench check`: verify a table against its provenance, or validate a config."""

import argparse
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from psibench.all_tables import ALL_TABLES
from psibench.cluster.contents import refuse_future_dates
from psibench.commands.base import (
    CONFIG_NAME,
    CONFIG_SUFFIXES,
    config_file,
    configs_or_here,
    read_configs,
)
from psibench.commands.json_output import add_json, messages_to_stderr, print_json
from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.config.model_base import Windows
from psibench.config.models import Model, StaticModel
from psibench.config.sources import FilesSource, SquadSource
from psibench.errors import InputError, MissingError, refuse
from psibench.formats.posir import count_dataset
from psibench.generate.benchmarks import (
    Benchmark,
    GeneratedBenchmark,
    KnownItem,
    Place,
    PosirRelease,
    SquadPosq,
    section_at,
)
from psibench.generate.loaders import Loader
from psibench.generate.loaders.known_item import NO_QUERY
from psibench.generate.sampling import Sample
from psibench.metrics.buckets import assign, bucket_scheme
from psibench.metrics.constants import FEWEST_DOCUMENTS
from psibench.metrics.design import smallest_psi_text
from psibench.metrics.inference import document_table, units_of
from psibench.metrics.query_scores import (
    CLUSTER,
    cluster_numbers,
    document_numbers,
    evidence_positions,
)
from psibench.metrics.sections import FEWEST_QUERIES
from psibench.models.checkpoints import local_folder, tokenizer_file
from psibench.models.static import reading_of
from psibench.plan.config import load_config
from psibench.plan.plan import Plan, make_plan
from psibench.plan.sources import (
    MOST_DOCUMENTS,
    first_documents,
    known_item_count,
    local_sample,
)
from psibench.plan.work import by_config, long_jobs
from psibench.tables import hash_rows, read_provenance, read_table
from psibench.tables.domains import with_labels
from psibench.tables.io import open_parquet
from psibench.tables.provenance import hash_params
from psibench.tables.schemas import QUERIES
from psibench.tables.spec import ALL
from psibench.text.lengths import count_whitespace_tokens
from psibench.text.passages import cut_documents
from psibench.vllm.server import NO_PROGRAM, search_path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `psibench check`."""
    parser.add_argument(
        "files",
        nargs="*",
        type=config_file,
        metavar="FILE",
        help="Parquet or YAML; each of several YAML files overrides the ones before; default: "
        "psibench.yaml in this folder",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Check the merged configs and every table; the first problem raises InputError."""
    content: dict[str, Any] = {"config": None, "tables": []}
    with messages_to_stderr(args.json):
        for found in _checked(args):
            if isinstance(found, CheckedConfig):
                content["config"] = found.as_json()
            else:
                content["tables"].append(found.as_json())
            if not args.json:
                print(found)
    if args.json:
        print_json("check", content)


def _checked(args: argparse.Namespace) -> "Iterator[CheckedConfig | CheckedTable]":
    files = args.files or configs_or_here([])
    if not files:
        raise InputError(f"no {CONFIG_NAME} in {Path.cwd()}; name a file")
    configs = [path for path in files if path.suffix.lower() in CONFIG_SUFFIXES]
    if configs:
        yield validate_config(*configs)
    for path in files:
        if path not in configs:
            yield check_table(path)


@dataclass(frozen=True)
class CheckedTable:
    """A table that is unchanged since it was written; its text has a line per entry.

    ``record`` is its provenance, ``power`` the line of `power_line` for a table of queries.
    """

    path: Path
    n_rows: int
    record: Mapping[str, Any]
    power: str = ""

    def __str__(self) -> str:
        found = f"{self.path}: {self.record['table']}, {self.n_rows} rows, unchanged since written"
        return f"{found}\n{_lines(self.record)}" + (f"\n  {self.power}" if self.power else "")

    def as_json(self) -> dict[str, Any]:
        """Return the table's values for --json."""
        about = {"file": self.path, "table": self.record["table"], "n_rows": self.n_rows}
        return about | {"provenance": self.record, "power": self.power or None}


def check_table(path: Path) -> CheckedTable:
    """Verify a table's schema, key and content hash; return its provenance.

    Raises InputError if the file is not a psibench table, or was changed after psibench wrote it.
    """
    record = read_provenance(path)
    if record is None:
        raise InputError(f"{path}: no psibench provenance; psibench did not write this file")
    name = record.get("table")
    if name not in ALL_TABLES:
        raise InputError(f"{path}: unknown table {name!r}; allowed: {', '.join(ALL_TABLES)}")
    with open_parquet(path) as file:
        table = file.read()
    read_table(path, with_labels(ALL_TABLES[name], table.column_names))
    rows_hash = hash_rows(table)
    if rows_hash != record["rows_hash"]:
        raise InputError(
            f"{path}: the hash of its rows is {rows_hash}, but the recorded hash is "
            f"{record['rows_hash']}; the file was changed after it was written. Build it again"
        )
    if hash_params(record["params"]) != record["params_hash"]:
        raise InputError(
            f"{path}: the hash of params is not params_hash; the provenance was changed. Build "
            "the table again"
        )
    power = power_line(read_table(path, QUERIES)) if name == "queries" else ""
    return CheckedTable(path, table.num_rows, record, power)


def power_line(queries: pl.DataFrame) -> str:
    """Return a line on the smallest PSI over thirds that QUERIES rows can show."""
    positions = evidence_positions(queries)
    scheme = bucket_scheme("thirds")
    members = assign(positions, scheme)
    named = queries.select(
        pl.lit(ALL).alias("domain"),
        pl.col("pos_corpus_id").alias("document_id"),
        pl.col(f"^{CLUSTER}$"),
    )
    documents = document_numbers(named)
    table = document_table(
        np.ones(queries.height),
        documents,
        *astuple(members),
        n_buckets=len(scheme.buckets),
        units=units_of(documents, cluster_numbers(named)),
    )
    return smallest_psi_text(table)


@dataclass
class CheckedConfig:
    """A valid config; its text has a line per entry.

    ``benchmarks`` has the steps of each benchmark and lines about its texts, ``models``,
    ``llms`` and ``rerankers`` a description by name, ``limits`` short reasons against a run.
    """

    paths: Sequence[Path]
    benchmarks: dict[str, list[str]] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    llms: dict[str, list[str]] = field(default_factory=dict)
    rerankers: dict[str, str] = field(default_factory=dict)
    long_jobs: list[str] = field(default_factory=list)
    notice: str = ""
    missing: list[str] = field(default_factory=list)
    base: str = ""
    limits: list[str] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        """The lines below the first, indented."""
        lines = []
        for name, (steps, *texts) in self.benchmarks.items():
            lines += [f"  benchmark {name}: {steps}", *(f"    {line}" for line in texts)]
        lines += [f"  model {name}: {backend}" for name, backend in self.models.items()]
        for name, (about, *texts) in self.llms.items():
            lines += [f"  language model {name}: {about}", *(f"    {line}" for line in texts)]
        lines += [f"  reranker {name}: {backend}" for name, backend in self.rerankers.items()]
        lines += [f"  {line}" for line in [*self.long_jobs, *filter(None, [self.notice])]]
        lines += [f"  missing: {what}" for what in self.missing]
        return lines + ([f"  {self.base}"] if self.missing else [])

    def __str__(self) -> str:
        state = f"valid{', but ' if self.limits else ''}{'; '.join(self.limits)}"
        return "\n".join([f"{', '.join(map(str, self.paths))}: {state}", *self.lines])

    def as_json(self) -> dict[str, Any]:
        """Return the config's values for --json."""
        benchmarks = {
            name: {"steps": steps.split(", "), "texts": [line.strip() for line in texts]}
            for name, (steps, *texts) in self.benchmarks.items()
        }
        return {
            "files": self.paths,
            "limits": self.limits,
            "missing": self.missing,
            "benchmarks": benchmarks,
            "models": self.models,
            "llms": {name: ". ".join(texts) for name, texts in self.llms.items()},
            "rerankers": self.rerankers,
            "long_jobs": self.long_jobs,
            "notice": self.notice,
        }


def validate_config(*paths: Path, is_run: bool = False) -> CheckedConfig:
    """Validate configs merged over the default; describe the run and its texts.

    Merges key by key, like Snakemake: each config overrides the ones before. Reports all problems
    of one kind (schema, unknown ids, files, texts) together. Missing local files and folders are
    only listed, unless ``is_run``.

    Raises InputError if the workflow would refuse the config, or if a file cannot be read.
    """
    config, models = load_config(read_configs(paths))
    missing: list[str] = []
    plan = make_plan(config, models, missing=missing)
    base = _base_folder_text(paths)
    if is_run and missing:
        raise InputError("\n".join(["missing:", *(f"  {what}" for what in missing), base]))
    found = CheckedConfig(
        paths,
        models={name: _model_text(entry) for name, entry in models.items()},
        rerankers={name: entry.backend for name, entry in plan.rerankers.items()},
        notice=config.notice,
        missing=missing,
        base=base,
    )
    problems = list[str]()
    for name, section in config.benchmarks.items():
        lines = found.benchmarks[name] = [_steps(section)]
        try:
            lines += uneven_lines(plan, name)
        except InputError as error:
            problems.append(str(error.under(f"config key benchmarks.{name}.source")))
        lines += language_lines(plan, name)
        for place in plan.benchmarks[name].places:
            try:
                lines += source_lines(plan, name, place)
            except InputError as error:
                problems.append(str(error))
    try:
        refuse_future_dates(path for files in plan.sources.values() for path in files)
    except InputError as error:
        problems.append(str(error))
    refuse(problems)
    for name, llm in plan.llms.items():
        _, retired = llm.retirement() or (False, "")
        note = f"; {retired}" if retired else ""
        found.llms[name] = [f"{llm.model}, backend {llm.backend}{note}"]
        program = llm.vllm.command[0]
        if llm.backend == "vllm" and shutil.which(program, path=search_path()) is None:
            found.llms[name].append(f"{program}: {NO_PROGRAM}")
    found.long_jobs = [] if missing else list(long_jobs(by_config(plan)))
    texts = found.lines
    limits = [f"{len(missing)} missing"] if missing else []
    limits += [f"{TOO_FEW_TEXT} for a test"] if any(TOO_FEW_TEXT in one for one in texts) else []
    limits += ["jobs longer than longest_minutes"] if found.long_jobs else []
    limits += [WITHOUT_QUERIES] if any(WITHOUT_QUERIES in line for line in texts) else []
    limits += ["texts that give no query"] if any(NO_QUERY in line for line in texts) else []
    limits += ["no vLLM on this machine"] if any(NO_PROGRAM in line for line in texts) else []
    found.limits = limits
    return found


def _base_folder_text(configs: Sequence[Path]) -> str:
    folder = configs[-1].absolute().parent
    text = f"paths in a config are relative to the folder that psibench runs in, here {Path.cwd()}"
    return text if folder == Path.cwd() else f"{text}; {configs[-1].name} is in {folder}"


def _model_text(entry: Model) -> str:
    """Return a model's backend, and the most tokens it reads of a text if files here tell that."""
    limit = getattr(entry, "max_tokens", None)
    if isinstance(entry, StaticModel):
        with suppress(MissingError):
            folder = local_folder(entry.checkpoint)
            limit = None if folder is None else reading_of(entry, folder).max_tokens
    if getattr(entry, "chunks", None) is not None:
        return f"{entry.backend}, in chunks"
    if limit is None or getattr(entry, "windows", None) is not None:
        return entry.backend
    return f"{entry.backend}, up to {limit:,} tokens"


def _steps(section: Benchmark) -> str:
    """Return a benchmark's recipe and the filters of its queries."""
    if not isinstance(section, GeneratedBenchmark):
        return section.recipe
    steps = [section.recipe, *section.filters]
    steps += [name for name in ("audit", "false_negatives") if getattr(section, name) is not None]
    return ", ".join(steps)


def _lines(record: Mapping[str, Any]) -> str:
    shown = {key: value for key, value in record.items() if value not in (None, {}, [])}
    return "\n".join(f"  {_line(key)}: {_line(value)}" for key, value in sorted(shown.items()))


def _line(value: Any) -> str:
    """Return a value of a record as one line."""
    is_plain = isinstance(value, str) and value.isprintable()
    return str(value) if is_plain else json.dumps(value, ensure_ascii=isinstance(value, str))


# --- A benchmark's languages, domains, pairs and translation -----------------------------------


def language_lines(plan: Plan, name: str) -> Iterator[str]:
    """Yield lines about a benchmark's languages; none for one domain in one language.

    Yields nothing for a release whose folders do not exist yet.
    """
    planned = plan.benchmarks[name]
    section, places = planned.section, planned.places
    if not places or (len(places) == 1 and section.translate is None):
        return
    for language, domains in planned.native.items():
        yield f"{language}: {', '.join(domains)}"
    yield f"pairs: {', '.join(f'{queries} in {corpus}' for queries, corpus in planned.pairs)}"
    if (translate := section.translate) is not None:
        target = planned.translated[0]
        models = ", ".join(plan.models_of(name, target, target)) or "no model"
        yield f"translated to {' '.join(translate.to)} by {translate.llm}, evaluated with {models}"


WITHOUT_QUERIES = "domains without queries"


def uneven_lines(plan: Plan, name: str) -> Iterator[str]:
    """Yield lines about domains that a language lacks, and domains without usable queries.

    Reads only the ids of a local release.

    Raises InputError if a file cannot be read, or if no query is usable.
    """
    planned = plan.benchmarks[name]
    every = list(dict.fromkeys(place.domain for place in planned.places))
    for language, domains in planned.native.items():
        if lacking := [domain for domain in every if domain not in domains]:
            yield f"uneven: {language} does not have {', '.join(lacking)}"
    section = planned.section
    if not isinstance(section, PosirRelease) or not Path(section.source.path).is_dir():
        return
    empty, n_queries = [], 0
    for place in planned.places:
        cell = {"language": place.language, "domain": place.domain}
        try:
            counts = count_dataset(section.source.path, **cell)
        except MissingError:
            return  # listed as missing
        n_queries += counts.answerable
        if not counts.answerable:
            reason = f"none of {counts.queries:,} queries has a positive in the corpus"
            reason = reason if counts.queries else "no query"
            empty.append(f"{', '.join(cell.values())}: {reason}; documents: {counts.documents:,}")
    if empty and (not n_queries or section.on_empty == "fail"):
        raise InputError(f"{WITHOUT_QUERIES}: {'; '.join(empty)}")
    if empty:
        yield f"{WITHOUT_QUERIES}, left out of all results (on_empty: drop):"
        yield from (f"  {line}" for line in empty)


# --- A benchmark's texts: number, lengths, and the share beyond models' inputs ------------------

N_COUNTED = 1_000
"""Number of documents whose tokens are counted."""
FALLBACK_TOKENIZER = "embedded:all-MiniLM-L6-v2"
TOO_FEW_TEXT = "too few documents"


def source_lines(plan: Plan, name: str, place: Place) -> Iterator[str]:
    """Yield lines about the local texts of one language and domain of a benchmark.

    Raises InputError if the source cannot be read, or has no text.
    """
    if not isinstance(place.source, SquadSource | FilesSource):
        return
    try:
        documents = _documents(plan.config.benchmarks[name], place)
    except MissingError:
        return  # listed as missing
    except InputError as error:
        raise error.under(f"config key benchmarks.{name}.{place.key}") from error
    more = "the first " if documents.height == MOST_DOCUMENTS else ""
    yield (
        f"{place.language}, {place.domain}: {more}{documents.height:,} documents; words: "
        f"{_words(documents)}"
    )
    if place.passages is not None:
        documents, _ = cut_documents(documents, **place.passages.model_dump())
        if documents.is_empty():
            raise InputError(
                f"config key benchmarks.{name}.passages: no passage has min_words to max_words"
            )
        yield f"  cut into {documents.height:,} passages; words: {_words(documents)}"
    section = plan.config.benchmarks[name]
    if isinstance(section, GeneratedBenchmark) and not more:
        length_tokenizer = plan.config.length_tokenizer
        sampled = local_sample(documents, section, place, length_tokenizer=length_tokenizer)
        if sampled is not None:
            documents = sampled.documents
            yield f"  {_sample_line(section.sample, documents)}"
    if isinstance(section, KnownItem):
        count = known_item_count(section, documents)
        yield f"  {count.problem or count}"
    if documents.height < FEWEST_DOCUMENTS:
        yield (
            f"  {TOO_FEW_TEXT}: with fewer than {FEWEST_DOCUMENTS}, tests need {FEWEST_QUERIES} "
            "queries and hold for these documents only; docs/own-corpus.md shows how many are "
            "enough"
        )
    unit = "documents" if place.passages is None else "passages"
    lines = _reach_lines(plan, name, documents.get_column("text"), unit)
    yield from (f"  {line}" for line in lines)


def _sample_line(sample: Sample, documents: pl.DataFrame) -> str:
    wanted = "" if sample.n_documents is None else f" of {sample.n_documents:,} requested"
    lengths = f"{sample.edges[0]:,} to {sample.edges[-1]:,} {sample.unit}"
    return f"sample: takes {documents.height:,}{wanted} ({lengths}); words: {_words(documents)}"


def _words(documents: pl.DataFrame) -> str:
    return _spread(documents.get_column("text").str.count_matches(r"\S+").to_numpy())


def _documents(section: Benchmark, place: Place) -> pl.DataFrame:
    if not isinstance(section, GeneratedBenchmark | KnownItem | SquadPosq):
        loader = section_at(section, place)
        assert isinstance(loader, Loader)
        return loader.build(count_whitespace_tokens).corpus
    return first_documents(place)


def _reach_lines(plan: Plan, benchmark: str, texts: pl.Series, unit: str) -> Iterator[str]:
    """Yield the share of a benchmark's text beyond the input of each encoder that searches it."""
    from psibench.models.counting import load_tokenizer

    some = texts.gather_every(-(-len(texts) // N_COUNTED)).to_list()
    counts, tokenizers = dict[str, np.ndarray](), dict[str, Any]()
    searching = [
        one for model in plan.config.models for one in plan.component_models(model, benchmark)
    ]
    negatives = getattr(plan.config.benchmarks[benchmark], "false_negatives", None)
    searching += [negatives.recall.model] if negatives is not None else []
    for model in dict.fromkeys(searching):
        entry = plan.models[model]
        is_service = isinstance(entry, EmbeddingApiModel)
        checkpoint = getattr(entry, "tokenizer" if is_service else "checkpoint", None)
        limit = getattr(entry, "max_tokens", None)
        if limit is None or checkpoint is None:
            continue
        if model in plan.config.trained:  # not trained yet: its base model reads the same
            checkpoint = plan.config.trained[model].settings.checkpoint
        is_file = is_service and tokenizer_file(checkpoint) is not None
        is_local = is_file or local_folder(checkpoint) is not None
        counted_by = checkpoint if is_local else FALLBACK_TOKENIZER
        if counted_by not in tokenizers:
            option = f"model {model!r}: {'tokenizer' if is_service else 'checkpoint'}"
            tokenizers[counted_by] = load_tokenizer(counted_by, option=option)
            counts[counted_by] = _count(tokenizers[counted_by], some)
            yield f"tokens ({counted_by}): {_spread(counts[counted_by])}"
        tokens, tokenizer = counts[counted_by], tokenizers[counted_by]
        prompt = getattr(entry, "document_prompt", None) or ""
        taken = tokenizer.num_special_tokens_to_add() + int(_count(tokenizer, [prompt])[0])
        beyond = (tokens - (limit - taken)).clip(0)
        about = "" if is_local else "about "
        verb = "receives" if is_service else "reads"
        why = ""
        if is_service and not is_local:
            why = f" (its tokenizer {checkpoint} is not on this machine; a run downloads it)"
        windows: Windows | None = getattr(entry, "windows", None)
        if windows is not None and windows.keep == "head-and-tail":
            yield f"{model} reads the first and the last {windows.tokens:,} tokens of a document"
        elif windows is not None:
            yield f"{model} reads all of the text in windows"
        elif (chunks := getattr(entry, "chunks", None)) is not None:
            late = " of whole documents" if chunks.context == "late" else ""
            yield f"{model} reads the text in chunks{late}, up to {limit:,} tokens of each"
        else:
            yield (
                f"{model} {verb} {limit:,} tokens{why}: {about}"
                f"{beyond.sum() / max(tokens.sum(), 1):.0%} of the text is cut off, the end of "
                f"{(beyond > 0).mean():.0%} of the {unit}"
            )


def _count(tokenizer: Any, texts: Sequence[str]) -> np.ndarray:
    ids = tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
    return np.array([len(one) for one in ids])


def _spread(numbers: np.ndarray) -> str:
    return (
        f"median {np.median(numbers):,.0f}, nine in ten below "
        f"{np.quantile(numbers, 0.9) + 1:,.0f}, at most {numbers.max():,}"
    )


DESCRIPTION = (
    "Parquet: verify schema, key and content hash, and print the provenance. YAML: validate a "
    "config merged over the default, and print the steps of its run, the lengths of local texts, "
    "and the share of text beyond each model's input. Invalid values are errors; missing files and "
    "folders are listed."
)
