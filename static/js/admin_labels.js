// Labels what the form's own labels do not reach: select2 replaces a select with unlabelled elements, and a date with a
// time has two fields under one label.
"use strict";

function nameParts() {
  for (const select of document.querySelectorAll("select.select2-hidden-accessible")) {
    const name = document.querySelector(`label[for="${select.id}"]`)?.textContent.trim();
    const parts = select.nextElementSibling?.querySelectorAll(".select2-selection, .select2-selection__rendered");
    if (name) parts?.forEach((part) => part.setAttribute("aria-label", name));
  }
  for (const field of document.querySelectorAll(".datetime :is(.vDateField, .vTimeField):not([aria-label])")) {
    const name = document.querySelector(`label[for="${field.id.replace(/_[01]$/, "")}"]`)?.textContent.trim();
    if (name) field.setAttribute("aria-label", `${name} ${field.placeholder.toLowerCase()}`);
  }
}

new MutationObserver(nameParts).observe(document, { childList: true, subtree: true });
