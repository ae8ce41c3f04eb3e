// The page of `compare`: scenarios side by side, where their time goes, what they cost, and where they differ.
const answer = page.answer, all = answer.scenarios, names = all.map(s => s.scenario), first = all[0];
const of = (i, path) => value(all[i], path), shown = (i, path, unit) => of(i, path) === undefined ? '–' : figure(`scenarios.${i}.${path}`, unit);
const money = (all.find(s => s.money) || {}).money, currency = money ? money.currency : '', things = money && !money.of_tokens ? 'samples' : 'tokens';

const kinds = new Set(all.map(s => s.post_training ? 'loop' : s.generation ? 'engine' : 'step')), isLoop = kinds.has('loop'), isEngine = kinds.has('engine');
const half = page.labels.of_pass;
/// Paths of a scenario's figures: the time that is compared, and the simulated pass of a loop or of engines.
const timePath = i => all[i].post_training ? 'post_training.step_time_s' : all[i].generation ? 'generation.time_s' : 'step_time_s';
const passPath = kind => i => all[i][kind] ? 'step_time_s' : null;

/// Three sentences: who is fastest, who is cheapest to rent and to own, and who has the most tokens a joule.
function verdict() {
  heading('Side by side: ' + names.join(', '), `${all.length} scenarios`);
  const least = (path, sign = 1) => {
    const known = all.map((_, i) => i).filter(i => of(i, path) > 0);
    return known.length < 2 || kinds.size > 1 ? null : known.sort((a, b) => sign * (of(a, path) - of(b, path)));
  };
  const isTie = (path, order) => Math.abs(of(order[0], path) / of(order[1], path) - 1) < 0.005;
  const clause = (path, order, ends) => !order ? [] : isTie(path, order)
    ? [`${names[order[0]]} and ${names[order[1]]} differ by less than 0.5 %: ${names[order[0]]} ${ends}, `, figure(`scenarios.${order[0]}.${path}`, 'number')]
    : [`${names[order[0]]} ${ends}: `, figure(`scenarios.${order[0]}.${path}`, 'number'), ', ', units.signed(of(order[0], path) / of(order[1], path) - 1), ` beside ${names[order[1]]}`];
  const sentence = (...clauses) => {
    const said = clauses.filter(c => c.length);
    return said.length ? el('p', {}, ...said.flatMap((c, i) => i ? ['; ', ...c] : c), '.') : null;
  };
  const [rate, words] = isLoop ? ['post_training.samples_per_s', 'answers a second'] : isEngine ? ['generation.tokens_per_s', 'generated tokens a second']
    : first.tokens_per_s ? ['tokens_per_s', 'tokens a second'] : ['samples_per_s', 'samples a second'];
  const money = isEngine ? () => null : least, fast = clause(rate, least(rate, -1), `has the most ${words}`);
  section('Verdict', kinds.size > 1 ? el('p', {}, 'Steps, loops and engines that answer prompts have no rate in common.') : null, fast.length ? el('p', {}, el('b', {}, ...fast, '.')) : null,
    sentence(clause('money.per_million', money('money.per_million'), `costs least to rent for a million ${things} (${currency})`),
      clause('money.ownership.per_million', money('money.ownership.per_million'), `costs least to own for a million ${things} (${currency})`)),
    sentence(clause('tokens_per_J', money('tokens_per_J', -1), 'has the most tokens a joule')));
}

function figures() {
  const rows = [[page.labels.time, timePath, 'seconds'], ['answers/s of the loop', 'post_training.samples_per_s', 'number'],
    ['generated tokens/s', 'generation.tokens_per_s', 'number'], ['answers/s of the engines', 'generation.requests_per_s', 'number'], [page.labels.engine_pass, passPath('generation'), 'seconds'], [page.labels.loop_pass, passPath('post_training'), 'seconds'], ['shortest in 80 % of cases' + half, 'step_time_interval_s.0', 'seconds'], ['longest in 80 % of cases' + half, 'step_time_interval_s.1', 'seconds'],
    ['GPUs', 'gpus', 'number'], ['samples/s' + half, 'samples_per_s', 'number'], ['tokens/s' + half, 'tokens_per_s', 'number'], ['MFU' + half, 'mfu', 'share'], ['memory at the peak' + half, 'memory_bytes.peak', 'bytes'], ['goodput', 'goodput', 'share'],
    ['time of the training', 'training_time_s', 'seconds'], ['tokens a joule, at the site', 'tokens_per_J', 'number'], ['kWh a step', 'energy.step_kWh', 'number'], [`${currency} a million ${things}, rented`, 'money.per_million', 'number'],
    [`${currency} for the training, rented`, 'money.training', 'number'], [`${currency} to buy`, 'money.ownership.purchase', 'number'], [`${currency} a year of owning`, 'money.ownership.year', 'number'],
    [`${currency} to own for all years of depreciation`, 'money.ownership.total', 'number'], [`${currency} a million ${things}, owned`, 'money.ownership.per_million', 'number'], [`${currency} for the training, owned`, 'money.ownership.training', 'number']];
  section('Figures', table([{name: 'figure'}, ...names.map(name => ({name, number: true}))],
    rows.map(([words, path, unit]) => [words, all.map((_, i) => typeof path === 'string' ? path : path(i)), unit]).filter(([, paths]) => paths.some((path, i) => path && of(i, path)))
      .map(([words, paths, unit]) => [words, ...paths.map((path, i) => path ? shown(i, path, unit) : '–')]), false, 'full'));
}

function times() {
  const parts = b => Object.entries(b || {}).flatMap(([name, v]) => name === 'exposed_communication' ? Object.entries(v).map(([group, s]) => ['exposed ' + group, s]) : [[name, v]]).filter(([, s]) => s > 0);
  const found = [...new Set(all.flatMap(s => parts(s.breakdown_s).map(([name]) => name)))];
  if (!found.length) return;
  chart(section('Where the time goes' + half), 70 + 34 * all.length + 22 * Math.ceil(found.length / 4), 'parts of the steps', {type: 'bar', data: {labels: names, datasets: found.map((name, i) => ({label: name, backgroundColor: hues[i % hues.length], barPercentage: 0.8,
    data: all.map(s => Object.fromEntries(parts(s.breakdown_s))[name] || 0)}))}, options: {indexAxis: 'y', scales: {x: axis('', v => units.seconds(v), {stacked: true}), y: {stacked: true}},
    plugins: {legend: {position: 'bottom'}, tooltip: {callbacks: {label: c => `${c.dataset.label}: ${units.seconds(c.raw)}`}}}}});
}

/// The parts of owning each cluster for all years of depreciation, beside each other.
function parts() {
  const bought = all.map((s, i) => i).filter(i => of(i, 'money.ownership.total_parts'));
  if (!bought.length) return;
  const part = (i, name) => of(i, 'money.ownership.total_parts.' + name) || 0;
  const order = ['nodes', 'network', 'storage', 'interest', 'power', 'cooling', 'staff', 'space'], rounded = bought.map(i => roundedParts(order.map(name => part(i, name))));
  bought.forEach((i, column) => {
    const total = of(i, 'money.ownership.total'), sum = order.reduce((a, name) => a + part(i, name), 0);
    if (Math.abs(sum - total) > 1e-6 * Math.max(1, Math.abs(total))) problems.push(`the parts of scenarios.${i}.money.ownership do not sum to their total`);
    rounded[column].total = rounded[column].reduce((a, b) => a + b, 0);
  });
  section('What owning costs, side by side', table([{name: `${currency}, for all years of depreciation`}, ...bought.map(i => ({name: names[i], number: true}))],
    [['years', ...bought.map(i => shown(i, 'money.ownership.years', 'number'))], ...order.map((name, row) => [name, ...rounded.map(list => ({text: list[row] ? fullMoney(list[row]) : '–', sort: list[row]}))]).filter(row => row.slice(1).some(cell => cell.sort)),
      [el('b', {}, 'sum'), ...bought.map((i, column) => el('b', {'data-sum': `scenarios.${i}.money.ownership.total`, title: of(i, 'money.ownership.total')}, fullMoney(rounded[column].total)))]], false, 'full'));
}

/// The prices at which a scenario costs as much a token as the first one.
function breakEvens() {
  const words = {node: 'price of a node', purchase: 'price of the whole purchase', gpu_hour: 'rent of a GPU hour', kwh: 'price of a kWh, both owned'};
  answer.changes.forEach((change, i) => {
    if (!change.break_evens) return;
    const at = (k, key) => value(change, `break_evens.${k}.${key}`) == null ? 'at no price' : figure(`changes.${i}.break_evens.${k}.${key}`, 'number');
    section(`When ${names[0]} and ${names[i + 1]} cost as much`, el('p', {}, `A million ${things} cost as much on both, if one of these prices changes.`),
      table([{name: 'price'}, {name: 'scenario'}, {name: currency + ' now', number: true}, {name: currency + ' then', number: true}],
        change.break_evens.map((point, k) => [words[point.price], point.scenario === null ? 'both' : names[point.scenario], at(k, 'value'), at(k, 'equal')])));
  });
}

function owning() {
  all.forEach((s, i) => {
    if (!s.money || !s.money.ownership) return;
    const path = `scenarios.${i}.money.ownership`;
    section('What owning costs: ' + names[i], ownershipTable(path, currency), breakEvenTable(path, currency));
  });
}

verdict();
figures();
times();
parts();
breakEvens();
owning();
if (answer.differences.length) section('Where they differ', table([{name: 'key'}, ...names.map(name => ({name, words: true}))], answer.differences.map(d => [d.path, ...d.values.map(v => v ?? '–')])));
assumptionSection();
section('In the terminal', el('pre', {}, page.screen.trimEnd()));
finish();
