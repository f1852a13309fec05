"""The soft robots of Mathew et al. 2025 over ten seconds, beside the times of its table 3."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads of BLAS cost more than they bring to matrices this small
