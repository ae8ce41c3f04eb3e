// The page of `run`: one training step.
let answer, pictures;
const partHues = {compute: '#2b6ca3', compression: '#b5489a', bubble: '#a9b0b8', optimizer: '#4f9d4a', input: '#8858ad',
  framework: '#8c6d5d', other: '#6d737a'};
const exposedHues = ['#d62728', '#f0a830', '#e377a5', '#c05a12', '#f4c463', '#9c1f4c'];

/// The parts of a breakdown that are not 0, as [name, seconds]; exposed communication by group.
function partsOf(breakdown) {
  const parts = [];
  for (const [name, v] of Object.entries(breakdown)) {
    if (name === 'exposed_communication') for (const [group, s] of Object.entries(v)) parts.push(['exposed ' + group, s]);
    else parts.push([name, v]);
  }
  const order = ['compute', 'exposed', 'compression', 'bubble', 'optimizer', 'input', 'framework', 'other'];
  const place = ([name]) => order.findIndex(o => name.startsWith(o));
  return parts.filter(([, s]) => s > 0).sort((a, b) => place(a) - place(b));
}

/// The half that limits a loop, in a sentence.
const limitOf = loop => ({training: 'What limits it: training.', generation: 'What limits it: generation.', 'both in turn': 'Generation and training follow each other.'})[loop.limit];
/// The part of a loop that trains. Without rollouts there is no other half.
const trainingPart = loop => loop.generation_gpus ? 'training half' : 'training step';
/// A sentence under the heading of a section that is not about the whole answer; null: it is.
const scopeOfFigures = () => answer.post_training ? el('p', {class: 'quiet'}, `Of an optimizer step of the ${trainingPart(answer.post_training)}.`)
  : answer.generation ? el('p', {class: 'quiet'}, 'Of a forward pass of the plan.') : null;

function summary() {
  heading(answer.scenario, page.screen.split(/\n(?! {11})/)[0].replace(/\s+/g, ' '));
  verdict();
  const half = answer.post_training ? ` of the ${trainingPart(answer.post_training)}` : answer.generation ? ' of a forward pass' : '', whole = answer.post_training ? 'the whole loop' : 'the training';
  const ofLoop = answer.post_training ? [['post_training.step_time_s', 'seconds', 'loop step'], ['post_training.samples_per_s', 'number', 'answers/s'],
    ['gpus', 'number', 'GPUs of the loop']]
    : answer.generation ? [['generation.time_s', 'seconds', 'until the last answer'], ['generation.tokens_per_s', 'number', 'generated tokens/s'], ['generation.requests_per_s', 'number', 'answers/s']] : [];
  const cards = [...ofLoop, ['step_time_s', 'seconds', 'step time' + half], ['samples_per_s', 'number', 'samples/s' + half],
    ['tokens_per_s', 'number', 'tokens/s' + half], ['tokens_per_s_per_gpu', 'number', 'tokens/s per GPU' + half],
    ['tflops_per_gpu', 'number', 'TFLOP/s per GPU' + half], ['mfu', 'share', 'MFU, of the dense peak' + half],
    ['training_time_s', 'seconds', 'time of ' + whole], ['goodput', 'share', 'goodput']];
  const money = answer.money, of = money && `${money.currency} a million ${money.of_tokens ? 'tokens' : 'samples'}${answer.generation ? ' of forward passes' : ''}`;
  if (money) cards.push(['money.per_million', 'number', of + (money.per_million > 0 ? ', by rent and electricity' : '')], ['money.per_million_answers', 'number', money.currency + ' a million answers'], ['money.step', 'number', money.currency + (answer.post_training ? ' a loop step' : ' a step')],
    ['money.training', 'number', `${money.currency} for ${whole}`], ['money.ownership.purchase', 'number', money.currency + ' to buy'],
    ['money.ownership.per_million', 'number', of + ', bought and always in use']);
  if (money) cards.push(['money.ownership.total', 'number', `${money.currency} to own for ${money.ownership ? yearsOf(money.ownership.years) : ''}`]);
  cards.push(['tokens_per_J', 'number', 'tokens a joule, at the site' + (answer.generation ? half : '')]);
  if (money) cards.push(['energy.step_kWh', 'number', `kWh a ${answer.post_training ? 'loop ' : ''}step, at the site`], ['training_kWh', 'number', 'kWh for ' + whole]);
  const box = el('div', {class: 'cards'});
  for (const [path, unit, name] of cards)
    if (value(answer, path)) box.append(el('div', {class: 'card'}, el('b', {}, figure(path, unit)), el('span', {}, name,
      path === 'step_time_s' ? likely('step_time_interval_s', 'seconds') : path === 'post_training.step_time_s' ? likely('post_training.step_time_interval_s', 'seconds')
        : path === 'generation.time_s' ? likely('generation.time_interval_s', 'seconds') : path === 'generation.tokens_per_s' ? likely('generation.tokens_per_s_interval', 'number') : null)));
  const m = answer.memory_bytes;
  if (m && m.peak) {
    const hue = {yes: 'good', no: 'bad'}[answer.fits_in_words] || '', words = {yes: 'fits', no: 'does not fit'}[answer.fits_in_words] || answer.fits_in_words;
    box.append(el('div', {class: 'card'}, el('b', {class: hue}, figure(m.device ? 'memory_bytes.device' : 'memory_bytes.peak', 'bytes')),
      el('span', {}, 'of ', figure('memory_bytes.capacity', 'bytes'), m.device ? ' on the device' : '', `${half}: ${words}`,
        m.device ? likely('memory_interval_bytes', 'bytes') : null)));
  }
  if (answer.bottleneck && answer.bottleneck.resource) box.append(el('div', {class: 'card'},
    el('b', {}, figure('bottleneck.share', 'share')), el('span', {}, `bottleneck${half}: ${answer.bottleneck.resource}`)));
  main.append(box);
}

/// The answer in three sentences: what a step takes, what limits it, and which faster resource saves most of it. A loop
/// has a sentence of its own before those of its training half, and so have engines that answer prompts.
function verdict() {
  const step = answer.post_training ? `An optimizer step of the ${trainingPart(answer.post_training)}` : answer.generation ? 'A forward pass of the plan' : 'A step', memory = answer.memory_bytes;
  const range = answer.step_time_interval_s
    ? [' (', figure('step_time_interval_s.0', 'seconds'), ' to ', figure('step_time_interval_s.1', 'seconds'), ' with a probability of 80 %)'] : [];
  const time = value(answer, 'training_time_s') ? [answer.post_training ? ', all its steps ' : ', the whole training ', figure('training_time_s', 'seconds')] : [];
  const training = answer.post_training ? [] : time;
  const room = memory && memory.peak ? [`; its memory ${{yes: 'fits', no: 'does not fit'}[answer.fits_in_words] || `is ${answer.fits_in_words}`}: `,
    figure(memory.device ? 'memory_bytes.device' : 'memory_bytes.peak', 'bytes'), ' of ', figure('memory_bytes.capacity', 'bytes'), ' a GPU.'] : ['.'];
  const loop = answer.post_training, engines = answer.generation;
  const unmeasured = r => r && r.unmeasured ? ` The interval does not cover what no measured ${loop ? 'loop' : 'engine'} has: ${r.unmeasured}.` : '';
  const ofEngines = engines ? [el('p', {}, el('b', {}, 'All prompts are answered after ', figure('generation.time_s', 'seconds'),
    ...(engines.time_interval_s ? [' (', figure('generation.time_interval_s.0', 'seconds'), ' to ', figure('generation.time_interval_s.1', 'seconds'), ' with a probability of 80 %)'] : []),
    ', with ', figure('generation.tokens_per_s', 'number'), ' generated tokens a second on ', figure('gpus', 'number'), ' GPUs.'), ` Most of the time is for ${engines.engine_limit}.${unmeasured(engines)}`)] : [];
  const ofLoop = loop ? [el('p', {}, el('b', {}, 'A step of the loop takes ', figure('post_training.step_time_s', 'seconds'),
    ...(loop.step_time_interval_s ? [' (', figure('post_training.step_time_interval_s.0', 'seconds'), ' to ', figure('post_training.step_time_interval_s.1', 'seconds'), ' with a probability of 80 %)'] : []),
    ', with ', figure('post_training.samples_per_s', 'number'), ' answers a second on ', figure('gpus', 'number'), ' GPUs', ...time, '.'), ` ${limitOf(loop)}${unmeasured(loop)}`)] : [];
  const sentence = [step, ' takes ', figure('step_time_s', 'seconds'), ...range, ...training, ...room];
  const of = section('Verdict', ...ofLoop, ...ofEngines, el('p', {}, loop || engines ? sentence : el('b', {}, ...sentence)));
  if (answer.bottleneck && answer.bottleneck.resource)
    of.append(el('p', {}, `What limits ${loop ? `the ${trainingPart(loop)}` : engines ? 'the forward pass' : 'it'} most is ${answer.bottleneck.resource}, `, figure('bottleneck.share', 'share'), ' of its critical path.'));
  const tried = (answer.what_if || []).map((w, i) => ({w, i})).sort((a, b) => b.w.saves_share - a.w.saves_share);
  if (!tried.length) {
    of.append(el('p', {id: 'help'}, page.pending ? 'What would help most is being simulated …' : `What would help most was not simulated${answer.bottleneck && answer.bottleneck.resource ? `; only a faster ${answer.bottleneck.resource} shortens its part` : ''}.`));
    return;
  }
  const saves = ({w, i}) => [faster(w) + ' ', figure(`what_if.${i}.saves_share`, 'share')];
  const [most, next] = tried.filter(({w}) => w.saves_share >= 0.005);
  of.append(el('p', {id: 'help'}, ...(most ? ['What would help most: ', faster(most.w), ` saves `, figure(`what_if.${most.i}.saves_share`, 'share'), ` of ${loop ? 'the step of the loop' : engines ? 'the time until the last answer' : 'the step'}`, ...(next ? [', then ', ...saves(next)] : []), '.']
    : [`No single ${loop ? 'change' : 'faster resource'} saves 0.5 % of ${engines ? 'the time until the last answer' : 'the step'}.`])));
}

function breakdown() {
  if (!answer.breakdown_s) return;
  const bars = [{name: `step, rank ${answer.breakdown_rank}`, parts: new Map(partsOf(answer.breakdown_s))}];
  (answer.stages || []).forEach((s, i) => bars.push({name: `stage ${i}`, parts: new Map(partsOf(s.breakdown_s))}));
  const names = [...new Set(bars.flatMap(b => [...b.parts.keys()]))];
  if (!names.length) return;
  let exposed = 0;
  const hue = Object.fromEntries(names.map(n => [n, partHues[n] || exposedHues[exposed++ % exposedHues.length]]));
  const of = section('Where the time goes', scopeOfFigures());
  const columns = el('div', {class: 'columns'}), left = el('div'), total = answer.breakdown_step_time_s || answer.step_time_s;
  of.append(columns);
  columns.append(left, table([{name: 'part'}, {name: 'time', number: true}, {name: 'share', number: true}],
    partsOf(answer.breakdown_s).map(([name, s]) => {
      const group = name.startsWith('exposed ') ? `breakdown_s.exposed_communication.${name.slice(8)}` : `breakdown_s.${name}`;
      return [el('span', {}, swatch(hue[name]), name), figure(group, 'seconds'), units.share(s / total)];
    })));
  chart(left, 70 + 30 * bars.length + 22 * Math.ceil(names.length / 4), 'parts of the step', {type: 'bar',
    data: {labels: bars.map(b => b.name), datasets: names.map(n => ({label: n, backgroundColor: hue[n],
      data: bars.map(b => b.parts.get(n) || 0), barPercentage: 0.8}))},
    options: {indexAxis: 'y', scales: {x: axis('', v => units.seconds(v), {stacked: true, max: Math.max(...bars.map(b =>
      [...b.parts.values()].reduce((a, c) => a + c, 0)))}), y: {stacked: true}},
    plugins: {legend: {position: 'bottom'}, tooltip: {callbacks: {label: c => `${c.dataset.label}: ${units.seconds(c.raw)}`}}}}});
}

/// Engines that answer prompts, in a loop or without one.
function answerTimes(of, path) {
  of.append(el('p', {}, 'The first token of an answer comes after ', figure(path + '.answer_times_s.first_token', 'seconds'),
    ' in the mean, and 99 of 100 within ', figure(path + '.answer_times_s.first_token_p99', 'seconds'), '; then ',
    figure(path + '.answer_times_s.token', 'seconds'), ' from token to token.'));
}

function generation() {
  const r = answer.generation;
  if (!r) return;
  const of = section('Engines that answer prompts');
  of.append(el('p', {}, figure('generation.tokens_per_s', 'number'), ' tokens a second, ', figure('generation.tokens_per_s_per_gpu', 'number'),
    ' a GPU, and ', figure('generation.requests_per_s', 'number'), ` answers a second. Most of the time is for ${r.engine_limit}.`));
  answerTimes(of, 'generation');
  of.append(el('p', {}, 'At its peak the cache has ', figure('generation.engine_memory_bytes.cache_peak', 'bytes'), ' of ',
    figure('generation.engine_memory_bytes.cache', 'bytes'), ' a GPU.'));
}

function loop() {
  const r = answer.post_training;
  if (!r) return;
  const words = {generation: 'GPUs generate', training: 'GPUs train', critic: 'GPUs of the critic', all: 'GPUs', both: 'GPUs do both'};
  const pieces = r.pools.flatMap((pool, row) => pool.parts.map(p => ({...p, row})));
  const hue = {generation: '#2b6ca3', 'log-probabilities': '#8858ad', training: '#4f9d4a', loop: '#8c6d5d', weights: '#f0a830',
    reload: '#c05a12', critic: '#3c9d9b', waiting: '#d5d9dd'};
  const of = section('The loop');
  of.append(el('p', {}, 'A step takes ', figure('post_training.step_time_s', 'seconds'), ', with ',
    figure('post_training.samples_per_s', 'number'), ' answers a second. ', limitOf(r)));
  if (r.generation_gpus > 0) answerTimes(of, 'post_training');
  const box = el('div');
  of.append(box);
  chart(box, 90 + 40 * r.pools.length, 'what each pool of GPUs does in a step', {type: 'bar',
    data: {labels: r.pools.map(p => `${p.gpus} ${words[p.pool]}`), datasets: pieces.map(p => ({label: p.part, backgroundColor: hue[p.part],
      data: r.pools.map((_, row) => row === p.row ? [p.begin_s, p.end_s] : null), grouped: false, barPercentage: 0.8}))},
    options: {indexAxis: 'y', scales: {x: axis('', v => units.seconds(v), {min: 0, max: r.step_time_s})},
    plugins: {legend: {position: 'bottom', labels: {filter: l => pieces.findIndex(p => p.part === l.text) === l.datasetIndex}},
      tooltip: {callbacks: {label: c => `${c.dataset.label}: ${units.seconds(c.raw[1] - c.raw[0])}`}}}}});
  const failures = answer.failures;
  if (!failures || !failures.pools) return;
  of.append(el('p', {}, 'With failures and checkpoints, ', figure('goodput', 'share'), ' of the time of ',
    figure('failures.training_time_s', 'seconds'), ' is useful.'),
  table([{name: 'pool'}, {name: 'GPUs', number: true}, {name: 'failures', number: true}, {name: 'lost time', number: true},
    {name: 'share', number: true}], failures.pools.map(p => [p.pool, p.gpus, digits(p.failures), units.seconds(p.lost_s),
    units.share(p.lost_s / failures.training_time_s)])));
}

function stages() {
  if (!(answer.stages || []).length) return;
  const sum = o => Object.values(o).reduce((a, b) => a + b, 0), n = (v, unit) => ({text: units[unit](v), sort: v});
  section('Pipeline stages', table([{name: 'stage', number: true}, {name: 'layers, embedding and head among them', number: true}, {name: 'compute', number: true},
    {name: 'exposed', number: true}, {name: 'bubble', number: true}, {name: 'optimizer', number: true},
    {name: 'peak memory', number: true}, {name: 'parameters', number: true}, {name: 'activations', number: true}],
  answer.stages.map((s, i) => [{text: i, sort: i}, {text: s.layers, sort: s.layers}, n(s.breakdown_s.compute, 'seconds'),
    n(sum(s.breakdown_s.exposed_communication), 'seconds'), n(s.breakdown_s.bubble, 'seconds'),
    n(s.breakdown_s.optimizer, 'seconds'), n(s.memory_bytes.peak, 'bytes'), n(s.memory_bytes.parameters, 'bytes'),
    n(s.memory_bytes.activations, 'bytes')]), true));
}

const gib = 2 ** 30, shortBytes = v => digits(v) + ' GiB';
function memory() {
  const m = answer.memory_bytes;
  if (!m || !m.peak) return;
  const of = section('Memory', scopeOfFigures()), columns = el('div', {class: 'columns'}), left = el('div');
  of.append(columns);
  columns.append(left);
  const parts = ['parameters', 'gradients', 'optimizer', 'activations', 'buffers'].filter(k => m[k] > 0);
  columns.append(el('div', {}, el('p', {class: 'quiet'}, `at the peak of rank ${m.rank}, the fullest`),
    table([{name: 'holds'}, {name: 'bytes', number: true}],
      parts.map((k, i) => [el('span', {}, swatch(hues[i]), k), figure('memory_bytes.' + k, 'bytes')])
        .concat([['peak', 'peak'], ['device', 'on the device'], ['capacity', 'capacity']].filter(([key]) => m[key])
          .map(([key, name]) => [name, figure('memory_bytes.' + key, 'bytes')])))));
  const t = pictures.timeline;
  if (!t) {
    chart(left, 150, 'memory at the peak', {type: 'bar', data: {labels: ['peak'], datasets: parts.map((k, i) =>
      ({label: k, data: [m[k] / gib], backgroundColor: hues[i]}))}, options: {indexAxis: 'y',
      scales: {x: axis('', shortBytes, {stacked: true, max: Math.max(m.capacity, m.peak) / gib}), y: {stacked: true}}, plugins: {legend: {position: 'bottom'}}}});
    return;
  }
  const sets = t.ranks.filter(r => r.memory.length).map((r, i) => {
    const points = [];
    for (let k = 0; k < r.memory.length; k += 2) points.push({x: r.memory[k] * t.tick_s, y: r.memory[k + 1] / gib});
    points.push({x: t.end * t.tick_s, y: points[points.length - 1].y});
    return {label: `rank ${r.rank}`, data: points, stepped: true, borderColor: hues[i % hues.length], borderWidth: 1.3, pointRadius: 0,
      hidden: i >= 8};
  });
  const end = t.end * t.tick_s;
  sets.push({label: 'capacity', data: [{x: 0, y: m.capacity / gib}, {x: end, y: m.capacity / gib}], borderColor: '#d62728', borderDash: [5, 4],
    borderWidth: 1.3, pointRadius: 0});
  chart(left, 300, 'memory over time', {type: 'line', data: {datasets: sets}, options: {parsing: false, normalized: true,
    interaction: {mode: 'nearest', axis: 'x', intersect: false},
    scales: {x: axis('time', v => units.seconds(v), {type: 'linear', min: 0, max: end}), y: axis('', shortBytes, {beginAtZero: true})},
    plugins: {legend: {position: 'bottom'}, tooltip: {callbacks: {title: c => units.seconds(c[0].parsed.x),
      label: c => `${c.dataset.label}: ${units.bytes(c.parsed.y * gib)}`}}}}});
}

// Colours of the traffic from low to high: blue, yellow, red; grey if there is none.
const heat = share => share <= 0 ? '#b5bac1' : `hsl(${Math.round(210 - 210 * Math.min(1, share) ** 0.6)} 75% 45%)`;
function machine() {
  const m = pictures.machine;
  if (!m) return;
  const box = el('div', {class: 'machine scroll'});
  box.innerHTML = m.svg;
  for (const cable of box.querySelectorAll('[data-busy]')) {
    const share = Number(cable.dataset.busy);
    cable.setAttribute('stroke', heat(share));
    cable.setAttribute('stroke-width', 1.5 + 4 * Math.min(1, share));
    const title = document.createElementNS('http://www.w3.org/2000/svg', 'title');
    title.textContent = `${cable.dataset.link}: ${units.share(share)} busy`;
    cable.append(title);
  }
  const busy = v => ({text: el('span', {}, swatch(heat(v)), units.share(v)), sort: v});
  const scale = `background:linear-gradient(90deg,${[0.001, 0.1, 0.25, 0.5, 0.75, 1].map(heat).join(',')})`;
  section('Machine', scopeOfFigures(), el('p', {class: 'legend'}, el('span', {}, 'busy: 0 % ', el('span', {class: 'heat', style: scale}), ' 100 % of the step, at the rate of the link')), box,
    m.links.length ? table([{name: 'link'}, {name: 'from'}, {name: 'to'}, {name: 'links', number: true}, {name: 'rate of each', number: true},
      {name: 'bytes a step, all', number: true}, {name: 'busy, mean', number: true}, {name: 'busiest', number: true}],
    m.links.map(l => [l.kind, l.from, l.to, {text: l.count, sort: l.count}, {text: units.rate(l.rate_Bps), sort: l.rate_Bps},
      {text: units.bytes(l.bytes), sort: l.bytes}, busy(l.busy_mean), busy(l.busy_max)]), true) : el('p', {}, 'No message crosses a link.'));
}

function whatIf() {
  const all = (answer.what_if || []).slice().sort((a, b) => b.saves_share - a.saves_share), time = w => w.step_time_s ?? w.loop_time_s ?? w.generation_time_s;
  if (!all.length) return;
  const of = section(answer.post_training ? 'What if the loop were changed' : 'What if it were faster'), columns = el('div', {class: 'columns'}), left = el('div');
  of.append(columns);
  columns.append(left, table([{name: answer.post_training ? 'change' : 'made faster'}, {name: answer.generation ? 'all after' : 'step', number: true}, {name: 'saves', number: true}],
    all.map(w => [faster(w), {text: units.seconds(time(w)), sort: time(w)},
      {text: units.share(w.saves_share), sort: w.saves_share}]), true));
  chart(left, 60 + 26 * all.length, 'what faster resources save', {type: 'bar', data: {labels: all.map(faster),
    datasets: [{data: all.map(w => w.saves_share * 100), backgroundColor: '#3a9a5b'}]}, options: {indexAxis: 'y',
    scales: {x: axis(answer.generation ? 'of the time until the last answer that it saves' : 'of the step time that it saves', v => v + ' %')}, plugins: {legend: {display: false},
      tooltip: {callbacks: {label: c => `${digits(c.raw)} %, step ${units.seconds(time(all[c.dataIndex]))}`}}}}});
}

function path() {
  const shares = Object.entries(answer.critical_path_s || {}).filter(([, s]) => s > 0).sort((a, b) => b[1] - a[1]);
  if (!shares.length) return;
  const of = section('What the step waits for', scopeOfFigures()), columns = el('div', {class: 'columns'}), left = el('div');
  of.append(columns);
  columns.append(left, table([{name: 'resource on the critical path'}, {name: 'time', number: true}, {name: 'share', number: true}],
    shares.map(([name, s]) => [name, figure(`critical_path_s.${name}`, 'seconds'), units.share(s / answer.step_time_s)])));
  chart(left, 50 + 26 * shares.length, 'critical path by resource', {type: 'bar', data: {labels: shares.map(([n]) => n),
    datasets: [{data: shares.map(([, s]) => s), backgroundColor: '#2b6ca3'}]}, options: {indexAxis: 'y',
    scales: {x: axis('', v => units.seconds(v))}, plugins: {legend: {display: false}, tooltip: {callbacks: {label: c => units.seconds(c.raw)}}}}});
}

function footing() {
  const s = answer.sources || [], open = s.filter(f => f.unverified).length;
  section('How far to trust it', el('pre', {class: 'screen'}, page.screen.trimEnd()), el('pre', {class: 'paper'}, page.screen.slice(page.screen.lastIndexOf('\ntrust ')).trim()),
    el('details', {}, el('summary', {}, `${s.length} figures with their sources, ${open} of them unverified`),
      table([{name: 'figure'}, {name: 'value'}, {name: 'source', words: true}], s.map(f => [f.figure, f.value,
        {text: (f.unverified ? 'unverified: ' : '') + f.source, sort: f.source}]), true)));
}

/// What buying the cluster costs, and when that is less than a rent.
function owning() {
  const m = answer.money;
  if (!m || !m.ownership) return;
  const path = 'money.ownership';
  section('What owning costs', ownershipTable(path, m.currency), breakEvenTable(path, m.currency),
    el('p', {class: 'quiet'}, 'Always in use. To buy below a price: the whole cluster, or one of its nodes, with all other prices as they are.'));
}

function drawRun() {
  answer = page.answer;
  pictures = page.pictures || {};
  summary();
  generation();
  loop();
  breakdown();
  if (pictures.timeline) timeline(pictures.timeline);
  else if (pictures.left_out) section('Timeline', el('p', {class: 'quiet'}, 'Left out: ' + pictures.left_out + '.'));
  path();
  stages();
  memory();
  machine();
  whatIf();
  owning();
  assumptionSection();
  footing();
  finish();
}
if (page.answer) drawRun();
