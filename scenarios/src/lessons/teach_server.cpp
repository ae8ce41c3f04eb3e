#include "scenarios/src/lessons/teach_server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/json_text.hpp"

namespace trainyard {
namespace {

/// Records kernels, messages of workers, and updates of servers.
class Spans : public Observer {
 public:
  Spans(int workers, int servers) : workers_(workers), actors_(static_cast<std::size_t>(workers + servers)) {}
  void finished(const OpRun& run) override {
    const Op& op = *run.op;
    if (static_cast<std::size_t>(op.actor) >= actors_.size() || run.ended <= run.started) return;
    const bool worker = op.actor < workers_;
    ServerSpan span{ServerSpan::Kind::compute, op.actor, run.started.value, run.ended.value};
    if (op.kind == Kind::send)
      span.kind = ServerSpan::Kind::push;
    else if (op.kind == Kind::recv)
      span.kind = ServerSpan::Kind::pull;
    else if (!worker)
      span.kind = ServerSpan::Kind::apply;
    if (!worker && span.kind != ServerSpan::Kind::apply) return;  // messages are shown at the workers
    if (!worker)
      span.worker = op.effect.call == static_cast<std::uint16_t>(ServerCall::update) ? -1 : op.effect.read.chunk;
    actors_[op.actor].push_back(span);
  }
  const std::vector<std::vector<ServerSpan>>& of_actors() const { return actors_; }

 private:
  int workers_;
  std::vector<std::vector<ServerSpan>> actors_;
};

ServerCell cell_of(const ServerQuestion& q) {
  ServerCell cell;
  cell.workers = q.workers;
  cell.servers = q.servers;
  cell.keys = q.keys;
  cell.steps = q.steps;
  cell.gradient = cell.link * Seconds{q.push};
  cell.compute = Seconds{q.compute};
  cell.apply = Seconds{q.apply};
  cell.slower = q.slower;
  cell.change = [&q](ServerPlan& plan) {
    plan.consistency = q.consistency;
    plan.staleness = q.staleness;
    plan.backup_workers = q.backups;
  };
  return cell;
}

/// Draws the three rows of a worker or the single row of a server.
struct SpanStyle {
  const char *name, *row, *letter;
  Tone tone;
};
constexpr SpanStyle kSpanStyles[] = {{"compute", "computes", "#", Tone::blue},
                                     {"push", "pushes", ">", Tone::yellow},
                                     {"pull", "pulls", "<", Tone::green},
                                     {"apply", "", "+", Tone::purple}};
const SpanStyle& style_of_span(ServerSpan::Kind kind) { return kSpanStyles[static_cast<std::size_t>(kind)]; }

std::string server_title(const ServerQuestion& q) {
  std::string text = consistency_names()[static_cast<std::size_t>(q.consistency)];
  if (q.consistency == Consistency::stale) text += fmt::format(" by at most {} steps", q.staleness);
  text += fmt::format(": {} worker{}, {} server{}, {} steps", q.workers, q.workers == 1 ? "" : "s", q.servers,
                      q.servers == 1 ? "" : "s", q.steps);
  if (q.backups > 0) text += fmt::format(", {} backup{}", q.backups, q.backups == 1 ? "" : "s");
  return text;
}

/// Returns by how many steps a worker that begins a step is ahead of the slowest, at most: the steps that it has begun
/// before, less those that the slowest has pushed by then.
std::size_t largest_lead(const ServerLesson& lesson) {
  const ServerQuestion& q = lesson.question;
  std::vector<std::vector<double>> begins(static_cast<std::size_t>(q.workers)), pushed(begins.size());
  for (std::size_t worker = 0; worker < begins.size(); ++worker) {
    std::vector<double> ends;
    for (const ServerSpan& span : lesson.actors[worker]) {
      if (span.kind == ServerSpan::Kind::compute) begins[worker].push_back(span.begin);
      if (span.kind == ServerSpan::Kind::push) ends.push_back(span.end);
    }
    std::sort(ends.begin(), ends.end());
    const auto keys = static_cast<std::size_t>(q.keys);
    for (std::size_t last = keys; last <= ends.size(); last += keys) pushed[worker].push_back(ends[last - 1]);
  }
  std::size_t lead = 0;
  for (const std::vector<double>& of_one : begins)
    for (std::size_t step = 0; step < of_one.size(); ++step)
      for (const std::vector<double>& ends : pushed) {
        const auto by_then = std::upper_bound(ends.begin(), ends.end(), of_one[step] * (1 + 1e-9)) - ends.begin();
        const auto done = static_cast<std::size_t>(by_then);
        if (step > done) lead = std::max(lead, step - done);
      }
  return lead;
}

std::vector<std::string> server_sums(const ServerLesson& lesson) {
  const ServerQuestion& q = lesson.question;
  double computing = 0;
  for (int worker = 0; worker < q.workers; ++worker)
    for (const ServerSpan& span : lesson.actors[static_cast<std::size_t>(worker)])
      if (span.kind == ServerSpan::Kind::compute) computing += span.end - span.begin;
  std::vector<std::string> counts;
  std::uint64_t counted = 0;
  for (const auto& [missed, count] : lesson.staleness) {
    counts.push_back(fmt::format("{}: {}", missed, count));
    counted += count;
  }
  return {"row of a server: the worker whose push it applies (+: the sum of all)",
          fmt::format("a step of a worker alone: computing {:.6g}, push {:.6g}, applied in {:.6g}, pull {:.6g}",
                      q.compute, q.push, q.apply, q.push),
          fmt::format(
              "time: {:.6g}; in steady state {:.4g} worker steps in the time that one worker alone takes for a step",
              lesson.end, lesson.steps_per_slot * (q.compute + 2 * q.push + q.apply)),
          fmt::format("workers compute {:.4g} % of the time", 100 * computing / q.workers / lesson.end),
          fmt::format("a worker that begins a step is at most {} steps ahead of the slowest", largest_lead(lesson)),
          fmt::format("staleness (updates missed: pushes): {}", fmt::join(counts, ", ")),
          fmt::format("  of the {} of {} pushes in the steady part: after every worker has made a step,", counted,
                      q.workers * q.steps * q.keys),
          "  until one worker has made its last"};
}

}  // namespace

ServerLesson teach_server(const ServerQuestion& q) {
  ServerCellRun run(cell_of(q));
  Spans spans(q.workers, q.servers);
  run.run({&spans});
  return {q, run.end().value, spans.of_actors(), run.board().staleness(), run.board().steps_per_s()};
}

LessonView lesson_view(const ServerLesson& lesson) {
  const ServerQuestion& q = lesson.question;
  LessonView view{
      server_title(q), "Compute, pushes and pulls of each worker over time, and the updates of each server", {}};
  view.sums = server_sums(lesson);
  LessonFrame frame{.axis = LessonFrame::Axis::time, .end = lesson.end};
  for (const SpanStyle& style : kSpanStyles) frame.legend.push_back({"", style.name, style.tone});
  nlohmann::ordered_json staleness = nlohmann::ordered_json::object(), actors = nlohmann::ordered_json::array();
  for (const auto& [missed, count] : lesson.staleness) staleness[std::to_string(missed)] = count;
  for (int actor = 0; actor < q.workers + q.servers; ++actor) {
    const bool worker = actor < q.workers;
    const std::string name = worker ? fmt::format("worker {}", actor) : fmt::format("server {}", actor - q.workers);
    const std::size_t first = frame.lanes.size();
    for (const SpanStyle& style : kSpanStyles)
      if (worker != (style.tone == Tone::purple)) frame.lanes.push_back({name, style.row, {}});
    nlohmann::ordered_json spans = nlohmann::ordered_json::array();
    for (const ServerSpan& s : lesson.actors[static_cast<std::size_t>(actor)]) {
      const SpanStyle& style = style_of_span(s.kind);
      const bool of_one = !worker && s.worker >= 0;
      frame.lanes[first + (worker ? static_cast<std::size_t>(s.kind) : 0)].bars.push_back(
          {s.begin, s.end, of_one ? std::to_string(s.worker % 10) : style.letter,
           of_one ? std::to_string(s.worker) : "", style.tone});
      spans.push_back({{"what", style.name}, {"begin", s.begin}, {"end", s.end}});
      if (of_one) spans.back()["worker"] = s.worker;
    }
    actors.push_back({{"name", name}, {"spans", spans}});
  }
  view.frames = {std::move(frame)};
  view.json =
      json_text(nlohmann::ordered_json{{"workers", q.workers},
                                       {"servers", q.servers},
                                       {"consistency", consistency_names()[static_cast<std::size_t>(q.consistency)]},
                                       {"staleness_bound", q.staleness},
                                       {"backup_workers", q.backups},
                                       {"steps", q.steps},
                                       {"compute", q.compute},
                                       {"push", q.push},
                                       {"apply", q.apply},
                                       {"time", lesson.end},
                                       {"steps_per_slot", lesson.steps_per_slot},
                                       {"largest_lead_steps", largest_lead(lesson)},
                                       {"staleness", staleness},
                                       {"actors", actors}},
                2);
  return view;
}

}  // namespace trainyard
