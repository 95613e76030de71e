"""How much rounding may change a text's vector: what encoders promise of texts in other company.

A forward pass adds products up in an order that depends on the shape of its batch, on the BLAS, on
its threads, and on where arrays begin in memory. So a text's vector differs in its last digits
with what is encoded beside it: with other batches, shards, an order, or a job that was resumed.
"""

VECTOR_BOUND: dict[str, float] = {"float32": 1e-6, "float16": 1e-3, "bfloat16": 1e-2}
"""By number format: no component of a unit vector, and no inner product of two, differs by more.

These are 16, 2 and 2.6 units of rounding (2^-24, 2^-11 and 2^-8). Seen were at most 0.49, 0.35 and
0.30 of them: all-MiniLM-L6-v2, 240 English texts cut to 256 tokens (24 for tokens in float16),
vectors of texts and of tokens, in batches of 1 to 32 by length and shuffled, padded to the longest
and to 256, on 1, 2 and 4 threads of a CPU. MaxSim, a sum over a query's tokens, may differ by the
bound times their number.
"""
