"use strict";
/* Draws the plots of a page with uPlot: each figure holds its data as JSON, and is drawn when it is first seen. */
const onnxperfPlots = (() => {
  const drawn = new Map();
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const series = (index) => css(`--s${index % 6}`);
  const FONT = "12px system-ui, sans-serif";

  const short = (value) => {
    if (value === null || value === undefined) return "-";
    const size = Math.abs(value);
    if (size >= 1e4) for (const [scale, unit] of [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
      if (size >= scale) return `${+(value / scale).toPrecision(3)}${unit}`;
    }
    return `${+value.toPrecision(4)}`;
  };

  const axis = (more) => ({
    stroke: css("--dim"), font: FONT, labelFont: FONT, labelSize: 18, size: 46,
    grid: { stroke: css("--grid"), width: 1 }, ticks: { stroke: css("--grid"), width: 1, size: 4 }, ...more,
  });
  const ticks = (u, values) => values.map((value) => (value === null ? "" : short(value)));

  /* A line across the plot at a value: of the baseline dashed, of a budget dotted, so that colour is not all. */
  const mark = (u, line, along) => {
    const { ctx, bbox } = u;
    const at = Math.round(u.valToPos(line.at, along, true));
    ctx.save();
    ctx.strokeStyle = css(`--${line.kind}`);
    ctx.lineWidth = 1.5 * devicePixelRatio;
    ctx.setLineDash((line.kind === "budget" ? [2, 3] : [7, 4]).map((each) => each * devicePixelRatio));
    ctx.beginPath();
    if (along === "x") { ctx.moveTo(at, bbox.top); ctx.lineTo(at, bbox.top + bbox.height); }
    else { ctx.moveTo(bbox.left, at); ctx.lineTo(bbox.left + bbox.width, at); }
    ctx.stroke();
    ctx.restore();
  };

  const key = (figure, lines, unit, hidden) => {
    if (!lines.length) return;
    const list = document.createElement("ul");
    list.className = "key";
    for (const line of lines) {
      const item = document.createElement("li");
      const sample = document.createElement("b");
      sample.textContent = line.kind === "budget" ? "\u00b7\u00b7\u00b7\u00b7 " : "\u2013 \u2013 ";
      sample.style.color = css(`--${line.kind}`);
      const where = hidden.includes(line) ? ", outside of the plot" : "";
      item.append(sample, `${line.label} ${short(line.at)} ${unit}${where}`);
      list.append(item);
    }
    figure.append(list);
  };

  const isWide = (low, high) => low > 0 && high / low > 3;
  const steps = (from, to) => {
    const found = [];
    for (let power = Math.floor(Math.log10(from)); power <= Math.log10(to); power++) {
      for (const each of [1, 2, 5]) found.push(each * 10 ** power);
    }
    return found.filter((each) => each >= from && each <= to);
  };

  const range = (values, lines, floor) => {
    const low = Math.min(...values), high = Math.max(...values);
    const near = lines.filter((line) => line.at <= high * 5 && line.at >= low / 5);
    const all = [...values, ...near.map((line) => line.at)];
    const from = Math.min(...all), to = Math.max(...all);
    const pad = (to - from) * 0.06 || Math.abs(to) * 0.05 || 1;
    return { from: Math.max(from - pad, floor), to: to + pad, hidden: lines.filter((line) => !near.includes(line)) };
  };

  /* One row a process: a tick for each quantile, so that they are dense where the rounds are; the box holds the middle
     half, the heavy tick is the median, the thin line goes from 1 % to 99 %. */
  const boxes = (data, width) => {
    const at = (row, q) => row[data.quantiles.findIndex((each) => Math.abs(each - q) < 1e-9)] ?? row[0];
    const rows = data.rows;
    const ends = range(rows.flatMap((row) => [at(row, 0), at(row, 0.99)]), data.lines, 0);
    const least = Math.min(...rows.map((row) => at(row, 0)), ...data.lines.filter((line) => !ends.hidden.includes(line)).map((line) => line.at));
    const isLog = isWide(least, ends.to), hidden = ends.hidden, to = ends.to, from = isLog ? least * 0.95 : ends.from;
    const one = (u, row, index) => {
      const { ctx } = u, unit = devicePixelRatio;
      const x = (value) => u.valToPos(value, "x", true), y = u.valToPos(index, "y", true);
      const half = Math.min(12, 0.32 * u.bbox.height / unit / rows.length) * unit;
      ctx.save();
      ctx.beginPath(); ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height); ctx.clip();
      ctx.strokeStyle = ctx.fillStyle = series(0);
      ctx.lineWidth = unit;
      ctx.beginPath(); ctx.moveTo(x(at(row, 0.01)), y); ctx.lineTo(x(at(row, 0.99)), y); ctx.stroke();
      ctx.globalAlpha = 0.22;
      ctx.fillRect(x(at(row, 0.25)), y - half, Math.max(x(at(row, 0.75)) - x(at(row, 0.25)), unit), 2 * half);
      ctx.globalAlpha = 0.75;
      ctx.beginPath();
      for (const value of row) { ctx.moveTo(x(value), y - half * 0.55); ctx.lineTo(x(value), y + half * 0.55); }
      ctx.stroke();
      ctx.globalAlpha = 1;
      ctx.lineWidth = 3 * unit;
      ctx.beginPath(); ctx.moveTo(x(at(row, 0.5)), y - half); ctx.lineTo(x(at(row, 0.5)), y + half); ctx.stroke();
      ctx.restore();
    };
    const last = rows.length - 1;
    return { hidden, height: 74 + 30 * rows.length, data: [[from, to], [null, null]], options: {
      cursor: { show: false }, legend: { show: false }, series: [{}, { show: true, points: { show: false } }],
      scales: { x: { time: false, distr: isLog ? 3 : 1, range: () => [from, to] }, y: { dir: -1, range: () => [-0.6, last + 0.6] } },
      axes: [axis({ values: ticks, label: isLog ? `${data.unit}, logarithmic` : data.unit, size: 28,
        ...(isLog ? { splits: () => steps(from, to), filter: (u, all) => all } : {}) }), axis({
        size: data.labels ? 90 : 30, filter: (u, all) => all, splits: () => rows.map((_, index) => index),
        values: (u, all) => all.map((each) => (data.labels ? data.labels[each] : each + 1)),
        grid: { show: false },
      })],
      hooks: { draw: [(u) => { rows.forEach((row, index) => one(u, row, index));
        data.lines.filter((line) => !hidden.includes(line)).forEach((line) => mark(u, line, "x")); }] },
    } };
  };

  const curves = (data, width, { x, height, points }) => {
    const values = data.series.flatMap((each) => each.y).filter((each) => each !== null);
    const { from, to, hidden } = range(values.length ? values : [0, 1], data.lines, 0);
    return { hidden, height, data: [data.x, ...data.series.map((each) => each.y)], options: {
      cursor: { drag: { setScale: false } }, legend: { live: true },
      scales: { x: x.scale, y: { range: () => [from, to] } },
      series: [x.series, ...data.series.map((each, index) => ({
        label: each.label, stroke: series(index), width: 1.5, points: { show: points, size: 6, fill: series(index) },
        value: (u, value) => (value === null ? "-" : `${short(value)} ${data.unit}`),
      }))],
      axes: [x.axis, axis({ values: ticks, label: data.unit, size: 52 })],
      hooks: {
        draw: [(u) => data.lines.filter((line) => !hidden.includes(line)).forEach((line) => mark(u, line, "y"))],
        ready: [(u) => u.setLegend({ idx: data.x.length - 1 })],
      },
    } };
  };

  const lines = (data, width) => curves(data, width, { height: 210, points: false, x: {
    scale: { time: false }, series: { label: data.xLabel }, axis: axis({ label: data.xLabel, values: ticks, size: 28 }),
  } });

  /* Runs stand beside each other at equal distances, named by commit: what matters is their order. */
  const history = (data, width) => {
    const day = (index) => new Date(data.x[index] * 1000).toISOString().slice(0, 16).replace("T", " ");
    const most = Math.max(1, Math.floor(width / 90));
    const step = Math.ceil(data.x.length / most);
    const numbered = { ...data, x: data.x.map((_, index) => index) };
    return curves(numbered, width, { height: 150, points: true, x: {
      scale: { time: false, range: (u, from, to) => [from - 0.3, to + 0.3] },
      series: { label: "run", value: (u, index) => (index === null ? "-" : `${data.commits[index]}, ${day(index)}`) },
      axis: axis({ size: 26, splits: () => numbered.x.filter((each) => each % step === 0),
        values: (u, all) => all.map((each) => (data.commits[each] === "-" ? day(each).slice(5) : data.commits[each].slice(0, 7))) }),
    } });
  };

  const roofline = (data, width) => {
    const peak = Math.max(...data.roofs.map((roof) => roof.flopPerS));
    const roofAt = (x) => Math.min(peak, x * data.bytesPerS);
    const points = data.points.map((each) => ({ ...each, isTimed: each.y !== null, y: each.y ?? roofAt(each.x) }));
    const ridge = peak / data.bytesPerS;
    const xs = [...points.map((each) => each.x), ridge / 5];
    const from = Math.min(...xs) / 2, to = Math.max(...xs, ridge * 2) * 2;
    const low = Math.min(...points.map((each) => each.y), roofAt(from)) / 2, high = peak * 2;
    const decades = (u, index, least, most) => steps(least, most).filter((each) => Number.isInteger(Math.round(Math.log10(each) * 1e6) / 1e6));
    const draw = (u) => {
      const { ctx } = u, unit = devicePixelRatio;
      const x = (value) => u.valToPos(value, "x", true), y = (value) => u.valToPos(value, "y", true);
      ctx.save();
      ctx.beginPath(); ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height); ctx.clip();
      ctx.font = `${12 * unit}px system-ui, sans-serif`;
      ctx.lineWidth = 1.5 * unit;
      ctx.strokeStyle = ctx.fillStyle = css("--dim");
      for (const roof of data.roofs) {
        const corner = roof.flopPerS / data.bytesPerS;
        ctx.beginPath(); ctx.moveTo(x(from), y(from * data.bytesPerS)); ctx.lineTo(x(corner), y(roof.flopPerS));
        ctx.lineTo(x(to), y(roof.flopPerS)); ctx.stroke();
        ctx.textAlign = "right";
        ctx.fillText(roof.label, x(to) - 4 * unit, y(roof.flopPerS) - 6 * unit);
      }
      points.forEach((each, index) => {
        const [px, py] = [x(each.x), y(each.y)];
        ctx.fillStyle = ctx.strokeStyle = series(index);
        ctx.beginPath(); ctx.arc(px, py, 5 * unit, 0, 2 * Math.PI);
        if (each.isTimed) ctx.fill(); else ctx.stroke();
        const isRight = px > u.bbox.left + u.bbox.width * 0.7;
        ctx.textAlign = isRight ? "right" : "left";
        ctx.fillStyle = css("--fg");
        ctx.fillText(each.label, px + (isRight ? -9 : 9) * unit, py + (index % 2 ? -7 : 14) * unit);
      });
      ctx.restore();
    };
    return { hidden: [], height: 280, data: [[from, to], [null, null]], options: {
      cursor: { show: false }, legend: { show: false }, series: [{}, { points: { show: false } }],
      scales: { x: { time: false, distr: 3, range: () => [from, to] }, y: { distr: 3, range: () => [low, high] } },
      axes: [axis({ values: ticks, label: "FLOP/byte", size: 28, splits: decades, filter: (u, all) => all }),
        axis({ values: ticks, label: "FLOP/s", size: 52, splits: decades, filter: (u, all) => all })],
      hooks: { draw: [draw] },
    } };
  };

  const kinds = { boxes, lines, history, roofline };

  const draw = (figure) => {
    const old = drawn.get(figure);
    if (old) { old.destroy(); figure.querySelectorAll(".key").forEach((each) => each.remove()); }
    const data = JSON.parse(figure.querySelector("script").textContent);
    data.lines ??= [];
    const width = Math.max(Math.floor(figure.clientWidth), 160);
    const { options, data: values, height, hidden } = kinds[data.kind](data, width);
    const plot = new uPlot({ width, height, ...options }, values, figure);
    plot.root.querySelector("canvas").setAttribute("role", "img");
    plot.root.querySelector("canvas").setAttribute("aria-label", `${data.title}; its numbers are in the table`);
    key(figure, data.lines, data.unit, hidden);
    drawn.set(figure, plot);
  };

  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting || drawn.has(entry.target)) continue;
      seen.unobserve(entry.target);
      draw(entry.target);
      sized.observe(entry.target);
    }
  }, { rootMargin: "200px" });

  const sized = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) {
      const plot = drawn.get(target), width = Math.max(Math.floor(contentRect.width), 160);
      if (plot && contentRect.width > 0 && plot.width !== width) plot.setSize({ width, height: plot.height });
    }
  });

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => [...drawn.keys()].forEach(draw));

  /* Called when something opens: what is in it is drawn once it comes near the window. */
  return { watch: (root) => root.querySelectorAll("figure.plot").forEach((figure) => {
    if (!drawn.has(figure)) seen.observe(figure);
  }) };
})();
