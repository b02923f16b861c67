// Draws the charts in the page's JSON island: Plotly.react after a swap, Plotly.purge for plots that leave the page.
"use strict";

(() => {
  const CONFIG = { displayModeBar: false, responsive: true, showSendToCloud: false, plotlyServerURL: "" };
  const DATE_PX = 44;
  const VARIABLE = /^var\((--[\w-]+)\)$/;

  function makeResolver() {
    const probe = document.createElement("i");
    probe.hidden = true;
    document.body.append(probe);
    const known = new Map();
    const colour = (name) => {
      if (!known.has(name)) {
        probe.style.color = `var(${name})`;
        known.set(name, getComputedStyle(probe).color);
      }
      return known.get(name);
    };
    const resolve = (value) => {
      if (typeof value === "string") {
        const match = VARIABLE.exec(value);
        return match ? colour(match[1]) : value;
      }
      if (Array.isArray(value)) return value.map(resolve);
      if (value && typeof value === "object") {
        return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, resolve(inner)]));
      }
      return value;
    };
    return { resolve, done: () => probe.remove() };
  }

  function follow(event) {
    const target = event.points.map((point) => point.customdata).find(Boolean);
    // Follow only paths of this site: the address came with the data.
    if (typeof target === "string" && target.startsWith("/") && !target.startsWith("//")) location.assign(target);
  }

  // The island holds a list once, even if several traces share it.
  function readFigures(island) {
    const { lists, figures } = JSON.parse(island.textContent);
    for (const trace of Object.values(figures).flatMap((figure) => figure.data)) {
      for (const [name, number] of Object.entries(trace.lists)) trace[name] = lists[number];
      delete trace.lists;
    }
    return figures;
  }

  function draw() {
    const island = document.getElementById("chart-data");
    if (!island || !window.Plotly) return;
    const figures = readFigures(island);
    const { resolve, done } = makeResolver();
    for (const plot of document.querySelectorAll("[data-chart]")) {
      const figure = resolve(figures[plot.dataset.chart]);
      figure.layout.font.family = getComputedStyle(document.body).fontFamily;
      // A phone has no room for many dates side by side, and long names at the line ends leave even less.
      const { xaxis, margin } = figure.layout;
      const room = plot.clientWidth - margin.l - margin.r;
      if (xaxis.nticks && room > 0) xaxis.nticks = Math.max(2, Math.min(xaxis.nticks, Math.floor(room / DATE_PX)));
      const isNew = !plot.classList.contains("js-plotly-plot");
      Plotly.react(plot, figure.data, figure.layout, CONFIG);
      if (isNew) plot.on("plotly_click", follow);
    }
    done();
  }

  const purge = (root) => {
    for (const plot of [root, ...root.querySelectorAll(".js-plotly-plot")]) {
      if (!plot.classList.contains("js-plotly-plot")) continue;
      Plotly.purge(plot);
      // Plotly removes its listeners but not its class. Without the class, draw() adds them again.
      plot.classList.remove("js-plotly-plot");
    }
  };

  document.addEventListener("htmx:beforeCleanupElement", ({ target }) => {
    // The target may be a text node between two elements.
    if (target.matches?.(".js-plotly-plot") && !target.hasAttribute("hx-preserve")) purge(target);
  });
  document.addEventListener("htmx:beforeHistorySave", () => purge(document.body));
  document.addEventListener("htmx:afterSettle", (event) => {
    if (!event.detail.target.matches(".chart-table")) draw();
  });
  document.addEventListener("themechange", draw);
  document.addEventListener("plotshown", (event) => {
    if (event.detail.classList.contains("js-plotly-plot")) Plotly.Plots.resize(event.detail);
  });
  draw();
})();
