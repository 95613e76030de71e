"use strict";
// Filters whole tables by what they are of, rows by the kind of their model; a heading sorts.
const form = document.querySelector("#filters");
const tables = [...document.querySelectorAll("#tables details")];
const leading = new Set(tables.filter((one) => one.open));
function filter() {
  const asked = Object.fromEntries(new FormData(form));
  const isNarrow = asked.pair || (asked.length && asked.length !== "all");
  const fits = (one, name) => !asked[name] || asked[name] === one.dataset[name];
  for (const one of tables) {
    let n = 0;
    for (const row of one.querySelectorAll("tbody tr")) {
      row.hidden = asked.kind && !row.classList.contains(asked.kind);
      n += !row.hidden;
    }
    one.hidden = !n || !["benchmark", "pair", "length"].every((name) => fits(one, name));
    one.open = isNarrow || leading.has(one);
  }
  for (const section of document.querySelectorAll("#tables section"))
    section.hidden = !section.querySelector("details:not([hidden])");
  document.querySelector("#nothing").hidden = tables.some((one) => !one.hidden);
}
function sort(heading) {
  const up = heading.getAttribute("aria-sort") !== "ascending";
  const value = (row) => {
    const text = row.cells[heading.cellIndex].textContent.trim();
    const number = parseFloat(text.replace("\u2212", "-").replace("<", ""));
    return heading.classList.contains("num") && !isNaN(number) ? number : text;
  };
  const compare = (a, b) =>
    (a === "\u2013") - (b === "\u2013") || // what is missing comes last
    (up ? 1 : -1) * (typeof a === "number" && typeof b === "number" ? a - b : `${a}`.localeCompare(`${b}`));
  const body = heading.closest("table").tBodies[0];
  body.append(...[...body.rows].sort((a, b) => compare(value(a), value(b))));
  for (const other of heading.parentNode.cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", up ? "ascending" : "descending");
}
for (const heading of document.querySelectorAll("#tables thead th")) {
  const button = document.createElement("button");
  button.append(...heading.childNodes);
  button.addEventListener("click", () => sort(heading));
  heading.append(button);
  if (button.textContent === "Mean") heading.setAttribute("aria-sort", "descending");
}
form.addEventListener("change", filter);
form.hidden = false;
filter();
