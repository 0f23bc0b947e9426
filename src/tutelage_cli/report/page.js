// Puts charts that can be hovered in the place of their pictures, and sorts tables by column.
// Without it the page says the same: pictures, and tables as they were written.
"use strict";
(() => {
  function enliven(box) {
    const spec = JSON.parse(box.querySelector("script").textContent);
    const still = box.querySelector(".still");
    const live = box.querySelector(".live");
    // ast: expressions are interpreted, so that the page may forbid eval
    const how = {
      mode: "vega-lite", actions: false, renderer: "svg", ast: true, defaultStyle: false,
      tooltip: { id: "tooltip", disableDefaultStyle: true, offsetX: 14, offsetY: 14 },
    };
    window.vegaEmbed(live, spec, how).then(() => {
      still.hidden = true;
      live.hidden = false;
    }).catch((error) => {
      live.replaceChildren(); // the picture stays
      console.error(error);
    });
  }

  function watch(boxes) {
    if (!window.vegaEmbed) return;
    const seen = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        seen.unobserve(entry.target);
        enliven(entry.target);
      }
    }, { rootMargin: "300px" });
    boxes.forEach((box) => seen.observe(box));
  }

  // The number that a cell begins with; what has none comes last, by its text.
  function key(row, column) {
    const text = row.cells[column].textContent.trim();
    const number = parseFloat(text.replace(/,(?=\d{3})/g, ""));
    return Number.isNaN(number) ? { text } : { number, text };
  }

  function compare(a, b, sign) {
    if ("number" in a && "number" in b) return sign * (a.number - b.number);
    if ("number" in a !== "number" in b) return "number" in a ? -1 : 1;
    return sign * a.text.localeCompare(b.text, undefined, { numeric: true });
  }

  function sort(table, head, column) {
    const rising = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", rising ? "ascending" : "descending");
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [key(row, column), row]);
    rows.sort(([a], [b]) => compare(a, b, rising ? 1 : -1));
    body.append(...rows.map(([, row]) => row));
  }

  function sortable(table) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      if (head.tagName !== "TH") return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(table, head, column));
      head.append(button);
    });
  }

  watch(document.querySelectorAll(".drawing"));
  document.querySelectorAll("table.sortable").forEach(sortable);
})();
