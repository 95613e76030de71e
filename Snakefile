# psibench: position-sensitive retrieval benchmarks, from a source to a PSI table.
#
# Paths of results/ (relative to the working directory):
#   {benchmark}/data/{lang}/{domain}/corpus|queries|qrels.parquet     the benchmark
#   {benchmark}/build/{lang}/{domain}/dropped.parquet                 what the recipe left out
#   {benchmark}/build/{lang}/{domain}/{step}.parquet                  tables on the way there
#   {benchmark}/build/{lang}/{domain}/{task}/{llm}/{shard}.*.parquet  what a language model said
#   {benchmark}/build/{lang}/{domain}/scores|pair_scores/{reranker}.parquet  what a reranker said
#   {benchmark}/study/{lang}/{domain}/                                filter studies (target `study`)
#   {benchmark}/build/{lang}/statistics|position_histogram|relocation.parquet  over a language
#   {benchmark}/build/{lang}/all/...                                  a sample of its translations
#   {benchmark}/attrition|translation_quality|...parquet              over all its languages
#   {benchmark}/encodings/{model}/{lang}.parquet                      addresses in store/
#   {benchmark}/runs/{model}/{query_lang}-{corpus_lang}.parquet
#   {benchmark}/scores|tables/{query_lang}-{corpus_lang}...           of all models
#   psi_table.csv  bucket_scores.csv  position_trend.csv  language_averages.csv  ...
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
include: "workflow/rules/collect.smk"


onstart:
    check_start()


rule all:
    default_target: True
    input:
        [f"results/{name}.csv" for name in summary_names(lookup)],
        "results/report.html",
        published_page(),
    localrule: True
