// Updates parts of a page as soon as they change on the server. Without events, the page's own polls go on.
"use strict";

(() => {
  const TOPICS = ["assemblies", "votes", "keys", "tasks", "traffic"];
  // A page that is slow to update is updated less often.
  const MIN_INTERVAL_MS = 500;
  const REST_FACTOR = 5;
  const RECONNECT_MS = 60000;
  const root = document.documentElement;
  let source = null;
  let restsUntil = 0;
  let waiting = 0;
  let wasLost = false;
  let hasCaughtUp = false;
  const changed = new Set();

  const watchers = () => [...document.querySelectorAll("[data-live]")];

  function mark(isLive) {
    root.toggleAttribute("data-is-live", isLive);
  }

  function draw() {
    waiting = 0;
    restsUntil = Date.now() + MIN_INTERVAL_MS;
    for (const element of watchers()) {
      if (element.dataset.live.split(" ").some((topic) => changed.has(topic))) htmx.trigger(element, "live");
    }
    changed.clear();
  }

  function note(topic) {
    changed.add(topic);
    waiting ||= setTimeout(draw, Math.max(0, restsUntil - Date.now()));
  }

  function connect() {
    if (!root.dataset.events || source || document.hidden || !watchers().length) return;
    source = new EventSource(root.dataset.events);
    source.onopen = () => {
      mark(true);
      // The page missed all events while it was disconnected.
      if (wasLost) TOPICS.forEach(note);
      wasLost = false;
    };
    source.onerror = () => {
      mark(false);
      wasLost = true;
      if (source?.readyState !== EventSource.CLOSED) return;
      source = null;
      setTimeout(connect, RECONNECT_MS);
    };
    for (const topic of TOPICS) source.addEventListener(topic, () => note(topic));
  }

  function disconnect() {
    source?.close();
    source = null;
    mark(false);
  }

  // A browser opens only a few connections to one site, so only the visible page keeps one.
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
    const { target, detail } = event;
    if (!target.matches("[data-live]")) return;
    const isPoll = !detail.requestConfig.triggeringEvent;
    const isSpared = isPoll && hasCaughtUp && root.hasAttribute("data-is-live");
    // The first poll shows changes between the page's rendering and its connection.
    hasCaughtUp ||= isPoll;
    if (isSpared) event.preventDefault();
    else detail.xhr.startedAt = Date.now();
  });
  document.addEventListener("htmx:afterRequest", ({ detail: { xhr } }) => {
    if (xhr?.startedAt) restsUntil = Math.max(restsUntil, Date.now() + REST_FACTOR * (Date.now() - xhr.startedAt));
  });
  // The server counts polls to stop them. An update after an event does not count as one.
  document.addEventListener("htmx:configRequest", ({ detail }) => {
    if (detail.triggeringEvent?.type === "live") detail.path = detail.path.replace(/([?&](?:polls|quiet)=)\d+/, "$10");
  });
})();
