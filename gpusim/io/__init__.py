"""Corpora in and out, as Arrow batches: JSON Lines, JSON, CSV, TSV, Parquet, text; plain or compressed."""

from __future__ import annotations

from gpusim.io.batch import BadRecord, Batch, ErrorLog, Fields, Limits
from gpusim.io.corpus import Corpus, open_corpus
from gpusim.io.formats import Format, parse_format
from gpusim.io.output import Outputs
from gpusim.io.source import Source, Sources
from gpusim.io.tables import TableWriter, open_table, table_format
from gpusim.io.targets import Target, check_targets, plan_targets

__all__ = [
    "BadRecord",
    "Batch",
    "Corpus",
    "ErrorLog",
    "Fields",
    "Format",
    "Limits",
    "Outputs",
    "Source",
    "Sources",
    "TableWriter",
    "Target",
    "check_targets",
    "open_corpus",
    "open_table",
    "parse_format",
    "plan_targets",
    "table_format",
]
