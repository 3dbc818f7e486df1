"use strict";
const all = (what, of) => [...(of || document).querySelectorAll(what)];
const UNITS = {ns: 1, us: 1e3, ms: 1e6, s: 1e9, min: 6e10, h: 3.6e12, KiB: 1024, MiB: 1048576, GiB: 1073741824, TiB: 1099511627776};
const value = cell => {
  const text = cell.textContent.trim();
  const found = /^[<>]?(-?[\d,]+(?:\.\d+)?)(?: (\S+))?$/.exec(text);
  if (found) return [0, found[1].replace(/,/g, "") * (UNITS[found[2]] || 1)];
  return text === "-" ? [0, 0] : [1, text];
};
const order = (one, other) => one[0] - other[0] || (one[1] < other[1] ? -1 : one[1] > other[1] ? 1 : 0);
for (const head of all("thead th:not(.spark)")) {
  const button = document.createElement("button");
  button.append(...head.childNodes);
  head.append(button);
  button.addEventListener("click", () => {
    const body = head.closest("table").tBodies[0];
    const falls = head.getAttribute("aria-sort") !== "descending" && head.classList.contains("n");
    const rises = head.getAttribute("aria-sort") === "ascending";
    for (const other of all("th", head.parentNode)) other.removeAttribute("aria-sort");
    const sign = falls || rises ? -1 : 1;
    head.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
    const keyed = [...body.rows].map(row => [value(row.cells[head.cellIndex]), row]);
    keyed.sort((one, other) => sign * order(one[0], other[0]));
    body.append(...keyed.map(pair => pair[1]));
  });
}
const charts = all("svg[data-steps]");
const steps = charts.length ? +charts[0].dataset.steps : 0;
const plots = charts.filter(chart => chart.closest("figure"));
if (plots.length && steps > 1) {
  const bar = document.getElementById("zoom");
  let from = 0, to = steps;
  const clock = (plot, step) => {
    const tip = all("title", plot)[Math.min(step, steps - 1)];
    return step >= steps ? plot.dataset.end : tip.textContent.split(": ")[0];
  };
  const show = (one, other) => {
    const width = Math.max(1, Math.min(steps, Math.round(other - one)));
    from = Math.max(0, Math.min(steps - width, Math.round(one)));
    to = from + width;
    for (const chart of charts) chart.setAttribute("viewBox", `${from} 0 ${width} 100`);
    for (const plot of plots) {
      const labels = all(".x span", plot.closest(".plot"));
      [from, from + Math.floor(width / 2), to].forEach((step, at) => {
        labels[at].textContent = clock(plot, step);
      });
    }
    const is_all = width === steps;
    bar.querySelector("output").textContent = is_all ? "" : `${clock(plots[0], from)} to ${clock(plots[0], to)}`;
    for (const button of all("button", bar)) {
      const what = button.value;
      button.disabled = (is_all && what !== "in") || (width < 2 && what === "in") ||
        (what === "left" && !from) || (what === "right" && to === steps);
    }
  };
  const moves = {
    in: width => show(from + width / 4, to - width / 4),
    out: width => show(from - width / 2, to + width / 2),
    left: width => show(from - width / 2, to - width / 2),
    right: width => show(from + width / 2, to + width / 2),
    all: () => show(0, steps),
  };
  for (const button of all("button", bar)) button.addEventListener("click", () => moves[button.value](to - from));
  for (const plot of plots) {
    let begin = null;
    const mark = document.createElementNS(plot.namespaceURI, "rect");
    mark.setAttribute("class", "mark");
    mark.setAttribute("height", 100);
    const at = event => {
      const box = plot.getBoundingClientRect();
      const share = Math.max(0, Math.min(1, (event.clientX - box.left) / box.width));
      return from + share * (to - from);
    };
    plot.addEventListener("pointerdown", event => {
      if (event.button) return;
      begin = at(event);
      plot.setPointerCapture(event.pointerId);
    });
    plot.addEventListener("pointermove", event => {
      if (begin === null) return;
      const here = at(event);
      mark.setAttribute("x", Math.min(begin, here));
      mark.setAttribute("width", Math.abs(here - begin));
      plot.append(mark);
    });
    plot.addEventListener("pointerup", event => {
      const [one, other] = [begin, at(event)].sort((one, other) => one - other);
      mark.remove();
      begin = null;
      if (other - one > (to - from) / 50) show(Math.floor(one), Math.ceil(other));
    });
    plot.addEventListener("pointercancel", () => { begin = null; mark.remove(); });
    plot.addEventListener("dblclick", () => show(0, steps));
  }
  bar.hidden = false;
  show(0, steps);
}
