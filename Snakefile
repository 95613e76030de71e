# psibench: position-sensitive retrieval benchmarks, from a source to a PSI table.
#
# Paths of results/ (relative to the working directory):
#   {benchmark}/data/{lang}/{domain}/corpus|queries|qrels.parquet     the benchmark
#   {benchmark}/build/{lang}/{step}.parquet                           tables on the way there, a
#                                                                     column `domain` in each
#   {benchmark}/build/{lang}/{task}.*|{task}/{shard}.*.parquet        what a language model said
#   {benchmark}/build/{lang}/scores|pair_scores/{reranker}.parquet    what a reranker said
#   {benchmark}/build/{lang}/{domain}/                                what was left out of a domain
#   {benchmark}/study/{lang}/                                         filter studies (target `study`)
#   {benchmark}/attrition|flow|llm_usage|statistics|relocation|...parquet  over all its languages
#   {benchmark}/encodings/{model}/{lang}.parquet                      addresses in store/
#   {benchmark}/runs/{model}/{query_lang}-{corpus_lang}.parquet
#   {benchmark}/scores|tables/{query_lang}-{corpus_lang}...           of all models
#   training/{training}/pairs|counts.parquet  models/{trained}/           where the config trains
#   probes/{probe}/{benchmark}/{model}/{lang}.parquet             target `probes`; .summary.parquet
#   probe_table.csv  probes.html                                  of all of them
#   psi_table.csv  bucket_scores.csv  position_trend.csv  language_averages.csv  ...
#   mitigations.csv (where a model names what it mitigates)
#   report.html  published.html (where a paper has figures of it)     over all benchmarks
# Views of a benchmark have folders of their own: {benchmark}-raw, -tiny, -candidates.
# Logs and job benchmarks repeat these paths under logs/ and benchmarks/.
from snakemake.utils import min_version

min_version("9.27")


include: "workflow/rules/common.smk"
include: "workflow/rules/build.smk"
include: "workflow/rules/generate.smk"
include: "workflow/rules/verify.smk"
include: "workflow/rules/retrieve.smk"
include: "workflow/rules/translate.smk"
include: "workflow/rules/negatives.smk"
include: "workflow/rules/views.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/training.smk"
include: "workflow/rules/collect.smk"
include: "workflow/rules/probes.smk"


onstart:
    check_start()


rule all:
    default_target: True
    input:
        [f"results/{name}.csv" for name in summaries.summary_names(plan)],
        summaries.mitigation_tables(plan),
        "results/report.html",
        published_page,
        [path.replace(".parquet", ".csv") for path in training_tables],
    localrule: True
