// The page of `sweep`: any figure against any swept field, the Pareto front, and all points.
const points = page.answer.points, good = points.filter(p => !p.error);
/// The fields with more than one value; all of them if none has.
const fields = Object.keys(points[0].set), varied = fields.filter(f => points.some(p => p.set[f] !== points[0].set[f]));
const axes = varied.length ? varied : fields;
const figures = [...new Set(good.flatMap(p => Object.keys(p).filter(k => typeof p[k] === 'number')))];
/// Properties of a figure: whether more is better, and its unit.
const more = name => /(_per_s|_per_gpu|mfu|goodput$)/.test(name);
const unitOf = name => name.endsWith('_bytes') ? 'bytes' : name.endsWith('_s') && !name.includes('_per_s') ? 'seconds'
  : /mfu|goodput|probability/.test(name) ? 'share' : 'number';
const show = (name, v, n) => units[unitOf(name)](v, n);
/// The words for a column or a swept field. Its key is the hint of a table's head.
const columnWords = {step_time_s: 'step time', step_time_low_s: 'step time, lower end of 80 %', step_time_high_s: 'step time, upper end of 80 %',
  step_time_ci95_s: 'step time, half of the 95 % interval', samples_per_s: 'samples/s', tokens_per_s_per_gpu: 'tokens/s a GPU', tflops_per_gpu: 'TFLOP/s a GPU',
  mfu: 'MFU', mfu_with_attention: 'MFU with attention', memory_peak_bytes: 'memory at the peak', memory_device_bytes: 'memory on the device', memory_low_bytes: 'memory on the device, lower end of 80 %',
  memory_high_bytes: 'memory on the device, upper end of 80 %', fits: 'fits into memory', fits_in_words: 'fits or is at risk', out_of_memory_probability: 'probability to run out of memory', exposed_communication_s: 'exposed communication',
  goodput_deviation: 'goodput, standard deviation', training_time_s: 'time of the training', training_days: 'days of the training', gpu_hours: 'GPU-hours', gpus: 'GPUs',
  training_time_without_failures_s: 'time of the training without failures', effective_step_time_s: 'step time with failures', lost_work_s: 'lost work',
  checkpoint_interval_s: 'time between checkpoints', step_energy_J: 'energy of a step in J', tokens_per_J: 'tokens/J', samples_per_J: 'samples/J', money_step: 'cost of a step',
  money_training: 'cost of the training', money_per_million: 'cost of a million tokens or samples', money_per_million_answers: 'cost of a million answers', purchase: 'purchase price',
  ownership_year: 'cost of owning for a year', ownership_per_million: 'cost of a million tokens or samples, owned', ownership_total: 'cost of owning for all years', post_training_step_time_s: 'loop step',
  post_training_generation_s: 'generation of a loop step', post_training_training_s: 'training of a loop step', post_training_samples_per_s: 'answers/s',
  post_training_tokens_per_s_per_gpu: 'tokens/s a GPU of the loop', generation_time_s: 'time until the last answer', generation_requests_per_s: 'answers/s',
  generation_tokens_per_s: 'generated tokens/s', generation_tokens_per_s_per_gpu: 'generated tokens/s a GPU', generation_first_token_s: 'time to the first token',
  generation_token_s: 'time from token to token', ideal_samples_per_s: 'samples/s of ideal scaling'};
/// The currency of the prices, from the units of the assumptions.
const currency = ((page.assumptions || []).map(a => /^(\S+) (an hour|a kWh|each)$/.exec(a.unit)).find(Boolean) || [])[1];
/// The words for a part of a key that its letters do not say.
const fieldWords = {hca: 'HCA', gpu: 'GPU', cpu: 'CPU', nic: 'NIC', pcie: 'PCIe', nvlink: 'NVLink', nccl: 'NCCL', mtbf: 'MTBF', pue: 'PUE', kwh: 'price of a kWh', node: 'type of node', gpu_hour: 'hourly rent of',
  node_hour: 'hourly rent of', zero_stage: 'ZeRO stage', seq_length: 'sequence length', purchase: 'purchase of', data_parallel: 'data parallel'};
const isLoop = good.some(p => 'post_training_step_time_s' in p), isEngine = good.some(p => 'generation_time_s' in p);
const rate = isLoop ? 'post_training_samples_per_s' : isEngine ? 'generation_requests_per_s' : 'samples_per_s';
const ofHalf = /^(step_time.*_s|samples_per_s|tokens_per_s_per_gpu|tflops_per_gpu|mfu.*|memory_.*_bytes|fits.*|out_of_memory_probability|bottleneck|exposed_communication_s)$/;
function words(key) {
  if (axes.includes(key)) {
    // A last word that says little alone, or that two fields share, follows the word before it: HCA rate.
    const [last, parent] = key.split('.').filter(part => !/^\d+$/.test(part)).reverse();
    const isVague = /^(rate|latency|count|size|every|kind|name|value|from|to|read|write|capacity|link|base|count|power)$/.test(last) || axes.filter(a => a.split('.').pop() === last).length > 1;
    return [isVague && parent, last].filter(Boolean).map(part => fieldWords[part] || part.replace(/_/g, ' ')).join(' ');
  }
  return (columnWords[key] || key.replace(/_(s|bytes)$/, '').replace(/_/g, ' ')) + (currency && /^(money_|purchase$|ownership_)/.test(key) ? ` in ${currency}` : '') + (!ofHalf.test(key) ? '' : isLoop ? (good.some(p => p.post_training_generation_s) ? ', training half' : ', training step') : isEngine ? ', forward pass' : '');
}
/// The position of a value on its axis: "400 Gbit/s" is 400 if all values have that unit, otherwise its place in the list. A
/// word such as 8W2PS is no number with a unit.
const places = {};
for (const a of axes) {
  const texts = [...new Set(points.map(p => p.set[a]))];
  const split = texts.map(text => /^([-+.\d]+(?:e[-+]?\d+)?)\s*(.*)$/i.exec(text));
  const unit = split[0] && split[0][2], numbers = split.every(s => s && s[2] === unit && !/\d/.test(unit));
  places[a] = {texts, unit, numbers, whole: numbers && split.every(s => /^-?\d+$/.test(s[1])), of: text => numbers ? Number(split[texts.indexOf(text)][1]) : texts.indexOf(text)};
}
const setText = p => axes.map(a => `${words(a)} = ${p.set[a]}`).join(', ');
const choice = (name, options, chosen, change) => el('label', {}, name + ' ', el('select', {onchange: e => change(e.target.value)},
  options.map(o => el('option', {value: o, title: o, selected: o === chosen}, words(o)))));
const scale = name => name in places
  ? axis(words(name) + (places[name].numbers && places[name].unit ? `, ${places[name].unit}` : ''), places[name].numbers ? undefined
    : v => places[name].texts[v] || '', places[name].numbers ? {type: 'linear', ticks: places[name].whole ? {precision: 0} : {}} : {type: 'linear', ticks: {stepSize: 1, callback: v => places[name].texts[v] || ''}})
  : unitOf(name) === 'bytes' ? axis(words(name), v => show(name, v), {type: 'linear', beginAtZero: isConstant(name), ticks: {callback: v => show(name, v), stepSize: byteStep(name)}})
  : axis(words(name), (v, i, ticks) => show(name, v, tickDigits(ticks)), {type: 'linear'});
/// The distance of the grid lines of bytes: a round number of GiB, or a round part of one.
function byteStep(name) {
  const values = good.filter(p => name in p).map(p => p[name]), high = Math.max(...values), range = high - Math.min(...values);
  return niceStep((range || high || 1) / 8 / 2 ** 30) * 2 ** 30;
}
/// True if all points have the same value: its axis then begins at 0, since a range of nothing has no round ticks.
const isConstant = name => new Set(good.filter(p => name in p).map(p => p[name])).size < 2;
const position = (p, name) => name in places ? places[name].of(p.set[name]) : p[name];
const tips = {tooltip: {callbacks: {title: c => setText(c[0].raw.point).split(', '),
  label: c => figures.filter(f => f in c.raw.point).slice(0, 8).map(f => `${words(f)}: ${show(f, c.raw.point[f])}`)}}};

/// Three sentences: the point that is fastest, what limits the points, and the point that costs least (without prices: what
/// fits into memory).
function verdict() {
  if (good.length < 2) return;
  const value = (p, name) => el('span', {'data-path': `points.${points.indexOf(p)}.${name}`, 'data-value': JSON.stringify(p[name]), title: p[name]}, show(name, p[name], 4));
  const isRisky = p => p.fits !== false && p.out_of_memory_probability >= 0.05, capital = text => text[0].toUpperCase() + text.slice(1);
  const risk = p => p.fits === false ? ` ${capital(setText(p))} does not fit into memory.` : isRisky(p) ? ` ${capital(setText(p))} runs out of memory with a probability of ${units.share(p.out_of_memory_probability)}.` : '';
  /// The end of the points in a figure, beside the other end; null: a point has no such figure.
  const end = (name, isMore, does, least) => {
    if (!good.every(p => p[name] > 0)) return null;
    const order = [...good].sort((a, b) => (isMore ? -1 : 1) * (a[name] - b[name])), [best, worst] = [order[0], order[order.length - 1]];
    return Math.abs(best[name] / worst[name] - 1) < 0.0005 ? [`All points have the same ${words(name)}: `, value(best, name), '.']
      : [`${capital(setText(best))} ${does}: `, value(best, name), `, ${units.signed(best[name] / worst[name] - 1)} beside ${setText(worst)}, ${least}.${risk(best)}`];
  };
  const speed = good.every(p => p.effective_step_time_s > 0) ? end('effective_step_time_s', false, 'has the shortest step with failures', 'which has the longest')
    : end(rate, true, `has the most ${words(rate)}`, 'which has the fewest');
  const limits = new Map(), half = isLoop ? 'the training half' : isEngine ? 'the forward pass' : 'the step';
  good.filter(p => p.bottleneck).forEach(p => limits.set(p.bottleneck, (limits.get(p.bottleneck) || 0) + 1));
  const limit = !limits.size ? null : limits.size === 1 ? `What limits ${half} most is ${[...limits.keys()][0]}, at all points.`
    : `What limits ${half} most: ${[...limits].map(([name, n]) => `${name} at ${n} of ${good.length} points`).join(', ')}.`;
  const unfit = good.filter(p => p.fits === false).length, risky = good.filter(isRisky).length;
  const of = currency ? ` (${currency})` : '', cost = end('money_per_million', false, `costs least to rent for a million tokens or samples${of}`, 'which costs most') || end('ownership_per_million', false, `costs least to own for a million tokens or samples${of}`, 'which costs most')
    || (good.some(p => 'fits' in p) ? [(unfit ? `${unfit} of ${good.length} points do not fit into memory` : 'All points fit into memory') + (risky ? `; ${risky} of ${good.length} run out of it with a probability of 5 % or more.` : '.')] : null);
  section('Verdict', speed ? el('p', {}, el('b', {}, speed)) : null, limit ? el('p', {}, limit) : null, cost ? el('p', {}, cost) : null);
}

function curves() {
  // Words that name each point, such as 8W2PS, are the axis even if a number changes with them.
  const named = axes.find(a => !places[a].numbers && places[a].texts.length === points.length && points.length > 2);
  let x = named || (axes.length ? axes.slice().sort((a, b) => places[b].numbers - places[a].numbers || places[b].texts.length - places[a].texts.length)[0]
    : figures[0]);
  let y = named && figures.includes(rate) ? rate : isLoop ? 'post_training_step_time_s' : isEngine ? 'generation_time_s'
    : figures.find(f => new Set(good.map(p => p[f])).size > 1) || figures[0], made;  // a figure that the points differ in
  const build = () => {
    // A field that changes together with x does not distinguish lines.
    const others = axes.filter(a => a !== x && good.some(p => good.some(q => p.set[x] === q.set[x] && p.set[a] !== q.set[a])));
    const lines = new Map();
    for (const p of good.filter(p => y in p)) {
      const name = others.map(a => `${words(a)} ${p.set[a]}`).join(', ') || words(y);
      if (!lines.has(name)) lines.set(name, []);
      lines.get(name).push({x: position(p, x), y: p[y], point: p});
    }
    made.data = {datasets: [...lines].map(([name, data], i) => ({label: name, data: data.sort((a, b) => a.x - b.x), borderColor: hues[i % hues.length],
      backgroundColor: hues[i % hues.length], borderWidth: 1.6, pointRadius: 3, pointHoverRadius: 6}))};
    made.plain.scales = {x: scale(x), y: scale(y)};
    made.plain.plugins.legend.display = lines.size > 1 && lines.size <= 24;
    redraw(made);
  };
  const of = section('Curves', el('div', {class: 'bar controls'}, choice('across', axes, x, v => { x = v; build(); }),
    choice('up', figures, y, v => { y = v; build(); })));
  made = chart(of, 380, 'a figure against a swept field', {type: 'line', data: {datasets: []}, options: {interaction: {mode: 'nearest', intersect: false},
    plugins: Object.assign({legend: {position: 'bottom'}}, tips)}});
  build();
}

const head = key => ({name: words(key), hint: key});

/// The Pareto front: points for which no other point is at least as good in both figures and better in one.
function front(a, b) {
  const better = (p, q, f) => more(f) ? p[f] > q[f] : p[f] < q[f];
  return good.filter(p => a in p && b in p).filter((p, _, all) =>
    !all.some(q => q !== p && (better(q, p, a) || better(q, p, b)) && !better(p, q, a) && !better(p, q, b)));
}
function pareto() {
  if (figures.length < 2) return;
  let a = figures.includes(rate) ? rate : figures[0];
  let b = figures.includes('memory_peak_bytes') ? 'memory_peak_bytes' : figures.find(f => f !== a), made;
  const note = el('div');
  const build = () => {
    const best = front(a, b).sort((p, q) => p[a] - q[a]), at = p => ({x: p[a], y: p[b], point: p});
    made.data = {datasets: [
      {label: 'on the front', data: best.map(at), showLine: true, borderColor: '#d62728', backgroundColor: '#d62728', pointRadius: 5, borderWidth: 1.5},
      {label: 'other points', data: good.filter(p => a in p && b in p && !best.includes(p)).map(at), backgroundColor: '#7f8fa3', pointRadius: 3}]};
    made.plain.scales = {x: scale(a), y: scale(b)};
    redraw(made);
    note.replaceChildren(el('p', {class: 'quiet'}, `${more(a) ? 'More' : 'Less'} is better of: ${words(a)}. ${more(b) ? 'More' : 'Less'} is better of: ${words(b)}. ` +
      `On the front: ${best.length} of ${good.length} points.`),
    table(axes.map(head).concat([{...head(a), number: true}, {...head(b), number: true}]),
      best.map(p => axes.map(x => p.set[x]).concat([{text: show(a, p[a]), sort: p[a]}, {text: show(b, p[b]), sort: p[b]}])), true));
  };
  const of = section('What to choose from', el('div', {class: 'bar controls'}, choice('across', figures, a, v => { a = v; build(); }),
    choice('up', figures, b, v => { b = v; build(); })));
  made = chart(of, 340, 'Pareto front', {type: 'scatter', data: {datasets: []}, options: {plugins: Object.assign({legend: {position: 'bottom'}}, tips)}});
  of.append(note);
  build();
}

function allPoints() {
  const every = [...new Set(good.flatMap(p => Object.keys(p).filter(k => k !== 'set')))];
  const isCommon = name => good.length > 1 && good.every(p => p[name] === good[0][name]), names = every.filter(name => !isCommon(name)), common = every.filter(isCommon);
  const cell = (p, name, i) => p[name] === undefined ? {text: '', sort: Infinity} : typeof p[name] === 'number'
    ? {text: el('span', {'data-path': `points.${i}.${name}`, 'data-value': JSON.stringify(p[name]), title: p[name]}, show(name, p[name])), sort: p[name]}
    : String(p[name]);
  const columns = axes.map(head).concat(names.map(name => ({...head(name), number: figures.includes(name)})));
  section('All points', table(columns.concat(good.length < points.length ? [{name: 'error', words: true}] : []),
    points.map((p, i) => axes.map(a => ({text: p.set[a], sort: places[a].of(p.set[a])})).concat(names.map(n => cell(p, n, i)),
      good.length < points.length ? [p.error || ''] : [])), true),
    common.length ? el('p', {class: 'quiet'}, 'The same at all points: ' + common.map(name => `${words(name)} ${typeof good[0][name] === 'number' ? show(name, good[0][name]) : good[0][name]}`).join('; ') + '.') : null);
}

heading('Sweep of ' + page.answer.scenario.split('/').pop(), `${points.length} points over ${axes.map(words).join(', ')}` +
  (good.length < points.length ? `; ${points.length - good.length} of them impossible` : ''));
verdict();
curves();
pareto();
allPoints();
assumptionSection();
finish();
