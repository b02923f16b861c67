// Scrolls a conversation to its newest turn: on opening, after sending, and when an answer comes while the reader is there.
"use strict";

(() => {
  const NEAR_PX = 60;
  const thread = document.getElementById("thread");
  const view = document.scrollingElement;
  const isStill = matchMedia("(prefers-reduced-motion: reduce)");
  let follows = false;

  const newest = () => thread.querySelector(":scope > .turn:last-child");
  const isAtEnd = () => view.scrollHeight - view.clientHeight - view.scrollTop < NEAR_PX;

  // A turn longer than the window is shown from its beginning.
  function showNewest(behavior) {
    const turn = newest();
    if (!turn) return;
    const end = view.scrollHeight - view.clientHeight;
    const start = turn.getBoundingClientRect().top + view.scrollTop;
    scrollTo({ top: Math.min(end, start), behavior: isStill.matches ? "instant" : behavior });
  }

  // Keep the place after going back or reloading, and when the address names a turn.
  const [visit] = performance.getEntriesByType("navigation");
  const isNamed = location.hash && document.getElementById(location.hash.slice(1));
  if (thread.hasAttribute("data-newest") && visit?.type === "navigate" && !isNamed) showNewest("instant");

  // A reader who has scrolled up stays there while answers come in.
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    follows = detail.target === thread || (detail.target === newest() && isAtEnd());
  });
  document.addEventListener("htmx:afterSettle", ({ detail }) => {
    if (follows && (detail.target === thread || detail.target.matches(".turn"))) showNewest("smooth");
  });

  // After sending, the focus returns to the text, also if the button was used or the message was refused.
  document.addEventListener("htmx:afterRequest", ({ detail }) => {
    if (detail.requestConfig.elt.id === "composer") {
      document.querySelector("#composer textarea").focus({ preventScroll: true });
    }
  });
})();
