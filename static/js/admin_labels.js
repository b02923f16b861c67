// Labels the searchable selects: select2 replaces the select that the label belongs to with unlabelled elements.
"use strict";

function nameParts() {
  for (const select of document.querySelectorAll("select.select2-hidden-accessible")) {
    const name = document.querySelector(`label[for="${select.id}"]`)?.textContent.trim();
    const parts = select.nextElementSibling?.querySelectorAll(".select2-selection, .select2-selection__rendered");
    if (name) parts?.forEach((part) => part.setAttribute("aria-label", name));
  }
}

new MutationObserver(nameParts).observe(document, { childList: true, subtree: true });
