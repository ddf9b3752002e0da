"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const PAGE = 50; // groups listed at a time
  const number = (n) => n.toLocaleString("en");
  const plural = (n, one, many) => `${number(n)} ${n === 1 ? one : many}`;

  // Every text goes in as a text node: nothing of a document is ever parsed as HTML.
  function make(tag, className, ...content) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    element.append(...content);
    return element;
  }

  function isolated(text) {
    return make("bdi", "", text);
  }

  function piecesOf(pieces, tag) {
    const text = make("p", "text");
    text.dir = "auto";
    for (const piece of pieces) {
      const rest = piece.slice(1);
      if (piece[0] === "=") text.append(rest);
      else if (piece[0] === "!") text.append(make(tag, "", rest));
      else text.append(make("span", "gap", ` … ${plural(Number(rest), "word", "words")} … `));
    }
    if (!pieces.length) text.append(make("span", "gap", "(empty)"));
    return text;
  }

  function side(title, document_, pieces, tag) {
    const heading = make("h4", "", `${title} `, isolated(document_.id), " · ", isolated(document_.place));
    return make("div", "side", heading, piecesOf(pieces, tag));
  }

  function measures(member) {
    const jaccard = member.jaccard === undefined ? "" : `, Jaccard ${member.jaccard.toFixed(3)}`;
    return `${plural(member.distance, "bit", "bits")}${jaccard}`;
  }

  const slider = byId("bits");
  const bits = () => (slider ? Number(slider.value) : 0);
  const fate = (member) =>
    member.joins <= bits() ? "would still be removed" : `would stay: joins from ${plural(member.joins, "bit", "bits")}`;

  function body(group) {
    const out = make("div", "body");
    for (const member of group.members) {
      const note = make("span", "fate soft", "");
      note.member = member;
      const heading = make("h3", "", "Removed ", isolated(member.id), `: ${measures(member)} `, note);
      if (member.chain) heading.append(make("span", "badge doubt", "by way of others"));
      const sides = make("div", "sides", side("kept", group.kept, member.left, "del"), side("removed", member, member.right, "ins"));
      out.append(make("div", "pair", heading, sides));
    }
    const rest = group.size - 1 - group.members.length;
    if (rest > 0) out.append(make("p", "soft", `and ${plural(rest, "more document", "more documents")} removed, nearer to the one kept`));
    return out;
  }

  const cards = data.groups.map((group) => ({ group, element: null, haystack: null }));

  function card(entry) {
    if (entry.element) return entry.element;
    const group = entry.group;
    const details = make("details", "group");
    const jaccard = group.lowest === undefined ? "" : `, Jaccard from ${group.lowest.toFixed(3)}`;
    const summary = make("summary", "", make("span", "count", plural(group.size, "document", "documents")), ` · up to ${plural(group.distance, "bit", "bits")}${jaccard} · kept `, isolated(group.kept.id));
    if (group.why !== "all") summary.append(make("span", "badge", group.why));
    if (group.chain) summary.append(make("span", "badge doubt", `chain: ${number(group.chain)} reached by way of others`));
    summary.append(make("span", "badge fate", ""));
    const preview = make("span", "preview", group.preview);
    preview.dir = "auto";
    summary.append(preview);
    details.append(summary);
    details.addEventListener("toggle", () => {
      if (details.open && details.children.length === 1) {
        details.append(body(group));
        mark(entry);
      }
    });
    entry.element = details;
    mark(entry);
    return details;
  }

  function mark(entry) {
    if (!entry.element) return;
    const now = bits();
    const group = entry.group;
    const badge = entry.element.querySelector("summary .fate");
    const moved = slider && now < data.radius;
    const gone = moved && now < group.first;
    entry.element.classList.toggle("gone", Boolean(gone));
    badge.hidden = !moved || now >= group.whole;
    badge.textContent = gone ? `no group at ${plural(now, "bit", "bits")}` : `smaller at ${plural(now, "bit", "bits")}`;
    for (const note of entry.element.querySelectorAll(".pair .fate")) {
      note.textContent = moved ? `(${fate(note.member)})` : "";
    }
  }

  function haystack(entry) {
    if (entry.haystack === null) {
      const texts = [entry.group.kept.id, entry.group.kept.place, entry.group.preview];
      for (const member of entry.group.members) {
        texts.push(member.id, member.place);
        for (const pieces of [member.left, member.right]) {
          texts.push(pieces.filter((piece) => piece[0] !== "~").map((piece) => piece.slice(1)).join(""));
        }
      }
      entry.haystack = texts.join("\n").toLowerCase();
    }
    return entry.haystack;
  }

  const orders = {
    size: (a, b) => b.group.size - a.group.size,
    doubt: (a, b) => b.group.doubt - a.group.doubt,
    input: (a, b) => a.group.number - b.group.number,
  };
  let matching = [];
  let listed = 0;

  function value(id, fallback) {
    const text = byId(id).value;
    return text === "" ? fallback : Number(text);
  }

  function list() {
    const wanted = byId("search").value.toLowerCase();
    const sizes = [value("least-size", 0), value("most-size", Infinity)];
    const distances = [value("least-distance", 0), value("most-distance", Infinity)];
    matching = cards.filter(
      (entry) =>
        entry.group.size >= sizes[0] && entry.group.size <= sizes[1] &&
        entry.group.distance >= distances[0] && entry.group.distance <= distances[1] &&
        (wanted === "" || haystack(entry).includes(wanted)),
    );
    matching.sort(orders[byId("order").value]);
    byId("list").replaceChildren();
    listed = 0;
    more();
    byId("shown").textContent = `${plural(matching.length, "group", "groups")} of ${number(cards.length)} in this file`;
  }

  function more() {
    const part = matching.slice(listed, listed + PAGE);
    byId("list").append(...part.map(card));
    listed += part.length;
    const rest = matching.length - listed;
    byId("more").hidden = rest === 0;
    byId("more").textContent = `Show more groups (${number(rest)} left)`;
    return part;
  }

  function recount() {
    if (!slider) return;
    const now = bits();
    byId("bits-now").textContent = plural(now, "bit", "bits");
    slider.setAttribute("aria-valuetext", plural(now, "bit", "bits"));
    const removed = data.recount.removed[now];
    const share = ((100 * removed) / Math.max(data.documents, 1)).toFixed(2);
    const largest = data.recount.largest[now];
    byId("recount").textContent =
      `${plural(data.recount.groups[now], "group", "groups")}, ${plural(removed, "document", "documents")} removed (${share} %)` +
      (largest ? `, ${number(largest)} in the largest group` : "");
    cards.forEach(mark);
  }

  let waiting = 0;
  function soon() {
    clearTimeout(waiting);
    waiting = setTimeout(list, 120);
  }

  byId("filters").addEventListener("input", soon);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("filters").addEventListener("reset", () => setTimeout(list, 0));
  byId("more").addEventListener("click", () => {
    const first = more()[0];
    if (first) first.element.querySelector("summary").focus();
  });
  if (slider) slider.addEventListener("input", recount);
  list();
  recount();
})();
