// The page of a lesson. Actors that exchange messages are on a circle, and inner actors inside it. The page's data holds the
// frames.
const lesson = JSON.parse(document.getElementById('lesson').textContent);
const at = id => document.getElementById(id);
const plain = text => String(text).replace(/[&<>"]/g, c => ({'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;'}[c]));
const last = lesson.frames.length - 1;
let now = 0, playing = null, moving = 0;

function place(actor) {
  const m = lesson.actors[actor], turn = 2 * Math.PI * m.place / m.of - Math.PI / 2;
  return [220 + m.radius * Math.cos(turn), 220 + m.radius * Math.sin(turn)];
}
function along(t, share) {
  const [x1, y1] = place(t.from), [x2, y2] = place(t.to);
  const bend = 0.12, cx = (x1 + x2) / 2 + (y2 - y1) * bend, cy = (y1 + y2) / 2 - (x2 - x1) * bend, r = 1 - share;
  return [r * r * x1 + 2 * r * share * cx + share * share * x2, r * r * y1 + 2 * r * share * cy + share * share * y2];
}
function draw(share) {
  let picture = '';
  const arrows = lesson.frames[now].arrows;
  for (const t of arrows) {
    const points = [];
    for (let i = 0; i <= 20; i++) points.push(along(t, i / 20).map(v => v.toFixed(1)).join(','));
    picture += `<polyline points="${points.join(' ')}" fill="none" stroke-width="2"/>`;
  }
  lesson.actors.forEach((m, i) => {
    const [x, y] = place(i);
    picture += `<circle cx="${x}" cy="${y}" r="24"/>` +
      `<text x="${x}" y="${y + 4}" font-size="11" text-anchor="middle">${plain(m.name)}</text>`;
  });
  for (const t of arrows) {
    const [x, y] = along(t, share), text = t.content.length > 14 ? t.content.slice(0, 13) + '…' : t.content;
    const half = Math.max(8, text.length * 3.4);
    picture += `<rect x="${x - half}" y="${y - 9}" width="${2 * half}" height="18" rx="4"/>` +
      `<text x="${x}" y="${y + 4}" font-size="11" text-anchor="middle">${plain(text)}</text>`;
  }
  at('picture').innerHTML = picture;
}
function table(grid) {
  const head = grid.head.map(name => `<th>${plain(name)}</th>`).join('');
  const rows = grid.rows.map(row => `<tr><th>${plain(row.name)}</th>` +
    row.cells.map(([text, style]) => `<td class="${style}">${plain(text)}</td>`).join('') + '</tr>');
  return `<table><tr><th></th>${head}</tr>${rows.join('')}</table>`;
}
function tell() {
  const frame = lesson.frames[now];
  at('head').textContent = frame.caption;
  at('limit').textContent = frame.detail;
  at('buffers').innerHTML = frame.grids.map(table).join('');
  at('messages').innerHTML = frame.arrows.map(t => plain(t.text)).join('<br>');
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
at('times').innerHTML = lesson.frames.slice(1).map(s => `<span style="flex:${s.share}" title="${plain(s.caption)}"></span>`).join('');
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
