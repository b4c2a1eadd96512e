"""Lints the app's scripts by Biome, a program inside a package of PyPI: .venv/bin/python .ci/javascript.py

Each is a module, so Biome finds names that are neither declared nor imported. No Node and no node_modules are needed.
"""

import subprocess
import sys
import sysconfig
from pathlib import Path

HERE = Path(__file__).resolve().parent
BIOME = Path(sysconfig.get_path("scripts")) / "biome"


def lint(folder: Path, *options: str) -> tuple[int, str]:
    """Biome's exit status for the scripts in this folder, and what it says."""
    command = [BIOME, "lint", "--colors=off", "--error-on-warnings", f"--config-path={HERE}", *options, "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


if __name__ == "__main__":
    status, said = lint(HERE.parent / "attnviz")
    print(said.strip())
    sys.exit(status)
