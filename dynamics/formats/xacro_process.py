"""Expansion of a xacro file in a process of its own, `python xacro_process.py`: a job on stdin, its result on stdout.

The expressions of a xacro file are Python, as `9**9**9`, and may not end.  Here an expansion has a limit of memory, and
`dynamics.formats.load_robot` stops it after its time.  The process imports nothing of the project.

A job is JSON: the path or text, packages (folders that are or contain packages), folders (to be searched for
package.xml), arguments, path (sys.path), memory (bytes).  A result is JSON too: text, or error, and the package that
was not found.
"""

import json
import os
import sys
from importlib import import_module
from typing import Any


def expanded(job: dict[str, Any], missing: list[str]) -> str:
    """URDF text of the job; the name of a package that is not found is appended to `missing`."""
    xacrodoc, module = import_module("xacrodoc"), import_module("xacrodoc.xacrodoc")
    packages: Any = import_module("xacrodoc.packages")
    by_manifest = packages.get_path

    def path_of(package: str) -> str:
        for folder in job["packages"]:
            found = folder if os.path.basename(folder) == package else os.path.join(folder, package)
            if os.path.isdir(found):
                return found
        try:
            return by_manifest(package)
        except Exception:  # of the package, or of any manifest that is looked into
            missing.append(package)
            raise LookupError(f"the package {package!r} was not found") from None

    packages.look_in(job["folders"])
    packages.get_path = path_of
    source, is_text = job["source"], job["is_text"]
    # includes are relative to this file, whose folder xacrodoc does not pass to xacro
    module.xacro.init_stacks(None if is_text else os.path.abspath(source))
    make = xacrodoc.XacroDoc.from_string if is_text else xacrodoc.XacroDoc.from_file
    return make(source, subargs=job["arguments"]).to_urdf_string(use_protocols=False)


def main() -> None:
    """Do the job on stdin."""
    job, result = json.load(sys.stdin), {}
    out, sys.stdout = sys.stdout, sys.stderr  # where xacro prints
    sys.path[:] = job["path"]
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (job["memory"], job["memory"]))
    except (ImportError, ValueError, OSError):  # systems without this limit, or with a lower one
        pass
    missing = []
    try:
        result = {"text": expanded(job, missing)}
    except Exception as error:  # xacro has exceptions of its own
        result = {"error": str(error) or type(error).__name__, "package": (missing or [None])[-1]}
    json.dump(result, out)
    out.flush()


if __name__ == "__main__":
    main()
