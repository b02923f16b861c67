// Keyboard shortcuts of Review. The page names the keys: data-key clicks, data-focus-key focuses, j and k move between rows.
"use strict";

const TYPING = 'input:not([type="radio"], [type="checkbox"]), textarea, select, [contenteditable]';
const ITS_OWN_ENTER = "a, button, summary";

function moveRow(step) {
  const rows = [...document.querySelectorAll("[data-row]")];
  if (!rows.length) return false;
  const here = rows.indexOf(document.activeElement);
  const next = here < 0 ? (step > 0 ? 0 : rows.length - 1) : here + step;
  rows[Math.max(0, Math.min(rows.length - 1, next))].focus();
  return true;
}

function press(key) {
  const field = document.querySelector(`[data-focus-key="${key}"]`);
  const target = field ?? document.querySelector(`[data-key="${key}"]`);
  if (!target || target.disabled) return (key === "j" && moveRow(1)) || (key === "k" && moveRow(-1));
  if (target.type === "radio" || field) target.focus();
  if (!field) target.click();
  return true;
}

document.addEventListener("keydown", (event) => {
  if (event.altKey || event.isComposing || document.querySelector("dialog[open]")) return;
  const isTyping = event.target.closest(TYPING);
  const isSend = event.key === "Enter" && (event.ctrlKey || event.metaKey);
  if (isTyping && event.key === "Escape") event.target.blur();
  if (!isSend && (isTyping || event.ctrlKey || event.metaKey)) return;
  if (event.key === "Enter" && !isSend && event.target.closest(ITS_OWN_ENTER)) return;
  if (/^([1-6jknru]|Enter)$/.test(event.key) && press(event.key)) event.preventDefault();
});
