"""Parameters and resources (memory, time, threads, GPUs) of each job.

The arguments of a function are the wildcards of a job, as in `paths`. Parameters contain only
values that change a result, because a changed parameter reruns the job.
"""

from pathlib import Path
from typing import Any

from psibench.config.model_base import EncoderModel
from psibench.config.model_params import retrieval_params
from psibench.config.rerankers import reranker_params
from psibench.config.sources import (
    BeirSource,
    FarRelevantSource,
    FilesSource,
    HubSource,
    PosirReleaseSource,
)
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
"""Files of a source that are read in parallel; more readers would wait for the disk or network."""
SMALL_JOB_TEXTS = 5_000
READER_BYTES = 32 << 20
"""Bytes that justify one more reading process."""

# Parameters: from a source to a benchmark's tables


def build(plan: Plan, benchmark: str, lang: str, part: str = "") -> dict[str, dict[str, Any]]:
    """Return the parameters of each domain's tables that are built without a language model."""
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
    """Return the domains of a benchmark's tables, for the stage `build` with their parameters."""
    if plan.data_stage(benchmark, lang) == "build":
        return build(plan, benchmark, lang, part)
    return domains(plan, benchmark, lang, part=part)


def data_section(plan: Plan, benchmark: str, lang: str) -> dict[str, Any] | None:
    """Return the section of the filter that removes false negatives or translations, if any."""
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
    """Return the place of the tables' counts in FLOW; None if no filter makes them."""
    steps = {"remove_negatives": "false_negatives", "clean_translations": "clean_translations"}
    step = steps.get(plan.data_stage(benchmark, lang))
    return None if step is None else counted(plan, benchmark, step=step)


def sample(plan: Plan, benchmark: str, lang: str, part: str = "") -> dict[str, dict[str, Any]]:
    """Return the parameters of the sample of each domain of a language (or a part)."""
    planned, found = plan.benchmarks[benchmark], {}
    for domain in planned.domains(lang, part=part):
        place = planned.place(lang, domain)
        assert not isinstance(place.source, PosirReleaseSource | BeirSource | FarRelevantSource)
        found[domain] = sample_params(
            place.source,
            place.passages,
            planned.generated.sample,
            length_tokenizer=plan.config.length_tokenizer,
            id_prefix=planned.id_prefix(domain),
        )
    return found


def ask(plan: Plan, benchmark: str, task: str, lang: str) -> dict[str, Any]:
    """Return the parameters that determine the outcomes of a task."""
    planned = plan.benchmarks[benchmark]
    section, prompt = planned.asked(task, lang), planned.tasks[task].prompt
    assert prompt is not None
    return {
        "recipe": planned.section.recipe,
        "section": task_params(section, prompt),
        "llm": {"id": section.llm} | llm_params(plan.llms[section.llm]),
    }


def counted(plan: Plan, benchmark: str, *, step: str) -> dict[str, Any]:
    """Return the number of a filter's step in FLOW, and the unit that it counts there."""
    planned = plan.benchmarks[benchmark]
    unit = CANDIDATE_UNITS.get(planned.section.recipe, "queries")
    return {"unit": unit, "step": planned.flow_step(step)}


def grade(plan: Plan, benchmark: str, task: str = "grade_rest") -> dict[str, Any]:
    """Return the parameters of a grading stage, including its rule.

    The first round omits ``min_grade`` and ``min_lead``, because it has no grades yet. The template
    is omitted, because it changes the requests, not the use of their grades.
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
    """Return whether a document with the same id as the query is removed from its ranking."""
    return getattr(plan.named[benchmark].section, "identical_ids", "keep") != "keep"


def model_version(plan: Plan, model: str) -> int:
    """Return the version of the code of a model's backend."""
    return MODEL_VERSIONS[plan.models[model].backend]


def reranker_entry(plan: Plan, reranker: str) -> dict[str, Any]:
    """Return the fields of a reranker's registry entry that change its scores."""
    return reranker_params(plan.rerankers[reranker])


def part_scoring(plan: Plan, benchmark: str, reranker: str) -> dict[str, Any]:
    """Return the parameters of a reranker's scores of document parts."""
    verify = plan.benchmarks[benchmark].generated.verify
    assert verify is not None
    return {"section": verify.score_params(reranker)} | _scorer(plan, reranker)


def pair_scoring(plan: Plan, benchmark: str, reranker: str) -> dict[str, Any]:
    """Return the parameters of a reranker's scores of recalled documents."""
    negatives = plan.benchmarks[benchmark].negatives
    return {"section": negatives.panel()} | _scorer(plan, reranker)


def _scorer(plan: Plan, reranker: str) -> dict[str, Any]:
    scorer = plan.rerankers[reranker]
    return {"entry": reranker_params(scorer), "reranker_version": RERANKER_VERSIONS[scorer.backend]}


# Resources: memory, time, threads, GPUs


def sample_threads(plan: Plan, benchmark: str, lang: str, part: str = "") -> int:
    """Return how many files of a source are read in parallel, at most `READERS`.

    Local files need `READER_BYTES` per reader; a dataset on the hub uses all readers.
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
    """Return the memory of sampling the documents of a part, in MiB.

    16 KiB per sampled document of all domains, and the same for one more domain per reader; plus
    600 MiB per reader for its libraries.
    """
    planned = plan.benchmarks[benchmark]
    per_domain = (planned.generated.sample.n_documents or 0) // 64
    readers = sample_threads(plan, benchmark, lang, part)
    n_domains = len(planned.domains(lang, part=part))
    return max(4000, per_domain * (n_domains + readers) + 600 * readers)


def encoder_mib(plan: Plan, model: str) -> int:
    """Return the memory of loading an encoder with float32 weights, in MiB.

    Small models may be compiled for a CPU, which needs the weights three times: as loaded, as
    converted, and in the compiled layout.
    """
    encoder = plan.models[model]
    assert isinstance(encoder, EncoderModel)
    millions = encoder.parameters_m or 0
    return max(6000, int(3000 + (13 if millions < MOST_WEIGHTS / 1e6 else 5) * millions))


def base(plan: Plan, trained: str) -> dict[str, Any]:
    """Return the settings of a base model that change the trained model."""
    section = plan.config.trained[trained].settings
    params = section.model_dump(mode="json", exclude={"licence", "parameters_m"})
    return params | {"learning_rate": section.rate}


def training_mib(plan: Plan, trained: str) -> int:
    """Return the memory of a training, in MiB.

    Weights, gradients and AdamW's two averages in float32, and the activations of a mini-batch. A
    second attempt requests half more, at least 14 GB.
    """
    return int(9500 + 20 * (plan.config.trained[trained].settings.parameters_m or 0))


def scoring_mib(plan: Plan, reranker: str) -> int:
    """Return the memory of a reranker, in MiB; also on a GPU, because loading needs it.

    A sequence classifier that is compiled for a CPU needs its weights three times.
    """
    causal = ("flag-llm", "flag-layerwise", "mxbai", "qwen3")
    compiled = ("cross-encoder", "flag")
    backend = plan.rerankers[reranker].backend
    return 24_000 if backend in causal else 16_000 if backend in compiled else 6000


def scoring_minutes(plan: Plan, benchmark: str, lang: str, reranker: str, *, of: str) -> int:
    """Return the time limit of a job that scores for a filter, in minutes.

    1.5 times `UNCERTAINTY` times the expected time, at least four hours; a day if unknown.
    """
    planned = by_config(plan).rows[SCORING[of], benchmark, lang, reranker].job_minutes
    return 1440 if planned is None else max(240, int(1.5 * UNCERTAINTY * planned))


def recall_mib(plan: Plan, benchmark: str) -> int:
    """Return the memory of a recall, in MiB; 14 MiB per retrieved document of a query."""
    return 6000 + 14 * plan.named[benchmark].negatives.recall.top_k


def share_of_place(plan: Plan, benchmark: str) -> float:
    """Return a bound on the largest domain's share of a table: three times the mean, at most 1."""
    return min(1, 3 / max(1, len(plan.benchmarks[benchmark].places)))


def tokens_per_batch(plan: Plan, model: str) -> int:
    """Return the padded tokens in one forward pass of a model, from its entry or `encoding`."""
    encoder = plan.models[model]
    assert isinstance(encoder, EncoderModel)
    return encoder.tokens_per_batch or plan.config.encoding.tokens_per_batch


def scoring_tokens(plan: Plan, reranker: str) -> int:
    """Return the padded tokens in one forward pass of a reranker, from its entry or `encoding`."""
    tokens = plan.rerankers[reranker].tokens_per_batch
    return tokens or plan.config.encoding.tokens_per_batch


def encode_priority(
    plan: Plan, benchmark: str, model: str, lang: str | None = None, corpus_lang: str | None = None
) -> float:
    """Return the priority of a model's encoding and search, from 0 to 1; longer jobs start earlier.

    1 for the model that recalls possible false negatives, because later jobs wait for it.
    """
    planned = plan.named[benchmark]
    if planned.view == RAW_VIEW and model == planned.negatives.recall.model:
        return 1.0
    row = by_config(plan).rows.get(("encode", benchmark, str(lang or corpus_lang), model))
    minutes = (row and row.job_minutes) or 0.0
    return minutes / (1 + minutes)


def encode_minutes(plan: Plan, benchmark: str, model: str, lang: str) -> int:
    """Return the time limit of a job of an encoding, in minutes.

    1.5 times the planned time, at least four hours.
    """
    row = by_config(plan).rows.get(("encode", benchmark, lang, model))
    return max(240, int(1.5 * ((row and row.job_minutes) or 0)))


def ask_minutes(plan: Plan, benchmark: str, task: str) -> int:
    """Return the time limit of a job that sends requests, in minutes; a batch may take a day."""
    return 2880 if plan.llm_of(benchmark, task).backend == "openai-batch" else 720


def ask_mib(plan: Plan, benchmark: str, task: str) -> int:
    """Return the memory of a job that sends requests, in MiB; 32,000 if it runs a vLLM server."""
    return 32_000 if plan.llm_of(benchmark, task).backend == "vllm" else 4000


def ask_threads(plan: Plan, benchmark: str, task: str) -> int:
    """Return the threads of a job that sends requests."""
    return 4 if plan.llm_of(benchmark, task).backend == "vllm" else 1


def ask_gpus(plan: Plan, benchmark: str, task: str) -> int:
    """Return the GPUs of a job that sends requests: the GPUs of its vLLM server, else 0."""
    llm = plan.llm_of(benchmark, task)
    return llm.vllm.gpus if llm.backend == "vllm" else 0


def budgeted(plan: Plan, benchmark: str, task: str = "", model: str = "") -> int:
    """Return the units of the resource `budgeted_llm` of a job: 1 if its model has a budget.

    The model is an embedding API, or the language model of a task.
    """
    asked = plan.models[model] if model else plan.llm_of(benchmark, task)
    return int(getattr(asked, "budget_usd", None) is not None)


def threads(
    plan: Plan, benchmark: str, lang: str | None = None, corpus_lang: str | None = None
) -> int:
    """Return the threads of a job that runs a model over the texts of a benchmark or view.

    1 for a small job: it mostly loads, so small jobs finish sooner side by side on one core each.
    8 for a large job (Snakemake reduces this to the available cores); 2 if the number of texts is
    unknown.
    """
    found = by_config(plan).texts(benchmark, str(lang or corpus_lang))
    if found is None:
        return 2
    return 1 if found.n_texts < SMALL_JOB_TEXTS else 8


def chain_threads(plan: Plan, benchmark: str, lang: str) -> int:
    """Return the threads of a model job that runs while no other job of its benchmark can.

    At least two.
    """
    return max(2, threads(plan, benchmark, lang))


def gpus(plan: Plan) -> int:
    """Return the GPUs of a job that runs a model or a reranker on this machine.

    0 without a GPU: such jobs share the cores. The SLURM profile overrides this number.
    """
    return int(plan.config.encoding.device != "cpu" and has_gpus())
