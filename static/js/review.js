// Keyboard shortcuts and drafts of Review. A key clicks the element with that data-key, or focuses the one with that
// data-focus-key. app.js defines TYPING.
"use strict";

const HANDLES_ENTER = "a, button, summary";

function press(key) {
  const field = document.querySelector(`[data-focus-key="${key}"]`);
  const target = field ?? document.querySelector(`[data-key="${key}"]`);
  if (!target || target.disabled) return false;
  if (target.type === "radio" || field) target.focus();
  if (!field) target.click();
  return true;
}

// The response to a refused verdict has the form with its errors, so it is swapped in despite its status.
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  if (!detail.requestConfig.boosted || ![409, 422].includes(detail.xhr.status)) return;
  detail.shouldSwap = true;
  detail.isError = false;
});

document.addEventListener("keydown", (event) => {
  if (event.altKey || event.isComposing || document.querySelector("dialog[open]")) return;
  const isTyping = event.target.closest(TYPING);
  const isSend = event.key === "Enter" && (event.ctrlKey || event.metaKey);
  // After a send, keys are shortcuts of the next item. Otherwise its note would have the focus.
  if (isTyping && (isSend || event.key === "Escape")) event.target.blur();
  if (!isSend && (isTyping || event.ctrlKey || event.metaKey)) return;
  if (event.key === "Enter" && !isSend && event.target.closest(HANDLES_ENTER)) return;
  if (/^([1-6jknru]|Enter)$/.test(event.key) && press(event.key)) event.preventDefault();
});

/* A verdict that is not saved stays in this tab as a draft, so that an item can be skipped and judged later. */
const draftKey = (form) => `draft:${form.getAttribute("action")}`;

function keepDraft(form) {
  const data = [...new FormData(form)].filter(([name]) => name !== "csrfmiddlewaretoken");
  sessionStorage.setItem(draftKey(form), JSON.stringify(data));
}

function restoreDraft() {
  const form = document.getElementById("verdict-form");
  const draft = form && JSON.parse(sessionStorage.getItem(draftKey(form)));
  if (!draft) return;
  form.elements.note.value = draft.find(([name]) => name === "note")[1];
  for (const box of [...form.elements].filter(({ type }) => type === "radio" || type === "checkbox")) {
    box.checked = draft.some(([name, value]) => name === box.name && value === box.value);
  }
}

document.addEventListener("input", ({ target }) => {
  if (target.form?.id === "verdict-form") keepDraft(target.form);
});
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  const form = detail.requestConfig.elt;
  if (form.id === "verdict-form" && detail.xhr.status < 400) sessionStorage.removeItem(draftKey(form));
});
document.addEventListener("htmx:afterSwap", restoreDraft);
restoreDraft();
