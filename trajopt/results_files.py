"""Solutions as .npz files: plain arrays that any version of numpy reads back without pickle."""

from pathlib import Path

import numpy as np

from trajopt.solution import IterationRecord, Solution


def save_solution(solution: Solution, path: str | Path) -> Path:
    """Write xs, us, cost, status, gains, value function, log columns (log_*) and timings (time_*)."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {name: getattr(solution, name) for name in ("xs", "us", "k", "K", "Vx", "Vxx")}
    arrays |= {name: np.array(getattr(solution, name)) for name in ("cost", "iterations", "gradient_norm")}
    arrays |= {"status": np.array(str(solution.status)), "dt": np.array(solution.problem.system.dt)}
    arrays |= {f"log_{name}": solution.history(name) for name in IterationRecord._fields}
    arrays |= {f"time_{part}": np.array(seconds) for part, seconds in solution.timings.items()}
    np.savez(path, **arrays)
    return path
