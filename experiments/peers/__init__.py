"""The same optimal control problems stated for Crocoddyl and for this library, solved side by side in one run.

Crocoddyl's idle OpenMP threads wait without spinning, unless the environment says otherwise: beside any other load on
few cores spinning threads take up to four times as long.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read when the library is loaded
