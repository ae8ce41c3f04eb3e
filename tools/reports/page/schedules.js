// The page of all pipeline schedules: sliders for the times of passes and of a message, for chunks and for memory. Each
// schedule keeps its order of passes; their times follow from it. They are the simulator's if no message takes longer than the
// shortest pass, which the slider ensures.
const lesson = JSON.parse(document.getElementById('lesson').textContent);
const everyEntry = lesson.schedules.concat(lesson.other_chunks), usable = everyEntry.filter(s => !s.refused);
const names = [...new Set(usable.map(s => s.schedule))], hash = new URLSearchParams(location.hash.slice(1));
const colours = {forward: '#7ba7d9', backward: '#7fbf8a', 'backward by the input': '#bfe0a8', 'backward by the weights': '#f0cf73'};
const byId = id => document.getElementById(id);
const value = id => Number(byId(id).value);
const short = number => String(Number(number.toFixed(3)));

/// Times of the passes of one stage and chunk.
function passTimes(s, t) {
  const part = s.copies / s.chunks;
  return {forward: t.forward * part, backward: t.backward * part, 'backward by the input': (t.backward - t.weights) * part,
    'backward by the weights': t.weights * part};
}
/// Runs each stage's passes in their order. A forward pass waits for the output of the part before, a backward pass for the
/// gradient of the part after; a message between stages takes `t.transfer`.
function run(s, t) {
  const takes = passTimes(s, t), outputs = new Map(), gradients = new Map(), stageOf = new Map();
  s.virtual_stages.forEach((chunks, stage) => chunks.forEach(v => stageOf.set(v, stage)));
  const arrival = (made, v, m, stage) =>
    made.has(`${v} ${m}`) ? made.get(`${v} ${m}`) + (stageOf.get(v) === stage ? 0 : t.transfer) : NaN;
  const next = s.stage.map(() => 0), ends = s.stage.map(() => 0), bars = s.stage.map(() => []);
  for (let moved = true; moved;) {
    moved = false;
    s.stage.forEach((stage, k) => {
      for (; next[k] < stage.tasks.length; next[k]++, moved = true) {
        const {pass, micro_batch: m, chunk} = stage.tasks[next[k]], v = s.virtual_stages[k][chunk];
        const ready = [ends[k]];
        if (pass === 'forward' && v % s.parts) ready.push(arrival(outputs, v - 1, m, k));
        if (pass === 'backward by the weights') ready.push(arrival(gradients, v, m, k));
        else if (pass !== 'forward') {
          ready.push(arrival(outputs, v, m, k));
          if ((v + 1) % s.parts) ready.push(arrival(gradients, v + 1, m, k));
        }
        const begin = Math.max(...ready);
        if (Number.isNaN(begin)) return;
        ends[k] = begin + takes[pass];
        bars[k].push({begin, end: ends[k], pass, chunk, label: m});
        if (pass === 'forward') outputs.set(`${v} ${m}`, ends[k]);
        else if (pass !== 'backward by the weights') gradients.set(`${v} ${m}`, ends[k]);
      }
    });
  }
  const end = Math.max(...ends), busy = bars.flat().reduce((sum, bar) => sum + bar.end - bar.begin, 0);
  return {end, bars, bubble: 1 - busy / (end * s.stage.length)};
}
/// The entry of a schedule with that many chunks, or with its nearest number of them.
const entry = (name, chunks) => usable.filter(s => s.schedule === name)
  .sort((a, b) => Math.abs(a.chunks - chunks) - Math.abs(b.chunks - chunks))[0];

/// The end of the common scale: the longest time, or the longest of those that are at most twice the shortest. Longer ones
/// (the naive schedule) would leave the others a narrow strip; their pictures are cut there.
function endOfScale(times) {
  return Math.max(...times.filter(time => byId('whole').checked || time <= 2 * Math.min(...times)));
}

function draw() {
  const entries = names.map(name => entry(name, value('chunks'))), weights = value('weights') * value('backward');
  const t = {forward: value('forward'), backward: value('backward'), weights};
  const shortest = Math.min(...entries.flatMap(s =>
    [...new Set(s.stage[0].tasks.map(task => task.pass))].map(pass => passTimes(s, t)[pass])));
  t.transfer = value('transfer') * shortest;
  const shown = entries.filter(s => s.activations_peak_micro_batches <= value('memory'));
  const runs = shown.map(s => run(s, t)), last = endOfScale(runs.map(r => r.end)), row = 15, wide = 1000;
  byId('values').textContent = `forward ${short(t.forward)}, backward ${short(t.backward)} (${short(weights)} of it by the weights), ` +
    `a message ${short(t.transfer)}, at most the activations of ${value('memory')} micro-batches`;
  byId('schedules').replaceChildren(...shown.map((s, i) => {
    const box = document.createElement('div'), cut = runs[i].end > last, high = row * s.stage.length;
    box.innerHTML = `<h2>${s.schedule}<span class="quiet"> ${s.chunks > 1 ? s.chunks + ' chunks, ' : ''}time ${short(runs[i].end)}, bubble ` +
      `${(100 * runs[i].bubble).toFixed(1)} %, activations of ${short(s.activations_peak_micro_batches)} micro-batches` +
      `${s.copies > 1 ? ', two copies of the parameters' : ''}${cut ? `; cut at ${short(last)} ▸` : ''}</span></h2>` +
      `<svg viewBox="0 0 ${wide} ${high}" width="100%" role="img" aria-label="${s.schedule}">` + runs[i].bars.map((bars, k) =>
      bars.filter(bar => bar.begin < last).map(bar => {
        const x = bar.begin / last * wide, width = (bar.end - bar.begin) / last * wide;
        return `<rect x="${x.toFixed(2)}" y="${k * row}" width="${width.toFixed(2)}" height="${row - 2}" fill="${colours[bar.pass]}" ` +
          `opacity="${1 - 0.45 * bar.chunk / s.chunks}"><title>stage ${k}: ${bar.pass} of ${bar.label}, ${short(bar.begin)} to ` +
          `${short(bar.end)}</title></rect>` + (width > 14 ? `<text x="${(x + width / 2).toFixed(2)}" y="${k * row + 10}" ` +
          `font-size="9" text-anchor="middle" fill="#1d2127">${bar.label}</text>` : '');
      }).join('')).join('') +
      (cut ? `<path class="cut" d="M${wide - 1} 0V${high}" stroke="var(--bad)" stroke-width="2" stroke-dasharray="4 3"/>` : '') +
      '</svg>';
    return box;
  }));
  document.documentElement.dataset.times = JSON.stringify(Object.fromEntries(shown.map((s, i) => [s.schedule, runs[i].end])));
  document.documentElement.dataset.transfer = t.transfer;
  document.documentElement.dataset.scale = last;
}
const most = Math.ceil(Math.max(...usable.map(s => s.activations_peak_micro_batches)));
const first = usable[0], backward = first.backward_input + first.backward_weights;
const chunkCounts = usable.map(s => s.chunks);
const sliders = [['forward', 'forward pass', 0.5, 4, 0.1, first.forward], ['backward', 'backward pass', 0.5, 6, 0.1, backward],
  ['weights', 'part by the weights', 0.1, 0.9, 0.05, first.backward_weights / backward],
  ['transfer', 'message, of the shortest pass', 0, 1, 0.05, 0],
  ['chunks', 'chunks a stage', Math.min(...chunkCounts), Math.max(...chunkCounts), 1, lesson.chunks],
  ['memory', 'activations of at most', 1, most, 1, most]];
byId('sliders').innerHTML = sliders.map(([id, words, least, greatest, step, start]) => `<label>${words} <input type="range" id="${id}" ` +
  `min="${least}" max="${greatest}" step="${hash.has(id) ? 'any' : step}" value="${hash.get(id) ?? start}"></label>`).join('') +
  `<label><input type="checkbox" id="whole" ${hash.has('whole') ? 'checked' : ''}> the longest to its end</label>`;
byId('sliders').addEventListener('input', draw);
byId('legend').innerHTML = Object.entries(colours).map(([pass, colour]) =>
  `<span><span class="swatch" style="background:${colour}"></span>${pass}</span>`).join('');
draw();
document.documentElement.dataset.ready = 'yes';
