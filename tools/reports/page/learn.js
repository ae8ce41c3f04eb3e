// The page of `learn`: curves of trainings on the simulated clock against time, samples, steps or bytes.
const variants = page.answer.variants, able = variants.filter(v => !v.error);
const across = {time_s: 'seconds', samples: 'number', steps: 'number', bytes: 'bytes'};
// Variants are named by what differs: without the path that all names begin with.
const names = variants.map(v => v.name || page.answer.scenario);
const pathOf = name => name.slice(0, name.split('=')[0].lastIndexOf('.') + 1);
const shared = names.every(name => name.includes('=') && pathOf(name) === pathOf(names[0])) ? pathOf(names[0]) : '';
const nameOf = v => (v.name || page.answer.scenario).slice(shared.length);
/// A legend below a chart whose names may be longer than a line. It shows only the first seed of each variant.
const legend = sets => el('div', {class: 'legend'}, sets.filter(s => s.first).map(s => el('span', {}, swatch(s.backgroundColor), s.label)));

function curves(title, key, unit) {
  let x = 'time_s', made;
  const sets = () => able.flatMap((v, i) => v.runs.map((run, seed) => ({label: nameOf(v), seed: run.seed, first: seed === 0,
    data: run.points.filter(p => typeof p[key] === 'number').map(p => ({x: p[x], y: p[key]})),
    borderColor: hues[i % hues.length] + (seed === 0 ? '' : '77'), backgroundColor: hues[i % hues.length], borderWidth: seed === 0 ? 2 : 1, pointRadius: 0, pointHitRadius: 8})));
  if (!sets().some(s => s.data.length)) return;
  const build = () => {
    made.data = {datasets: sets()};
    made.plain.scales = {x: axis(x.replace('_s', ''), v => units[across[x]](v), {type: 'linear'}), y: axis('', v => units[unit](v))};
    redraw(made);
  };
  const box = section(title, el('div', {class: 'bar controls'}, el('label', {}, 'against ', el('select', {onchange: e => { x = e.target.value; build(); }},
    Object.keys(across).map(k => el('option', {value: k}, k.replace('_s', '')))))));
  made = chart(box, 340, title, {type: 'line', data: {datasets: []}, options: {parsing: false, interaction: {mode: 'nearest', intersect: false},
    plugins: {legend: {display: false}, tooltip: {callbacks: {title: c => units[across[x]](c[0].parsed.x),
      label: c => `${c.dataset.label}, seed ${c.dataset.seed}: ${units[unit](c.parsed.y)}`}}}}});
  build();
  box.append(legend(sets()));
}
// The first parameter of each replica in the first seed, and their mean, for tasks of a few parameters.
function positions() {
  const line = (v, i, points, of, extra) => ({label: nameOf(v), data: points.map(p => ({x: p.steps, y: of(p)})), pointRadius: 0, pointHitRadius: 8,
    borderColor: hues[i % hues.length], backgroundColor: hues[i % hues.length], borderWidth: 1, ...extra});
  const sets = able.flatMap((v, i) => {
    const points = v.runs[0].points.filter(p => p.positions);
    if (!points.length) return [];
    const replicas = points[0].positions.map((_, r) => line(v, i, points, p => p.positions[r], {label: `${nameOf(v)}, replica ${r}`, first: r === 0}));
    return replicas.length < 2 ? replicas : replicas.concat(line(v, i, points, p => p.positions.reduce((a, b) => a + b) / p.positions.length,
      {label: `${nameOf(v)}, the mean of the replicas`, first: true, borderDash: [6, 4], borderWidth: 2}));
  });
  if (!sets.length) return;
  const box = section('Positions of the replicas');
  const made = chart(box, 340, 'Positions of the replicas', {type: 'line', data: {datasets: sets}, options: {parsing: false,
    interaction: {mode: 'nearest', intersect: false}, plugins: {legend: {display: false}}}});
  box.append(legend(sets));
  made.plain.scales = {x: axis('steps', v => units.number(v), {type: 'linear'}), y: axis('', v => units.number(v))};
  redraw(made);
}
function mean(m, unit) {
  if (!m || typeof m.mean !== 'number') return {text: '–', sort: Infinity};
  const half = typeof m.half_width === 'number' && m.half_width > 0 ? ` ± ${units[unit](m.half_width)}` : '';
  return {text: units[unit](m.mean) + half, sort: m.mean};
}
function outcomes() {
  const target = able.some(v => v.to_target);
  const columns = [{name: 'variant', words: true}, {name: 'step', number: true}, {name: 'reached', number: true}];
  if (target) columns.push({name: 'time to target', number: true}, {name: 'samples to target', number: true});
  columns.push({name: 'loss at the end', number: true}, {name: 'accuracy at the end', number: true});
  section('Outcomes', table(columns, variants.map((v, i) => v.error ? [nameOf(v), v.error].concat(Array(columns.length - 2).fill('')) : [nameOf(v),
    {text: el('span', {'data-path': `variants.${i}.step_time_s`, 'data-value': JSON.stringify(v.step_time_s)}, units.seconds(v.step_time_s)), sort: v.step_time_s},
    `${v.reached} of ${v.runs.length}`].concat(target ? [mean((v.to_target || {}).time_s, 'seconds'), mean((v.to_target || {}).samples, 'number')] : [],
    [v.diverged ? `diverged at step ${v.runs.find(run => run.diverged_at_step >= 0).diverged_at_step}` : mean(v.final.loss, 'number'), mean(v.final.accuracy, 'share')])), true));
}

heading('Learning: ' + page.answer.scenario, able.length ? `${able[0].task}; ${page.answer.seeds} seed` +
  `${page.answer.seeds > 1 ? 's' : ''} of each` : '');
curves('Loss', 'loss', 'number');
curves('Accuracy', 'accuracy', 'share');
positions();
outcomes();
finish();
