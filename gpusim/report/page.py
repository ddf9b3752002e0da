"""The report of a run of ``dedup``: one HTML file that shows what was removed, and why.

Texts reach the page as JSON in a block that no browser runs, and from there as text nodes; a content security policy
admits this file's own script and style, by hash, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow.compute as pc

from gpusim.explain import shortened
from gpusim.io import Corpus, Outputs
from gpusim.io.ids import plain_texts
from gpusim.near import Job, Similarity, read_again
from gpusim.report.differences import MOST_TEXT, compare, visible
from gpusim.report.figures import charts
from gpusim.report.members import Bools, Ints, Members, Selection, find_members, select
from gpusim.report.recount import Recount, recount
from gpusim.report.settings import describe
from gpusim.report.style import require
from gpusim.scan import Documents

if TYPE_CHECKING:
    from gpusim.dedup import Summary

MOST_BYTES = 16 << 20  # of the groups in one file
_ALONE = 100  # documents not compared that are named
_PREVIEW = 160  # characters of the text kept, shown of a closed group
_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Document:
    """A document as the page shows it: its id, where it comes from, and its text."""

    id: str
    place: str
    text: str = ""


def check_report() -> None:
    """See to it that a report can be made.

    Raises:
        MissingPackageError: matplotlib or Jinja2 are not installed (extra ``report``).
    """
    require("jinja2", "matplotlib")


def write_report(
    job: Job,
    labels: Ints,
    keepers: Ints,
    jaccard: Similarity | None,
    summary: Summary,
    outputs: Outputs,
    path: Path,
) -> None:
    """Write the report.

    Args:
        job: what was worked on; texts of the documents shown are read again.
        labels: ``(n,)`` int64, the smallest document of each one's group.
        keepers: ``(n,)`` int64, the document kept of each one's group.
        jaccard: tells the similarity of members of groups; None where nothing was checked.
        summary: what the run did.
        outputs: the page is one of these.
        path: its name.

    Raises:
        OutputError: it cannot be written.
        InputError: an input has changed.
    """
    documents, options = job.documents, job.options
    members = find_members(labels, keepers, documents.fingerprints, jaccard)
    counts = recount(members, documents.fingerprints, options.radius, options.min_jaccard, jaccard)
    selection = select(members, documents.fingerprints)
    alone = np.flatnonzero(~documents.compared)[:_ALONE]
    shown = _read(job, members, selection, alone)
    groups, left_out = _groups(members, counts, selection, shown, options)
    data = {
        "documents": len(documents),
        "radius": options.radius,
        "recount": {name: getattr(counts, name).tolist() for name in ("groups", "removed", "largest")},
    }
    encoded = orjson.dumps(data).decode()[:-1] + ',"groups":[' + ",".join(groups) + "]}"
    text = _render(
        title=visible(_title(job.corpus)),
        lead=_lead(summary),
        facts=_facts(job, summary),
        settings=[(name, visible(value), meaning) for name, value, meaning in describe(options)],
        charts=charts(members, options.radius, options.min_jaccard) if len(members.sizes) else [],
        radius=options.radius,
        recount_note=_recount_note(counts, options),
        selection_note=_selection_note(members, selection, len(groups), left_out),
        alone=[(shown[i].id, shown[i].place, _why_alone(documents, i)) for i in alone.tolist()],
        alone_note=_alone_note(summary, len(alone)),
        skipped=[visible(line) for line in summary.errors],
        skipped_note=f"{summary.bad_records:,} could not be read. The first of them"
        + (" (--errors-out lists them all):" if summary.bad_records > len(summary.errors) else ":"),
        data=_safe(encoded),
    )
    with outputs.open(path) as sink:
        sink.write(text.encode())


def _render(**values: Any) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    import gpusim

    for name, kind in (("style", "css"), ("script", "js")):
        text = (_HERE / f"page.{kind}").read_text("utf-8")
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        values[name] = Markup(text)  # a file of this package
        values[f"{name}_hash"] = Markup(f"sha256-{digest}")
    environment = Environment(loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined)
    return environment.get_template("page.html.j2").render(version=gpusim.__version__, **values)


def _safe(json: str) -> str:
    """JSON that ends no script element and opens no comment in one."""
    for sign in "<>&\u2028\u2029":
        json = json.replace(sign, f"\\u{ord(sign):04x}")
    return json


def _read(job: Job, members: Members, selection: Selection, alone: Ints) -> dict[int, Document]:
    """The documents that are shown, by number."""
    documents = job.documents
    with_text = np.zeros(len(documents), np.bool_)
    for (group, _), places in zip(selection.groups, selection.members):
        with_text[members.documents[places]] = True
        with_text[members.documents[members.kept_at[members.starts[group]]]] = True
    chosen = with_text.copy()
    chosen[alone] = True
    ids = plain_texts(job.corpus.ids(documents.masks(chosen)))
    where = _places(job.corpus, documents, chosen)
    found = {
        number: Document(visible("null" if id is None else shortened(id, 200)), visible(place))
        for number, id, place in zip(np.flatnonzero(chosen).tolist(), ids, where)
    }
    for numbers, texts in read_again(job.corpus, documents, with_text, job.options, job.report):
        for number, text in zip(numbers.tolist(), pc.fill_null(texts, "").to_pylist()):
            value = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
            found[number] = Document(found[number].id, found[number].place, value[:MOST_TEXT])
    return found


def _places(corpus: Corpus, documents: Documents, chosen: Bools) -> list[str]:
    """File and line (or row, where records have no lines) of the chosen documents."""
    places = []
    for reader, mask in zip(corpus.readers, documents.masks(chosen)):
        rows = np.flatnonzero(mask).tolist()
        source = reader.source
        lines = reader.lines(mask) if rows else None
        if source.files:
            places += [f"{source.name}/{source.files[row]}" for row in rows]
        elif lines is not None:
            places += [f"{source.name}:{line}" for line in lines.tolist()]
        else:
            places += [f"{source.name}, row {row}" for row in rows]
    return places


def _groups(
    members: Members, counts: Recount, selection: Selection, shown: dict[int, Document], options: Any
) -> tuple[list[str], int]:
    """Each group as JSON, and how many there was no room for."""
    rank = {"largest": 0, "doubtful": 1, "random": 2, "all": 3}
    order = sorted(range(len(selection.groups)), key=lambda i: (rank[selection.groups[i][1]], i))
    found: dict[int, str] = {}
    room = MOST_BYTES
    for at in order:
        group, why = selection.groups[at]
        text = orjson.dumps(_group(members, counts, group, why, selection.members[at], shown, options)).decode()
        room -= len(text.encode())
        if room < 0:
            break
        found[at] = text
    return [found[at] for at in sorted(found)], len(order) - len(found)


def _group(
    members: Members,
    counts: Recount,
    group: int,
    why: str,
    places: Ints,
    shown: dict[int, Document],
    options: Any,
) -> dict[str, Any]:
    whole = slice(int(members.starts[group]), int(members.starts[group] + members.sizes[group]))
    kept = shown[int(members.documents[members.kept_at[whole.start]])]
    removed = ~members.is_kept[whole]
    far = members.distance[whole] > options.radius
    if members.jaccard is not None:
        far |= members.jaccard[whole] < options.min_jaccard
    entry: dict[str, Any] = {
        "number": group,
        "why": why,
        "size": int(members.sizes[group]),
        "distance": int(members.distance[whole].max()),
        "doubt": round(float(members.doubt[whole].max()), 4),
        "first": int(counts.joins[whole][removed].min()),
        "whole": int(counts.joins[whole].max()),
        "chain": int(np.count_nonzero(far & removed)),
        "kept": {"id": kept.id, "place": kept.place},
        "preview": visible(shortened(" ".join(kept.text[: 4 * _PREVIEW].split()), _PREVIEW)),
        "members": [],
    }
    if members.jaccard is not None:
        entry["lowest"] = round(float(members.jaccard[whole].min()), 4)
    for place in places.tolist():
        document = shown[int(members.documents[place])]
        left, right = compare(kept.text, document.text)
        member: dict[str, Any] = {
            "id": document.id,
            "place": document.place,
            "distance": int(members.distance[place]),
            "joins": int(counts.joins[place]),
            "chain": bool(far[place - whole.start]),
            "left": left,
            "right": right,
        }
        if members.jaccard is not None:
            member["jaccard"] = round(float(members.jaccard[place]), 4)
        entry["members"].append(member)
    return entry


def _title(corpus: Corpus) -> str:
    names = [source.name for source in corpus.inputs.sources]
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


def _lead(s: Summary) -> str:
    if not s.removed:
        return f"Of {s.documents:,} documents none was removed."
    noun = "group" if s.groups == 1 else "groups"
    return (
        f"{s.removed:,} of {s.documents:,} documents ({s.removed_percent:.2f} %) are removed, each for a "
        f"near-duplicate that is kept, in {s.groups:,} {noun}."
    )


def _facts(job: Job, s: Summary) -> list[tuple[str, str, str]]:
    rate = f"{s.documents / max(s.seconds, 1e-9):,.0f} documents a second"
    text = job.documents.text_bytes
    inputs = len(job.corpus.inputs.sources)
    facts = [
        ("documents", f"{s.documents:,}", f"in {inputs:,} input{'s' * (inputs != 1)}"),
        ("kept", f"{s.kept:,}", ""),
        ("removed", f"{s.removed:,}", f"{s.removed_percent:.2f} %"),
        ("groups", f"{s.groups:,}", f"largest: {s.largest_group:,} documents" if s.groups else ""),
        ("text", _bytes(text), f"inputs: {_bytes(job.corpus.size)} on disk"),
        ("time", f"{s.seconds:,.1f} s", rate),
        ("backend", s.backend, ""),
        ("without features", f"{s.without_features:,}", "kept, not compared"),
    ]
    more = [
        ("too short", s.short, "kept, not compared"),
        ("records skipped", s.bad_records, "could not be read"),
        ("invalid UTF-8", s.invalid_utf8, "sequences read as U+FFFD"),
        ("files left out", len(s.left_out), "neither corpora nor texts"),
    ]
    return facts + [(name, f"{count:,}", remark) for name, count, remark in more if count]


def _bytes(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count} bytes"


def _recount_note(counts: Recount, options: Any) -> str:
    text = (
        "The groups of the whole corpus counted again as they would be with a smaller distance, everything else being "
        f"the same. The run looked within {options.radius} bits; what lies beyond is not known here."
    )
    if counts.approximate:
        text += (
            f" {counts.approximate:,} very large groups are counted by each document's own distance to the one kept, "
            "though it may join earlier by way of others."
        )
    return text


def _selection_note(members: Members, selection: Selection, shown: int, left_out: int) -> str:
    count = len(members.sizes)
    if not count:
        return "There is none."
    if shown == count:
        text = "All groups are here, the largest first."
    else:
        text = (
            f"{shown:,} of {count:,} groups are here: the largest, the most doubtful and a random sample. "
            "The numbers above count all of them."
        )
    if left_out:
        text += f" {left_out:,} more had no room."
    if sum(map(len, selection.members)) < int(np.count_nonzero(~members.is_kept)):
        text += " Of large groups the members that differ most from the one kept are shown."
    return text + " --groups-out lists every member of every group."


def _why_alone(documents: Documents, number: int) -> str:
    return "too short" if documents.fingerprints[number].any() else "no word in it"


def _alone_note(s: Summary, shown: int) -> str:
    count = s.without_features + s.short
    which = f"The first {shown:,} of {count:,}" if shown < count else f"{count:,}"
    return f"{which} documents without a word, or with fewer features than --min-features. They are kept."
