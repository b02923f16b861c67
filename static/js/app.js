// Small things every page needs: theme, copy buttons, toasts, keyboard shortcuts, and polls that pause.
"use strict";

const IDLE_AFTER_MS = 5 * 60 * 1000;
const IDLE_SKIPS = 3;
const TOAST_MS = 10000;

/* Choices stored in this browser. If it blocks storage, they last as long as the page is open. */
const unstored = new Map();

function keep(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    unstored.set(key, value);
  }
}

function recall(key) {
  try {
    return unstored.get(key) ?? localStorage.getItem(key);
  } catch {
    return null;
  }
}

/* Theme: auto, light or dark, stored in this browser. */
const readTheme = () => document.documentElement.dataset.theme || "auto";

function markTheme() {
  for (const button of document.querySelectorAll("[data-theme-choice]")) {
    button.setAttribute("aria-pressed", String(button.dataset.themeChoice === readTheme()));
  }
}

function chooseTheme(choice) {
  if (choice === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = choice;
  keep("theme", choice);
  markTheme();
  document.dispatchEvent(new CustomEvent("themechange"));
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  document.dispatchEvent(new CustomEvent("themechange"));
});

/* Toasts. */
function showToast(text, level = "info") {
  const toast = document.createElement("div");
  toast.className = `toast ${level}`;
  const words = document.createElement("span");
  words.textContent = text;
  const close = document.createElement("button");
  close.type = "button";
  close.className = "quiet";
  close.dataset.dismiss = "";
  close.setAttribute("aria-label", "Dismiss");
  close.textContent = "✕";
  toast.append(words, close);
  document.getElementById("toasts").append(toast);
  expire(toast);
}

function expireToasts() {
  for (const toast of document.querySelectorAll(".toast")) expire(toast);
}
document.addEventListener("htmx:oobAfterSwap", expireToasts);

function expire(toast) {
  // A toast with a button stays until it is dismissed: ten seconds are too short for some users to reach it.
  if (toast.querySelector("form")) return;
  setTimeout(() => toast.remove(), TOAST_MS);
}

/* Copying, with a fallback for pages without a secure origin. */
async function copyText(text) {
  if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "sr";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error("copy refused");
}

async function copyFrom(button) {
  const source = document.querySelector(button.dataset.copy);
  const text = source.dataset.value ?? source.value ?? source.textContent;
  try {
    await copyText(text);
    showToast("Copied.");
  } catch {
    showToast("The browser refused to copy. Select the text and copy it by hand.", "error");
  }
}

/* An open table stays open when the page around it is swapped. A table with an address is fetched each time it is
   shown; until the answer arrives, an open table stays as it was. */
const openTables = new Set();

function showTable(button, open) {
  const panel = document.getElementById(button.getAttribute("aria-controls"));
  const plot = document.getElementById(button.dataset.plot);
  button.setAttribute("aria-expanded", String(open));
  panel.hidden = !open;
  plot.hidden = open;
  const address = button.dataset.table;
  if (address && open) htmx.ajax("GET", address, { source: panel, target: panel, swap: "innerHTML" });
  if (address && !open) panel.replaceChildren();
  if (!open) document.dispatchEvent(new CustomEvent("plotshown", { detail: plot }));
}

/* A ledger row highlights its line of the prompt. */
function markLine(row, on) {
  const line = document.getElementById(row.dataset.line);
  if (!line) return;
  line.classList.toggle("lit", on);
}

/* A file's row highlights the imports from it and to it. */
function markLinks(row, on) {
  for (const link of document.querySelectorAll(".graph .link")) {
    const isOwn = link.dataset.from === row.dataset.rank || link.dataset.to === row.dataset.rank;
    link.classList.toggle("lit", on && isOwn);
  }
}

const listen = (type, selector, act) =>
  document.addEventListener(type, (event) => {
    const found = event.target instanceof Element ? event.target.closest(selector) : null;
    if (found) act(found, event);
  });

listen("click", "[data-theme-choice]", (button) => chooseTheme(button.dataset.themeChoice));
listen("click", "[data-dismiss]", (button) => button.closest(".toast").remove());
listen("click", "[data-copy]", (button) => copyFrom(button));
/* A dialog that submits a form of the page opens only if that form is valid: its fields cannot be corrected behind it. */
listen("click", "[data-open]", (button, event) => {
  // A link leads to the same without a script.
  event.preventDefault();
  const dialog = document.getElementById(button.dataset.open);
  const submits = [...dialog.querySelectorAll("button[form]")];
  if (submits.every(({ form }) => form.reportValidity())) dialog.showModal();
});
listen("click", "[data-table]", (button, event) => {
  event.preventDefault();
  const open = button.getAttribute("aria-expanded") !== "true";
  if (open) openTables.add(button.id);
  else openTables.delete(button.id);
  showTable(button, open);
});
/* A name suggests the slug below it until the user changes the slug. */
function suggestSlug(input) {
  const slug = document.getElementById(input.dataset.names);
  if (!slug || (slug.value && slug.value !== slug.dataset.suggested)) return;
  const plain = input.value.normalize("NFKD").replace(/[\u0300-\u036f]/g, "").toLowerCase();
  slug.value = plain.replace(/[^a-z0-9_]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 64);
  slug.dataset.suggested = slug.value;
}

listen("input", "[data-names]", suggestSlug);
/* The chosen value is filled into the snippets. */
listen("change", "[data-fills]", (select) => {
  for (const place of document.querySelectorAll(`[data-fill="${select.dataset.fills}"]`)) place.textContent = select.value;
});
for (const [enter, leave] of [["mouseover", "mouseout"], ["focusin", "focusout"]]) {
  listen(enter, "[data-line]", (row) => markLine(row, true));
  listen(leave, "[data-line]", (row) => markLine(row, false));
  listen(enter, "[data-rank]", (row) => markLinks(row, true));
  listen(leave, "[data-rank]", (row) => markLinks(row, false));
}
document.addEventListener("submit", (event) => {
  // A double click must not send a form twice.
  if (event.target.dataset.sent) event.preventDefault();
  else if (event.target.method === "post") event.target.dataset.sent = "yes";
});
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

/* After Back or a reload, the browser restores a form's fields only after its first request was sent. Send it again. */
window.addEventListener("pageshow", () => {
  const [visit] = performance.getEntriesByType("navigation");
  if (visit?.type === "navigate") return;
  for (const form of document.querySelectorAll("[data-refills]")) htmx.trigger(form, "refilled");
});

/* A secret is shown only once. Going back to its page must not show it again. */
window.addEventListener("pagehide", () => {
  for (const secret of document.querySelectorAll(".secret, [data-secret]")) secret.remove();
});

/* Lists: a click anywhere in a row opens it, and j and k move between rows. */
listen("click", "tbody tr:has([data-row])", (row, event) => {
  if (event.target.closest("a, button, input, label, select, summary, form") || String(getSelection())) return;
  row.querySelector("[data-row]").click();
});

function moveRow(step) {
  const rows = [...document.querySelectorAll("[data-row]")];
  if (!rows.length) return;
  const here = rows.indexOf(document.activeElement);
  const next = here < 0 ? (step > 0 ? 0 : rows.length - 1) : here + step;
  rows[Math.max(0, Math.min(rows.length - 1, next))].focus();
}

/* Columns that the user has hidden from a list. */
function hideColumns() {
  const picker = document.querySelector("[data-columns]");
  const table = picker?.closest("section").querySelector("table");
  if (!table) return;
  const key = `columns:${picker.dataset.columns}`;
  const heads = [...table.querySelectorAll("thead th")];
  // Some columns are hidden until the user shows them.
  const atFirst = heads.filter((head) => "onDemand" in head.dataset).map((head) => head.dataset.column);
  const hidden = new Set(JSON.parse(recall(key)) ?? atFirst);
  const show = () => {
    for (const [place, head] of heads.entries()) {
      const isHidden = hidden.has(head.dataset.column);
      for (const row of table.rows) row.cells[place].hidden = isHidden;
    }
  };
  const boxes = heads.filter((head) => head.dataset.column).map((head) => {
    const [label, box] = [document.createElement("label"), document.createElement("input")];
    label.className = "check";
    box.type = "checkbox";
    box.id = `column-${head.dataset.column}`;
    box.checked = !hidden.has(head.dataset.column);
    box.addEventListener("change", () => {
      if (box.checked) hidden.delete(head.dataset.column);
      else hidden.add(head.dataset.column);
      keep(key, JSON.stringify([...hidden]));
      show();
    });
    label.append(box, ` ${head.dataset.column}`);
    return label;
  });
  picker.querySelector("div").replaceChildren(...boxes);
  show();
}

document.addEventListener("htmx:afterSwap", hideColumns);

/* Keyboard shortcuts. */
const TYPING = 'input:not([type="radio"], [type="checkbox"]), textarea, select, [contenteditable]';
let awaitsPlace = false;

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest(TYPING)) return;
  const help = document.getElementById("help");
  if (!help || help.open) return;
  if (awaitsPlace) document.querySelector(`[data-go="${CSS.escape(event.key)}"]`)?.click();
  awaitsPlace = event.key === "g";
  if (event.key === "?") help.showModal();
  if ((event.key === "j" || event.key === "k") && !document.querySelector(`[data-key="${event.key}"]`)) moveRow(event.key === "j" ? 1 : -1);
  const field = document.querySelector("main [data-search], main form.filters select, main form.filters input");
  if (event.key === "/" && field) {
    event.preventDefault();
    field.closest("details.popover")?.setAttribute("open", "");
    field.focus();
  }
});

/* Enter sends a message, Shift+Enter begins a new line. Enter in an input method does neither. */
listen("keydown", "[data-enter-sends]", (field, event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (field.value.trim()) field.form.requestSubmit();
});
document.addEventListener("htmx:afterRequest", (event) => {
  const form = event.target;
  if (!(form instanceof HTMLFormElement)) return;
  delete form.dataset.sent;
  // A refused form keeps its text, so that it can be corrected.
  const isTaken = event.detail.successful && !event.detail.xhr.getResponseHeader("HX-Retarget");
  if (form.matches("[data-reset]") && isTaken) form.reset();
});

/* Polls pause while the tab is hidden, and slow down when the user is idle. */
let lastInput = Date.now();
let skipped = 0;
for (const type of ["pointerdown", "pointermove", "keydown", "scroll"]) {
  addEventListener(type, () => { lastInput = Date.now(); }, { passive: true });
}

document.addEventListener("htmx:beforeRequest", (event) => {
  if (!event.target.matches('[hx-trigger^="every"]')) return;
  if (event.detail.requestConfig.triggeringEvent) return;
  const idle = Date.now() - lastInput > IDLE_AFTER_MS;
  if (document.hidden || (idle && skipped < IDLE_SKIPS)) {
    skipped += 1;
    event.preventDefault();
  } else {
    skipped = 0;
  }
});

/* Requesting the current address again, such as by Enter after a pause in typing, adds no step to the history. */
document.addEventListener("htmx:beforeHistoryUpdate", ({ detail: { history } }) => {
  if (history.type === "push" && new URL(history.path, location).href === location.href) history.type = "replace";
});

/* A request replaced by a newer one is not an error, but htmx would log it as one. */
document.addEventListener("htmx:beforeSend", ({ detail }) => {
  const { xhr } = detail;
  const finish = xhr.onabort;
  xhr.onabort = () => {
    detail.error = null;
    finish();
  };
});

/* Polls may fail repeatedly. Show only one toast. */
function explain({ type, detail }) {
  const isSent = detail.requestConfig.verb !== "get";
  const isUnanswered = type === "htmx:sendError";
  let text = "The page could not be updated. It shows an earlier state.";
  if (isSent && isUnanswered) text = "The server did not answer. Reload the page to see if this went through.";
  else if (isSent) text = "That did not work. Reload the page and try again.";
  if (!document.getElementById("toasts").textContent.includes(text)) showToast(text, "error");
}
document.addEventListener("htmx:responseError", explain);
document.addEventListener("htmx:sendError", explain);
document.addEventListener("htmx:afterSettle", (event) => {
  if (event.detail.target.matches(".chart-table")) return;
  for (const id of openTables) {
    const button = document.getElementById(id);
    if (button) showTable(button, true);
  }
});

/* A poll leaves details as open or closed as the reader left them. Each needs an id. */
const unfolded = new Map();
document.addEventListener("toggle", ({ target }) => {
  if (target.matches("details[id]")) unfolded.set(target.id, target.open);
}, true);
document.addEventListener("htmx:afterSwap", () => {
  for (const [id, isOpen] of unfolded) {
    const details = document.getElementById(id);
    if (details) details.open = isOpen;
  }
});

/* A poll leaves the focus where it is. htmx finds elements with an id again. A link is found by its address. If the
   address has changed, such as that of a period up to now, its position decides, as for buttons that send nothing. */
let findFocused = () => null;

document.addEventListener("htmx:beforeSwap", ({ detail: { target } }) => {
  const element = document.activeElement;
  findFocused = () => null;
  if (!target.contains(element)) return;
  const alike = () => [...(document.getElementById(target.id)?.querySelectorAll(element.tagName) ?? [])];
  const [place, address] = [alike().indexOf(element), element.getAttribute("href")];
  findFocused = () => {
    if (element.isConnected) return element;
    if (element.id || !element.matches('a, summary, button[type="button"]')) {
      // The last page has no link to older rows, and the first none to the newest. Then the other link is focused.
      const other = element.closest(".pager") && document.getElementById(target.id)?.querySelector(".pager a");
      return document.getElementById(element.id) ?? other;
    }
    const now = alike();
    return [now[place], ...now].find((each) => each?.getAttribute("href") === address) ?? now[place];
  };
});
document.addEventListener("htmx:afterSwap", () => {
  if (document.activeElement !== document.body) return;
  const found = findFocused();
  // An element that is folded away cannot be focused. Its summary can.
  const summary = found?.closest("details:not([open])")?.querySelector("summary");
  (summary ?? found)?.focus({ preventScroll: true });
});

/* A popover closes like a menu: on Escape, on a click outside, or when another one opens. */
function closePopovers(kept) {
  for (const popover of document.querySelectorAll("details.popover[open]")) {
    if (popover !== kept) popover.open = false;
  }
}

document.addEventListener("click", (event) => closePopovers(event.target.closest("details.popover")));
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const popover = event.target.closest("details.popover[open]");
  closePopovers();
  popover?.querySelector("summary").focus();
});

/* On a phone the links form one scrolling row: scroll the current one into view. */
function showCurrentLink() {
  const nav = document.querySelector("nav.side");
  const current = nav?.querySelector(":scope > [aria-current]");
  if (!current || nav.scrollWidth <= nav.clientWidth) return;
  // Do not scroll the row if the link is visible already.
  const end = current.offsetLeft + current.offsetWidth + current.offsetWidth / 2;
  if (end > nav.clientWidth) nav.scrollLeft = current.offsetLeft - (nav.clientWidth - current.offsetWidth) / 2;
}

/* A refused form scrolls to its first invalid field, which may be far below the fold. */
function showFirstError() {
  const wrong = document.querySelector(".field.wrong");
  if (!wrong) return;
  wrong.scrollIntoView({ block: "center" });
  wrong.querySelector("input, textarea, select").focus({ preventScroll: true });
}

markTheme();
showCurrentLink();
hideColumns();
showFirstError();
expireToasts();
