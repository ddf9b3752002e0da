"""The command line: arguments in, exit code out."""

from __future__ import annotations

from gpusim.cli.commands import app
from gpusim.cli.terminal import run

__all__ = ["app", "run"]
