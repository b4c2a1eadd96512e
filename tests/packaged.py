"""The wheel, built from this checkout, and empty virtual environments to install it into. No index is asked."""

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def build(folder: Path) -> Path:
    """Build the wheel into a folder, and return it."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@dataclass(frozen=True)
class Environment:
    """An empty virtual environment, without pip."""

    folder: Path

    @classmethod
    def create(cls, folder: Path) -> "Environment":
        venv.create(folder, symlinks=True)
        return cls(folder)

    @property
    def packages(self) -> Path:
        """Its site-packages."""
        (found,) = self.folder.glob("lib/python*/site-packages")
        return found

    def program(self, name: str) -> str:
        return str(self.folder / "bin" / name)

    def pip(self, *arguments: str) -> str:
        """Run this environment's pip on it, and return what it prints. Its own packages alone are seen."""
        command = [sys.executable, "-m", "pip", "--python", self.program("python"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def install(self, wheel: Path) -> None:
        self.pip("install", "--quiet", "--no-deps", "--no-index", "--no-compile", str(wheel))

    def link(self, names: Iterable[str]) -> None:
        """Install packages of the tests' environment by links to their files."""
        for name in names:
            found = distribution(name)
            for top in {file.parts[0] for file in found.files or () if file.parts[0] != ".."}:
                (self.packages / top).symlink_to(Path(str(found.locate_file(top))))

    def link_all(self) -> None:
        """See all packages of the tests' environment, in which AttnViz itself is not installed."""
        (self.packages / "tests.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")

    def run(self, name: str, *arguments: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
        """Run one of its programs. env: added to the environment."""
        command, environment = [self.program(name), *arguments], {**os.environ, **env}
        return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
