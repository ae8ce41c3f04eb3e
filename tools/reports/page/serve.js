// The page of `serve`: the fields of a scenario as controls above its answer. Each change requests a new answer.
const first = ['cluster.nodes', 'plan.global_batch_size', 'plan.micro_batch_size', 'plan.tensor_parallel', 'plan.pipeline_parallel',
  'plan.data_parallel.zero_stage', 'plan.recompute', 'plan.precision', 'plan.strategy', 'cluster.node', 'cluster.hca.rate', 'cluster.gpu.nvlink'];
const query = new URLSearchParams(location.hash.slice(1)), changes = new Map();
const names = page.scenarios.concat(Object.keys(page.tasks));
let scenario = names.includes(query.get('scenario')) ? query.get('scenario') : page.scenario;
for (const set of query.getAll('set')) changes.set(set.split('=')[0], set.split('=').slice(1).join('='));
let controls = [], before_s = 0, asking = null;
/// The changes of earlier states, the last of which `undo` brings back, and the answer that stays beside later ones.
const past = [];
let pinned = null, current = JSON.stringify([scenario, [...changes]]);
/// For each field: the value that its control shows if the field is not changed, and the other changes at that time.
const shownValues = new Map();
const others = path => JSON.stringify([...changes].filter(([p]) => p !== path));

const messageLine = el('p', {id: 'message', 'aria-live': 'polite'}), box = el('div', {class: 'fields'}), rest = el('div', {id: 'sections'});
const more = el('details', {}, el('summary', {}, 'all fields of the scenario'), rest);
/// The groups of all other fields, by their titles. A group that was opened stays open.
const groups = new Map();
const labelOf = path => (controls.find(c => c.path === path) || {label: path}).label;
async function ask(want, signal, set = [...changes]) {
  const response = await fetch('/ask', {method: 'POST', signal, headers: {'Content-Type': 'application/json', 'X-Trainyard-Token': page.token},
    body: JSON.stringify({scenario, set, want})});
  const text = await response.text();
  if (!response.ok) return {error: text.trim()};
  return JSON.parse(text);
}
/// Requests an answer. It aborts the previous request; the server stops an answer when its connection closes.
async function update() {
  if (asking) asking.abort();
  const mine = asking = new AbortController(), begin = performance.now();
  const state = JSON.stringify([scenario, [...changes]]);
  if (state !== current) { past.push(current); current = state; }
  undo.disabled = !past.length;
  const hash = new URLSearchParams({scenario});
  for (const [path, v] of changes) hash.append('set', `${path}=${v}`);
  history.replaceState(null, '', '#' + hash);
  messageLine.textContent = 'simulating …';
  let got;
  try { got = await ask('answer', mine.signal); } catch (e) { got = {error: `no answer: ${e.message}`}; }
  // A page whose address has a bad change takes its fields from the scenario as it is in the file.
  if (got.error && got.path && !controls.length) try { got.controls = (await ask('answer', mine.signal, [])).controls; } catch (e) {}
  if (asking !== mine) return;
  asking = null;
  root.dataset.answerMs = Math.round(performance.now() - begin);
  if (got.controls && (!got.error || !controls.length)) { controls = got.controls; build(); }
  const isShown = showError(got.error && got.path, got.error);
  messageLine.className = got.error ? 'bad' : 'quiet';
  messageLine.textContent = isShown ? `No answer: see the field "${labelOf(got.path)}".` : got.error ? withoutFolder(got.error) : compared(got.answer.step_time_s) + ` Simulated in ${root.dataset.answerMs} ms.${got.note ? ' ' + withoutFolder(got.note) : ''}`;
  drawTask(got);
  if (!got.error) latest = got.answer;
  drawPinned();
  if (!got.error) {
    Object.assign(page, {pending: false, assumptions: []}, got);
    clear();
    if (got.answer.breakdown_s) drawRun();
    else section('Answer', el('pre', {}, got.screen.trimEnd()));
  }
  finish();
  if (!got.error && page.pending) await addWhatIfs(mine);
}
/// Requests what faster resources save, which takes longer than the answer, and completes the verdict with it.
async function addWhatIfs(mine) {
  let more;
  asking = mine;
  try { more = await ask('what_if', mine.signal); } catch (e) { more = {}; }
  if (asking !== mine) return;
  asking = null;
  page.pending = false;
  if (more.what_if) page.answer.what_if = more.what_if;
  const top = scrollY;
  clear();
  drawRun();
  scrollTo(0, top);
}
/// Removes the folder of a file at the beginning of an error.
const withoutFolder = text => text.replace(/^\/[^:]*\//, '');
/// Shows an error beside the field that it is about, and removes the one before. Returns false if the page lacks the field.
function showError(path, text) {
  for (const e of document.querySelectorAll('.fields .error')) e.remove();
  for (const e of document.querySelectorAll('.fields [aria-invalid]')) { e.removeAttribute('aria-invalid'); e.removeAttribute('aria-describedby'); }
  const of = path && [...document.querySelectorAll('.fields [data-path]')].find(e => e.dataset.path === path);
  if (!of) return false;
  text = withoutFolder(text);
  const words = text.startsWith(path + ': ') ? text.slice(path.length + 2) : text, id = 'error-of-' + path;
  of.append(el('p', {class: 'error bad', id, role: 'alert'}, words));
  const input = of.querySelector('input, select');
  input.setAttribute('aria-invalid', 'true');
  input.setAttribute('aria-describedby', id);
  for (let group = of.closest('details'); group; group = group.parentElement.closest('details')) group.open = true;
  return true;
}
/// The pinned answer beside the last one, figure by figure.
let latest = null;
const pinBox = el('section', {id: 'pinned', 'aria-label': 'Pinned answer', hidden: true});
function drawPinned() {
  pin.disabled = !latest;
  pinBox.hidden = !pinned || !latest;
  if (pinBox.hidden) return;
  const m = latest.money, unit = m ? m.currency : '';
  const rows = [['step_time_s', 'seconds', 'step time'], ['samples_per_s', 'number', 'samples/s'], ['tokens_per_s', 'number', 'tokens/s'], ['mfu', 'share', 'MFU'],
    ['memory_bytes.peak', 'bytes', 'memory of the fullest device'], ['training_time_s', 'seconds', 'the whole training'], ['energy.step_kWh', 'number', 'kWh a step'],
    ['money.per_million', 'number', `${unit} a million ${m && m.of_tokens ? 'tokens' : 'samples'}`], ['money.training', 'number', unit + ' for the training'],
    ['money.ownership.purchase', 'number', unit + ' to buy']].filter(([path]) => value(pinned.answer, path) || value(latest, path));
  const shown = (of, path, u) => value(of, path) === undefined ? '–' : units[u](value(of, path));
  pinBox.replaceChildren(el('h2', {}, 'Pinned answer'), el('p', {class: 'quiet'}, pinned.title),
    table([{name: 'figure'}, {name: 'pinned', number: true}, {name: 'now', number: true}, {name: 'change', number: true}], rows.map(([path, u, name]) => {
      const a = value(pinned.answer, path), b = value(latest, path);
      return [name, shown(pinned.answer, path, u), shown(latest, path, u), a && b ? units.signed(b / a - 1) : '–'];
    })), button('remove', () => { pinned = null; drawPinned(); }));
}
/// The task: objectives, which of its criteria hold, hints one by one, and the explanation when it is solved.
const taskBox = el('section', {id: 'task', 'aria-label': 'Task', hidden: true});
let hints = 0, judged = {};
function drawTask(got) {
  const task = page.tasks[scenario];
  taskBox.hidden = !task;
  report.hidden = !!task;
  if (!task) return;
  if (got) judged = got.error ? {} : got;
  const verdict = judged.verdict;
  taskBox.replaceChildren(el('h2', {}, scenario + ', ' + task.title),
    task.level ? el('p', {class: 'quiet'}, task.level) : '',
    judged.briefing ? el('p', {id: 'briefing'}, judged.briefing) : '',
    task.reproduces ? el('p', {}, 'Published: ' + task.reproduces) : '', el('ul', {}, task.objectives.map(o => el('li', {}, o))),
    el('p', {class: 'quiet'}, 'May change: ' + task.may_change.map(labelOf).join(', ')),
    el('ul', {id: 'verdict', 'data-solved': verdict ? String(verdict.solved) : null}, (verdict ? verdict.criteria : []).map(c =>
      el('li', {class: c.holds ? 'good' : 'bad', 'data-holds': String(c.holds)}, (c.holds ? '✓ ' : '✗ ') + c.text))),
    el('ol', {id: 'hints'}, task.hints.slice(0, hints).map(h => el('li', {}, h))),
    hints < task.hints.length ? button(`hint ${hints + 1} of ${task.hints.length}`, () => { hints++; drawTask(); }) : '',
    verdict && verdict.because ? el('p', {id: 'because'}, verdict.because) : '',
    verdict && verdict.solved ? el('p', {id: 'explanation'}, el('b', {}, 'Solved. '), verdict.explanation.join(' ')) : '',
    verdict && verdict.solved && task.paper ? el('p', {class: 'quiet'}, 'Paper: ' + task.paper) : '');
}
function compared(s) {
  if (s === undefined) return '';
  const text = `A step takes ${units.seconds(s)}` + (before_s && before_s !== s ? `: ${units.signed(s / before_s - 1)} to the answer before (${units.seconds(before_s)}).` : '.');
  before_s = s;
  return text;
}
function change(control, text) {
  const start = shownValues.get(control.path);
  if (text === '' || (text === start.value && others(control.path) === start.others)) changes.delete(control.path);
  else changes.set(control.path, text);
  update();
}

/// Multiplies a quantity: "400 Gbit/s" times 2 is "800 Gbit/s".
function times(text, factor) {
  const parts = /^([-+.\d]+(?:e[-+]?\d+)?)\s*(.*)$/i.exec(text);
  if (!parts) return null;
  const number = Number(parts[1]) * factor;
  return String(Number(number.toPrecision(6))) + (parts[2] ? ' ' + parts[2] : '');
}
function field(control) {
  const id = 'of-' + control.path, value = changes.get(control.path) ?? (control.value || control.fallback), start = shownValues.get(control.path).value;
  const label = el('label', {for: id, title: [control.path, control.words, control.type].filter(Boolean).join('\n')}, control.label, changes.has(control.path) ? el('b', {}, ' •') : null);
  if (control.choices.length) {
    const options = control.choices.includes(value) ? control.choices : [value].concat(control.choices);
    return el('div', {'data-path': control.path}, label, el('select', {id, onchange: e => change(control, e.target.value)},
      options.map(o => el('option', {value: o, selected: o === value}, o === '' ? '(as in the file)' : o))));
  }
  const input = el('input', {id, value, onchange: e => change(control, e.target.value.trim()), autocomplete: 'off', spellcheck: 'false', placeholder: control.type, title: `${control.path}: ${control.type}`});
  const whole = control.type.startsWith('a whole'), steps = [-4, -3, -2, -1, 0, 1, 2, 3, 4].filter(k => {
    const t = times(start, 2 ** k);
    return t !== null && Number.parseFloat(t) > 0 && (!whole || Number.isInteger(Number(t)));
  });
  const at = steps.find(k => times(start, 2 ** k) === value);
  const slider = steps.length < 2 ? null : el('input', {type: 'range', min: steps[0], max: steps[steps.length - 1], step: 1, value: at ?? 0,
    'aria-label': `${control.label}, times 2 at each step`, oninput: e => { input.value = times(start, 2 ** Number(e.target.value)); change(control, input.value); }});
  return el('div', {'data-path': control.path}, label, input, slider);
}
/// Builds all controls again, except the one with the focus, which stays in place.
function fill(into, shown) {
  const used = [...into.children].find(e => e.contains(document.activeElement) && shown.some(c => c.path === e.dataset.path));
  if (!used) { into.replaceChildren(...shown.map(field)); return; }
  const at = shown.findIndex(c => c.path === used.dataset.path);
  for (const e of [...into.children]) if (e !== used) e.remove();
  used.querySelector('label').replaceWith(field(shown[at]).querySelector('label'));
  used.before(...shown.slice(0, at).map(field));
  used.after(...shown.slice(at + 1).map(field));
}
function build() {
  for (const c of controls)
    if (!changes.has(c.path) || !shownValues.has(c.path)) shownValues.set(c.path, {value: c.value || c.fallback, others: changes.has(c.path) ? null : others(c.path)});
  const known = new Map(controls.map(c => [c.path, c]));
  const front = page.tasks[scenario] ? controls.map(c => c.path) : first.filter(path => known.has(path));
  fill(box, front.map(path => known.get(path)));
  const sections = new Map();
  for (const c of controls) if (!front.includes(c.path)) sections.set(c.section, (sections.get(c.section) || []).concat(c));
  for (const [title, of] of sections) {
    if (!groups.has(title)) {
      const fields = el('div', {class: 'fields'}), count = el('span', {class: 'quiet'});
      groups.set(title, {fields, count, details: el('details', {}, el('summary', {}, title, ' ', count), fields)});
    }
    const group = groups.get(title);
    group.count.textContent = `(${of.length})`;
    fill(group.fields, of);
  }
  // Groups of one section follow each other. They move only if they must, because moving takes the focus away.
  const order = [...sections.keys()].sort((a, b) => rank(a) - rank(b)).map(title => groups.get(title).details);
  for (const e of [...rest.children]) if (!order.includes(e)) e.remove();
  if (order.some((e, i) => rest.children[i] !== e)) rest.replaceChildren(...order);
  more.hidden = !order.length;
}
/// The place of a group: sections in the order of a scenario, each before its own parts.
function rank(title) {
  const order = ['Scenario', 'Cluster', 'Plan', 'Input', 'Faults', 'Learn', 'Post training'], at = order.indexOf(title.split(':')[0]);
  return (at < 0 ? order.length : at) * 2 + (title.includes(':') ? 1 : 0);
}

function download(name, text, type) {
  const url = URL.createObjectURL(new Blob([text], {type}));
  el('a', {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}
async function fetchAndTake(want, take) {
  messageLine.textContent = want === 'report' ? 'making the report …' : 'writing the scenario …';
  let got;
  try { got = await ask(want); } catch (e) { got = {error: `no answer: ${e.message}`}; }
  messageLine.className = got.error ? 'bad' : 'quiet';
  messageLine.textContent = got.error || 'done';
  if (!got.error) take(got);
}
const button = (text, action) => el('button', {onclick: action}, text);
const undo = button('undo', () => {
  const [name, set] = JSON.parse(current = past.pop());
  if (name !== scenario) { hints = 0; judged = {}; before_s = 0; }
  scenario = name;
  document.getElementById('scenario').value = name;
  changes.clear();
  shownValues.clear();
  controls = [];
  for (const [path, v] of set) changes.set(path, v);
  update();
});
const pin = button('pin this answer', () => {
  pinned = {answer: latest, title: scenario + [...changes].map(([path, v]) => `, ${labelOf(path)}: ${v}`).join('')};
  drawPinned();
});
const report = button('save the full report', () => fetchAndTake('report', got => download(scenario + '.html', got.html, 'text/html')));
main.before(el('section', {id: 'controls', class: 'controls', 'aria-label': 'What if'},
  el('div', {class: 'bar'}, el('label', {}, 'scenario ', el('select', {id: 'scenario', onchange: e => {
    scenario = e.target.value; changes.clear(); shownValues.clear(); controls = []; before_s = hints = 0; judged = {}; update();
  }}, [['scenarios', page.scenarios], ['tasks', Object.keys(page.tasks)]].map(([label, of]) => el('optgroup', {label},
    of.map(name => el('option', {value: name, selected: name === scenario}, name)))))),
  button('as in the file', () => { changes.clear(); controls = []; update(); }),
  button('save the scenario', () => fetchAndTake('scenario', got => download(scenario + '.yaml', got.yaml, 'text/yaml'))),
  undo, pin, report),
  taskBox, messageLine, box, more, pinBox));
drawTask();
update();
