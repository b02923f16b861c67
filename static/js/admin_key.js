// The form that makes an API key: htmx sends it, and the answer with the secret replaces what the page shows.
"use strict";

const makesKey = location.pathname.endsWith("/add/");

function prepare() {
  const form = document.getElementById("apikey_form");
  if (!form || !makesKey) return;
  const how = { post: location.pathname, target: "#main", select: "#main", swap: "outerHTML", sync: "this:drop" };
  for (const [name, value] of Object.entries(how)) form.setAttribute(`hx-${name}`, value);
  htmx.process(form);
}

document.addEventListener("DOMContentLoaded", prepare);
document.addEventListener("htmx:afterSettle", (event) => {
  if (!makesKey) return;
  // Unfold would take the form's rows for those of an inline formset, which this page has not.
  event.stopPropagation();
  prepare();
  // A form that was refused comes back without what Django's scripts make of its fields.
  django.jQuery(".admin-autocomplete").djangoAdminSelect2();
  DateTimeShortcuts.init();
}, { capture: true });

// A secret is shown once: going back to its page must not bring it back.
window.addEventListener("pagehide", () => document.querySelector(".secret")?.remove());
