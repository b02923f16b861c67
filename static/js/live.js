// Draws what a page shows again as soon as it changes on the server. Without events, the page's own polls go on.
"use strict";

(() => {
  const TOPICS = ["assemblies", "votes", "keys", "tasks", "traffic"];
  // A page that takes long to draw is drawn less often.
  const AT_MOST_EACH_MS = 500;
  const REST_FACTOR = 5;
  const AGAIN_AFTER_MS = 60000;
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
    restsUntil = Date.now() + AT_MOST_EACH_MS;
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
      // Nobody told this page of changes while it had no connection.
      if (wasLost) TOPICS.forEach(note);
      wasLost = false;
    };
    source.onerror = () => {
      mark(false);
      wasLost = true;
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
    const { target, detail } = event;
    if (!target.matches("[data-live]")) return;
    const isPoll = !detail.requestConfig.triggeringEvent;
    const isSpared = isPoll && hasCaughtUp && root.hasAttribute("data-is-live");
    // The first poll shows what changed between the page's making and its connection.
    hasCaughtUp ||= isPoll;
    if (isSpared) event.preventDefault();
    else detail.xhr.startedAt = Date.now();
  });
  document.addEventListener("htmx:afterRequest", ({ detail: { xhr } }) => {
    if (xhr?.startedAt) restsUntil = Math.max(restsUntil, Date.now() + REST_FACTOR * (Date.now() - xhr.startedAt));
  });
  // The server counts polls to stop them; being told of a change is none.
  document.addEventListener("htmx:configRequest", ({ detail }) => {
    if (detail.triggeringEvent?.type === "live") detail.path = detail.path.replace(/([?&](?:polls|quiet)=)\d+/, "$10");
  });
})();
