// The page of `plan`: the best plan, step time against memory, and the cost of each single choice.
const answer = page.answer, best = answer.best[0];
const cell = (path, unit) => ({text: figure(path, unit), sort: value(answer, path)});
const mark = row => row.fits && !row.leaves_headroom ? row.plan + ' (uses the headroom)' : row.plan;
const over = row => !row.fits ? {text: 'does not fit', sort: Infinity}
  : {text: row.step_time_s === best.step_time_s ? 'best' : units.signed(row.step_time_s / best.step_time_s - 1), sort: row.step_time_s};
/// Energy and cost of tokens, of which the best plan has figures.
const money = answer.money ? answer.money.currency : '', things = best && best.tokens_per_s ? 'tokens' : 'samples';
const costs = [['tokens_per_J', things + '/J'], ['money_per_million', `${money} a million ${things}`], ['ownership_per_million', `${money} a million, owned`]].filter(([key]) => best && best[key]);
const columns = first => [{name: 'step', number: true}, {name: 'over the best', number: true}, {name: 'MFU', number: true},
  {name: 'peak memory', number: true}, ...costs.map(([, name]) => ({name, number: true}))].concat(first ? [{name: first, words: true}] : [], [{name: 'plan', words: true}]);
const rowOf = (at, first) => {
  const row = value(answer, at), timed = row.step_time_s !== undefined;
  return [timed ? cell(at + '.step_time_s', 'seconds') : {text: '–', sort: Infinity}, over(row), timed ? cell(at + '.mfu', 'share') : {text: '–', sort: 0},
    row.memory_peak_bytes ? cell(at + '.memory_peak_bytes', 'bytes') : {text: '–', sort: Infinity}, ...costs.map(([key]) => row[key] === undefined ? {text: '–', sort: -1} : cell(`${at}.${key}`, 'number'))].concat(first ? [first(row)] : [], [mark(row)]);
};
const counted = (n, noun) => `${digits(n)} ${noun}${n === 1 ? '' : 's'}`;
function rows(title, list, first, words) {
  if (!(answer[list] || []).length) return;
  section(title, table(columns(first && first.name), answer[list].map((_, i) => rowOf(`${list}.${i}`, first && first.of)), true),
    words ? el('p', {class: 'quiet'}, words) : null);
}

/// What this plan saves beside others, and what a faster machine would save: clauses of one sentence.
function gains() {
  const all = [['own', 'the scenario\'s own plan'], ['rule_of_thumb', 'the plan by a rule of thumb']].filter(([key]) => answer[key] && answer[key].fits && answer[key].step_time_s > best.step_time_s)
    .map(([key, name]) => [`in place of ${name}, which takes `, figure(key + '.step_time_s', 'seconds'), `, it saves ${units.share(1 - best.step_time_s / answer[key].step_time_s)}`]);
  const near = (answer.neighbours || []).filter(row => row.fits)[0];
  if (!all.length && near) all.push([`no other choice that was simulated is faster; the next, ${near.change}, takes `, figure(`neighbours.${answer.neighbours.indexOf(near)}.step_time_s`, 'seconds')]);
  const tried = (answer.what_if || []).map((w, i) => ({w, i})).sort((a, b) => b.w.saves_share - a.w.saves_share), most = tried[0];
  if (most && most.w.saves_share >= 0.005) all.push([`of the machine, ${faster(most.w)} saves `, figure(`what_if.${most.i}.saves_share`, 'share'), ' of a step']);
  else if (most) all.push(['of the machine, no single faster resource saves 0.5 % of a step']);
  if (!all.length) return [['No other plan was simulated']];
  return [['What to change: ', ...all[0]], ...all.slice(1)];
}

function summary() {
  heading('Plans for ' + answer.scenario, `${counted(answer.plans + answer.simulated_outside, 'plan')} on ${counted(answer.gpus, 'GPU')}: ${digits(answer.judged)} judged, ${digits(answer.simulated)} simulated; ` +
    (!best ? `nothing fits into ${units.bytes(answer.memory_capacity_bytes * (1 - answer.headroom))}` : answer.proved ? `the best is proved: no other combination of the searched fields that ${answer.headroom ? 'leaves the headroom' : 'fits'} has a bound below it`
      : `not proved: ${counted(answer.open, 'plan')} may be faster` + (answer.open_floor_s > 0 ? `, none takes less than ${units.seconds(answer.open_floor_s)}` : '')));
  if (!best) return;
  const limit = answer.bottleneck;
  section('Verdict', el('p', {}, el('b', {}, 'The fastest plan that was found takes ', figure('best.0.step_time_s', 'seconds'), ' a step: ', best.plan, '.')),
    limit && limit.resource ? el('p', {}, `What limits it most is ${limit.resource}, `, figure('bottleneck.share', 'share'), ' of its critical path.') : null,
    el('p', {}, ...gains().flatMap((words, i) => i ? ['; ', ...words] : words), '.'));
  const card = (path, unit, name, interval) => value(answer, path) === undefined ? null
    : el('div', {class: 'card'}, el('b', {}, figure(path, unit)), el('span', {}, name, interval ? likely(interval, unit) : null));
  main.append(el('div', {class: 'cards'}, card('best.0.step_time_s', 'seconds', 'step time of the best', 'best.0.step_time_interval_s'), card('best.0.samples_per_s', 'number', 'samples/s'),
    card('best.0.tokens_per_s', 'number', 'tokens/s'), card('best.0.mfu', 'share', 'MFU, of the dense peak'),
    card('best.0.memory_peak_bytes', 'bytes', `of ${units.bytes(answer.memory_capacity_bytes)}, ${units.share(answer.headroom)} to stay free`), card('simulated', 'number', 'plans simulated')));
}

/// Step time against memory: the Pareto front, and the other plans in the answer.
function front() {
  const fits = list => (answer[list] || []).filter(row => row.fits), at = row => ({x: row.step_time_s, y: row.memory_peak_bytes / 2 ** 30, row});
  const known = new Set(answer.pareto.map(row => row.plan)), set = (label, data, hue, more) => Object.assign({label, data: data.map(at),
    backgroundColor: hue, borderColor: hue, pointRadius: 5, pointHoverRadius: 8}, more);
  const sets = [set('Pareto front', answer.pareto, '#d62728', {showLine: true, borderWidth: 1.5}),
    set('other fast plans', fits('best').filter(row => !known.has(row.plan)), '#2b6ca3'), set('one choice changed', fits('neighbours'), '#7f8fa3', {pointRadius: 3})];
  for (const [key, label, hue] of [['without_headroom', 'without the headroom', '#8e44ad'], ['own', 'the scenario\'s own', '#3a9a5b'], ['rule_of_thumb', 'rule of thumb', '#e08214']])
    if (answer[key] && answer[key].fits) sets.push(set(label, [answer[key]], hue, {pointStyle: 'rectRot', pointRadius: 7}));
  const gib = v => digits(v) + ' GiB';
  chart(section('What to choose from', el('p', {class: 'quiet'}, 'No plan that was simulated and leaves the headroom beats those of the front in time and memory.')), 380,
    'step time against memory', {type: 'scatter', data: {datasets: sets.filter(s => s.data.length)}, options: {
      scales: {x: axis('step time', v => units.seconds(v), {type: 'linear'}), y: axis('peak memory of a GPU', gib)}, plugins: {legend: {position: 'bottom'},
        tooltip: {callbacks: {title: c => [c[0].dataset.label, c[0].raw.row.change || ''].filter(Boolean), label: c => [c.raw.row.plan,
          `${units.seconds(c.raw.x)}, ${gib(c.raw.y)}, MFU ${units.share(c.raw.row.mfu)}`]}}}}});
}
/// The cost of each single change of the best plan, the cheapest first.
function choices() {
  const fit = (answer.neighbours || []).filter(row => row.fits);
  if (fit.length) chart(section('One choice changed'), 60 + 24 * fit.length, 'what each choice costs', {type: 'bar', data: {labels: fit.map(row => row.change),
    datasets: [{data: fit.map(row => (row.step_time_s / best.step_time_s - 1) * 100), backgroundColor: '#2b6ca3'}]}, options: {indexAxis: 'y',
    scales: {x: axis('longer than the best step', v => v + ' %')}, plugins: {legend: {display: false}, tooltip: {callbacks: {
      label: c => `${digits(c.raw)} %: ${units.seconds(fit[c.dataIndex].step_time_s)}`}}}}});
  rows(fit.length ? 'All neighbours of the best plan' : 'One choice changed', 'neighbours', {name: 'instead of the best plan\'s', of: row => row.change});
}
function others() {
  const extra = [['without_headroom', 'without the headroom'], ['own', 'the scenario\'s own'], ['rule_of_thumb', 'rule of thumb: data, then pipeline, then tensor parallel']].filter(([key]) => answer[key]);
  if (extra.length) section('Beside the best', table([{name: 'plan'}].concat(columns()), extra.map(([key, name]) => [name].concat(rowOf(key))), true));
  rows('With twice as much', 'upgrades', {name: 'twice the', of: row => row.change});
  if ((answer.flatness || []).length) section('How flat the optimum is', table([{name: 'slower by at most', number: true}, {name: 'plans, simulated', number: true},
    {name: 'with those whose bounds allow it', number: true}], answer.flatness.map((f, i) => [{text: units.share(f.share), sort: f.share},
    cell(`flatness.${i}.at_least`, 'number'), cell(`flatness.${i}.at_most`, 'number')])));
}

summary();
if (best) {
  front();
  rows('The fastest', 'best');
  rows('For less memory', 'pareto');
  choices();
  others();
}
assumptionSection();
section('In the terminal', el('pre', {}, page.screen.trimEnd()));
finish();
