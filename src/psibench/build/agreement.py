"""How far a language model's grades of translations agree with people's.

PosIR, appendix B.3: share of grades at most 1 apart, mean absolute difference, and what the model
gave where a person gave 1, 2, ..., 5.
"""

import polars as pl

from psibench.build.quality import DIMENSIONS, OVERALL, POOLED

ANNOTATOR_MEAN = "mean"
RESERVED = (POOLED, ANNOTATOR_MEAN)
DOCUMENT = ("language", "domain", "doc_id")
GRADES = range(1, 6)


def agreement_table(grades: pl.DataFrame, human: pl.DataFrame) -> pl.DataFrame:
    """Compare the grades of a language model with people's: TRANSLATION_AGREEMENT rows.

    Parameters
    ----------
    grades
        The model's, as `graded` stacks them.
    human
        ``annotator`` (null where not named), ``language``, ``domain``, ``doc_id`` and a whole
        number per dimension, one row per document and annotator.

    Returns
    -------
    Rows by annotator, language and dimension. Annotators: ``all``, where every row of ``human`` is
    compared on its own, as published; where documents have several, ``mean`` of a document's
    annotators; each one that is named, where there are several. Languages: pooled ``all`` first.
    Dimensions: the four, ``overall`` (a document's mean of the four) and ``all`` (the grades of
    the four together). Without a person's grade there are no rows.
    """
    pairs = _pairs(grades, human)
    sides = [pairs.with_columns(annotator=pl.lit(POOLED))]
    if human.select(pl.struct(DOCUMENT).is_duplicated().any()).item():
        by = [*DOCUMENT, "dimension"]
        means = pairs.group_by(by, maintain_order=True).agg(pl.col("human").mean(), pl.first("llm"))
        sides.append(means.select(pl.lit(ANNOTATOR_MEAN).alias("annotator"), *means.columns))
    named = pairs.filter(pl.col("annotator").is_not_null())
    if named.get_column("annotator").n_unique() > 1:
        sides.append(named.sort("annotator", maintain_order=True))
    compared = pl.concat([_compared(side.select(sides[0].columns)) for side in sides])
    ranks = {
        "annotator": list(dict.fromkeys(compared.get_column("annotator"))),
        "language": [POOLED, *dict.fromkeys(human.get_column("language"))],
        "dimension": [*DIMENSIONS, OVERALL, POOLED],
    }
    return compared.sort([pl.col(name).cast(pl.Enum(order)) for name, order in ranks.items()])


def confusion_table(grades: pl.DataFrame, human: pl.DataFrame) -> pl.DataFrame:
    """Count pairs by a person's and the model's grade: TRANSLATION_CONFUSION rows.

    Every row of ``human`` counts on its own. All 25 pairs of grades of a language and dimension
    have a row, those that do not occur too; ``share`` is of the pairs with the person's grade.
    """
    pairs = _pairs(grades, human).filter(
        pl.col("llm").is_not_null() & (pl.col("dimension") != OVERALL)
    )
    counted = _with_pooled(pairs).group_by("language", "dimension", "human", "llm").agg(n=pl.len())
    groups = _with_pooled(pairs).select("language", "dimension").unique(maintain_order=True)
    cells = groups.join(_all_cells(), how="cross")
    on = ["language", "dimension", "human", "llm"]
    found = cells.join(counted, on=on, how="left", maintain_order="left")
    found = found.with_columns(pl.col("n").fill_null(0).cast(pl.Int64))
    order = [POOLED, *dict.fromkeys(human.get_column("language"))]
    found = found.sort(pl.col("language").cast(pl.Enum(order)), maintain_order=True)
    given = pl.col("n").sum().over("language", "dimension", "human")
    share = pl.when(given > 0).then(pl.col("n") / given)
    return found.with_columns(share=share, human=_whole("human"), llm=_whole("llm"))


def _whole(name: str) -> pl.Expr:
    return pl.col(name).cast(pl.Int32)


def _all_cells() -> pl.DataFrame:
    cells = [(float(human), float(llm)) for human in GRADES for llm in GRADES]
    return pl.DataFrame(cells, schema={"human": pl.Float64, "llm": pl.Float64}, orient="row")


def _pairs(grades: pl.DataFrame, human: pl.DataFrame) -> pl.DataFrame:
    """Return a row per grade by a person: annotator, document, dimension, ``human``, ``llm``.

    ``llm`` is null where the model graded no such document.
    """
    names = [*DIMENSIONS, OVERALL]
    floats = human.with_columns(pl.col(DIMENSIONS).cast(pl.Float64)).with_columns(
        pl.mean_horizontal(DIMENSIONS).alias(OVERALL)
    )
    sides = (
        frame.unpivot(names, index=index, variable_name="dimension", value_name=value)
        for frame, index, value in (
            (floats, ["annotator", *DOCUMENT], "human"),
            (grades, list(DOCUMENT), "llm"),
        )
    )
    people, model = sides
    on = [*DOCUMENT, "dimension"]
    return people.join(model, on=on, how="left", maintain_order="left", validate="m:1")


def _with_pooled(pairs: pl.DataFrame) -> pl.DataFrame:
    """Add the pooled rows: of all languages, first, and of the four dimensions together."""
    together = pairs.filter(pl.col("dimension") != OVERALL).with_columns(dimension=pl.lit(POOLED))
    every = pl.concat([pairs, together])
    return pl.concat([every.with_columns(language=pl.lit(POOLED)), every])


def _compared(pairs: pl.DataFrame) -> pl.DataFrame:
    matched = pl.col("llm").is_not_null()
    apart = (pl.col("human") - pl.col("llm")).abs()
    groups = _with_pooled(pairs).group_by("annotator", "language", "dimension", maintain_order=True)
    return groups.agg(
        n=matched.sum().cast(pl.Int64),
        n_unmatched=(~matched).sum().cast(pl.Int64),
        within_one=(apart <= 1).mean(),
        mae=apart.mean(),
        mean_human=pl.col("human").filter(matched).mean(),
        mean_llm=pl.col("llm").mean(),
    )
