// Members stand on a circle, switches inside it; what is shown is in the page's data.
const lesson = JSON.parse(document.getElementById('lesson').textContent);
const at = id => document.getElementById(id);
const plain = text => String(text).replace(/[&<>"]/g, c => ({'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;'}[c]));
const last = lesson.steps.length;
let now = 0, playing = null, moving = 0;

function place(member) {
  const m = lesson.members[member], turn = 2 * Math.PI * m.place / m.of - Math.PI / 2;
  return [220 + m.radius * Math.cos(turn), 220 + m.radius * Math.sin(turn)];
}
function along(t, share) {
  const [x1, y1] = place(t.from), [x2, y2] = place(t.to);
  const bend = 0.12, cx = (x1 + x2) / 2 + (y2 - y1) * bend, cy = (y1 + y2) / 2 - (x2 - x1) * bend, r = 1 - share;
  return [r * r * x1 + 2 * r * share * cx + share * share * x2, r * r * y1 + 2 * r * share * cy + share * share * y2];
}
function draw(share) {
  let picture = '';
  const transfers = now > 0 ? lesson.steps[now - 1].transfers : [];
  for (const t of transfers) {
    const points = [];
    for (let i = 0; i <= 20; i++) points.push(along(t, i / 20).map(v => v.toFixed(1)).join(','));
    picture += `<polyline points="${points.join(' ')}" fill="none" stroke-width="2"/>`;
  }
  lesson.members.forEach((m, i) => {
    const [x, y] = place(i);
    picture += `<circle cx="${x}" cy="${y}" r="24"/>` +
      `<text x="${x}" y="${y + 4}" font-size="11" text-anchor="middle">${plain(m.name)}</text>`;
  });
  for (const t of transfers) {
    const [x, y] = along(t, share), text = t.content.length > 14 ? t.content.slice(0, 13) + '…' : t.content;
    const half = Math.max(8, text.length * 3.4);
    picture += `<rect x="${x - half}" y="${y - 9}" width="${2 * half}" height="18" rx="4"/>` +
      `<text x="${x}" y="${y + 4}" font-size="11" text-anchor="middle">${plain(text)}</text>`;
  }
  at('picture').innerHTML = picture;
}
function table(buffers, sent) {
  if (lesson.slots.length === 0) return '';
  let html = '<table><tr><th></th>' + lesson.slots.map(s => `<th>${plain(s)}</th>`).join('') +
    (sent ? '<th>sent so far</th>' : '') + '</tr>';
  lesson.members.forEach((m, i) => {
    if (!m.holds) return;
    html += `<tr><th>${plain(m.name)}</th>` + buffers[i].map(c => `<td class="${c[1]}">${plain(c[0])}</td>`).join('') +
      (sent ? `<td>${plain(sent[i])}</td>` : '') + '</tr>';
  });
  return html + '</table>';
}
function tell() {
  const step = now > 0 ? lesson.steps[now - 1] : null;
  at('head').textContent = step ? step.head : 'at the beginning';
  at('limit').textContent = step && step.limit ? 'limited by ' + step.limit : '';
  at('buffers').innerHTML = table(step ? step.buffers : lesson.initial, step && step.sent);
  at('messages').innerHTML = step ? step.transfers.map(t => plain(t.text)).join('<br>') : '';
  at('sums').innerHTML = now === last ? lesson.sums.map(plain).join('<br>') : '';
  [...at('times').children].forEach((bar, i) => bar.className = i + 1 === now ? 'now' : '');
}
function go(to) {
  now = Math.max(0, Math.min(last, to));
  tell();
  const mine = ++moving, begin = performance.now();
  const frame = time => {
    if (mine !== moving) return;
    const share = Math.min(1, Math.max(0, (time - begin) / 900));
    draw(share);
    if (share < 1) requestAnimationFrame(frame);
  };
  draw(0);
  requestAnimationFrame(frame);
}
function play() {
  if (playing) { clearInterval(playing); playing = null; }
  else {
    if (now === last) go(0);
    playing = setInterval(() => { if (now < last) go(now + 1); else play(); }, 1800);
  }
  at('play').textContent = playing ? 'stop' : 'play';
}
at('times').innerHTML = lesson.steps.map((s, i) => `<span style="flex:${s.share}" title="${plain(s.head)}"></span>`).join('');
[...at('times').children].forEach((bar, i) => bar.onclick = () => go(i + 1));
at('first').onclick = () => go(0);
at('back').onclick = () => go(now - 1);
at('on').onclick = () => go(now + 1);
at('end').onclick = () => go(last);
at('play').onclick = play;
document.addEventListener('keydown', e => {
  if (e.key === 'ArrowRight') go(now + 1);
  else if (e.key === 'ArrowLeft') go(now - 1);
  else if (e.key === 'Home') go(0);
  else if (e.key === 'End') go(last);
  else return;
  e.preventDefault();
});
go(0);
