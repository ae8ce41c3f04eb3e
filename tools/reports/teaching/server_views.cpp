#include "tools/reports/teaching/server_views.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scenarios/src/pictures/svg.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kServerNameColumns = 18, kServerColumns = 100 - kServerNameColumns;
constexpr double kServerEdge = 16, kServerNames = 76, kServerTime = 1000, kServerRow = 12, kServerGap = 8,
                 kServerAbove = 50, kServerText = 11;

std::string span_row(const ServerLesson& lesson, const std::vector<ServerSpan>& spans, ServerSpan::What what,
                     bool digits) {
  std::string row(kServerColumns, '.');
  const double scale = static_cast<double>(kServerColumns) / lesson.end;
  constexpr char letters[] = {'#', '>', '<', '+'};
  for (const ServerSpan& span : spans) {
    if (span.what != what) continue;
    const auto begin = static_cast<std::size_t>(span.begin * scale);
    const auto end = std::max(begin + 1, static_cast<std::size_t>(std::lround(span.end * scale)));
    const char letter = digits && span.worker >= 0 ? static_cast<char>('0' + span.worker % 10)
                                                   : letters[static_cast<std::size_t>(what)];
    for (std::size_t at = begin; at < std::min(end, row.size()); ++at) row[at] = letter;
  }
  return row;
}

double time_of_spans(const std::vector<ServerSpan>& spans, ServerSpan::What what) {
  double sum = 0;
  for (const ServerSpan& span : spans)
    if (span.what == what) sum += span.end - span.begin;
  return sum;
}

const char* span_fill(ServerSpan::What what) {
  static constexpr const char* fills[] = {"#7aa6dc", "#f2c14e", "#8fcf8f", "#c9a7d8"};
  return fills[static_cast<std::size_t>(what)];
}

std::string name_of_server_actor(const ServerLesson& lesson, std::size_t actor) {
  const auto workers = static_cast<std::size_t>(lesson.workers);
  return actor < workers ? fmt::format("worker {}", actor) : fmt::format("server {}", actor - workers);
}

}  // namespace

std::string server_title(const ServerLesson& lesson) {
  std::string text = consistency_names()[static_cast<std::size_t>(lesson.consistency)];
  if (lesson.consistency == Consistency::stale) text += fmt::format(" by at most {} steps", lesson.staleness_bound);
  text += fmt::format(": {} worker{}, {} server{}, {} steps", lesson.workers, lesson.workers == 1 ? "" : "s",
                      lesson.servers, lesson.servers == 1 ? "" : "s", lesson.steps);
  if (lesson.backups > 0) text += fmt::format(", {} backup{}", lesson.backups, lesson.backups == 1 ? "" : "s");
  return text;
}

std::vector<std::string> server_sums(const ServerLesson& lesson) {
  std::vector<std::string> sums{
      fmt::format("a step of a worker alone: computing {:.6g}, push {:.6g}, applied in {:.6g}, pull {:.6g}",
                  lesson.compute, lesson.push, lesson.apply, lesson.push),
      fmt::format(
          "time: {:.6g}; in steady state {:.4g} worker steps in the time that one worker alone takes for a step",
          lesson.end, lesson.steps_per_slot * (lesson.compute + 2 * lesson.push + lesson.apply))};
  double computing = 0;
  for (std::size_t w = 0; w < static_cast<std::size_t>(lesson.workers); ++w)
    computing += time_of_spans(lesson.actors[w], ServerSpan::What::compute);
  sums.push_back(fmt::format("workers compute {:.4g} % of the time", 100 * computing / lesson.workers / lesson.end));
  std::vector<std::string> counts;
  std::uint64_t counted = 0;
  for (const auto& [of, count] : lesson.staleness) {
    counts.push_back(fmt::format("{}: {}", of, count));
    counted += count;
  }
  sums.push_back(fmt::format("staleness (updates missed: pushes): {}", fmt::join(counts, ", ")));
  sums.push_back(fmt::format("  of the {} of {} pushes in the steady part: from when every worker has made a step,",
                             counted, lesson.workers * lesson.steps * lesson.keys));
  sums.push_back("  until one has made its last");
  return sums;
}

std::string server_text(const ServerLesson& lesson) {
  std::string text = server_title(lesson) + "\n\n";
  const auto line = [&text](const std::string& name, const std::string& row) {
    text += fmt::format("{:<{}}{}\n", name, kServerNameColumns, row);
  };
  for (std::size_t a = 0; a < lesson.actors.size(); ++a) {
    const std::string name = name_of_server_actor(lesson, a);
    if (a >= static_cast<std::size_t>(lesson.workers)) {
      line(name, span_row(lesson, lesson.actors[a], ServerSpan::What::apply, true));
      continue;
    }
    line(name + " computes", span_row(lesson, lesson.actors[a], ServerSpan::What::compute, false));
    line("         pushes", span_row(lesson, lesson.actors[a], ServerSpan::What::push, false));
    line("         pulls", span_row(lesson, lesson.actors[a], ServerSpan::What::pull, false));
  }
  text += "\na server's row: whose push it applies (+: the sum of all)\n";
  for (const std::string& sentence : server_sums(lesson)) text += sentence + "\n";
  return text;
}

std::string server_svg(const ServerLesson& lesson) {
  const auto workers = static_cast<std::size_t>(lesson.workers);
  const double scale = kServerTime / lesson.end;
  const std::vector<std::string> sums = server_sums(lesson);
  const double rows = static_cast<double>(workers) * (3 * kServerRow + kServerGap) +
                      static_cast<double>(lesson.servers) * (kServerRow + kServerGap);
  const double height = kServerAbove + rows + 60 + 18 * static_cast<double>(sums.size());
  Svg svg(kServerEdge + kServerNames + kServerTime + kServerEdge, height, server_title(lesson),
          "Rows of computing, pushes and pulls of each worker, over time");
  svg.text(kServerEdge, 26, server_title(lesson), {15, "#222222", Svg::Anchor::start, true});
  double y = kServerAbove;
  for (std::size_t a = 0; a < lesson.actors.size(); ++a) {
    const bool worker = a < workers;
    svg.text(kServerEdge, y + 10, name_of_server_actor(lesson, a), {kServerText});
    for (const ServerSpan& span : lesson.actors[a]) {
      const double at = worker ? y + kServerRow * static_cast<double>(span.what) : y;
      const double x = kServerEdge + kServerNames + span.begin * scale, width = (span.end - span.begin) * scale;
      svg.rect(x, at, width, kServerRow, span_fill(span.what));
      const std::string label = !worker && span.worker >= 0 ? fmt::format("{}", span.worker) : "";
      if (!label.empty() && Svg::text_width(label, 9) <= width)
        svg.text(x + width / 2, at + 9, label, {9, "#111111", Svg::Anchor::middle});
    }
    y += (worker ? 3 * kServerRow : kServerRow) + kServerGap;
  }
  double x = kServerEdge;
  for (const ServerSpan::What what :
       {ServerSpan::What::compute, ServerSpan::What::push, ServerSpan::What::pull, ServerSpan::What::apply}) {
    svg.rect(x, y + 8, 14, 14, span_fill(what));
    svg.text(x + 20, y + 19, name_of(what), {kServerText});
    x += 90;
  }
  y += 48;
  for (const std::string& sentence : sums) {
    svg.text(kServerEdge, y, sentence, {kServerText});
    y += 18;
  }
  return svg.finish();
}

}  // namespace trainyard
