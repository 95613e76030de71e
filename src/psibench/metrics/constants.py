"""The chosen numbers of the inference, with the reason for each.

`studies/inference` supports them: the cells of its summary that are named here, and
`results/constants.md`, which runs the cells of a number with it and without it.
"""

SIGNIFICANCE_LEVEL = 0.05
"""p at or below which a test rejects."""

# --- What a test needs

FEWEST_DOCUMENTS = 30
"""Informative documents that a test or an interval needs to have the size it states. Cells "32
documents", "35 documents": sizes of .03 to .064."""

FEWEST_CLUSTERS = 5
"""Clusters of documents from which on they are the independent units. With fewer nothing can be
said of further clusters: documents are the units, and what is found holds in these clusters. Cells
"5 clusters of unlike slopes": size .056 to .06; by documents ("9 clusters ..., documents as units")
.26 to .44."""

LEAST_INFORMATION = 0.10
"""Least share of the comparison between buckets that lies within documents; see `Information`. It
is .02 where each document holds one third and .42 or more in the other layouts."""

FEWEST_BUCKET_DOCUMENTS = 20.0
"""Informative documents (or clusters), by their effective number, that a bucket needs to be tested
against the rest: with fewer, rare misses (or hits) reject too often at the small p that many
buckets ask for. `equal_means` and the lower end of a PSI count the documents that hold it. Cells
"characters", "in the last bucket"."""

FEWEST_OF_A_KIND = 20.0
"""Hits, and misses, that are to be expected in such a bucket: one that happens to have none would
look certain. Cells "characters, sparse buckets, mean .96"."""

LENGTH_STRATA = 5
"""Quantiles of length within which documents are compared with each other. Cells "late in long
documents"."""

CONFOUNDED_P = 0.05
"""`p_confounded` below which a row is flagged."""

# --- Intervals

PSEUDO_QUERIES = 2.0
"""Queries of average score added to a bucket's, so that few queries that score alike do not look
certain. Cells "1 queries in the last bucket"."""

NULL_QUANTILE = 0.16
"""An observed PSI below this quantile of the PSI that chance alone shows is replaced by it: one
standard error, the power constraint of Cowan, Cranmer, Gross and Vitells (2011). No coverage rests
on it: it keeps the upper end from falling towards 0 where bucket means happen to agree."""

FEWEST_MISSES = 3.0
"""Expected misses of a bucket below which its mean is taken to be no more certain than
`_least_means` has it. Misses: the documents that hold it, times the share of the best score
that its mean lacks; of clusters: those with a miss. Cells "nearly all found", "best 1"."""

SMALL_BUCKET = 0.5
"""A bucket with fewer than this share of the median bucket's queries is badly known: its mean goes
along with the slope and bend of the others in `lower_end`. `_least_means` says what it may be.
Cells "in the last bucket"."""

PULLED = 2.0
"""For the upper end, K buckets between the best and the worst lie nearer to the middle, by the
factor 1 - 2/K: which of few are the extremes is not known for certain. Cells "free-6, PSI 0.3"."""

CORRECTED_P = 0.5
"""p above which the corrected PSI is 0: noise alone shows as much in every second case."""

ALMOST_NONE = 3
"""So few units that differ say nothing of how large a difference can be. Cells "missed"."""

FEW_UNLIKE, ENOUGH_UNLIKE = 10, 40
"""So many units have to differ from the typical one for Student's t to be right of a mean: half of
all where that lies between these two, else the nearer one. Where 25 of 500 differ, all one way, its
interval covers in .93, and in .90 where they differ by unlike amounts. Cells "missed"."""

# --- What is said

FLOOR, CEILING = 0.05, 0.95
"""Row means, as shares of the largest possible score, below and above which PSI says little: at the
floor it is a ratio of two means of few hits, at the ceiling few misses are left to differ. A choice
of this project; no figure depends on it."""

# --- Human grades

FEWEST_GRADED = 50
"""Graded queries that corrected scores need (`results/labels.md`: 60 cover)."""

FEWEST_BUCKET_GRADED = 10
"""Graded queries of a bucket that its corrected mean needs."""

UNLIKELY = 0.001
"""p below which the graded queries are not taken for drawn at random."""

# --- Planning

MEAN = 0.6
"""Mean score that is assumed where no run is known."""

CONTROL_SHARE = 0.75
"""Mean of the position-blind control as a share of the model's: minilm-static beside
all-MiniLM-L6-v2 has .74 on ten SQuAD articles and .86 on XQuAD (`results/real_data.md`)."""

CORRELATION = 0.2
"""Correlation of two scores of one document that is assumed where no run is known."""

SLOPE_SD = 0.05
"""Standard deviation that is assumed of clusters' slopes: a system's loss from the first place to
the last, as a share of its mean, varies by this from cluster to cluster (0 to .05 between ten SQuAD
articles, by three systems)."""

VARIANCE_RATIO = 0.66
"""Variance of nDCG@10 with one positive as a share of that of hits and misses: .57 to .67 of three
systems on SQuAD."""

PENALTY = 1.5
"""A test of slope, bend and single buckets at alpha has the power that slope and bend have at
alpha / 1.5 (`results/planning.md`)."""

# --- How exactly it is computed

DRAWS = 1024
"""Points of the normal distribution that stand for a row's sampling errors."""

BISECTIONS = 16
"""Halvings of [0, 1] when the PSI is solved for: a resolution of 0.000015."""

CHI_SQUARE_UNITS = 10**9
"""So many units make of the test of `HotellingTest` the chi-square test of a known covariance."""

SIGN_FLIPS = 9999
"""Random sign flips: no family-wise p is below .0001."""

LEAST_ERROR, LEAST_VARIANCE, LEAST_LEFT = 1e-3, 1e-6, 1e-4
"""Floors that keep divisions finite: of a bucket's standard error beside the largest; of a score's
variance beside the largest squared score; and what of a rejected PSI is left at least, so that its
lower end is not 0."""

ROUNDING, SCORE_ROUNDING = 1e-12, 1e-9
"""Smaller differences are floating-point rounding; the second of scores."""
