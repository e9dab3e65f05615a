// SPDX-License-Identifier: Apache-2.0

// Charts of the load of this server, made from /metrics. The page keeps the last few minutes only.

import {element, find} from '/console/page.js';

const kPoints = 150;  // five minutes
const kWidth = 300;
const kHeight = 80;
const kTimeoutMs = 5000;
const kNames = ['packets_received', 'quorate_request_latency_seconds', 'fsynctime', 'quorate_disk_free_bytes'];
const kSpace = 'http://www.w3.org/2000/svg';

const number = (value) => (value >= 100 ? value.toFixed(0) : value.toFixed(value >= 10 ? 1 : 2));

// Each line of a chart gets a value, or null if there is none, from two readings and the seconds between them.
const kCharts = [
  {title: 'Requests per second', lines: [['requests', (now, last, seconds) => rate(now, last, 'packets_received', seconds)]]},
  {title: 'Time of requests in ms', lines: [['p50', (now, last) => percentile(now, last, 0.5)],
                                            ['p99', (now, last) => percentile(now, last, 0.99)]]},
  {title: 'Time of a sync of the log in ms', lines: [['average', (now, last) => average(now, last, 'fsynctime')]]},
  {title: 'Free disk space in GiB', lines: [['free', (now) => positive(now, 'quorate_disk_free_bytes', 2 ** 30)]]},
];

let last = null;  // the reading before
const series = kCharts.map((chart) => chart.lines.map(() => []));

// Returns the values of a text of Prometheus by name; of histograms, the sums of all operations by their bound.
function read(text) {
  const values = new Map();
  const buckets = new Map();
  for (const line of text.split('\n')) {
    const match = /^([a-z_0-9]+)(\{.*\})? (\S+)$/.exec(line);
    if (match === null) continue;
    const bound = /le="([^"]+)"/.exec(match[2] ?? '')?.[1];
    if (bound === undefined) {
      if (match[2] === undefined) values.set(match[1], Number(match[3]));
    } else {
      const at = bound === '+Inf' ? Infinity : Number(bound);
      buckets.set(at, (buckets.get(at) ?? 0) + Number(match[3]));
    }
  }
  return {values, buckets};
}

function difference(now, before, name) {
  if (!now.values.has(name) || !before.values.has(name)) return null;
  const value = now.values.get(name) - before.values.get(name);
  return value < 0 ? null : value;  // the server was started again
}

function rate(now, before, name, seconds) {
  const value = difference(now, before, name);
  return value === null ? null : value / seconds;
}

function average(now, before, name) {
  const count = difference(now, before, `${name}_count`);
  const sum = difference(now, before, `${name}_sum`);
  return count === null || sum === null || count === 0 ? null : sum / count;
}

function positive(now, name, unit) {
  const value = now.values.get(name);
  return value === undefined || value < 0 ? null : value / unit;
}

// Returns the time in ms that the least `part` of the requests since the reading before took, within the bounds of the
// histogram.
function percentile(now, before, part) {
  const counts = [...now.buckets].map(([bound, count]) => [bound, count - (before.buckets.get(bound) ?? 0)])
      .sort(([a], [b]) => a - b);
  const all = counts.at(-1)?.[1] ?? 0;
  if (all <= 0) return null;
  let lower = 0;
  let below = 0;
  for (const [bound, count] of counts) {
    if (count >= part * all) {
      if (bound === Infinity) return lower * 1000;
      return (lower + (bound - lower) * (part * all - below) / Math.max(1, count - below)) * 1000;
    }
    lower = bound;
    below = count;
  }
  return null;
}

function svg(tag, attributes) {
  const made = document.createElementNS(kSpace, tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function draw(index) {
  const chart = kCharts[index];
  const top = Math.max(0, ...series[index].flat().filter((value) => value !== null)) || 1;
  const paths = series[index].map((points, line) => {
    let path = '';
    let isDrawn = false;
    points.forEach((value, at) => {
      if (value !== null) {
        const x = (at + kPoints - points.length) * kWidth / (kPoints - 1);
        const y = kHeight - value / top * (kHeight - 4) - 2;
        // A point between two gaps is a line of no length.
        path += `${isDrawn ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}${isDrawn ? '' : 'h0'}`;
      }
      isDrawn = value !== null;
    });
    return svg('path', {d: path || 'M0 0', class: `line${line}`});
  });
  const figure = find('charts').children[index];
  const texts = chart.lines.map(([name], line) => {
    const value = series[index][line].at(-1) ?? null;
    return `${chart.lines.length > 1 ? `${name} ` : ''}${value === null ? '-' : number(value)}`;
  });
  const text = `${chart.title}: ${texts.join(', ')}`;
  figure.querySelector('figcaption').textContent = text;
  figure.querySelector('svg').setAttribute('aria-label', `${text}; highest of the last five minutes: ${number(top)}`);
  figure.querySelector('svg').replaceChildren(...paths);
}

export async function refreshCharts() {
  const parameters = new URLSearchParams(kNames.map((name) => ['name[]', name]));
  let reading = null;
  try {
    const response = await fetch(`/metrics?${parameters}`, {cache: 'no-store', signal: AbortSignal.timeout(kTimeoutMs)});
    if (response.ok) reading = {...read(await response.text()), time: performance.now()};
  } catch {
    // A gap shows it.
  }
  kCharts.forEach((chart, index) => {
    chart.lines.forEach(([, valueOf], line) => {
      const value = reading === null || last === null ? null : valueOf(reading, last, (reading.time - last.time) / 1000);
      series[index][line].push(value);
      if (series[index][line].length > kPoints) series[index][line].shift();
    });
    draw(index);
  });
  last = reading;
}

find('charts').replaceChildren(...kCharts.map(() => {
  const figure = document.createElement('figure');
  figure.append(svg('svg', {viewBox: `0 0 ${kWidth} ${kHeight}`, role: 'img', preserveAspectRatio: 'none'}), element('figcaption', ''));
  return figure;
}));
