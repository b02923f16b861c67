// Creates an API key: htmx sends the form, and the response with the secret replaces the page's content.
"use strict";

const isKeyForm = location.pathname.endsWith("/add/");

function prepare() {
  const form = document.getElementById("apikey_form");
  if (!form || !isKeyForm) return;
  const how = { post: location.pathname, target: "#main", select: "#main", swap: "outerHTML", sync: "this:drop" };
  for (const [name, value] of Object.entries(how)) form.setAttribute(`hx-${name}`, value);
  htmx.process(form);
}

document.addEventListener("DOMContentLoaded", prepare);
document.addEventListener("htmx:afterSettle", (event) => {
  if (!isKeyForm) return;
  // Unfold would take the form's rows for an inline formset, which this page doesn't have.
  event.stopPropagation();
  prepare();
  // A refused form comes back without the widgets that Django's scripts add, so run them again.
  django.jQuery(".admin-autocomplete").djangoAdminSelect2();
  DateTimeShortcuts.init();
}, { capture: true });

// A secret is shown once: going back to its page must not bring it back.
window.addEventListener("pagehide", () => document.querySelector(".secret")?.remove());
