"""What a job is given: parameters that decide what it makes, and memory, time, threads and GPUs.

Functions are asked with the wildcards of a job by their names, as those of `paths`. Nothing that
decides no result is a parameter: it would be a reason to rerun.
"""

from pathlib import Path
from typing import Any

from psibench.config.model_base import EncoderModel
from psibench.config.model_params import retrieval_params
from psibench.config.rerankers import reranker_params
from psibench.config.sources import BeirSource, FilesSource, HubSource, PosirReleaseSource
from psibench.generate.ask import llm_params, task_params
from psibench.generate.benchmarks import RAW_VIEW
from psibench.generate.recipes import CANDIDATE_UNITS, build_params, grade_rule
from psibench.generate.sampling import sample_params
from psibench.models.compiled import MOST_WEIGHTS
from psibench.models.dtypes import has_gpus
from psibench.models.protocols import MODEL_VERSIONS
from psibench.plan.paths import domains
from psibench.plan.plan import Plan
from psibench.plan.work import SCORING, UNCERTAINTY, by_config
from psibench.rerankers.protocols import RERANKER_VERSIONS

READERS = 4
"""Files of a source that are read at once: more would wait for one disk or one network."""
SMALL_JOB_TEXTS = 5_000
READER_BYTES = 32 << 20
"""Bytes from which on a reading process is worth its start."""

# Parameters: from a source to a benchmark's tables


def build(plan: Plan, benchmark: str, lang: str, part: str = "") -> dict[str, dict[str, Any]]:
    """Return what decides the tables of each domain that are made without a language model."""
    planned = plan.benchmarks[benchmark]
    limit = {} if plan.config.limit is None else {"limit": plan.config.limit}
    return {
        domain: limit
        | build_params(
            planned.section_at(lang, domain),
            length_tokenizer=plan.config.length_tokenizer,
            id_prefix=planned.id_prefix(domain),
        )
        for domain in planned.domains(lang, part=part)
    }


def data_domains(plan: Plan, benchmark: str, lang: str, part: str = "") -> Any:
    """Return the domains of a benchmark's tables; of a source with what decides each."""
    if plan.data_stage(benchmark, lang) == "build":
        return build(plan, benchmark, lang, part)
    return domains(plan, benchmark, lang, part=part)


def data_section(plan: Plan, benchmark: str, lang: str) -> dict[str, Any] | None:
    """Return the section by which false negatives or translations are left out of the tables."""
    planned = plan.benchmarks[benchmark]
    match plan.data_stage(benchmark, lang):
        case "remove_negatives":
            return planned.negatives.removal()
        case "clean_translations":
            translate = planned.section.translate
            assert translate is not None
            return translate.clean.model_dump(mode="json")["outliers"]
        case _:
            return None


def data_place(plan: Plan, benchmark: str, lang: str) -> dict[str, Any] | None:
    """Return where the tables' counts go in FLOW; None where no filter makes them."""
    steps = {"remove_negatives": "false_negatives", "clean_translations": "clean_translations"}
    step = steps.get(plan.data_stage(benchmark, lang))
    return None if step is None else counted(plan, benchmark, step=step)


def sample(plan: Plan, benchmark: str, lang: str, part: str = "") -> dict[str, dict[str, Any]]:
    """Return what decides the documents of each domain of a language, or a part of it."""
    planned, found = plan.benchmarks[benchmark], {}
    for domain in planned.domains(lang, part=part):
        place = planned.place(lang, domain)
        assert not isinstance(place.source, PosirReleaseSource | BeirSource)
        found[domain] = sample_params(
            place.source,
            place.passages,
            planned.generated.sample,
            length_tokenizer=plan.config.length_tokenizer,
            id_prefix=planned.id_prefix(domain),
        )
    return found


def ask(plan: Plan, benchmark: str, task: str, lang: str) -> dict[str, Any]:
    """Return what decides the outcomes of a task."""
    planned = plan.benchmarks[benchmark]
    section, prompt = planned.asked(task, lang), planned.tasks[task].prompt
    assert prompt is not None
    return {
        "recipe": planned.section.recipe,
        "section": task_params(section, prompt),
        "llm": {"id": section.llm} | llm_params(plan.llms[section.llm]),
    }


def counted(plan: Plan, benchmark: str, *, step: str) -> dict[str, Any]:
    """Return where a filter's counts go in FLOW, and what a candidate is called there."""
    planned = plan.benchmarks[benchmark]
    unit = CANDIDATE_UNITS.get(planned.section.recipe, "queries")
    return {"unit": unit, "step": planned.flow_step(step)}


def grade(plan: Plan, benchmark: str, task: str = "grade_rest") -> dict[str, Any]:
    """Return the parameters of a grading stage, with its rule filled in.

    The first round leaves out ``min_grade`` and ``min_lead``, because no grade is known when it
    asks. The template is left out: it changes the requests, not how their grades are used.
    """
    section = plan.benchmarks[benchmark].generated
    assert section.grade is not None
    later = {"min_grade", "min_lead"} if task == "grade_first" else set()
    dumped = section.grade.model_dump(mode="json", exclude={"prompt", *later})
    return dumped | {"rule": grade_rule(section)}


# Parameters: models and rerankers


def entry(plan: Plan, model: str) -> dict[str, Any]:
    """Return the fields of a model's registry entry that change its results."""
    return retrieval_params(plan.models[model])


def remove_identical_ids(plan: Plan, benchmark: str) -> bool:
    """Return whether the document that has a query's own id is left out of its ranking."""
    return getattr(plan.named[benchmark].section, "identical_ids", "keep") != "keep"


def model_version(plan: Plan, model: str) -> int:
    """Return the version of the computation of a model's backend."""
    return MODEL_VERSIONS[plan.models[model].backend]


def reranker_entry(plan: Plan, reranker: str) -> dict[str, Any]:
    """Return the fields of a reranker's registry entry that change its scores."""
    return reranker_params(plan.rerankers[reranker])


def part_scoring(plan: Plan, benchmark: str, reranker: str) -> dict[str, Any]:
    """Return what decides a reranker's scores of the parts of a benchmark's documents."""
    verify = plan.benchmarks[benchmark].generated.verify
    assert verify is not None
    return {"section": verify.score_params(reranker)} | _scorer(plan, reranker)


def pair_scoring(plan: Plan, benchmark: str, reranker: str) -> dict[str, Any]:
    """Return what decides a reranker's scores of a benchmark's recalled documents."""
    negatives = plan.benchmarks[benchmark].negatives
    return {"section": negatives.panel()} | _scorer(plan, reranker)


def _scorer(plan: Plan, reranker: str) -> dict[str, Any]:
    scorer = plan.rerankers[reranker]
    return {"entry": reranker_params(scorer), "reranker_version": RERANKER_VERSIONS[scorer.backend]}


# How the work is cut: memory, time, threads, GPUs


def sample_threads(plan: Plan, benchmark: str, lang: str, part: str = "") -> int:
    """Return how many files of a source are read side by side.

    Local ones by their size, each of a dataset on the hub: at most `READERS`.
    """
    planned, most = plan.benchmarks[benchmark], 1
    for domain in planned.domains(lang, part=part):
        source, files = planned.place(lang, domain).source, plan.sources[benchmark, lang, domain]
        if isinstance(source, HubSource) and not files:
            return READERS
        if isinstance(source, FilesSource | HubSource):
            n_bytes = sum(Path(path).stat().st_size for path in files)
            most = max(most, min(len(files), READERS, n_bytes // READER_BYTES))
    return most


def sample_mib(plan: Plan, benchmark: str, lang: str, part: str = "") -> int:
    """Return the memory that drawing the documents of a part takes, MiB.

    16 KiB for each document of a sample, of all domains and of one more for each reader; a
    reader's libraries.
    """
    planned = plan.benchmarks[benchmark]
    per_domain = (planned.generated.sample.n_documents or 0) // 64
    readers = sample_threads(plan, benchmark, lang, part)
    n_domains = len(planned.domains(lang, part=part))
    return max(4000, per_domain * (n_domains + readers) + 600 * readers)


def encoder_mib(plan: Plan, model: str) -> int:
    """Return the memory that loading an encoder takes, MiB: its weights in float32.

    Three times, where they may be compiled for a CPU: as loaded, as converted, as laid out anew.
    """
    encoder = plan.models[model]
    assert isinstance(encoder, EncoderModel)
    millions = encoder.parameters_m or 0
    return max(6000, int(3000 + (13 if millions < MOST_WEIGHTS / 1e6 else 5) * millions))


def base(plan: Plan, trained: str) -> dict[str, Any]:
    """Return the settings of a base that change the models trained from it."""
    section = plan.config.trained[trained].settings
    decides = section.model_dump(mode="json", exclude={"licence", "parameters_m"})
    return decides | {"learning_rate": section.rate}


def training_mib(plan: Plan, trained: str) -> int:
    """Return the memory that a training takes, MiB: weights, gradients, AdamW's two averages.

    In float32, and the activations of a mini-batch beside them. A second attempt, which asks for
    half more, has 14 GB at least.
    """
    return int(9500 + 20 * (plan.config.trained[trained].settings.parameters_m or 0))


def scoring_mib(plan: Plan, reranker: str) -> int:
    """Return the memory that a reranker takes, MiB: weights pass through it first.

    Those of a sequence classifier are there three times where they are compiled for a CPU.
    """
    causal = ("flag-llm", "flag-layerwise", "mxbai", "qwen3")
    compiled = ("cross-encoder", "flag")
    backend = plan.rerankers[reranker].backend
    return 24_000 if backend in causal else 16_000 if backend in compiled else 6000


def scoring_minutes(plan: Plan, benchmark: str, lang: str, reranker: str, *, of: str) -> int:
    """Return the minutes that a job of a filter's scores asks for: half more than are likely.

    These are `UNCERTAINTY` times the expected ones. At least four hours, and a day if unknown.
    """
    planned = by_config(plan).rows[SCORING[of], benchmark, lang, reranker].job_minutes
    return 1440 if planned is None else max(240, int(1.5 * UNCERTAINTY * planned))


def recall_mib(plan: Plan, benchmark: str) -> int:
    """Return the memory of a recall, MiB: 14 for each of the documents per query."""
    return 6000 + 14 * plan.named[benchmark].negatives.recall.top_k


def share_of_place(plan: Plan, benchmark: str) -> float:
    """Bound the share of the largest domain over all languages: three times the mean, at most 1."""
    return min(1, 3 / max(1, len(plan.benchmarks[benchmark].places)))


def tokens_per_batch(plan: Plan, model: str) -> int:
    """Return the padded tokens in one forward pass of a model: its own, or the settings'."""
    encoder = plan.models[model]
    assert isinstance(encoder, EncoderModel)
    return encoder.tokens_per_batch or plan.config.encoding.tokens_per_batch


def scoring_tokens(plan: Plan, reranker: str) -> int:
    """Return the padded tokens in one forward pass of a reranker: its own, or the settings'."""
    tokens = plan.rerankers[reranker].tokens_per_batch
    return tokens or plan.config.encoding.tokens_per_batch


def encode_priority(
    plan: Plan, benchmark: str, model: str, lang: str | None = None, corpus_lang: str | None = None
) -> float:
    """Return the priority of a model's encoding and search, in (0, 1]: the longer, the earlier.

    1 for the model that recalls possible false negatives: what follows waits for it.
    """
    planned = plan.named[benchmark]
    if planned.view == RAW_VIEW and model == planned.negatives.recall.model:
        return 1.0
    row = by_config(plan).rows.get(("encode", benchmark, str(lang or corpus_lang), model))
    minutes = (row and row.job_minutes) or 0.0
    return minutes / (1 + minutes)


def encode_minutes(plan: Plan, benchmark: str, model: str, lang: str) -> int:
    """Return the minutes that one of the jobs of an encoding asks for: half more than planned.

    At least four hours.
    """
    row = by_config(plan).rows.get(("encode", benchmark, lang, model))
    return max(240, int(1.5 * ((row and row.job_minutes) or 0)))


def ask_minutes(plan: Plan, benchmark: str, task: str) -> int:
    """Return how long one job that asks a model may take: a batch alone takes up to a day."""
    return 2880 if plan.llm_of(benchmark, task).backend == "openai-batch" else 720


def ask_mib(plan: Plan, benchmark: str, task: str) -> int:
    """Return the memory of a job that asks a model, MiB: a server of its own takes 32 GiB."""
    return 32_000 if plan.llm_of(benchmark, task).backend == "vllm" else 4000


def ask_threads(plan: Plan, benchmark: str, task: str) -> int:
    """Return the threads of a job that asks a model."""
    return 4 if plan.llm_of(benchmark, task).backend == "vllm" else 1


def ask_gpus(plan: Plan, benchmark: str, task: str) -> int:
    """Return the GPUs of a job that asks a model: those of a server of its own."""
    llm = plan.llm_of(benchmark, task)
    return llm.vllm.gpus if llm.backend == "vllm" else 0


def budgeted(plan: Plan, benchmark: str, task: str = "", model: str = "") -> int:
    """Return the units of `budgeted_llm` that a job takes: 1 if what it asks has a budget.

    It is the language model of a task, or an embedding API.
    """
    asked = plan.models[model] if model else plan.llm_of(benchmark, task)
    return int(getattr(asked, "budget_usd", None) is not None)


def threads(
    plan: Plan, benchmark: str, lang: str | None = None, corpus_lang: str | None = None
) -> int:
    """Return the threads of a job that runs a model over a benchmark's or view's texts.

    A small job starts up longer than it computes: several on a core each end sooner than one after
    the other on all. 8 for large ones, of which Snakemake takes as many as it may; 2 where their
    number is not known.
    """
    found = by_config(plan).texts(benchmark, str(lang or corpus_lang))
    if found is None:
        return 2
    return 1 if found.n_texts < SMALL_JOB_TEXTS else 8


def chain_threads(plan: Plan, benchmark: str, lang: str) -> int:
    """Return the threads of a model job whose jobs run one after another: at least two.

    No other job of its benchmark runs at the same time.
    """
    return max(2, threads(plan, benchmark, lang))


def gpus(plan: Plan) -> int:
    """Return the GPUs that a job takes which runs a model or a reranker here.

    None where there are none: there jobs share the cores. A SLURM profile asks for its own number.
    """
    return int(plan.config.encoding.device != "cpu" and has_gpus())
