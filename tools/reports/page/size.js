// The page of `size`: the verdict, the ways to pay side by side, what would change the decision, and the assumptions.
const answer = page.answer, choices = answer.choices || [], rows = answer.rows || [], currency = answer.currency || '';
const cell = (path, unit) => value(answer, path) === undefined ? {text: '–', sort: -1} : {text: figure(path, unit), sort: value(answer, path)};
const counted = answer.counted_network;
const cluster = row => `${row.number ? `perhaps ${row.number} ` : ''}${row.nodes} × ${row.node}` + (row.beside ? ` beside ${row.beside_nodes} × ${row.beside}` : '') + (row.network && row.network !== counted ? ', ' + row.network : '');
/// The same as a cell whose lines break between its parts only.
const clusterCell = row => ({text: cluster(row).split(/(?<= beside )|(?<=, )/).map(part => el('span', {class: 'whole'}, part)), sort: cluster(row)});
/// The way to pay for a cluster, if it is a rent.
const terms = row => row.terms && row.terms !== 'purchase' ? ` (${row.terms})` : '';
const risk = row => row.out_of_memory_probability >= 0.05 ? `at risk: out of memory with ${units.share(row.out_of_memory_probability)}` : '';
const power = watts => watts === undefined ? '–' : scaled(watts, [[1e6, 'MW'], [1e3, 'kW'], [1, 'W']]);
/// The words for a price or a limit of the question.
function quantity(key) {
  const names = [[/^time of (.*) in % of the simulated$/, 'time of the training on $1'], [/^depreciation in years$/, 'time of depreciation'], [/^kw_month$/, 'price of space for a kW and month'], [/ in (days|kW|%)$/, ''], [/^gpu_hour of /, 'hourly rent of '], [/^node_hour of /, 'hourly rent of a node '], [/^purchase of /, 'price of '], [/^kwh/, 'price of a kWh'], [/^tokens$/, 'length of the training']];
  const [pattern, words] = names.find(([p]) => p.test(key)) || [/^/, ''];
  return key.replace(pattern, words);
}
/// The amount of threshold `i`, with its unit, as the screen writes it. `key`: value (now) or threshold.
const amount = (i, key) => el('span', {title: `thresholds.${i}.${key}: ${answer.thresholds[i][key]}`}, page.threshold_amounts[i][key]);

/// The unit of a price whose owner the row names.
const unit = (key, node) => [[/^gpu_hour of /, 'a GPU-hour'], [/^node_hour of /, 'a node-hour'], [/^purchase of /, key.slice(12).toLowerCase().replace(/_/g, '-') === node ? 'a node' : 'a GPU']].filter(([p]) => p.test(key)).map(([, words]) => words)[0] || quantity(key);
/// The word behind a time of `units.days`, which itself says minutes.
const dayWord = days => days > 0 && days < 0.1 ? 'for the training' : 'days';
/// An interval of days with one unit for both of its ends, that of the lower one.
function span([low, high]) {
  const [unit, ofDay] = low >= 0.1 ? ['', 1] : low * 24 >= 1 ? [' h', 24] : low * 1440 >= 1 ? [' min', 1440] : [' s', 86400];
  return `${digits(low * ofDay)} to ${digits(high * ofDay)}${unit}`;
}
/// A probability; nearly 1 is what no measurement can say.
/// A chance below the requested one is cut to a hundredth, not rounded, so that it never seems to reach it.
const chance = path => {
  const v = value(answer, path), asked = answer.confidence || 0;
  return v > 0.995 ? '> 99 %' : v < asked && Math.round(v * 1000) / 1000 >= asked ? `${(Math.floor(v * 1e4 + 1e-6) / 100).toFixed(2)} %` : figure(path, 'share');
};

function verdict() {
  const limits = [`${units.days(answer.deadline_days)}${answer.deadline_days < 0.1 ? '' : ' days'}`, answer.budget && `${digits(answer.budget, 4)} ${currency} to ${answer.total_cost_years ? `own for ${yearsOf(answer.total_cost_years)}` : answer.purchase ? 'buy' : 'spend'}`,
    answer.confidence && `met with a probability of ${units.share(answer.confidence)}`].filter(Boolean);
  heading('Which machine for ' + answer.scenario, 'conditions: ' + limits.join(', '));
  if (answer.unfinished) main.append(el('p', {class: 'bad'}, `Not finished: ${answer.unfinished}. This is what was found.`));
  const v = answer.verdict;
  const [reason, ...reasons] = sentences(v && v.reason), [change, ...moreChanges] = sentences(v && v.changes);
  section('Verdict', v ? verdictOf(v.decision, reason, change, [...reasons, ...moreChanges]) : el('p', {}, 'No size was searched to its end.'));
  const at = choices.findIndex(c => c.decision), best = answer.cheapest ? 'cheapest' : answer.nearest ? 'nearest' : null;
  const card = (shown, name) => el('div', {class: 'card'}, el('b', {}, shown), el('span', {}, name));
  const of = at < 0 ? best : `choices.${at}`, c = of && value(answer, of);
  if (!c) return;
  const likely = at < 0 ? null : c.days_interval;
  main.append(el('div', {class: 'cards'}, card(cluster(c).replaceAll('-', '\u2011'), 'nodes' + (c.network ? `, with the network ${c.network}` : '')), card(figure(of + (at < 0 ? '.end_days' : '.days'), 'days'), likely
      ? `${dayWord(c.days)} (${span(likely)} with a probability of 80 %)` : dayWord(value(answer, of + (at < 0 ? '.end_days' : '.days')))),
    c.on_time_probability === undefined ? null : card(chance(of + '.on_time_probability'), 'probability to be in time'),
    c.money === undefined || (at < 0 && !answer.purchase) ? null : card(figure(of + '.money', 'number'), currency + ' for the training'),
    risk(c) ? card(units.share(c.out_of_memory_probability), 'probability to run out of memory') : null,
    at < 0 || c.purchase === undefined ? null : card(figure(of + '.purchase', 'number'), currency + ' to buy'),
    at < 0 || c.total === undefined || !answer.purchase ? null : card(figure(of + '.total', 'number'), `${currency} to own for ${yearsOf(answer.cheapest.ownership.years)} of use`),
    c.power_W === undefined ? null : card(power(c.power_W), 'mean power of the site')));
}

/// The parts of what the bought cluster costs to buy, in a year, and in the years of depreciation.
function owning() {
  const best = answer.cheapest ? 'cheapest' : 'nearest', o = answer[best] && answer[best].ownership;
  if (!o) return;
  const at = `${best}.ownership`;
  section('What owning costs', ownershipTable(at, currency), breakEvenTable(at, currency),
    el('p', {class: 'quiet'}, 'The cluster is always in use. To buy below a price: the whole cluster, or one of its nodes, with all other prices as they are. '
      + (!answer.purchase ? 'The cheapest way to pay for the training decides.' : answer.total_cost_years ? 'The cost in all these years decides.' : 'The purchase price decides; --by total-cost decides by the cost in all these years.')));
}

/// The ways to pay: a table, and a bar for the cost of each.
function waysToPay() {
  if (!choices.length) return;
  const breaks = c => c.break_even === undefined ? '' : `${c.decision ? 'up to ' : ''}${digits(c.break_even, 4)} ${unit(c.quantity, c.node)} (now ${digits(c.price, 4)})`;
  const e = section('Ways to pay', table([{name: 'paid'}, {name: 'nodes'}, {name: 'days', number: true}, {name: '80 % interval', number: true},
    {name: 'in time', number: true}, {name: 'mean power', number: true, screen: true}, {name: `${currency} for the training`, number: true}, {name: `${currency} a million tokens`, number: true}, {name: 'tokens/J', number: true}, {name: `${currency} to buy`, number: true},
    {name: `${currency} to own, all years`, number: true, screen: true}, {name: 'costs as much as the verdict at', words: true}], choices.map((c, i) => [{text: c.decision ? el('b', {}, c.terms) : c.terms, sort: c.terms}, clusterCell(c), cell(`choices.${i}.days`, 'days'),
    c.days_interval ? span(c.days_interval) : '–', c.on_time_probability === undefined ? {text: '–', sort: -1} : {text: chance(`choices.${i}.on_time_probability`), sort: c.on_time_probability},
    {text: power(c.power_W), sort: c.power_W || 0}, cell(`choices.${i}.money`, 'number'), cell(`choices.${i}.money_per_million`, 'number'), cell(`choices.${i}.tokens_per_J`, 'number'), cell(`choices.${i}.purchase`, 'number'), cell(`choices.${i}.total`, 'number'),
    [c.missed ? 'misses the ' + c.missed : breaks(c), c.used_money === undefined ? '' : `${digits(c.used_money, 4)} for the hours used`, risk(c)].filter(Boolean).join('; ')]), true),
    el('p', {class: 'quiet'}, 'Bold: the verdict. Grey bars miss a condition. A reserved term is paid to its end; its cost for the hours used is what compares with a purchase. Days count the delivery of bought nodes. A purchase costs what owning the nodes costs for the time of the training. Each price is varied alone.'
      + (!counted ? '' : ` The network is ${counted} unless another one is named; ` + (answer.purchase ? 'a rent includes its network.' : 'a rent has the cost of owning it during the training beside it.'))));
  const costs = choices.map(c => c.money).filter(v => v > 0), isWide = costs.length > 1 && Math.max(...costs) > 100 * Math.min(...costs);
  const scale = isWide ? {type: 'logarithmic', ticks: {callback: v => Number.isInteger(Math.round(Math.log10(v) * 1e9) / 1e9) ? shortMoney(v) : '', maxRotation: 0}}
    : {ticks: {callback: shortMoney, maxTicksLimit: innerWidth < 600 ? 5 : 11}};
  chart(e.appendChild(el('section', {id: 'cost-of-each-way', 'aria-label': 'Cost of each way to pay, drawn'})), 60 + 24 * choices.length, 'cost of the training by way to pay', {type: 'bar', data: {labels: choices.map(c => `${cluster(c)} ${c.terms}`),
    datasets: [{data: choices.map(c => c.money), backgroundColor: choices.map(c => c.decision ? '#e08214' : c.missed ? '#b9bfc7' : '#2b6ca3')}]},
    options: {indexAxis: 'y', scales: {x: axis(isWide ? `${currency}, by powers of ten` : `${currency} for the training`, null, scale), y: {ticks: {autoSkip: false}}}, plugins: {legend: {display: false},
      tooltip: {callbacks: {label: c => `${digits(c.raw, 4)} ${currency}, ${units.days(choices[c.dataIndex].days)} ${dayWord(choices[c.dataIndex].days)}`}}}}});
}

function changes() {
  if (!(answer.thresholds || []).length) return;
  const list = table([{name: 'price or limit'}, {name: 'now', number: true}, {name: 'changes', number: true}, {name: 'then', words: true}],
    answer.thresholds.map((t, i) => [quantity(t.quantity), {text: amount(i, 'value'), sort: t.value},
      {text: el('span', {}, t.threshold < t.value ? 'below ' : 'above ', amount(i, 'threshold')), sort: t.threshold / t.value},
      t.node ? cluster(t) + terms(t) : 'none of the simulated sizes']), true);
  list.classList.add('screen');
  section('What would change the decision', list, counted ? el('p', {class: 'quiet'}, `The network is ${counted} unless another one is named.`) : null, ...tornado());
}

/// A bar for each price or limit: the range in which the decision stays, in per cent of the value now. The narrowest first.
function tornado() {
  const most = 3, ranges = new Map();
  answer.thresholds.forEach((t, i) => {
    if (!ranges.has(t.quantity)) ranges.set(t.quantity, {t, i});
    ranges.get(t.quantity)[t.threshold < t.value ? 'below' : 'above'] = {t, i, share: t.threshold / t.value};
  });
  const least = r => Math.min(r.below ? 1 - r.below.share : Infinity, r.above ? r.above.share - 1 : Infinity);
  const bar = (end, hue, known) => el('span', {style: `left:${Math.min(1, end) / most * 100}%;width:${Math.abs(Math.min(most, end) - 1) / most * 100}%;background:${hue};opacity:${known ? 1 : 0.25}`});
  const words = (name, side) => side && el('div', {}, `${name} `, amount(side.i, 'threshold'), ': ' + (side.t.node ? cluster(side.t) + terms(side.t) : 'none'));
  const row = r => el('div', {}, el('div', {}, el('b', {}, quantity(r.t.quantity)), el('div', {class: 'quiet'}, 'now ', amount(r.i, 'value'))),
    el('div', {class: 'track'}, bar(r.below ? r.below.share : 0, '#d98c3f', r.below), bar(r.above ? r.above.share : most, '#1f6fb4', r.above)), el('div', {}, words('below', r.below), words('above', r.above)));
  return [el('p', {}, 'The decision stays as long as one quantity changes within its bar and the others do not change. Beside a bar stands the decision beyond it, among the simulated sizes.'),
    el('div', {class: 'bars', role: 'img', 'aria-label': 'ranges in which the decision stays'}, [...ranges.values()].sort((a, b) => least(a) - least(b)).map(row),
      el('div', {}, el('div'), el('div', {class: 'scale quiet'}, ...[0, 1, 2, 3].map(v => el('span', {}, v * 100 + ' %'))), el('div', {class: 'quiet'}, 'of the value now')))];
}

/// The networks between the nodes of the best clusters.
function networks() {
  const all = answer.networks;
  if (!all) return;
  const isOnePlan = all.rows.every(n => n.error || n.plan === all.rows[0].plan);  // paper then leaves the plan to the sizes
  const priced = all.unpriced === undefined, at = i => `networks.rows.${i}`;
  const money = priced ? [{name: `${currency} for the network`, number: true}, {name: `${currency} in all`, number: true}] : [];
  section('Network', el('p', {}, all.reason), all.rows.length ? table([{name: 'network'}, {name: 'nodes'}, {name: 'over\u00adsubscription', number: true}, {name: 'rails', number: true, screen: true}, {name: 'switches', number: true}, {name: 'spines', number: true},
    {name: 'cables', number: true}, ...money, {name: 'step in s', number: true}, {name: 'loss', number: true}, {name: 'days', number: true, screen: true}, {name: 'misses'}, {name: 'plan', words: true, screen: isOnePlan}],
    all.rows.map((n, i) => [n.chosen ? {text: el('b', {}, n.network), sort: n.network} : n.network, clusterCell({nodes: n.nodes, node: n.node + terms(n)}), n.error ? '–' : {text: el('span', {}, figure(`${at(i)}.oversubscription`, 'number'), ':1'), sort: n.oversubscription}, n.rails ? cell(`${at(i)}.rails`, 'number') : '–', cell(`${at(i)}.switches`, 'number'), cell(`${at(i)}.spines`, 'number'),
      cell(`${at(i)}.cables`, 'number'), ...(priced ? [cell(`${at(i)}.network_cost`, 'number'), cell(`${at(i)}.cost`, 'number')] : []), cell(`${at(i)}.step_time_s`, 'number'),
      cell(`${at(i)}.loss`, 'signed'), cell(`${at(i)}.days`, 'days'), n.error || n.missed || 'none', (n.plan || '') + (n.has_own_plan ? ' (searched for this network)' : '')]), true) : null,
    el('p', {class: 'quiet'}, `Switches of ${all.switch_ports} ports${all.switch ? ', ' + all.switch : ''}. Spines: switches without a port to a node. Oversubscription: cables from a leaf to nodes over those to spines. Rails: adapters of a node, each with leaves of its own. Loss: step time over that on the nonblocking network, less 1. Bold: the choice. `
      + (!priced ? '' : answer.purchase ? 'The cost of the network is the price of switches and cables; in all: with nodes and storage.'
        : 'The cost of the network is that of owning it during the training; in all: with the rent of the nodes.')), networkParts(all));
}

/// The training on nodes that are delivered in batches.
function growth() {
  const all = answer.growth;
  if (!all) return;
  section('As the nodes are delivered', el('p', {}, all.reason), table([{name: 'nodes', number: true}, {name: 'from day', number: true}, {name: 'to day', number: true}, {name: 'part of the training', number: true}, {name: 'step', number: true}, {name: 'plan', words: true}],
    all.phases.map((p, i) => [...[['nodes', 'number'], ['begin_days', 'number'], ['end_days', 'number'], ['share', 'share'], ['step_time_s', 'seconds']].map(([key, unit]) => cell(`growth.phases.${i}.${key}`, unit)), p.plan]), true));
}

/// Owned nodes, and bought ones of another type: alone, in one job, or with a job on each.
function islands() {
  (answer.islands || []).forEach((all, i) => section('Owned and bought nodes', el('p', {}, all.reason[0].toUpperCase() + all.reason.slice(1)), table([{name: `beside ${all.nodes} × ${all.node}`}, {name: 'to buy'},
    {name: 'GPUs to buy', number: true}, {name: 'step in s', number: true}, {name: 'samples/s', number: true}, {name: 'of two jobs', number: true}, {name: 'days', number: true},
    {name: currency, number: true}, {name: 'misses', words: true}], all.rows.map((r, k) => {
    const at = `islands.${i}.rows.${k}`;
    return [r.way, r.bought_nodes ? `${r.bought_nodes} × ${r.node}` : r.node && r.error ? r.node : '–', cell(`${at}.bought_gpus`, 'number'),
      r.owned_step_time_s === undefined ? cell(`${at}.step_time_s`, 'number') : {text: el('span', {}, figure(`${at}.owned_step_time_s`, 'number'), ', ', figure(`${at}.step_time_s`, 'number')), sort: r.step_time_s},
      cell(`${at}.samples_per_s`, 'number'), cell(`${at}.of_two_jobs`, 'share'), cell(`${at}.days`, 'days'), cell(`${at}.cost`, 'number'), r.error || r.missed || 'none'];
  }), true), el('p', {class: 'quiet'}, 'Bought alone: the owned nodes are left to other work. Two jobs: one on each type, each trains a model of its own on a part of the samples, and both end together. Of two jobs: samples a second over those of two jobs on the same nodes.')));
}

/// The switches and cables of the network that all figures count, with their prices, which sum to its price.
function networkParts(all) {
  const best = answer.cheapest || answer.nearest || {};
  let i = all.rows.findIndex(n => n.chosen);
  if (i < 0) i = all.rows.findIndex(n => n.network === counted && n.node === best.node && n.nodes === best.nodes && n.model === best.model);
  if (i < 0 || !all.rows[i].by_length) return null;
  const n = all.rows[i], at = `networks.rows.${i}`, bought = (count, owned) => count - (owned || 0), full = v => v === undefined ? '–' : v.toLocaleString('en-US', {maximumFractionDigits: 2});
  const parts = n.by_length.map((c, k) => [c.optical ? 'optical cable' : 'copper cable', `${c.length_m} m`, cell(`${at}.by_length.${k}.count`, 'number'),
    full(c.price), c.price === undefined ? '–' : full(c.price * bought(c.count, c.owned))]);
  const one = n.price_of_switches ? n.price_of_switches / bought(n.switches, n.owned_switches) : undefined, leaves = n.switches - n.spines, ownedLeaves = Math.min(leaves, n.owned_switches || 0);
  const switches = [['leaf switch', leaves, ownedLeaves], ['spine switch', n.spines, (n.owned_switches || 0) - ownedLeaves]].filter(([, count]) => count)
    .map(([part, count, owned]) => [part, '', count.toLocaleString('en-US'), one === undefined ? '–' : full(one), one === undefined ? full(n.price_of_switches) : full(one * bought(count, owned))]);
  const sum = n.price_of_switches === undefined || n.by_length.some(c => c.price === undefined) ? undefined
    : n.by_length.reduce((all, c) => all + c.price * bought(c.count, c.owned), n.price_of_switches);
  const owned = n.owned_switches || n.by_length.some(c => c.owned) ? `Owned already: ${[n.owned_switches && `${n.owned_switches} switches`, ...n.by_length.map(c => c.owned && `${c.owned} cables of ${c.length_m} m`)].filter(Boolean).join(', ')}.` : '';
  return el('div', {class: 'screen'}, el('h3', {}, `Parts of ${n.network} on ${n.nodes} × ${n.node}, with ${n.nodes_of_rack} node${n.nodes_of_rack === 1 ? '' : 's'} in a rack`),
    table([{name: 'part'}, {name: 'length', number: true}, {name: 'count', number: true}, {name: `${currency} for one`, number: true}, {name: currency, number: true}],
      [...switches, ...parts,
        ...(sum === undefined ? [] : [[el('b', {}, 'sum'), '', '', '', el('b', {}, full(sum))]])]), owned ? el('p', {class: 'quiet'}, owned) : null);
}

const siteWords = {power: 'power of the site', rack_power: 'power of a rack', rack_nodes: 'nodes of a rack', rack_units: 'units of a rack', racks: 'number of racks', ports: 'ports of the network'};
function sizes() {
  if (!rows.length) return;
  const possible = r => r.error === undefined;
  /// The conditions that a size misses, as far as its figures show them.
  const missed = r => {
    if (!possible(r)) return 'no';
    const cost = r.cost, late = r.end_days > answer.deadline_days, doubtful = !late && answer.confidence && r.on_time_probability < answer.confidence;
    const words = [late && 'late', doubtful && 'in time too seldom', answer.budget && cost > answer.budget && 'too dear'].filter(Boolean);
    return words.length ? `no: ${words.join(', ')}` : 'no';
  };
  const several = rows.some(r => r.model !== rows[0].model), racked = rows.some(r => r.racks), owned = answer.purchase && rows.some(r => r.ownership);
  section('All simulated sizes', table([...(several ? [{name: 'model'}] : []), {name: 'nodes'}, {name: 'days', number: true}, {name: 'in time', number: true}, {name: 'goodput', number: true, screen: true},
    {name: 'MFU', number: true, screen: true}, {name: currency || 'GPU-hours', number: true}, ...(currency ? [{name: `${currency} a million tokens`, number: true}] : []), {name: 'tokens/J', number: true},
    ...(owned ? [{name: `${currency} to own, all years`, number: true}] : []), ...(racked ? [{name: 'racks', number: true}] : []), {name: 'meets all'}, {name: 'plan', words: true}], rows.map((r, i) => [...(several ? [r.model] : []), cluster(r) + terms(r),
    cell(`rows.${i}.end_days`, 'days'), r.on_time_probability === undefined ? {text: '–', sort: -1} : {text: chance(`rows.${i}.on_time_probability`), sort: r.on_time_probability},
    cell(`rows.${i}.paid_goodput`, 'share'), cell(`rows.${i}.mfu`, 'share'), cell(`rows.${i}.cost`, 'number'), ...(currency ? [cell(`rows.${i}.money_per_million`, 'number')] : []), cell(`rows.${i}.tokens_per_J`, 'number'),
    ...(owned ? [cell(`rows.${i}.ownership.total`, 'number')] : []), ...(racked ? [cell(`rows.${i}.racks`, 'number')] : []), r.meets ? 'yes' : missed(r),
    possible(r) ? [r.plan, risk(r)].filter(Boolean).join('; ') : r.error]), true),
    el('p', {class: 'quiet'}, 'Days count the delivery of bought nodes. In time: the probability that a measured training ends by the deadline.'));
  const limits = answer.site_limits || [];
  if (limits.length) section('Room at the site', table([{name: 'nodes'}, {name: 'room for', number: true}, {name: 'power of a node', number: true}, {name: 'limit'}, {name: 'nodes of a rack', number: true}, {name: 'limit of a rack'}],
    limits.map((l, i) => [l.node, cell(`site_limits.${i}.nodes`, 'number'), {text: power(l.node_power_W), sort: l.node_power_W || 0}, siteWords[l.limit] || l.limit, cell(`site_limits.${i}.nodes_of_rack`, 'number'), siteWords[l.rack_limit] || '–']), true));
  if (answer.left_out) section('Not considered', el('ul', {}, ...answer.left_out.map(words => el('li', {}, words))));
}

function assumptions() {
  const sources = page.sources || [];
  section('Assumptions', ...(assumptionTable() || []), sources.length ? el('details', {}, el('summary', {}, `${sources.length} figures of the cluster with their sources`),
    table([{name: 'figure'}, {name: 'value'}, {name: 'source', words: true}], sources.map(([name, shown, source]) => [el('span', {title: name}, name.replace(/[._]/g, ' ')), shown, source]), true)) : null);
}

verdict();
waysToPay();
owning();
networks();
islands();
growth();
changes();
sizes();
assumptions();
section('In the terminal', el('pre', {}, page.screen.trimEnd()));
finish();
