"""`psibench export`: a benchmark's tables in the layout of MTEB, BEIR, TREC or PosIR's release."""

import argparse
import tempfile
from pathlib import Path

from psibench.errors import InputError
from psibench.formats.built import find_datasets, prefixed_domains
from psibench.publish.card import Licence, card_text, count_datasets, lost_positions
from psibench.publish.layouts import LAYOUTS, Export
from psibench.publish.mteb import EVAL_YAML, eval_yaml
from psibench.tables import write_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what to export, where to, and how."""
    parser.add_argument(
        "benchmark", type=Path, metavar="RESULTS/BENCHMARK", help="as in results/python-docs"
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to make; may be there, empty")
    parser.add_argument("--layout", choices=LAYOUTS, default="posir", help="default: posir")
    parser.add_argument(
        "--licence",
        required=True,
        metavar="ID",
        help="of the texts, for the card, as the hub spells it: cc-by-4.0, apache-2.0, ...; other, "
        "with --licence-link; unknown",
    )
    parser.add_argument("--licence-link", metavar="URL", help="where the licence is to be read")
    parser.add_argument(
        "--languages", type=_names, metavar="A,B", help="only these; default: all that are found"
    )
    parser.add_argument(
        "--domains", type=_names, metavar="X,Y", help="only these; default: all that are found"
    )
    parser.add_argument(
        "--extra",
        action="store_true",
        help="posir: also the columns that the layout does not have",
    )


def run(args: argparse.Namespace) -> None:
    """Write all tables, a README.md and for MTEB an eval.yaml, or nothing."""
    licence = Licence(args.licence, args.licence_link)
    if args.extra and args.layout != "posir":
        raise InputError(f"--extra is no option of the layout {args.layout}; leave it out")
    datasets = find_datasets(args.benchmark, languages=args.languages, domains=args.domains)
    if args.out.exists() and not (args.out.is_dir() and not any(args.out.iterdir())):
        raise InputError(f"{args.out} is there and not empty; name a new folder, or remove it")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.out.parent, prefix=f".{args.out.name}.") as made:
        temporary = Path(made)
        stripped = frozenset(prefixed_domains(datasets) if args.layout == "posir" else ())
        planned = Export(args.benchmark, temporary, tuple(datasets), stripped, args.extra)
        written = LAYOUTS[args.layout](planned)
        counts, name = count_datasets(datasets), args.benchmark.resolve().name
        lost = "" if args.layout != "posir" or args.extra else lost_positions(counts)
        card = card_text(
            *(name, datasets, counts, written), layout=args.layout, licence=licence, lost=lost
        )
        write_text(card, temporary / "README.md")
        if args.layout == "mteb":
            write_text(eval_yaml(name, written), temporary / EVAL_YAML)
        temporary.chmod(0o755)
        if args.out.exists():
            args.out.rmdir()
        temporary.replace(args.out)
    if lost:
        print(f"warning: {lost}")
    queries = counts["queries"].sum()
    kinds = "dataset" if len(datasets) == 1 else "datasets"
    print(f"{len(datasets)} {kinds}, {queries:,} queries written to {args.out}")


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError("names with commas between them, as in eng-Latn,ara-Arab")
    return names


DESCRIPTION = (
    "Write the tables of results/BENCHMARK/data in a layout that other programs read, "
    "with a card (README.md). posir: "
    "OUT/LANG/DOMAIN/{corpus,queries,qrels}/test.parquet, which `recipe: posir_release` reads "
    "back. mteb: configs NAME-corpus, NAME-queries, NAME-qrels, and eval.yaml, by which the hub "
    "takes results. beir: OUT/NAME/corpus.jsonl, queries.jsonl, qrels/test.tsv. "
    "trec: OUT/NAME/topics.tsv, qrels.trec, runs/MODEL.trec. NAME is LANG, or LANG-DOMAIN of "
    "several domains. docs/publish.md says how each is loaded."
)
