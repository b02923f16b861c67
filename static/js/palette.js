// The command palette: Ctrl K or Cmd K opens it, the arrow keys choose an entry, Enter opens the entry.
"use strict";

(() => {
  const dialog = document.getElementById("palette");
  if (!dialog) return;
  const field = document.getElementById("palette-words");
  const list = document.getElementById("palette-entries");
  const entries = () => [...list.querySelectorAll("[role=option]")];
  const chosen = () => list.querySelector("[aria-selected=true]");
  // The words that the entries were fetched for, and whether Enter was pressed before the entries for the present words.
  let fetchedFor = null;
  let opensFirst = false;

  function choose(entry) {
    chosen()?.setAttribute("aria-selected", "false");
    if (!entry) {
      field.removeAttribute("aria-activedescendant");
      return;
    }
    entry.setAttribute("aria-selected", "true");
    entry.scrollIntoView({ block: "nearest" });
    field.setAttribute("aria-activedescendant", entry.id);
  }

  function open() {
    if (dialog.open) return;
    field.value = "";
    opensFirst = false;
    dialog.showModal();
    htmx.trigger(field, "open");
  }

  document.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey || event.key.toLowerCase() !== "k") return;
    event.preventDefault();
    if (dialog.open) dialog.close();
    else open();
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest?.("[data-palette]")) open();
    else if (event.target === dialog || (dialog.contains(event.target) && event.target.closest("[role=option]"))) dialog.close();
  });
  field.addEventListener("keydown", (event) => {
    const options = entries();
    const here = options.indexOf(chosen());
    const places = { ArrowDown: here + 1, ArrowUp: here - 1, PageDown: here + 8, PageUp: here - 8 };
    if (event.key in places && options.length) {
      event.preventDefault();
      const isStep = event.key.startsWith("Arrow");
      const next = places[event.key];
      choose(options[isStep ? (next + options.length) % options.length : Math.max(0, Math.min(options.length - 1, next))]);
    } else if (event.key === "Escape") {
      // Otherwise the first Escape would only clear the field.
      event.preventDefault();
      dialog.close();
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (field.value === fetchedFor) chosen()?.click();
      else opensFirst = true;
    }
  });
  field.addEventListener("input", () => { opensFirst = false; });
  list.addEventListener("htmx:afterSwap", ({ detail }) => {
    fetchedFor = detail.requestConfig.parameters.q;
    choose(entries()[0]);
    if (!opensFirst || !dialog.open || field.value !== fetchedFor) return;
    opensFirst = false;
    chosen()?.click();
  });
})();
