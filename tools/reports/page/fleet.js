// The page of `fleet`: the verdict, which training has which nodes over time, and the trainings with their waits and ends.
const answer = page.answer, groups = answer.groups, rows = answer.trainings, days = answer.horizon_s > 864000;
const span = days ? 86400 : 3600, unit = days ? 'days' : 'hours';
const hue = group => hues[group % hues.length];
const optional = path => value(answer, path) === undefined ? {text: '–', sort: -1} : at(path, 'number');
const at = (path, unit) => ({text: figure(path, unit), sort: value(answer, path)});

function verdict() {
  heading('Nodes for ' + answer.name, `${rows.length} training${rows.length === 1 ? '' : 's'} on ${answer.cluster} for ${units.seconds(answer.horizon_s)}`);
  const [takes, ...more] = sentences(answer.verdict), [limits, ...why] = sentences(answer.limit);
  const change = more.find(s => /would be enough|is enough either|on a cluster of its own/.test(s)) || more.find(s => s.startsWith('Steps take '));
  section('Verdict', ...verdictOf(takes, limits, change, [...more.filter(s => s !== change), ...why]), answer.left_out ? el('p', {class: 'quiet'}, 'Left out: ' + answer.left_out) : null);
  const card = (shown, name) => el('div', {class: 'card'}, el('b', {}, shown), el('span', {}, name));
  const cost = (answer.costs || [])[0];
  main.append(el('div', {class: 'cards'}, card(figure('nodes', 'number'), `nodes, ${answer.spares} of them spare`),
    card(el('span', {}, figure('runs_in_time', 'number'), ' of ', figure('runs', 'number')), 'runs without a late training'),
    answer.enough_nodes ? card(figure('enough_nodes', 'number'), `nodes would be enough, ${answer.enough_spares} of them spare`) : null,
    card(figure('mean_queue', 'number'), 'trainings wait on average'),
    cost ? card(figure('costs.0.cost', 'number'), `${answer.currency}, ${cost.terms}`) : null));
}

/// Gives each stay nodes that are free at its beginning, the lowest numbers first. Returns runs of neighbouring nodes.
function placed(stays) {
  const until = new Array(answer.nodes).fill(-Infinity), boxes = [];
  for (const [row, group, begin, end, nodes] of [...stays].sort((a, b) => a[2] - b[2])) {
    let left = nodes, run = null;
    for (let node = 0; node < until.length && left > 0; node++) {
      if (until[node] > begin + 1e-6) { run = null; continue; }
      until[node] = end;
      left--;
      if (run) run.count++;
      else boxes.push(run = {row, group, begin, end, first: node, count: 1});
    }
  }
  return boxes;
}

function timeline() {
  const boxes = placed(page.stays), last = Math.max(answer.horizon_s, ...boxes.map(b => b.end));
  const canvas = el('canvas', {role: 'img', 'aria-label': 'nodes over time, with the training that has each'}), tip = el('div', {class: 'tip', hidden: true});
  const box = el('div', {class: 'timeline'}, canvas, tip), top = 22, left = 34;
  let width = 0, height = 0;
  const x = seconds => left + seconds / last * (width - left - 6), y = node => top + node / answer.nodes * (height - top - 6);
  const shape = b => [x(b.begin), y(b.first), Math.max(1, x(b.end) - x(b.begin) - 0.5), Math.max(1, y(b.first + b.count) - y(b.first) - 0.5)];
  function draw() {
    const ratio = window.devicePixelRatio || 1;
    width = box.clientWidth || 800;
    height = top + 6 + Math.min(420, Math.max(120, answer.nodes * 14));
    canvas.width = width * ratio; canvas.height = height * ratio; canvas.style.height = height + 'px';
    const g = canvas.getContext('2d');
    g.scale(ratio, ratio);
    g.font = '11px system-ui, Helvetica, Arial, sans-serif';
    g.textBaseline = 'middle';
    const step = niceStep(last / span / Math.max(3, (width - left) / 80));
    for (let t = 0; t * span <= last; t += step) {
      g.fillStyle = colour('rule');
      g.fillRect(x(t * span), 18, 1, height);
      g.fillStyle = colour('quiet');
      if (x(t * span) < width - 30) g.fillText(digits(t), x(t * span) + 3, 10);
    }
    const rows = niceStep(Math.max(1, answer.nodes / (height / 40)));
    g.textAlign = 'right';
    for (let node = 0; node < answer.nodes; node += rows) g.fillText(digits(node), left - 5, y(node + 0.5));
    g.textAlign = 'left';
    for (const b of boxes) {
      const [bx, by, w, h] = shape(b);
      g.fillStyle = hue(b.group);
      g.fillRect(bx, by, w, h);
      const name = answer.trainings[b.row].name;
      if (h > 12 && g.measureText(name).width < w - 8) { g.fillStyle = '#fff'; g.fillText(name, bx + 4, by + h / 2); }
    }
    g.fillStyle = colour('bad');
    if (last > answer.horizon_s) g.fillRect(x(answer.horizon_s), top, 1, height - top);
  }
  box.addEventListener('pointermove', e => {
    const px = e.offsetX, py = e.offsetY, b = boxes.find(b => { const [bx, by, w, h] = shape(b); return px >= bx && px <= bx + w && py >= by && py <= by + h; });
    tip.hidden = !b;
    if (!b) return;
    const t = answer.trainings[b.row];
    tip.textContent = `${t.name}: ${units.seconds(b.end - b.begin)} from ${digits(b.begin / span)} to ${digits(b.end / span)} ${unit}, ${t.in_time ? 'in time' : 'late'}`;
    tip.style.left = Math.min(px + 12, Math.max(0, width - 200)) + 'px';
    tip.style.top = py + 12 + 'px';
  });
  box.addEventListener('pointerleave', () => { tip.hidden = true; });
  section('Nodes over time', el('div', {class: 'legend'}, groups.map((group, i) => el('span', {}, swatch(hue(i)), group.training)), el('span', {}, 'empty: idle, spare or in repair')), box,
    el('p', {class: 'quiet'}, `Run ${answer.shown_run}, in ${unit}; rows are nodes.` + (last > answer.horizon_s ? ' Red: the horizon.' : '')
      + ' A training keeps its number of nodes until it is interrupted; which ones it has is drawn as if they were dealt from the first.'));
  redraws.push(draw);
  if (window.ResizeObserver) new ResizeObserver(draw).observe(box);
  draw();
}

function use() {
  const names = [['steps', 'steps'], ['checkpoints', 'checkpoints'], ['lost_to_failures', 'repeated after failures'], ['lost_to_preemption', 'repeated after preemption'],
    ['restarts', 'restarts'], ['idle', 'idle'], ['spare', 'spare'], ['repair', 'repair']].filter(([key]) => answer.node_hours[key] > 0);
  const e = section('Where the node-hours go');
  chart(e, 40 + 26 * names.length, 'node-hours by use', {type: 'bar', data: {labels: names.map(([, words]) => words),
    datasets: [{data: names.map(([key]) => answer.node_hours[key] / answer.node_hours.sum * 100), backgroundColor: names.map(([key]) => key === 'steps' ? hues[0] : '#b9bfc7')}]},
    options: {indexAxis: 'y', scales: {x: axis('share of the node-hours in %', v => digits(v)), y: {ticks: {autoSkip: false}}}, plugins: {legend: {display: false}}}});
}

function tables() {
  const share = i => at(`groups.${i}.in_time_share`, 'share');
  section('Trainings', table([{name: 'training'}, {name: 'arrivals', number: true}, {name: 'in time', number: true}, {name: 'mean wait', number: true}, {name: 'from arrival to end', number: true},
    {name: 'longest', number: true}, {name: 'mean failures', number: true}, {name: 'mean stops', number: true}, {name: 'tokens/J', number: true}, ...(answer.currency ? [{name: answer.currency, number: true}, {name: `${answer.currency} a million tokens`, number: true}] : [])],
    groups.map((group, i) => [el('span', {}, swatch(hue(i)), group.training), at(`groups.${i}.arrivals`, 'number'), share(i), at(`groups.${i}.mean_wait_s`, 'seconds'), at(`groups.${i}.mean_time_s`, 'seconds'),
      at(`groups.${i}.longest_time_s`, 'seconds'), at(`groups.${i}.failures`, 'number'), at(`groups.${i}.preemptions`, 'number'),
      optional(`groups.${i}.tokens_per_J`), ...(answer.currency ? [optional(`groups.${i}.cost`), optional(`groups.${i}.money_per_million`)] : [])]), true),
    el('p', {class: 'quiet'}, `Means over the arrivals of ${answer.runs === 1 ? 'the run' : `${answer.runs} runs`}; stops: for other trainings.`));
  const time = seconds => ({text: digits(seconds / span, 4), sort: seconds});
  section('Arrivals', table([{name: `run ${answer.shown_run}`}, ...['arrival', 'start', 'end', 'due'].map(name => ({name: `${name}, ${unit}`, number: true})), {name: 'nodes'},
    {name: 'waits', number: true}, {name: 'repeated', number: true}, {name: 'failures', number: true}, {name: 'stops', number: true}, {name: 'in time'}],
    rows.map(r => [r.name, time(r.arrival_s), time(r.start_s), time(r.end_s), time(r.due_s), r.nodes.slice(0, 4).join(', ') + (r.nodes.length > 4 ? ', …' : ''),
      {text: units.seconds(r.waiting_s), sort: r.waiting_s}, {text: units.seconds(r.lost_to_failures_s + r.lost_to_preemption_s), sort: r.lost_to_failures_s + r.lost_to_preemption_s},
      {text: digits(r.failures), sort: r.failures}, {text: digits(r.preemptions), sort: r.preemptions}, r.in_time ? 'yes' : el('span', {class: 'bad'}, 'no')]), true),
    el('p', {class: 'quiet'}, `Nodes: of each stay. Repeated: steps that failures or preemption undid.`));
  section('Steps', table([{name: 'training'}, {name: 'nodes', number: true}, {name: 'step', number: true}, {name: '80 % interval', number: true}, {name: 'alone', number: true}, {name: 'memory'}],
    answer.steps.map((s, i) => [s.training, at(`steps.${i}.nodes`, 'number'), at(`steps.${i}.step_time_s`, 'seconds'), s.step_time_interval_s ? s.step_time_interval_s.map(v => units.seconds(v)).join(' to ') : '–',
      at(`steps.${i}.alone_time_s`, 'seconds'), s.out_of_memory_probability < 0.05 ? 'fits' : el('span', {class: 'bad'}, 'at risk, ', figure(`steps.${i}.out_of_memory_probability`, 'share'))]), true), el('p', {class: 'quiet'}, 'Alone: the whole training with its checkpoints, if nothing interrupts it. At risk: the probability to run out of memory.'));
}

/// The cost of the whole cluster by each way to pay.
function costs() {
  const all = answer.costs || [];
  if (all.length) section('Ways to pay', table([{name: 'paid'}, {name: `${answer.currency} for the horizon`, number: true}, {name: 'a node-hour', number: true}, {name: 'years', number: true}, {name: `${answer.currency} to own for them`, number: true}],
    all.map((c, i) => [c.terms, at(`costs.${i}.cost`, 'number'), at(`costs.${i}.node_hour`, 'number'), optional(`costs.${i}.years`), optional(`costs.${i}.total`)]), true));
  if (answer.ownership) section('What owning costs', ownershipTable('ownership', answer.currency), breakEvenTable('ownership', answer.currency),
    el('p', {class: 'quiet'}, 'A year with the power that the cluster takes in this fleet; in use from: share of the year in which it takes it.'));
}

verdict();
timeline();
use();
tables();
costs();
assumptionSection();
section('In the terminal', el('pre', {}, page.screen.trimEnd()));
finish();
