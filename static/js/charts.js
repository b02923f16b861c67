// Draws the charts in the page's JSON island: Plotly.react after a swap, Plotly.purge for plots that leave the page.
"use strict";

(() => {
  const CONFIG = { displayModeBar: false, doubleClick: false, responsive: true, showSendToCloud: false, plotlyServerURL: "" };
  const DATE_PX = 44;
  // Room for the symbol and the gaps beside a legend's name. The entry width given to Plotly has some to spare.
  const LEGEND_GAPS_PX = 50;
  const LEGEND_SPARE_PX = 20;
  const SMALL_PRINT_PX = 10;
  const TAP_MS = 400;
  // The narrowest of A4 and Letter, without margins and a card's padding.
  const PAPER_PX = 640;
  // Where the pointer is a finger, dragging scrolls the page.
  const isTouch = matchMedia("(pointer: coarse)");
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

  // Opens the list of rows behind a point, with the chart's filter and order.
  function follow(plot, points) {
    const point = points.find(({ customdata }) => customdata);
    if (!point) return;
    // A trace may hold the common beginning of its points' addresses.
    const address = new URL(`${point.data.meta?.rows ?? ""}${point.customdata}`, location.href);
    for (const [name, value] of new URLSearchParams(plot.layout.meta?.rows)) address.searchParams.set(name, value);
    // The address is data, so follow it only within this site.
    if (address.origin === location.origin) location.assign(address);
  }

  let hasHinted = false;

  function click(plot, points) {
    const [{ x }] = points;
    if (plot.dataset.pointer !== "touch") return follow(plot, points);
    // A finger's first tap on a point only reads it. Plotly reports the same tap twice.
    const isSameTap = performance.now() - plot.dataset.tapped < TAP_MS;
    if (isSameTap) return;
    plot.dataset.tapped = performance.now();
    if (plot.dataset.read === x) return follow(plot, points);
    plot.dataset.read = x;
    readAloud(points);
    if (!hasHinted) showToast("Tap the point again to list the rows behind it.");
    hasHinted = true;
  }

  // Dragging over days shows those days in all charts.
  function zoom(plot, change) {
    const [first, last] = [0, 1].map((end) => change[`xaxis.range[${end}]`]?.replace(" ", "T"));
    const page = document.getElementById("overview");
    if (!first || !page) return;
    const query = new URLSearchParams(location.search);
    // A range's ends lie half a bucket before and after the points inside it.
    const inside = plot.data.flatMap((trace) => trace.x).filter((x) => x >= first && x <= last).sort();
    if (!inside.length) return;
    query.set("range", "custom");
    query.set("first", inside[0].slice(0, 10));
    // A point stands for the days of its bucket; the last one may have fewer.
    const { days, last: end } = plot.layout.meta;
    const lastDay = new Date(`${inside.at(-1).slice(0, 10)}T00:00Z`);
    lastDay.setUTCDate(lastDay.getUTCDate() + days - 1);
    query.set("last", [lastDay.toISOString().slice(0, 10), end].sort()[0]);
    htmx.ajax("GET", `${location.pathname}?${query}`, { source: page, target: page, swap: "outerHTML" });
  }

  /* The arrow keys move from point to point, and Enter opens the rows behind the point. */
  const pointsAt = (plot, x) => plot.data.flatMap((trace, curveNumber) => {
    const pointNumber = trace.x.indexOf(x);
    if (pointNumber < 0 || trace.y[pointNumber] === null || trace.hoverinfo === "skip") return [];
    return [{ curveNumber, pointNumber, x, data: trace, y: trace.y[pointNumber], customdata: trace.customdata?.[pointNumber] }];
  });

  const words = document.createElement("p");
  words.className = "sr";
  words.setAttribute("aria-live", "polite");
  document.body.append(words);

  function readAloud(points) {
    const [{ x }] = points;
    const figures = points.map(({ data, y }) => `${data.name ?? ""} ${Number(y.toPrecision(3))}`.trim());
    words.textContent = `${x.replace(/T00:00.*/, "").replace("T", " ").slice(0, 16)}: ${figures.join(", ")}`;
  }

  function step(plot, event) {
    const every = [...new Set(plot.data.flatMap((trace) => trace.x))];
    const places = every.filter((x) => pointsAt(plot, x).length);
    const isCategories = plot.layout.xaxis.type === "category";
    if (!isCategories) places.sort();
    const here = places.indexOf(plot.dataset.read);
    const moves = { ArrowLeft: here < 0 ? places.length - 1 : here - 1, ArrowRight: here + 1, Home: 0, End: places.length - 1 };
    if (event.key === "Enter" && here >= 0) follow(plot, pointsAt(plot, places[here]));
    if (!(event.key in moves) || !places.length) return;
    event.preventDefault();
    const place = Math.max(0, Math.min(places.length - 1, moves[event.key]));
    const x = places[place];
    plot.dataset.read = x;
    // Plotly's axis counts categories from 0, and the team's wall clock as if it were UTC.
    Plotly.Fx.hover(plot, { xval: isCategories ? every.indexOf(x) : Date.parse(`${x}Z`) });
    readAloud(pointsAt(plot, x));
  }

  function connect(plot) {
    plot.on("plotly_click", ({ points }) => click(plot, points));
    plot.on("plotly_relayout", (change) => zoom(plot, change));
    // Plotly removes only its own listeners when the plot is purged.
    if (plot.dataset.keys) return;
    plot.dataset.keys = "yes";
    plot.addEventListener("pointerdown", (event) => { plot.dataset.pointer = event.pointerType; }, true);
    plot.addEventListener("keydown", (event) => step(plot, event));
    plot.addEventListener("blur", () => Plotly.Fx.unhover(plot));
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

  // On a phone, a legend has two names per line in smaller print: one per line would leave no room for the bars.
  function narrow(legend, room) {
    const half = room / 2 - LEGEND_GAPS_PX;
    const small = (legend.entrywidth * SMALL_PRINT_PX) / legend.font.size;
    if (legend.entrywidth <= half || small > half + LEGEND_SPARE_PX) return;
    legend.entrywidth = half;
    legend.font.size = SMALL_PRINT_PX;
  }

  function drawPlot(plot, figure) {
    figure.layout.font.family = getComputedStyle(document.body).fontFamily;
    // A phone has no room for many dates side by side, and long names at the line ends leave even less.
    const { xaxis, margin, legend } = figure.layout;
    const room = plot.clientWidth - margin.l - margin.r;
    if (xaxis.nticks && room > 0) xaxis.nticks = Math.max(2, Math.min(xaxis.nticks, Math.floor(room / DATE_PX)));
    if (legend && room > 0) narrow(legend, room);
    if (isTouch.matches) {
      figure.layout.dragmode = false;
      xaxis.fixedrange = true;
    }
    const isNew = !plot.classList.contains("js-plotly-plot");
    Plotly.react(plot, figure.data, figure.layout, CONFIG);
    if (isNew) connect(plot);
  }

  // Paper has a width of its own, which no event tells.
  matchMedia("print").addEventListener("change", ({ matches }) => {
    for (const plot of document.querySelectorAll(".js-plotly-plot")) {
      const width = matches ? Math.min(plot.clientWidth, PAPER_PX) : null;
      if (plot.checkVisibility()) Plotly.relayout(plot, { width, autosize: !matches });
    }
  });

  let drawings = 0;

  async function draw() {
    const island = document.getElementById("chart-data");
    if (!island || !window.Plotly) return;
    drawings += 1;
    const own = drawings;
    const figures = readFigures(island);
    const { resolve, done } = makeResolver();
    for (const plot of document.querySelectorAll("[data-chart]")) {
      // A closed part of the page has no size; it is drawn when it opens.
      if (!plot.checkVisibility()) continue;
      drawPlot(plot, resolve(figures[plot.dataset.chart]));
      // Let the page show this chart before the next one is drawn, unless newer figures have come.
      await new Promise((proceed) => { setTimeout(proceed); });
      if (own !== drawings) break;
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
    draw();
  });
  document.addEventListener("toggle", ({ target }) => {
    if (target.open && target.querySelector("[data-chart]")) draw();
  }, true);
  draw();
})();
