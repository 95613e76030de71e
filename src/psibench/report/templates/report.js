"use strict";
// The PSI table: filter, sort, page. The state lives in the page's address after "#".
(function () {
  const source = document.getElementById("psi-data");
  if (!source) return;
  const PAGE_SIZE = 100, ALPHA = 0.05, POOLED = "pooled", ANY = "*";
  const data = JSON.parse(source.textContent);
  const columns = data.columns;
  const byId = (id) => document.getElementById(id);
  const table = byId("psi-table"), form = byId("psi-filters");

  const value = (name, i) => {
    const column = columns[name];
    return Array.isArray(column) ? column[i] : column.values[column.codes[i]];
  };
  const isNumber = (name) => Array.isArray(columns[name]);

  // The leading slice of every benchmark: what "pooled" means for it.
  const leading = new Map();
  for (let i = 0; i < data.n; i += 1) {
    const name = value("benchmark", i);
    if (columns.headline[i] && !leading.has(name)) {
      leading.set(name, {
        pair: value("pair", i), domain: value("domain", i), length_bucket: value("length_bucket", i),
      });
    }
  }

  const FILTERS = [
    { key: "benchmark", label: "Benchmark", initial: ANY },
    { key: "buckets", label: "Buckets", initial: ANY },
    { key: "evidence", label: "Evidence", initial: columns.evidence.values.includes("all") ? "all" : ANY },
    { key: "length_bucket", hash: "length", label: "Length", initial: POOLED },
    { key: "pair", label: "Languages", initial: POOLED },
    { key: "domain", label: "Domain", initial: POOLED },
    { key: "metric", label: "Metric", initial: columns.metric.values.includes(data.metric) ? data.metric : ANY },
    { key: "kind", label: "Kind", initial: ANY },
  ];
  const hashName = (filter) => filter.hash || filter.key;
  const HIDEABLE = ["benchmark", "buckets", "pair", "domain", "length_bucket", "evidence", "metric"];
  const initialState = () => {
    const state = { sort: "", descending: false, model: "", page: 1 };
    FILTERS.forEach((filter) => { state[filter.key] = filter.initial; });
    return state;
  };
  let state = initialState();

  function readHash() {
    const text = location.hash.slice(1);
    if (!text.includes("=")) return;
    const given = new URLSearchParams(text);
    state = initialState();
    FILTERS.forEach((filter) => {
      const wanted = given.get(hashName(filter));
      const known = wanted === ANY || columns[filter.key].values.includes(wanted)
        || (wanted === POOLED && filter.initial === POOLED);
      if (wanted !== null && known) state[filter.key] = wanted;
    });
    const [key, direction] = (given.get("sort") || "").split(":");
    if (table.querySelector(`button[data-key="${CSS.escape(key)}"]`)) {
      state.sort = key;
      state.descending = direction === "desc";
    }
    state.model = given.get("model") || "";
    state.page = Math.max(1, parseInt(given.get("page"), 10) || 1);
  }

  function writeHash() {
    const kept = new URLSearchParams();
    if (state.sort) kept.set("sort", `${state.sort}:${state.descending ? "desc" : "asc"}`);
    FILTERS.forEach((filter) => {
      if (state[filter.key] !== filter.initial) kept.set(hashName(filter), state[filter.key]);
    });
    if (state.model) kept.set("model", state.model);
    if (state.page > 1) kept.set("page", String(state.page));
    const text = kept.toString().replace(/%3A/g, ":");
    try {
      history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
    } catch (error) { /* some viewers forbid it; the table works without */ }
  }

  function keeps(i) {
    const pooled = leading.get(value("benchmark", i)) || {};
    return FILTERS.every(({ key }) => {
      const wanted = state[key];
      if (wanted === ANY) return true;
      return value(key, i) === (wanted === POOLED && key in pooled ? pooled[key] : wanted);
    }) && value("model", i).toLowerCase().includes(state.model.toLowerCase());
  }

  function sorted(rows) {
    if (!state.sort) return rows;
    const key = state.sort, sign = state.descending ? -1 : 1;
    const order = isNumber(key) ? (a, b) => a - b : new Intl.Collator("en", { numeric: true }).compare;
    const last = (i) => isNumber(key) && atFloor(i); // never best of any figure
    return rows.slice().sort((i, j) => {
      const a = value(key, i), b = value(key, j);
      if (last(i) !== last(j)) return last(i) - last(j);
      if (a === null || b === null) return (a === null) - (b === null) || i - j; // nothing goes last
      return sign * order(a, b) || i - j;
    });
  }

  const flags = (i) => value("flags", i).split(", ").filter(Boolean);
  const atFloor = (i) => flags(i).includes("at_floor");
  const depends = (i) => value("psi", i) !== null && !atFloor(i)
    && value("p_adjusted", i) !== null && value("p_adjusted", i) <= ALPHA;

  const number = (x) => {
    if (x === null) return "–";
    const text = Math.abs(x).toFixed(3);
    return x < 0 && Number(text) ? `−${text}` : text;
  };
  const pText = (x) => (x === null ? "–" : x < 0.0005 ? "<0.001" : x.toFixed(3));
  const share = (x) => (x === null ? "–" : `${(100 * x).toFixed(1)} %`);
  const whole = (x) => String(x).replace(/\B(?=(\d{3})+$)/g, ",");
  function element(tag, className, ...children) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    made.append(...children);
    return made;
  }

  function chart(i, end) {
    const made = element("span", "chart");
    made.setAttribute("aria-hidden", "true");
    const at = (name) => Math.min(100, (100 * value(name, i)) / end).toFixed(1);
    const has = (name) => value(name, i) !== null;
    const mark = (className, style) => {
      const drawn = element("i", className);
      Object.assign(drawn.style, style);
      made.append(drawn);
    };
    if (has("psi_noise_p95")) {
      mark("noise", { width: `${at("psi_noise_p95")}%` });
      made.lastChild.title = "noise of independent queries";
    }
    if (has("psi_same_low") && has("psi_same_high")) {
      const width = Math.max(0, at("psi_same_high") - at("psi_same_low"));
      mark("range", { left: `${at("psi_same_low")}%`, width: `${width}%` });
    }
    if (has("psi_same")) mark("dot", { left: `${at("psi_same")}%` });
    return made;
  }

  function psiCell(name, i, tag) {
    if (value("psi", i) === null && name === "psi") {
      return element("td", "c-psi num", element("span", "undefined", "undefined"), " ",
        element("small", "", value("reason", i)));
    }
    const [low, high] = [value(`${name}_low`, i), value(`${name}_high`, i)];
    const ends = low !== null && high !== null
      ? [" ", element("small", "", `[${number(low)}, ${number(high)}]`)] : [];
    return element("td", `c-${name} num`, element(tag, "", number(value(name, i))), ...ends);
  }

  function flagCell(i) {
    return element("td", "c-flags", ...flags(i).flatMap((name) => {
      const chip = element("span", `chip flag${name === "filter_panel" ? " warn" : ""}`, name);
      chip.title = data.flags[name] || "";
      return [chip, " "];
    }));
  }

  function rowElement(i, end) {
    const bdi = (name) => element("bdi", "", value(name, i));
    const named = (name) => element("td", `c-${name}`, element("bdi", "", value(name, i) || "–"));
    const plain = (name, text) => element("td", `c-${name} num`, text(value(name, i)));
    const kind = value("kind", i) || "unknown";
    const head = element("th", "c-model", bdi("model"), " ",
      element("span", `chip kind${kind === "control" ? " kind-control" : ""}`, kind),
      element("small", "where", bdi("benchmark"), " · ", bdi("buckets")));
    head.scope = "row";
    return element("tr", depends(i) ? "depends" : atFloor(i) ? "floor" : "", head,
      ...HIDEABLE.map(named), plain("mean", number), psiCell("psi", i, "span"),
      psiCell("psi_same", i, "b"), element("td", "c-chart", chart(i, end)),
      plain("p_adjusted", pText), plain("p_control_adjusted", pText), plain("seen", share),
      plain("drop", number), flagCell(i), plain("n_queries", whole), plain("n_documents", whole));
  }

  function scaleEnd(rows) {
    let largest = 0;
    rows.forEach((i) => ["psi_same", "psi_same_high", "psi_noise_p95"].forEach((name) => {
      largest = Math.max(largest, value(name, i) || 0);
    }));
    return Math.min(1, Math.max(0.1, Math.ceil(largest * 10 - 1e-9) / 10));
  }

  function render() {
    const rows = [];
    for (let i = 0; i < data.n; i += 1) if (keeps(i)) rows.push(i);
    const ordered = sorted(rows), end = scaleEnd(rows);
    const pages = Math.max(1, Math.ceil(rows.length / PAGE_SIZE));
    state.page = Math.min(state.page, pages);
    const first = (state.page - 1) * PAGE_SIZE;
    const shown = ordered.slice(first, first + PAGE_SIZE);
    table.tBodies[0].replaceChildren(...shown.map((i) => rowElement(i, end)));
    byId("psi-scale").textContent = end.toFixed(1);
    const constant = [];
    HIDEABLE.forEach((name) => {
      const values = new Set(rows.map((i) => value(name, i)));
      table.classList.toggle(`hide-${name}`, values.size <= 1);
      const filter = FILTERS.find((one) => one.key === name);
      if (values.size === 1 && filter && columns[name].values.length > 1) {
        constant.push(`${filter.label.toLowerCase()} ${[...values][0]}`);
      }
    });
    table.querySelectorAll("thead button").forEach((button) => {
      const mine = button.dataset.key === state.sort;
      const direction = state.descending ? "descending" : "ascending";
      button.closest("th").setAttribute("aria-sort", mine ? direction : "none");
    });
    byId("psi-summary").textContent = rows.length
      ? `${whole(rows.length)} of ${whole(data.n)} rows${constant.length ? `: ${constant.join(", ")}` : ""}.`
      : "No row fits these filters.";
    byId("psi-pages").hidden = pages === 1;
    byId("psi-page").textContent = `Page ${state.page} of ${pages}`;
    byId("psi-previous").disabled = state.page === 1;
    byId("psi-next").disabled = state.page === pages;
    FILTERS.forEach((filter) => { if (filter.select) filter.select.value = state[filter.key]; });
    const box = byId("psi-model");
    if (box.value !== state.model) box.value = state.model;
  }

  function change(part) {
    state = { ...state, page: 1, ...part };
    render();
    writeHash();
  }

  function buildFilters() {
    FILTERS.forEach((filter) => {
      const values = columns[filter.key].values;
      if (values.length < 2) return;
      const select = element("select");
      const option = (given, text) => {
        const made = element("option", "", text);
        made.value = given;
        select.append(made);
      };
      const pooled = filter.initial === POOLED;
      if (pooled) option(POOLED, filter.key === "pair" ? "leading pair" : "pooled");
      option(ANY, pooled ? "every one" : "any");
      values.slice().sort(new Intl.Collator("en", { numeric: true }).compare).forEach((one) => {
        if (!(pooled && one === data.pooled)) option(one, one || "unknown");
      });
      select.addEventListener("change", () => change({ [filter.key]: select.value }));
      form.append(element("label", "", filter.label, select));
      filter.select = select;
    });
    const box = element("input");
    box.type = "search";
    box.id = "psi-model";
    box.addEventListener("input", () => change({ model: box.value }));
    const reset = element("button", "", "Reset");
    reset.type = "button";
    reset.addEventListener("click", () => change(initialState()));
    form.append(element("label", "", "Model contains", box), reset);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.hidden = false;
  }

  function sortBy(key) {
    const down = isNumber(key); // numbers start from the largest, names from A; third time: none
    if (state.sort !== key) change({ sort: key, descending: down });
    else if (state.descending === down) change({ sort: key, descending: !down });
    else change({ sort: "", descending: false });
  }

  document.documentElement.classList.add("js");
  buildFilters();
  table.querySelectorAll("thead button").forEach((button) => {
    button.disabled = false;
    button.addEventListener("click", () => sortBy(button.dataset.key));
  });
  byId("psi-previous").addEventListener("click", () => change({ page: state.page - 1 }));
  byId("psi-next").addEventListener("click", () => change({ page: state.page + 1 }));
  window.addEventListener("hashchange", () => { readHash(); render(); });
  readHash();
  render();
})();
