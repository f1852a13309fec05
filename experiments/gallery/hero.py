"""Draw the moving picture of the site's first page: a quadruped that jumps, with its bodies, shadow and contact forces.

    python -m experiments.gallery.hero [--out DIR]

Writes DIR/hero.webp and, of what is on it, DIR/hero.json.  The site shows a copy, docs/_static/hero.webp.
"""

import sys
from typing import Any

import problems
import trajopt
from experiments.gallery.pictures import Look, write_picture
from experiments.harness import Experiment, Run, count

PROBLEM = "quadruped_jump"
LOOK = Look(moving=True, view=(14.0, -58.0), path="", size=(960, 540), scale=1.5, largest=390_000, fine=True)


def study(run: Run) -> dict[str, Any]:
    """One solve, and the picture of it."""
    solution = trajopt.DDP().solve(problems.make(PROBLEM))
    path = run.file("hero.webp")
    drawn = write_picture(solution, path, LOOK._replace(frames=run.options.frames))
    return {"problem": PROBLEM, "status": str(solution.status), "bytes": path.stat().st_size, **drawn}


main = Experiment(
    "gallery.hero",
    __doc__,
    study,
    options=[count("--frames", 40, "pictures that the motion is made of")],
)

if __name__ == "__main__":
    sys.exit(main())
