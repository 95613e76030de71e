"""The chosen constants of the inference, with their reasons.

`studies/inference` supports them: the named cells of its summary, and `results/constants.md`, which
runs the cells of a constant with and without it.
"""

SIGNIFICANCE_LEVEL = 0.05
"""p at or below which a test rejects."""

# --- What a test needs

FEWEST_DOCUMENTS = 30
"""Least informative documents with which a test or an interval keeps its nominal size. Cells "32
documents", "35 documents": sizes of .03 to .064."""

FEWEST_CLUSTERS = 5
"""Least number of clusters for clusters to be the independent units. With fewer, documents are the
units, and results hold only for these clusters. Cells "5 clusters of unlike slopes": size .056 to
.06; by documents ("9 clusters ..., documents as units") .26 to .44."""

LEAST_INFORMATION = 0.10
"""Least share of the comparison between buckets that lies within documents; see `Information`. It
is .02 if each document has one third, and .42 or more in the other layouts."""

FEWEST_BUCKET_DOCUMENTS = 20.0
"""Least effective number of informative documents (or clusters) for a separate test of a bucket.
With fewer, rare misses (or hits) reject too often at the small p that many buckets need.
`equal_means` and the lower end of a PSI count the documents with queries in the bucket. Cells
"characters", "in the last bucket"."""

FEWEST_OF_A_KIND = 20.0
"""Least expected hits, and misses, in such a bucket; a bucket without misses by chance would seem
to have no error. Cells "characters, sparse buckets, mean .96"."""

LENGTH_STRATA = 5
"""Number of length strata for the comparison between documents. Cells "late in long documents"."""

CONFOUNDED_P = 0.05
"""A row with a smaller `p_confounded` has the flag ``confounded``."""

# --- Intervals

PSEUDO_QUERIES = 2.0
"""Queries of average score that are added to a bucket, so that a few queries with equal scores have
an error. Cells "1 queries in the last bucket"."""

NULL_QUANTILE = 0.16
"""An observed PSI below this quantile of the PSI under chance is replaced by the quantile: one
standard error, the power constraint of Cowan, Cranmer, Gross and Vitells (2011). The coverage does
not depend on it; it keeps the upper end from falling towards 0 if bucket means agree by chance."""

FEWEST_MISSES = 3.0
"""With fewer expected misses, a bucket's mean has at least the error of `_least_means`. Misses: the
documents in the bucket, times 1 - mean / best score; for clusters, the clusters with a miss. Cells
"nearly all found", "best 1"."""

SMALL_BUCKET = 0.5
"""A bucket with fewer queries than this share of the median bucket is uncertain: `lower_end` limits
its mean by `_least_means`. Cells "in the last bucket"."""

PULLED = 2.0
"""For the upper end, the buckets between the best and the worst of K are moved towards the middle
by the factor 1 - 2/K, because the extremes are not certain. Cells "free-6, PSI 0.3"."""

CORRECTED_P = 0.5
"""With a larger p the corrected PSI is 0: noise shows as much in every second case."""

ALMOST_NONE = 3
"""Up to this many differing units do not show how large a difference can be. Cells "missed"."""

FEW_UNLIKE, ENOUGH_UNLIKE = 10, 40
"""Student's t interval of a mean needs this many units that differ from the typical unit: half of
all units, but between these two numbers. If 25 of 500 units differ, all in one direction, the
interval covers in .93, and in .90 if they differ by different amounts. Cells "missed"."""

# --- Flags

FLOOR, CEILING = 0.05, 0.95
"""PSI is hardly informative for row means (as shares of the largest possible score) below the
floor, where it is a ratio of means of few hits, and above the ceiling, where few misses are left. A
choice of this project; no number depends on it."""

# --- Human grades

FEWEST_GRADED = 50
"""Least graded queries for corrected scores (`results/labels.md`: 60 are enough)."""

FEWEST_BUCKET_GRADED = 10
"""Least graded queries of a bucket for its corrected mean."""

UNLIKELY = 0.001
"""With a smaller p the graded queries are not treated as a random sample."""

# --- Planning

MEAN = 0.6
"""Assumed mean score without a known run."""

CONTROL_SHARE = 0.75
"""Assumed mean of the position-blind control as a share of the model's mean: .74 for minilm-static
and all-MiniLM-L6-v2 on ten SQuAD articles, .86 on XQuAD (`results/real_data.md`)."""

CORRELATION = 0.2
"""Assumed correlation of two scores of one document without a known run."""

SLOPE_SD = 0.05
"""Assumed standard deviation of clusters' slopes, i.e. of a system's loss from the first to the
last position as a share of its mean (0 to .05 between ten SQuAD articles, for three systems)."""

VARIANCE_RATIO = 0.66
"""Variance of nDCG@10 with one positive as a share of the variance of hits and misses: .57 to .67
for three systems on SQuAD."""

PENALTY = 1.5
"""A test of slope, bend and single buckets at alpha has the power that slope and bend have at
alpha / 1.5 (`results/planning.md`)."""

# --- Gates

GATE_POWER = 0.8
"""Probability with which equal systems pass `--within` if there are enough documents
(`studies/gate`)."""

FEWEST_FOR_SPREAD = 10
"""With fewer documents in a cell, the documents that would suffice are computed from the spread in
all documents, if that is larger."""

SPREAD_MARGIN = 1.25
"""Factor of the documents that would suffice to show a loss, because their spread may be larger
than that of the documents so far."""

HALVINGS, HALVING_FLIPS = 400, 999
"""Random halvings of the documents for `--a-a`, and the sign flips of each."""

# --- Numerical precision

DRAWS = 1024
"""Number of points of the normal distribution for a row's sampling errors."""

BISECTIONS = 16
"""Number of bisections of [0, 1] to solve for the PSI: a resolution of 0.000015."""

CHI_SQUARE_UNITS = 10**9
"""With this many units `HotellingTest` is the chi-square test with a known covariance."""

SIGN_FLIPS = 9999
"""Number of random sign flips; no family-wise p is below .0001. With fewer possible flips, all are
used."""

LEAST_ERROR, LEAST_VARIANCE, LEAST_LEFT = 1e-3, 1e-6, 1e-4
"""Floors that keep divisions finite: of a bucket's standard error relative to the largest, of a
score's variance relative to the largest squared score, and of the lower end of a significant PSI
relative to the PSI."""

ROUNDING, SCORE_ROUNDING = 1e-12, 1e-9
"""Smaller differences are floating-point rounding; the second is for scores."""
