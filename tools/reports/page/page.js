// Functions that all pages share: elements, numbers as text, tables, charts, light and dark colours.
'use strict';
const problems = [];
window.addEventListener('error', e => { problems.push(e.message); finish(); });
const page = JSON.parse(document.getElementById('data').textContent);
const root = document.documentElement;

/// Replaces "GPU" in the text by the noun for the answer's chips: a TPU, an FPGA, accelerators.
function named(text) {
  const noun = page.device;
  if (!noun || noun === 'GPU') return text;
  return text.replace(/\b([aA] )?GPU(s?)\b/g, (all, article, s) => (article ? article.replace(' ', /^(FPGA|[aeiou])/.test(noun) ? 'n ' : ' ') : '') + noun + s);
}
function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith('on')) e.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) e.setAttribute(name, value === true ? '' : value);
  }
  e.append(...children.flat().filter(c => c != null).map(c => typeof c === 'string' ? named(c) : c));
  return e;
}
const main = document.getElementById('page');
function section(title, ...children) {
  const id = title.toLowerCase().replace(/[^a-z0-9]+/g, '-');
  const e = el('section', {id, 'aria-label': title}, el('h2', {}, title), ...children);
  main.append(e);
  return e;
}

// Numbers with three to four digits and their unit.
const digits = (v, n = 3) => v === 0 ? '0' : Math.abs(v) >= 10 ** n ? Math.round(v).toLocaleString('en-US')
  : String(Number(v.toPrecision(n)));
function scaled(v, steps, n) {
  const [factor, unit] = steps.find(([f]) => Math.abs(v) >= f * 0.9995) || steps[steps.length - 1];
  return digits(v / factor, n) + ' ' + unit;
}
const units = {
  seconds: (v, n) => v === 0 ? '0 s' : scaled(v, [[86400, 'd'], [3600, 'h'], [1, 's'], [1e-3, 'ms'], [1e-6, 'µs'], [1e-9, 'ns']], n),
  bytes: (v, n) => v === 0 ? '0 B' : scaled(v, [[2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB'], [1, 'B']], n),
  rate: v => scaled(v, [[1e12, 'TB/s'], [1e9, 'GB/s'], [1e6, 'MB/s'], [1, 'B/s']]),
  share: (v, n) => Math.abs(v) < 5e-7 ? '0 %' : Math.abs(v) < 1e-4 && !n ? '< 0.01 %' : digits(v * 100, n) + ' %',
  signed: v => Math.abs(v) < 5e-7 ? '0 %' : Math.abs(v) < 1e-4 ? '< ±0.01 %' : (v > 0 ? '+' : '') + digits(v * 100) + ' %',
  number: (v, n) => digits(v, n || 4),
  days: v => v > 0 && v < 0.1 ? digits(v * 1440) + ' min' : digits(v, 4),
};
/// An amount of money on an axis: 2 M, 500 k.
const shortMoney = v => v >= 1e6 ? digits(v / 1e6) + ' M' : v >= 1e4 ? digits(v / 1e3) + ' k' : digits(v);
const value = (of, path) => path.split('.').reduce((at, key) => at == null ? undefined : at[key], of);
/// A figure of the answer. Its tooltip shows its path and exact value.
function figure(path, unit) {
  const v = value(page.answer, path);
  return el('span', {'data-path': path, 'data-value': JSON.stringify(v), title: `${path}: ${v}`}, units[unit](v));
}

/// The interval that holds a figure with a probability of 80 %; null: the answer has none.
const likely = (path, unit) => value(answer, path) ? [el('br'), figure(path + '.0', unit), ' to ', figure(path + '.1', unit), ' with a probability of 80 %'] : null;

/// A faster resource in the words of the report.
function faster(w) {
  const removed = {'staleness of 1': 'a staleness of 1', stragglers: 'no stragglers', 'slow links': 'all links at their full rate'}[w.resource];
  if (removed) return removed;
  const less = {latency: 'network latency', framework: 'software overheads', 'loop software': 'software of the loop', 'measured step': 'measured step'}[w.resource];
  const more = {compute: 'GPU FLOP/s', memory: 'GPU memory bandwidth', staleness: 'staleness', nodes: 'nodes',
    'nodes that generate': 'nodes that generate', 'nodes that train': 'nodes that train'}[w.resource] || w.resource + ' rate';
  return named(less ? `1/${w.factor} of the ${less}` : `${w.factor} × ${more}`);
}

const sentences = text => (text || '').split(/(?<=\.) +/).filter(Boolean);
/// A verdict: what it takes in bold, what limits it, what to change, and further sentences in quiet words.
const verdictOf = (takes, limits, changes, further) => [el('p', {}, el('b', {}, takes)), limits ? el('p', {}, limits) : null, changes ? el('p', {}, changes) : null,
  further.length ? el('p', {class: 'quiet'}, further.join(' ')) : null];

const isBlank = cell => ['–', ''].includes(cell && cell.text !== undefined ? cell.text : cell);
/// A table. Cells are text, nodes or numbers. `columns`: [{name, number, words, hint, screen}]; screen: not on paper. `sortable`: the heads are buttons.
/// `kind`: full, if paper has all rows on one side, as of parts with their sum.
function table(columns, rows, sortable, kind) {
  const body = el('tbody');
  const fill = order => body.replaceChildren(...order.map(row => el('tr', {}, row.map((cell, i) =>
    el('td', {class: [columns[i].number ? 'number' : columns[i].words ? 'words' : '', isBlank(cell) ? 'blank' : '', columns[i].screen ? 'screen' : ''].join(' ').trim() || null, 'data-label': named(columns[i].name)},
      cell && cell.text !== undefined ? cell.text : cell)))));
  const key = cell => cell && cell.sort !== undefined ? cell.sort : String(cell);
  let last = -1, falling = false;
  const sort = i => {
    falling = last === i && !falling;
    last = i;
    fill([...rows].sort((a, b) => {
      const x = key(a[i]), y = key(b[i]), order = x < y ? -1 : x > y ? 1 : 0;
      return falling ? -order : order;
    }));
  };
  fill(rows);
  const sorts = sortable && rows.length > 1 ? el('label', {class: 'sorts quiet'}, 'sorted by ', el('select', {onchange: e => { last = -1; sort(Number(e.target.value)); }},
    el('option', {value: '', disabled: true, selected: true}, '–'), columns.map((c, i) => el('option', {value: i}, c.name)))) : null;
  const box = el('div', {class: 'scroll'}, sorts, el('table', {class: kind}, el('thead', {}, el('tr', {}, columns.map((c, i) =>
    el('th', {class: [c.number ? 'number' : '', c.screen ? 'screen' : ''].join(' ').trim() || null, title: c.hint}, sortable ? el('button', {onclick: () => sort(i)}, c.name) : c.name)))), body), el('p', {class: 'more-rows quiet'}, 'Further rows: on the page.'));
  const most = 8;  // blocks of a stacked table before the button
  if (rows.length > most + 1) box.append(el('button', {class: 'all-rows', onclick: () => box.classList.add('all')}, `show all ${rows.length} rows`));
  else box.classList.add('all');
  return box;
}
/// Breaks the words of tables that are wider than their place, or stacks them: each row becomes a block of cells, each below
/// the name of its column. On a phone a table has at most four columns.
function fitTables() {
  const isPhone = !root.classList.contains('printing') && innerWidth < 600, most = 4;
  for (const e of main.querySelectorAll('.scroll')) {
    const head = e.querySelector('thead tr');
    if (!head) continue;
    const isWide = () => e.clientWidth > 0 && e.scrollWidth > e.clientWidth + 1;
    e.classList.remove('stacked', 'tight');
    if (!isPhone && isWide()) e.classList.add('tight');
    if (isWide() || (isPhone && head.children.length > most)) e.classList.add('stacked');
  }
}
/// Numbers rounded so that they sum to their rounded sum: the largest rests are rounded up.
function roundedParts(parts) {
  const sum = parts.reduce((a, b) => a + b, 0), unit = sum >= 1000 ? 1 : 10 ** (Math.floor(Math.log10(sum || 1)) - 3);
  const down = parts.map(v => Math.floor(v / unit)), order = parts.map((v, i) => i).sort((a, b) => parts[b] / unit - down[b] - parts[a] / unit + down[a]);
  const rest = Math.round(sum / unit) - down.reduce((a, b) => a + b, 0);
  order.slice(0, rest).forEach(i => { down[i]++; });
  return down.map(n => n * unit);
}
const yearsOf = years => digits(years) + (years === 1 ? ' year' : ' years');
/// Money in full from 1,000 on, so that sums agree with their parts.
const fullMoney = v => v >= 1000 ? Math.round(v).toLocaleString('en-US') : digits(v, 4);
/// What a bought cluster costs to buy, in a year and in the years of depreciation, by part. The rows sum to the totals of the
/// answer at `path`; a difference is a problem of the page.
function ownershipTable(path, currency) {
  const o = value(page.answer, path), price = o.purchase || 0, y = o.year_parts, network = (o.purchase_parts.switches || 0) + (o.purchase_parts.cables || 0);
  const parts = [['nodes', o.purchase_parts.nodes || 0], ['network', network], ['storage', o.purchase_parts.storage || 0]];
  const rows = [...parts.map(([name, bought]) => [name + ', depreciation', bought, price ? y.depreciation * bought / price : 0]), ['interest', 0, y.interest],
    ['power', 0, y.electricity], ['cooling', 0, y.cooling], ['staff', 0, y.staff], ['space', 0, y.space]];
  const off = (sum, total) => Math.abs(sum - total) > 1e-6 * Math.max(1, Math.abs(total)), sum = k => rows.reduce((all, r) => all + r[k], 0);
  if (off(sum(1), price) || off(sum(2), o.year)) problems.push(`the parts of ${path} do not sum to their total`);
  const shown = [1, 2].map(k => roundedParts(rows.map(r => r[k]))), years = roundedParts(rows.map(r => r[2] * o.years));
  const total = list => list.reduce((a, b) => a + b, 0), cells = list => list.map(v => ({text: v ? fullMoney(v) : '–', sort: v}));
  return table([{name: 'part'}, {name: `${currency} to buy`, number: true}, {name: `${currency} a year`, number: true}, {name: `${currency} in ${yearsOf(o.years)}`, number: true}],
    [...rows.map((r, i) => [r[0], ...cells([shown[0][i], shown[1][i], years[i]])]).filter((_, i) => rows[i][1] || rows[i][2]),
      [el('b', {}, 'sum'), ...[[shown[0], 'purchase'], [shown[1], 'year'], [years, 'total']].map(([list, key]) =>
        el('b', {'data-sum': `${path}.${key}`, title: value(page.answer, `${path}.${key}`)}, fullMoney(total(list))))]], false, 'full');
}
/// Owning beside each rent: from which use, price and time on buying costs less.
function breakEvenTable(path, currency) {
  const o = value(page.answer, path);
  if (!o.break_evens) return null;
  const at = (i, key, unit) => value(o, `break_evens.${i}.${key}`) == null ? 'never' : figure(`${path}.break_evens.${i}.${key}`, unit);
  return table([{name: 'buying costs less than'}, {name: `${currency} a year of rent`, number: true}, {name: 'in use from', number: true}, {name: 'after months of full use', number: true},
    {name: `to buy, below ${currency}`, number: true}, {name: `a node, below ${currency}`, number: true}],
  o.break_evens.map((b, i) => [b.terms + (b.terms === 'spot' ? ', whose nodes are taken away' : ''), at(i, 'year', 'number'), at(i, 'use', 'share'), at(i, 'months', 'number'), at(i, 'purchase', 'number'), at(i, 'node', 'number')]));
}
/// The figures that the page assumes, with their units and sources.
function assumptionTable() {
  const all = page.assumptions || [];
  if (!all.length) return null;
  // A source of most figures stands above the table; rows name other sources.
  const counts = new Map();
  all.forEach(a => counts.set(a.source, (counts.get(a.source) || 0) + 1));
  const [common, count] = [...counts].sort((a, b) => b[1] - a[1])[0], isCommon = all.length > 2 && 2 * count > all.length, isOnly = isCommon && count === all.length;
  const grouped = text => /^\d{4,}(\.\d+)?$/.test(text) ? Number(text).toLocaleString('en-US', {maximumFractionDigits: 9}) : text;
  return [isCommon ? el('p', {}, `Source of ${isOnly ? 'all' : 'each figure without another one'}: ${common}`) : null,
    table([{name: 'item'}, {name: 'figure', number: true}, {name: 'unit'}, ...(isOnly ? [] : [{name: 'source', words: true}])],
      all.map(a => [a.item, grouped(a.figure), a.unit, ...(isOnly ? [] : [isCommon && a.source === common ? '' : a.source])]))];
}
/// The section of these figures; without any there is none.
function assumptionSection() {
  const shown = assumptionTable();
  if (shown) section('Assumptions', ...shown);
}
const swatch = colour => el('span', {class: 'swatch', style: `background:${colour}`});

// Charts and pictures take their colours from the style sheet, and take them again when the theme changes.
const charts = [], redraws = [];
const colour = name => getComputedStyle(root).getPropertyValue('--' + name).trim();
const hues = ['#2b6ca3', '#e08214', '#3a9a5b', '#b5489a', '#8c6d5d', '#17a2b8', '#d62728', '#8858ad', '#9a9a2a', '#7f7f7f'];
function chart(parent, height, label, config) {
  const canvas = el('canvas', {role: 'img', 'aria-label': label});
  if (config.options.indexAxis === 'y') height += breakLabels(config, parent.clientWidth || innerWidth);
  parent.append(el('div', {class: 'chart', style: `height:${height}px`}, canvas));
  const made = new Chart(canvas, config);
  made.plain = config.options;  // made.options is a view of these options that resolves defaults
  charts.push(made);
  return made;
}
/// Breaks labels of horizontal bars into lines of at most two fifths of the width. Returns the height of their lines.
function breakLabels(config, width) {
  const pen = document.createElement('canvas').getContext('2d'), most = 0.4 * width;
  pen.font = `12px ${Chart.defaults.font.family}`;
  const broken = text => {
    const lines = [''];
    for (const word of text.split(' ')) {
      const longer = (lines[lines.length - 1] + ' ' + word).trim();
      if (pen.measureText(longer).width > most && lines[lines.length - 1]) lines.push(word);
      else lines[lines.length - 1] = longer;
    }
    return lines;
  };
  config.data.labels = config.data.labels.map(label => [label].flat().flatMap(broken));
  const y = config.options.scales.y = config.options.scales.y || {};
  y.ticks = {...y.ticks, autoSkip: false};
  return 15 * config.data.labels.length * (Math.max(...config.data.labels.map(lines => lines.length)) - 1);
}
function takeColours() {
  Chart.defaults.color = colour('ink');
  Chart.defaults.borderColor = colour('rule');
}
Chart.defaults.animation = false;
Chart.defaults.maintainAspectRatio = false;
Chart.defaults.scale.ticks.autoSkipPadding = 8;
Chart.defaults.font.family = 'system-ui, Helvetica, Arial, sans-serif';
Chart.defaults.plugins.legend.labels.boxWidth = 12;
takeColours();
function dress() {
  takeColours();
  for (const c of charts) {
    for (const s of Object.values(c.plain.scales || {})) {  // these took the colours when the chart was made
      for (const part of ['ticks', 'title']) if (s[part]) s[part].color = colour('ink');
      if (s.grid) s.grid.color = s.grid.borderColor = s.grid.tickColor = colour('rule');
    }
    redraw(c);
  }
  redraws.forEach(draw => draw());
}
/// Draws a chart again after a change of made.data or made.plain.
function redraw(made) {
  made.options = made.plain;
  made.update('none');
}
const axis = (title, format, more) => Object.assign({title: {display: !!title, text: title && named(title)}, ticks: format ? {callback: format} : {}}, more);
/// The number of digits that tells neighbours among the ticks of an axis apart.
function tickDigits(ticks) {
  const values = ticks.map(t => Math.abs(t.value)), step = ticks.length > 1 ? Math.abs(ticks[1].value - ticks[0].value) : 0;
  return step ? Math.min(9, Math.max(3, 1 + Math.ceil(Math.log10(Math.max(...values) / step)))) : undefined;
}
/// The smallest of 1, 2, 5, 10, … that is at least `v`.
function niceStep(v) {
  const power = 10 ** Math.floor(Math.log10(v));
  return [1, 2, 5, 10].map(f => f * power).find(s => s >= v);
}
const dark = () => root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
function theme(name) {
  if (name) root.dataset.theme = name; else delete root.dataset.theme;
  dress();
}
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', dress);
let before = null;
window.addEventListener('beforeprint', () => { before = root.dataset.theme || ''; setOut(true); theme('light'); });
window.addEventListener('afterprint', () => { setOut(false); theme(before); });

// Two sides of A4 without margins of 10 mm. The first one stays empty from a part on that does not break, and from its heading on.
const paper = {width: 718, height: 1047, sides: 2, used: 0.97, heading: 30, pixelsOfPoint: 4 / 3};
/// Sections that are left out if two sides are too few, the first ones first; then the last ones of the page.
const folds = ['room-at-the-site', 'how-flat-the-optimum-is', 'steps', 'pipeline-stages', 'with-twice-as-much', 'all-neighbours-of-the-best-plan',
  'arrivals', 'memory', 'for-less-memory', 'what-the-step-waits-for', 'cost-of-each-way', 'all-simulated-sizes', 'one-choice-changed', 'as-the-nodes-are-delivered', 'what-owning-costs'];
/// Sets the page out for paper: with shorter tables and fewer sections until it has two sides; or for the screen again.
function setOut(forPaper) {
  root.classList.toggle('printing', forPaper);
  root.classList.remove('short');
  main.querySelectorAll('.folded').forEach(e => e.classList.remove('folded'));
  main.querySelectorAll('#left-out').forEach(e => e.remove());
  document.body.style.width = forPaper ? paper.width + 'px' : '';
  fitTables();
  fitCharts(forPaper);
  if (!forPaper) return;
  const fits = () => {
    const left = [...main.querySelectorAll('.card, .chart, .bars > div, .columns > *, tr, table.full')].filter(e => !e.closest('#assumptions')).map(e => {
      const {top, bottom} = e.getBoundingClientRect(), end = paper.height - scrollY;
      return top < end && bottom > end ? end - top + paper.heading : 0;
    });
    return document.body.scrollHeight + Math.max(0, ...left) <= paper.sides * paper.height * paper.used;
  };
  const all = [...main.querySelectorAll('section')].filter(e => e.offsetHeight > 0), rest = all.slice(1).reverse().filter(e => !folds.includes(e.id));
  const order = [...folds.map(id => all.find(e => e.id === id)).filter(Boolean), ...rest];
  if (!fits()) root.classList.add('short');
  for (const e of order) if (!fits()) e.classList.add('folded');
  for (const e of order.filter(e => e.classList.contains('folded')).reverse()) {  // a short one may have room where a long one had not
    e.classList.remove('folded');
    e.classList.toggle('folded', !fits());
  }
  root.classList.remove('short');
  root.classList.toggle('short', !fits());
  const isHidden = e => e && e.offsetHeight === 0;
  const names = [...main.querySelectorAll('section')].filter(e => isHidden(e) && !isHidden(e.parentElement.closest('section'))).map(e => e.getAttribute('aria-label'));
  if (names.length) main.append(el('p', {id: 'left-out', class: 'quiet'}, 'On the page only: ' + names.join(', ') + '.'));
}
/// The size of the smallest text that the page shows, in points, and by how many pixels parts are wider than the paper.
function smallestText() {
  const shown = [...main.querySelectorAll('*')].filter(e => e.offsetHeight > 0 && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()));
  const sizes = [...shown.map(e => parseFloat(getComputedStyle(e).fontSize)), ...charts.map(() => Chart.defaults.font.size)];
  return Math.min(...sizes) / paper.pixelsOfPoint;
}
function fitCharts(forPaper) {
  Chart.defaults.font.size = forPaper ? 11 : 12;
  for (const c of charts) {
    c.options.devicePixelRatio = c.plain.devicePixelRatio = forPaper ? 3 : undefined;
    c.resize();
    c.update('none');
  }
}

function heading(title, subtitle) {
  main.append(el('div', {class: 'head'},
    el('div', {}, el('h1', {}, title), el('p', {class: 'quiet'}, subtitle)),
    el('div', {class: 'controls'}, el('button', {onclick: () => theme(dark() ? 'light' : 'dark'),
      'aria-label': 'switch between light and dark'}, 'light / dark'))));
}
/// Empties the page for another answer.
function clear() {
  for (const c of charts) c.destroy();
  charts.length = redraws.length = 0;
  main.replaceChildren();
}
/// Names what the edge of the page or of a chart cuts off: elements that do not scroll, and labels of axes.
function cutOff() {
  const wide = [...main.querySelectorAll('*')].filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.machine, pre')).map(e => e.tagName);
  const labels = charts.flatMap(c => Object.values(c.scales).filter(s => s.axis === 'y').flatMap(s => {
    c.ctx.font = `12px ${Chart.defaults.font.family}`;
    return (s.ticks || []).flatMap(t => t.label).filter(line => line && c.ctx.measureText(String(line)).width > s.width);
  }));
  return [...wide, ...labels];
}
addEventListener('resize', fitTables);
document.addEventListener('toggle', fitTables, true);
/// Fits the tables to the page and sets the attributes that tests read. Call it last.
function finish() {
  const folded = [...main.querySelectorAll('details:not([open])')];
  folded.forEach(e => { e.open = true; });
  fitTables();
  for (const s of charts.flatMap(c => Object.values(c.scales)).filter(s => s.type === 'linear')) {
    const labels = s.ticks.map(t => String(t.label || '')).filter(Boolean), alike = labels.find((label, i) => i && label === labels[i - 1]);
    if (alike) problems.push(`neighbouring ticks have the label ${alike}`);
  }
  root.dataset.charts = charts.length;
  root.dataset.problems = problems.join('; ');
  root.dataset.tooWide = Math.max(0, root.scrollWidth - innerWidth);
  root.dataset.cutOff = cutOff().join('; ');
  folded.forEach(e => { e.open = false; });
  root.dataset.readyMs = Math.round(performance.now());
  if (location.hash === '#dark') theme('dark');
  root.dataset.staleColours = charts.filter(c => Object.values(c.scales).some(s => s.options.ticks.color !== colour('ink'))).length;
  if (location.hash !== '#paper') return;  // #paper shows the page as it is printed
  setOut(true);
  root.dataset.smallestText = smallestText();
  root.dataset.hiddenRows = [...main.querySelectorAll('section:not(.folded) table.full tr')].filter(e => e.offsetHeight === 0).length;
  root.dataset.widerThanPaper = Math.max(0, ...[...main.querySelectorAll('*')].map(e => Math.ceil(e.getBoundingClientRect().right - paper.width)));
}
