// Draws what a page shows again as soon as it changes on the server. Without events, the page's own polls go on.
"use strict";

(() => {
  const TOPICS = ["assemblies", "votes", "keys"];
  const AT_MOST_EACH_MS = 1000;
  const AGAIN_AFTER_MS = 60000;
  const root = document.documentElement;
  let source = null;
  let drawnAt = 0;
  let waiting = 0;
  const changed = new Set();

  const watchers = () => [...document.querySelectorAll("[data-live]")];

  function mark(isLive) {
    root.toggleAttribute("data-is-live", isLive);
  }

  function draw() {
    waiting = 0;
    drawnAt = Date.now();
    for (const element of watchers()) {
      if (element.dataset.live.split(" ").some((topic) => changed.has(topic))) htmx.trigger(element, "live");
    }
    changed.clear();
  }

  function note(topic) {
    changed.add(topic);
    waiting ||= setTimeout(draw, Math.max(0, drawnAt + AT_MOST_EACH_MS - Date.now()));
  }

  function connect() {
    if (!root.dataset.events || source || document.hidden || !watchers().length) return;
    source = new EventSource(root.dataset.events);
    source.onopen = () => mark(true);
    source.onerror = () => {
      mark(false);
      if (source?.readyState !== EventSource.CLOSED) return;
      source = null;
      setTimeout(connect, AGAIN_AFTER_MS);
    };
    for (const topic of TOPICS) source.addEventListener(topic, () => note(topic));
  }

  function disconnect() {
    source?.close();
    source = null;
    mark(false);
  }

  // A browser opens few connections to one site, so only the page in front keeps one.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      disconnect();
    } else if (watchers().length) {
      TOPICS.forEach(note);
      connect();
    }
  });
  addEventListener("pagehide", disconnect);
  addEventListener("pageshow", connect);
  document.addEventListener("htmx:afterSettle", () => (watchers().length ? connect() : disconnect()));

  document.addEventListener("htmx:beforeRequest", (event) => {
    const isPoll = event.target.matches("[data-live]") && !event.detail.requestConfig.triggeringEvent;
    if (isPoll && root.hasAttribute("data-is-live")) event.preventDefault();
  });
  // The server counts polls to stop them; being told of a change is none.
  document.addEventListener("htmx:configRequest", ({ detail }) => {
    if (detail.triggeringEvent?.type === "live") detail.path = detail.path.replace(/([?&](?:polls|quiet)=)\d+/, "$10");
  });
})();
