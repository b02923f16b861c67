// Keyboard shortcuts of Review. The page names the keys: data-key clicks, data-focus-key focuses. app.js defines TYPING.
"use strict";

const ITS_OWN_ENTER = "a, button, summary";

function press(key) {
  const field = document.querySelector(`[data-focus-key="${key}"]`);
  const target = field ?? document.querySelector(`[data-key="${key}"]`);
  if (!target || target.disabled) return false;
  if (target.type === "radio" || field) target.focus();
  if (!field) target.click();
  return true;
}

// A refused verdict comes back with its problems, in place of the form.
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  if (!detail.requestConfig.boosted || ![409, 422].includes(detail.xhr.status)) return;
  detail.shouldSwap = true;
  detail.isError = false;
});

document.addEventListener("keydown", (event) => {
  if (event.altKey || event.isComposing || document.querySelector("dialog[open]")) return;
  const isTyping = event.target.closest(TYPING);
  const isSend = event.key === "Enter" && (event.ctrlKey || event.metaKey);
  if (isTyping && event.key === "Escape") event.target.blur();
  if (!isSend && (isTyping || event.ctrlKey || event.metaKey)) return;
  if (event.key === "Enter" && !isSend && event.target.closest(ITS_OWN_ENTER)) return;
  if (/^([1-6jknru]|Enter)$/.test(event.key) && press(event.key)) event.preventDefault();
});
