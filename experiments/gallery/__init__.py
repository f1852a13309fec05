"""Pictures, iterations and times of all problems, for the gallery of the site."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one thread is what is measured, BLAS included
