"""Results made visible: the HTML report of a run, figures, and tables for notebooks."""

from __future__ import annotations

from gpusim.report.notebook import Shown, show_groups, show_matrix

__all__ = ["Shown", "show_groups", "show_matrix"]
