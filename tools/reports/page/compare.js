// The page of `compare`: scenarios side by side, where their time goes, what they cost, and where they differ.
const answer = page.answer, all = answer.scenarios, names = all.map(s => s.scenario), first = all[0];
const of = (i, path) => value(all[i], path), shown = (i, path, unit) => of(i, path) === undefined ? '–' : figure(`scenarios.${i}.${path}`, unit);
const money = (all.find(s => s.money) || {}).money, currency = money ? money.currency : '', things = money && !money.of_tokens ? 'samples' : 'tokens';
const stepOf = i => of(i, 'post_training.step_time_s') ?? of(i, 'step_time_s');

/// Who is fastest, who is cheapest and who needs the least energy, each in a sentence.
function verdict() {
  heading('Side by side: ' + names.join(', '), `${all.length} scenarios`);
  const least = (path, sign = 1) => {
    const known = all.map((_, i) => i).filter(i => of(i, path) > 0);
    return known.length < 2 ? null : known.sort((a, b) => sign * (of(a, path) - of(b, path)));
  };
  const sentence = (words, path, unit, order, ends) => order ? el('p', {}, words === 'fast' ? el('b', {}, `${names[order[0]]} has the most ${ends}: `, figure(`scenarios.${order[0]}.${path}`, unit), ', ', units.signed(of(order[0], path) / of(order[1], path) - 1), ` beside ${names[order[1]]}.`)
    : [`${names[order[0]]} ${ends}: `, figure(`scenarios.${order[0]}.${path}`, unit), ', ', units.signed(of(order[0], path) / of(order[1], path) - 1), ` beside ${names[order[1]]}.`]) : null;
  const rate = first.tokens_per_s ? 'tokens_per_s' : 'samples_per_s';
  section('Verdict', sentence('fast', rate, 'number', least(rate, -1), first.tokens_per_s ? 'tokens a second' : 'samples a second'),
    sentence('', 'money.per_million', 'number', least('money.per_million'), `costs least to rent for a million ${things} (${currency})`),
    sentence('', 'money.ownership.per_million', 'number', least('money.ownership.per_million'), `costs least to own for a million ${things} (${currency})`),
    sentence('', 'tokens_per_J', 'number', least('tokens_per_J', -1), 'needs the least energy, in tokens a joule'));
}

function figures() {
  const rows = [['step time', 'step_time_s', 'seconds'], ['loop step', 'post_training.step_time_s', 'seconds'], ['shortest in 80 % of cases', 'step_time_interval_s.0', 'seconds'], ['longest in 80 % of cases', 'step_time_interval_s.1', 'seconds'],
    ['GPUs', 'gpus', 'number'], ['samples/s', 'samples_per_s', 'number'], ['tokens/s', 'tokens_per_s', 'number'], ['MFU', 'mfu', 'share'], ['memory at the peak', 'memory_bytes.peak', 'bytes'], ['goodput', 'goodput', 'share'],
    ['time of the training', 'training_time_s', 'seconds'], ['tokens a joule, at the site', 'tokens_per_J', 'number'], ['kWh a step', 'energy.step_kWh', 'number'], [`${currency} a million ${things}, rented`, 'money.per_million', 'number'],
    [`${currency} for the training, rented`, 'money.training', 'number'], [`${currency} to buy`, 'money.ownership.purchase', 'number'], [`${currency} a year of owning`, 'money.ownership.year', 'number'],
    [`${currency} to own for all years of depreciation`, 'money.ownership.total', 'number'], [`${currency} a million ${things}, owned`, 'money.ownership.per_million', 'number'], [`${currency} for the training, owned`, 'money.ownership.training', 'number']];
  section('Figures', table([{name: 'figure'}, ...names.map(name => ({name, number: true}))],
    rows.filter(([, path]) => all.some((_, i) => of(i, path))).map(([words, path, unit]) => [words, ...all.map((_, i) => shown(i, path, unit))])));
}

function times() {
  const parts = b => Object.entries(b || {}).flatMap(([name, v]) => name === 'exposed_communication' ? Object.entries(v).map(([group, s]) => ['exposed ' + group, s]) : [[name, v]]).filter(([, s]) => s > 0);
  const found = [...new Set(all.flatMap(s => parts(s.breakdown_s).map(([name]) => name)))];
  if (!found.length) return;
  chart(section('Where the time goes'), 70 + 34 * all.length + 22 * Math.ceil(found.length / 4), 'parts of the steps', {type: 'bar', data: {labels: names, datasets: found.map((name, i) => ({label: name, backgroundColor: hues[i % hues.length], barPercentage: 0.8,
    data: all.map(s => Object.fromEntries(parts(s.breakdown_s))[name] || 0)}))}, options: {indexAxis: 'y', scales: {x: axis('', v => units.seconds(v), {stacked: true}), y: {stacked: true}},
    plugins: {legend: {position: 'bottom'}, tooltip: {callbacks: {label: c => `${c.dataset.label}: ${units.seconds(c.raw)}`}}}}});
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
owning();
if (answer.differences.length) section('Where they differ', table([{name: 'key'}, ...names.map(name => ({name, words: true}))], answer.differences.map(d => [d.path, ...d.values.map(v => v ?? '–')])));
assumptionSection();
section('In the terminal', el('pre', {}, page.screen.trimEnd()));
finish();
