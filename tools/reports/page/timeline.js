// Ranks and their streams over time, with zoom and pan. The critical path is a lane of its own and a line under its bars.
function decoded(flat, width) {
  const n = flat.length / width, begin = new Float64Array(n), end = new Float64Array(n);
  const rest = Array.from({length: width - 2}, () => new Int32Array(n));
  for (let i = 0, at = 0; i < n; i++) {
    begin[i] = at + flat[width * i];
    at = end[i] = begin[i] + flat[width * i + 1];
    for (let k = 2; k < width; k++) rest[k - 2][i] = flat[width * i + k];
  }
  return {n, begin, end, rest};
}
/// The first bar that ends after `t`.
function firstAfter(bars, t) {
  let low = 0, high = bars.n;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (bars.end[middle] <= t) low = middle + 1; else high = middle;
  }
  return low;
}

function timeline(t) {
  const row = 20, gap = 10, top = 26;
  const path = decoded(t.path.pieces, 5), resources = t.path.resources;
  const ranks = t.ranks.map(r => Object.assign({}, r, {
    shown: false, lanes: r.lanes.map(l => ({name: l.name, bars: decoded(l.bars, 4), path: []}))}));
  for (let i = 0; i < path.n; i++) {
    const lane = path.rest[1][i] >= 0 && path.rest[2][i] >= 0 ? ranks[path.rest[1][i]].lanes[path.rest[2][i]] : null;
    if (lane) lane.path.push(i);
  }
  ranks.slice(0, 4).forEach(r => { r.shown = true; });
  let from = t.begin, to = t.end, rows = [], picked = -1;
  const canvas = el('canvas', {tabindex: 0, role: 'application', 'aria-label':
    'timeline: arrows move, plus and minus zoom, n and p step along the critical path, 0 shows all'});
  const tip = el('div', {class: 'tip', hidden: true}), status = el('p', {class: 'quiet', 'aria-live': 'polite'});
  const box = el('div', {class: 'timeline'}, canvas, tip);
  const seconds = ticks => units.seconds(ticks * t.tick_s);
  const span = ticks => { const s = ticks * t.tick_s; return s === 0 ? '0' : scaled(s, [[1, 's'], [1e-3, 'ms'], [1e-6, 'µs'], [1e-9, 'ns']], 6); };
  let width = 0, left = 0;
  const x = ticks => left + (ticks - from) / (to - from) * (width - left);
  const tick = px => from + (px - left) / (width - left) * (to - from);

  function layOut() {
    rows = path.n ? [{y: top, label: 'critical path', bars: path, critical: true}] : [];
    let y = top + (path.n ? row + gap : 0);
    for (const r of ranks.filter(r => r.shown)) {
      rows.push({y, title: `rank ${r.rank}${r.stands_for > 1 ? ` ×${r.stands_for}` : ''}`});
      y += row;
      for (const lane of r.lanes) { rows.push({y, label: lane.name, bars: lane.bars, path: lane.path}); y += row; }
      y += gap;
    }
    return y;
  }
  const nameOf = (r, i) => {
    if (r.critical) return resources[r.bars.rest[0][i]];
    const tone = t.tones[r.bars.rest[0][i]].name, name = r.bars.rest[1][i];
    return name < 0 ? `${-name} operations, mostly ${tone}` : t.names[name] ? `${t.names[name]} (${tone})` : tone;
  };

  /// Draws the bars. Bars narrower than a pixel share a column; the tone with the largest part gives the colour.
  function drawBars(g, r) {
    const fills = r.critical ? resources.map((_, i) => hues[i % hues.length]) : t.tones.map(tone => tone.fill);
    const within = new Float64Array(fills.length);
    let column = -1, drawn = -1;
    const flush = () => {
      if (column >= 0) { g.fillStyle = fills[within.indexOf(Math.max(...within))]; g.fillRect(column, r.y + 2, 1, row - 5); within.fill(0); }
      column = -1;
    };
    for (let i = firstAfter(r.bars, from); i < r.bars.n && r.bars.begin[i] < to; i++) {
      const a = Math.max(left, x(r.bars.begin[i])), b = Math.min(width, x(r.bars.end[i])), tone = r.bars.rest[0][i];
      if (column !== Math.floor(a)) flush();
      if (b - a < 1) { column = Math.floor(a); within[tone] += b - a; } else {
        flush();
        g.fillStyle = fills[tone];
        g.fillRect(a, r.y + 2, b - a - (b - a > 4 ? 1 : 0), row - 5);
      }
      if (r.critical && i === picked) { g.strokeStyle = colour('ink'); g.lineWidth = 2; g.strokeRect(a, r.y + 2, Math.max(2, b - a), row - 5); }
      if (b - a > 56) {
        g.save(); g.beginPath(); g.rect(a, r.y, b - a - 4, row); g.clip();
        g.fillStyle = r.critical || t.tones[r.bars.rest[0][i]].dark ? '#fff' : '#1d2127';
        g.fillText(nameOf(r, i), a + 4, r.y + row / 2);
        g.restore();
      }
    }
    flush();
    g.fillStyle = colour('path');
    for (const i of r.path || []) {
      if (path.end[i] <= from || path.begin[i] >= to) continue;
      const a = Math.max(left, x(path.begin[i])), b = Math.min(width, x(path.end[i]));
      if (b - a < 1 && Math.floor(a) === drawn) continue;
      drawn = Math.floor(a);
      g.fillRect(a, r.y + row - 3, Math.max(0.7, b - a), 3);
    }
  }
  function drawAxis(g, height) {
    const step = niceStep((to - from) * t.tick_s / Math.max(3, (width - left) / 110)) / t.tick_s;
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
      g.fillStyle = colour('rule');
      g.fillRect(x(at), 18, 1, height);
      g.fillStyle = colour('quiet');
      if (x(at) < width - 40) g.fillText(span(at), x(at) + 3, 10);
    }
  }
  function draw() {
    const height = layOut(), ratio = window.devicePixelRatio || 1;
    width = box.clientWidth || 800;
    canvas.width = width * ratio; canvas.height = height * ratio; canvas.style.height = height + 'px';
    const g = canvas.getContext('2d');
    g.scale(ratio, ratio);
    g.font = '11px system-ui, Helvetica, Arial, sans-serif';
    g.textBaseline = 'middle';
    // The lanes' names take up to two fifths of a phone's width. Longer ones end with an ellipsis.
    const labels = rows.filter(r => r.bars).map(r => g.measureText(r.label).width);
    left = Math.round(Math.min(Math.max(74, ...labels.map(w => w + 20)), width < 600 ? width * 0.4 : 230));
    const shortened = text => {
      if (g.measureText(text).width <= left - 18) return text;
      let n = text.length - 1;
      while (n > 1 && g.measureText(text.slice(0, n) + '…').width > left - 18) n--;
      return text.slice(0, n).trimEnd() + '…';
    };
    drawAxis(g, height);
    for (const r of rows) {
      if (r.title) { g.font = 'bold 11px system-ui, Helvetica, Arial, sans-serif'; g.fillStyle = colour('ink'); g.fillText(r.title, 6, r.y + row / 2); }
      g.font = '11px system-ui, Helvetica, Arial, sans-serif';
      if (!r.bars) continue;
      g.save(); g.beginPath(); g.rect(left, r.y, width - left, row); g.clip();
      drawBars(g, r);
      g.restore();
      g.save(); g.beginPath(); g.rect(0, r.y, left - 6, row); g.clip();
      g.fillStyle = colour(r.critical ? 'path' : 'quiet');
      g.fillText(shortened(r.label), r.critical ? 6 : 12, r.y + row / 2);
      g.restore();
    }
  }
  let asked = false;
  const ask = () => { if (!asked) { asked = true; requestAnimationFrame(() => { asked = false; draw(); }); } };
  function show(a, b) {
    const length = Math.min(t.end, Math.max(20, b - a));
    from = Math.min(Math.max(0, a), t.end - length);
    to = from + length;
    ask();
  }
  const zoom = (factor, at = (from + to) / 2) => show(at - (at - from) * factor, at + (to - at) * factor);
  const pan = share => show(from + share * (to - from), to + share * (to - from));
  const all = () => { picked = -1; status.textContent = ''; show(t.begin, t.end); };
  function stepAlong(by) {
    if (!path.n) return;
    picked = picked < 0 ? firstAfter(path, from) : Math.min(path.n - 1, Math.max(0, picked + by));
    const a = path.begin[picked], b = path.end[picked], rank = path.rest[1][picked];
    if (a < from || b > to || b - a < (to - from) / 200) show((a + b) / 2 - 6 * (b - a), (a + b) / 2 + 6 * (b - a));
    status.textContent = `critical path, piece ${picked + 1} of ${path.n}: ${resources[path.rest[0][picked]]}` +
      `${rank >= 0 ? `, rank ${ranks[rank].rank}` : ''}, from ${span(a)} for ${seconds(b - a)}`;
    ask();
  }

  const keys = {ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), '+': () => zoom(0.6), '=': () => zoom(0.6),
    '-': () => zoom(1 / 0.6), 0: all, Home: all, n: () => stepAlong(1), p: () => stepAlong(-1)};
  canvas.addEventListener('keydown', e => {
    if (!keys[e.key] || e.ctrlKey || e.metaKey) return;
    keys[e.key]();
    e.preventDefault();
  });
  // The wheel scrolls the page. It zooms if the timeline has the focus, or with Ctrl.
  canvas.addEventListener('wheel', e => {
    if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) pan(e.deltaX / 800);
    else if (e.ctrlKey || document.activeElement === canvas) zoom(Math.exp(e.deltaY * 0.002), tick(e.offsetX));
    else return;
    e.preventDefault();
  }, {passive: false});
  const held = new Map();
  canvas.addEventListener('pointerdown', e => { held.set(e.pointerId, e.offsetX); canvas.setPointerCapture(e.pointerId); });
  for (const kind of ['pointerup', 'pointercancel']) canvas.addEventListener(kind, e => held.delete(e.pointerId));
  canvas.addEventListener('pointermove', e => {
    if (held.has(e.pointerId)) {
      const before = held.get(e.pointerId), others = [...held].filter(([id]) => id !== e.pointerId).map(([, at]) => at);
      held.set(e.pointerId, e.offsetX);
      if (others.length) zoom(Math.abs(before - others[0]) / Math.max(10, Math.abs(e.offsetX - others[0])), tick(others[0]));
      else pan((before - e.offsetX) / (width - left));
    }
    hover(e);
  });
  canvas.addEventListener('pointerleave', () => { tip.hidden = true; });
  function hover(e) {
    const r = rows.find(r => r.bars && e.offsetY >= r.y && e.offsetY < r.y + row), at = tick(e.offsetX);
    const i = r && e.offsetX > left ? firstAfter(r.bars, at) : -1, slack = 2 * (to - from) / (width - left);
    tip.hidden = !(i >= 0 && i < r.bars.n && r.bars.begin[i] <= at + slack);
    if (tip.hidden) return;
    tip.replaceChildren(el('b', {}, nameOf(r, i)), el('br'), `${seconds(r.bars.end[i] - r.bars.begin[i])}, from ${span(r.bars.begin[i])}`);
    tip.style.left = Math.min(e.offsetX + 12, Math.max(0, width - 250)) + 'px';
    tip.style.top = r.y + row + 4 + 'px';
  }

  const button = (text, label, action) => el('button', {onclick: action, 'aria-label': label}, text);
  const choice = el('div', {class: 'bar controls'},
    button('+', 'zoom in', keys['+']), button('−', 'zoom out', keys['-']), button('←', 'earlier', keys.ArrowLeft),
    button('→', 'later', keys.ArrowRight), button('all', 'the whole step', all),
    path.n ? button('next on the path', 'next piece of the critical path', keys.n) : null,
    ranks.length > 1 ? ranks.map(r => el('label', {}, el('input', {type: 'checkbox', checked: r.shown,
      onchange: e => { r.shown = e.target.checked; draw(); }}), ` rank ${r.rank}`)) : null);
  const used = new Set(ranks.flatMap(r => r.lanes.flatMap(l => [...l.bars.rest[0]])));
  const legend = el('div', {class: 'legend'},
    t.tones.map((tone, i) => used.has(i) ? el('span', {}, swatch(tone.fill), tone.name) : null),
    resources.map((name, i) => el('span', {}, swatch(hues[i % hues.length]), `path: ${name}`)));
  const notes = 'Drag to move; click, then turn the wheel to zoom (or Ctrl and wheel); keys: arrows, + −, 0, n and p along ' +
    'the critical path, which is the line under bars.' + (t.ranks.some(r => r.stands_for > 1)
      ? ' Ranks that are alike are simulated once: ×N stands for N of them.' : '') +
    (t.joined_below_s ? ` Operations shorter than ${units.seconds(t.joined_below_s)} are drawn together.` : '');
  section('Timeline', choice, box, status, legend, el('p', {class: 'quiet'}, notes));
  redraws.push(draw);
  new ResizeObserver(draw).observe(box);
  draw();
}
