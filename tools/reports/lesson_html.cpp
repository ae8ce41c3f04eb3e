#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "scenarios/pictures/svg.hpp"
#include "sim/json_text.hpp"
#include "tools/reports/lesson_views.hpp"

namespace trainyard {
namespace {

using nlohmann::json;

// Members stand on a circle, switches inside it; the script fills in what the data say, and asks nobody for anything.
constexpr const char* kStyle = R"(
body { font: 14px/1.4 Helvetica, Arial, sans-serif; margin: 1.5em; color: #222; background: #fff; }
h1 { font-size: 1.3em; margin: 0; } .quiet { color: #666; }
#all { display: flex; flex-wrap: wrap; gap: 2em; align-items: flex-start; margin-top: 1em; }
svg { width: 440px; height: 440px; border: 1px solid #ddd; }
table { border-collapse: collapse; } td, th { padding: 3px 8px; border: 1px solid #ddd; white-space: nowrap; }
th { font-weight: normal; color: #666; }
td.part { background: #dbe7f6; } td.complete { background: #bfe5c4; } td.stale { background: #ffd9a8; }
td.changed { outline: 2px solid #222; outline-offset: -2px; font-weight: bold; }
button { font: inherit; padding: 3px 10px; } #times { display: flex; height: 14px; margin: .6em 0; max-width: 900px; }
#times span { background: #9db8d9; border-right: 1px solid #fff; cursor: pointer; } #times span.now { background: #22508f; }
)";

constexpr const char* kScript = R"(
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
    picture += `<polyline points="${points.join(' ')}" fill="none" stroke="#b8c4d4" stroke-width="2"/>`;
  }
  lesson.members.forEach((m, i) => {
    const [x, y] = place(i);
    picture += `<circle cx="${x}" cy="${y}" r="24" fill="#eef2f8" stroke="#22508f"/>` +
      `<text x="${x}" y="${y + 4}" font-size="11" text-anchor="middle">${plain(m.name)}</text>`;
  });
  for (const t of transfers) {
    const [x, y] = along(t, share), text = t.content.length > 14 ? t.content.slice(0, 13) + '…' : t.content;
    const half = Math.max(8, text.length * 3.4);
    picture += `<rect x="${x - half}" y="${y - 9}" width="${2 * half}" height="18" rx="4" fill="#ffe9a8" stroke="#8a6d1d"/>` +
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
)";

json cells(const std::vector<std::vector<SlotContent>>& buffers) {
  json all = json::array();
  for (const auto& buffer : buffers) {
    json row = json::array();
    for (const SlotContent& content : buffer) {
      std::string classes = content.complete        ? "complete"
                            : content.stale         ? "stale"
                            : content.parts.empty() ? ""
                                                    : "part";
      if (content.changed) classes += " changed";
      row.push_back({content.text, classes});
    }
    all.push_back(std::move(row));
  }
  return all;
}

json step_data(const CollectiveLesson& lesson, std::size_t i) {
  const LessonStep& step = lesson.steps[i];
  const std::string kind = step_kind(step);
  json transfers = json::array(), sent = json::array();
  for (const LessonTransfer& t : step.transfers) {
    const auto name = [&lesson](int member) { return lesson.members[member].name; };
    std::string text = fmt::format("{}→{}", name(t.from), name(t.to));
    if (!t.slots.empty()) text += fmt::format(" {}: {}", t.slots, t.content);
    text += fmt::format(" ({}{})", show(Bytes{t.bytes}), t.link.empty() ? "" : ", " + t.link);
    transfers.push_back({{"from", t.from}, {"to", t.to}, {"content", t.content}, {"text", text}});
  }
  for (const double bytes : step.sent) sent.push_back(show(Bytes{bytes}));
  return {{"head", fmt::format("step {} of {}{}: {} to {}, takes {}", i + 1, lesson.steps.size(),
                               kind.empty() ? "" : ", " + kind, show(Seconds{step.begin}), show(Seconds{step.end}),
                               show(Seconds{step.end - step.begin}))},
          {"limit", step_limit(step)},
          {"share", lesson.time > 0 ? (step.end - step.begin) / lesson.time : 1.0},
          {"transfers", transfers},
          {"buffers", cells(step.buffers)},
          {"sent", sent}};
}

json page_data(const CollectiveLesson& lesson) {
  json members = json::array(), steps = json::array();
  const std::size_t ranks = static_cast<std::size_t>(lesson.ranks), others = lesson.members.size() - ranks;
  for (std::size_t i = 0; i < lesson.members.size(); ++i) {
    const bool rank = i < ranks;
    members.push_back({{"name", lesson.members[i].name},
                       {"holds", lesson.members[i].holds_data},
                       {"place", rank ? i : i - ranks},
                       {"of", rank ? ranks : others},
                       {"radius", rank         ? 170
                                  : others > 1 ? 70
                                               : 0}});
  }
  for (std::size_t i = 0; i < lesson.steps.size(); ++i) steps.push_back(step_data(lesson, i));
  return {{"members", members},
          {"slots", lesson.slots},
          {"initial", cells(lesson.initial)},
          {"steps", steps},
          {"sums", lesson_sums(lesson)}};
}

/// JSON inside a script element: no '<' may end it.
std::string inside_script(const std::string& text) {
  std::string safe;
  for (const char c : text) safe += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return safe;
}

}  // namespace

std::string lesson_html(const CollectiveLesson& lesson) {
  const std::string title = Svg::escaped(lesson_title(lesson));
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{0}</title>\n<style>{1}</style>\n"
      "</head>\n<body>\n<h1>{0}</h1>\n<div class=\"quiet\">on {2}</div>\n<div id=\"times\"></div>\n<div>"
      "<button id=\"first\">first</button> <button id=\"back\">← back</button> <button id=\"play\">play</button> "
      "<button id=\"on\">forward →</button> <button id=\"end\">last</button></div>\n<div id=\"all\">\n"
      "<svg id=\"picture\" viewBox=\"0 0 440 440\"></svg>\n<div>\n<strong id=\"head\"></strong>\n"
      "<div id=\"limit\" class=\"quiet\"></div>\n<div id=\"buffers\" style=\"margin:.8em 0\"></div>\n"
      "<div id=\"messages\"></div>\n<p id=\"sums\"></p>\n</div>\n</div>\n"
      "<script type=\"application/json\" id=\"lesson\">{3}</script>\n<script>{4}</script>\n</body>\n</html>\n",
      title, kStyle, Svg::escaped(lesson.machine), inside_script(json_text(page_data(lesson))), kScript);
}

}  // namespace trainyard
