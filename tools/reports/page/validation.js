// The page of `validate`: predicted against measured figures.
const sets = page.answer.sets, drawn = sets.filter(s => (s.points || []).length);
const chosen = new Set(drawn.map(s => s.name));

function scatter() {
  let made, errors;
  const build = () => {
    const shown = drawn.filter(s => chosen.has(s.name)), all = shown.flatMap(s => s.points);
    const values = all.flatMap(p => [p.measured, p.predicted]).filter(v => v > 0);
    const low = Math.min(...values) / 1.3, high = Math.max(...values) * 1.3;
    const line = (factor, label, dash) => ({label, data: [{x: low, y: low * factor}, {x: high, y: high * factor}], showLine: true, pointRadius: 0,
      borderColor: '#8a929c', borderDash: dash, borderWidth: 1, pointHitRadius: 0});
    made.data = {datasets: shown.map(s => ({label: s.name, backgroundColor: hues[drawn.indexOf(s) % hues.length] + 'b0', pointRadius: all.length > 800 ? 2 : 3.5,
      data: s.points.map(p => ({x: p.measured, y: p.predicted, id: p.id}))})).concat([line(1, 'equal', []), line(1.2, '± 20 %', [4, 4]), line(1 / 1.2, '', [4, 4])])};
    const few = v => /^[125]/.test(String(Number(v.toExponential(0)).toExponential())) && Number(v.toPrecision(1)) === Number(v.toPrecision(6)) ? digits(v) : '';
    made.plain.scales = {x: axis('measured', few, {type: 'logarithmic', min: low, max: high}),
      y: axis('predicted', few, {type: 'logarithmic', min: low, max: high})};
    const bins = Array(21).fill(0), step = 0.05;
    for (const p of all) bins[Math.max(0, Math.min(20, Math.round((p.predicted / p.measured - 1) / step) + 10))]++;
    errors.data = {labels: bins.map((_, i) => `${i === 0 ? '≤ ' : i === 20 ? '≥ ' : ''}${Math.round((i - 10) * step * 100)} %`),
      datasets: [{data: bins, backgroundColor: '#2b6ca3', barPercentage: 1, categoryPercentage: 0.95}]};
    redraw(made);
    redraw(errors);
  };
  const of = section('Predicted and measured', el('div', {class: 'bar controls'}, drawn.map(s => el('label', {}, el('input', {type: 'checkbox', checked: true,
    onchange: e => { if (e.target.checked) chosen.add(s.name); else chosen.delete(s.name); build(); }}), ' ', swatch(hues[drawn.indexOf(s) % hues.length]), s.name))));
  made = chart(of, 460, 'predicted against measured', {type: 'scatter', data: {datasets: []}, options: {plugins: {legend: {display: false}, tooltip: {callbacks: {
    label: c => c.raw.id ? `${c.raw.id}: ${digits(c.raw.x, 4)} measured, ${digits(c.raw.y, 4)} predicted, ${units.signed(c.raw.y / c.raw.x - 1)}` : c.dataset.label}}}}});
  errors = chart(section('Errors of the points shown'), 220, 'how many points have which error', {type: 'bar', data: {labels: [], datasets: []},
    options: {scales: {x: axis('predicted over measured, less one'), y: axis('points')}, plugins: {legend: {display: false}}}});
  build();
}
function outcomes() {
  const keys = ['mean_abs_error', 'median_abs_error', 'p90_abs_error', 'worst_abs_error', 'signed_mean_error'];
  section('All sets', table([{name: 'set', words: true}, {name: 'points', number: true}].concat(keys.map(k => ({name: k.replace('_error', '').replaceAll('_', ' '), number: true})),
    [{name: 'rank correlation', number: true}, {name: 'limits'}]),
  sets.map((s, i) => [s.name, {text: s.n, sort: s.n}].concat(keys.map(k => ({sort: s[k], text: el('span', {'data-path': `sets.${i}.${k}`,
    'data-value': JSON.stringify(s[k])}, (k.startsWith('signed') ? units.signed : units.share)(s[k]))})),
  [{text: digits(s.rank_correlation), sort: s.rank_correlation}, s.pass === undefined ? '' : el('span', {class: s.pass ? 'good' : 'bad'}, s.pass ? 'within' : 'missed')])), true));
}

heading(page.title, `${sets.length} sets; each error is predicted over measured, less one`);
if (drawn.length) scatter();
outcomes();
finish();
