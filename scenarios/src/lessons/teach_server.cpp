#include "scenarios/src/lessons/teach_server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>

#include "scenarios/src/answer/json_fields.hpp"
#include "sim/json_text.hpp"
#include "sim/stable_sort.hpp"
#include "strategies/plan/training_calls.hpp"

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

/// Derives the values of the lesson from the operations of the run. A push brings the worker's value, a server adds the
/// pushes that it applies, and an answer brings the sum that the server has of the key when the answer leaves.
class PushedValues : public Observer {
 public:
  PushedValues(const ServerQuestion& q, const ServerPlan& plan)
      : q_(q), plan_(plan), stored_(plan.keys(), nothing()), sums_(stored_), sent_(stored_) {}
  void posted(const OpRun& run) override {
    const Op& op = *run.op;
    if (op.actor >= q_.workers && op.kind == Kind::send && (op.message.tag & kKind) == kAnswer)
      answers_[{op.message.slot, key_of(op)}].push_back(stored_[key_of(op)]);
    if (op.actor < q_.workers && op.kind == Kind::recv) requests_[{op.actor, key_of(op)}].push_back(run.posted.value);
  }
  void finished(const OpRun& run) override {
    const Op& op = *run.op;
    if (run.outcome != Outcome::done) return;
    if (op.actor < q_.workers && op.kind == Kind::recv) pull(op.actor, key_of(op), run.ended);
    if (op.actor < q_.workers && op.kind == Kind::send) ++sent_[pushes_[op.actor]++ % plan_.keys()].pushes[op.actor];
    if (op.actor >= q_.workers && op.effect.action == Action::call)
      add(static_cast<ServerCall>(op.effect.call), ServerPush::from_call(arguments_of(op.effect)), run.ended);
  }
  std::vector<ServerValue> take() { return std::move(log_); }

 private:
  // Tags of answers hold their key (see answer_tag).
  static constexpr Tag kKind = Tag{15} << 60, kAnswer = Tag{2} << 60;
  using WorkerKey = std::pair<Actor, std::size_t>;
  const ServerQuestion& q_;
  const ServerPlan& plan_;
  std::vector<KeyValue> stored_, sums_;  // each key's value, and pushes of a step that are not in it yet
  std::vector<KeyValue> sent_;           // indexed by key: number of the pushes that each worker has sent
  std::map<Actor, std::size_t> pushes_;
  std::map<WorkerKey, std::deque<KeyValue>> answers_;  // those under way
  std::map<WorkerKey, std::deque<double>> requests_;
  std::vector<ServerValue> log_;

  KeyValue nothing() const { return {0, std::vector<int>(static_cast<std::size_t>(q_.workers))}; }
  static std::size_t key_of(const Op& op) { return op.message.tag & ~kKind; }
  void pull(Actor worker, std::size_t key, Seconds now) {
    ServerValue pulled{true, static_cast<int>(worker), fmt::format("key {}", key), 0, now.value, 0, {}};
    pulled.request_time = requests_[{worker, key}].front();
    requests_[{worker, key}].pop_front();
    pulled.content = answers_[{worker, key}].front();
    answers_[{worker, key}].pop_front();
    const int sent = sent_[key].pushes[static_cast<std::size_t>(worker)];
    if (sent == q_.steps) return;  // no step follows, so that nothing is pulled
    pulled.is_partial = std::ranges::any_of(pulled.content.pushes, [sent](int n) { return n < sent; });
    log_.push_back(std::move(pulled));
  }
  void add(ServerCall what, const ServerPush& push, Seconds now) {
    if (what == ServerCall::drop) return;
    KeyValue& sum = sums_[push.key];
    if (what == ServerCall::update) {
      stored_[push.key] += sum;
      sum = nothing();
      return;
    }
    KeyValue pushed = nothing();
    pushed.value = q_.push_value(push.worker);
    pushed.pushes[static_cast<std::size_t>(push.worker)] = 1;
    (what == ServerCall::apply ? stored_[push.key] : sum) += pushed;
    KeyValue content = stored_[push.key];
    content += sum;
    log_.push_back(
        {false, push.worker, fmt::format("key {}", push.key), 0, now.value, pushed.value, std::move(content)});
  }
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

/// The words and the colour of a kind of interval. A worker has a row for each of its three kinds; a server has one.
struct SpanStyle {
  const char *name, *row, *letter;
  Tone tone;
};
constexpr SpanStyle kSpanStyles[] = {{"compute", "computes", "#", Tone::blue},
                                     {"push", "pushes", ">", Tone::yellow},
                                     {"pull", "pulls", "<", Tone::green},
                                     {"apply", "", "+", Tone::purple}};

std::string server_title(const ServerQuestion& q, const std::optional<PushPullScript>& script) {
  std::string text = consistency_names()[static_cast<std::size_t>(q.consistency)];
  if (q.consistency == Consistency::stale) text += fmt::format(" by at most {} steps", q.staleness);
  if (script)
    return text + fmt::format(": {} and a server do what {} says", counted_noun(q.workers, "worker"), script->name);
  text +=
      fmt::format(": {}, {}, {} steps", counted_noun(q.workers, "worker"), counted_noun(q.servers, "server"), q.steps);
  return q.backups > 0 ? text + ", " + counted_noun(q.backups, "backup") : text;
}

/// Returns the largest lead, in steps, that a worker has over the slowest worker when it begins to compute a key of a
/// step. The lead is the number of steps in which the worker has begun this key before, less the number in which the
/// slowest worker has pushed it by then. A push that takes no time ends when its key has been computed.
std::size_t largest_lead(const ServerLesson& lesson) {
  const ServerQuestion& q = lesson.question;
  const auto keys = static_cast<std::size_t>(q.keys), workers = static_cast<std::size_t>(q.workers);
  const ServerSpan::Kind sent = q.push > 0 ? ServerSpan::Kind::push : ServerSpan::Kind::compute;
  // Each worker computes and pushes the keys of a step in one order.
  std::vector<std::vector<ServerSpan>> computed(workers), pushed(workers);
  for (std::size_t worker = 0; worker < workers; ++worker) {
    for (const ServerSpan& span : lesson.actors[worker]) {
      if (span.kind == ServerSpan::Kind::compute) computed[worker].push_back(span);
      if (span.kind == sent) pushed[worker].push_back(span);
    }
    sort_stably(pushed[worker], [](const ServerSpan& a, const ServerSpan& b) { return a.begin < b.begin; });
  }
  std::size_t lead = 0;
  for (const std::vector<ServerSpan>& of_one : computed)
    for (std::size_t i = 0; i < of_one.size(); ++i)
      for (const std::vector<ServerSpan>& pushes : pushed) {
        std::size_t done = 0;
        while (done * keys + i % keys < pushes.size() &&
               pushes[done * keys + i % keys].end <= of_one[i].begin * (1 + 1e-9))
          ++done;
        if (i / keys > done) lead = std::max(lead, i / keys - done);
      }
  return lead;
}

std::vector<std::string> server_sums(const ServerLesson& lesson) {
  const ServerQuestion& q = lesson.question;
  const double alone = q.compute + 2 * q.push + q.apply;
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
  return {
      "row of a server: the worker whose push it applies (+: the sum of all)",
      fmt::format("a step of a worker alone: computing {:.6g}, push {:.6g}, applied in {:.6g}, pull {:.6g}", q.compute,
                  q.push, q.apply, q.push),
      fmt::format("time: {:.6g}; in steady state {:.4g} worker steps in {:.6g}, the sum of these times without overlap",
                  lesson.end, lesson.steps_per_slot * alone, alone),
      fmt::format("workers compute {:.4g} % of the time", 100 * computing / q.workers / lesson.end),
      fmt::format("a worker that begins {} is at most {} ahead of the slowest",
                  q.keys == 1 ? "a step" : "a key of a step", counted_noun(largest_lead(lesson), "step")),
      fmt::format("staleness (updates missed: pushes): {}", fmt::join(counts, ", ")),
      fmt::format("  of the {} of {} pushes in the steady part: after every worker has finished a step,", counted,
                  q.workers * q.steps * q.keys),
      "  before one worker finishes its last step"};
}

constexpr std::size_t kMostValueRows = 24;

/// A table of what servers add and what pulls return.
LessonFigures value_table(const ServerLesson& lesson) {
  LessonFigures table{.head = {"time", "worker", "does", "key", "value", "pushes in it, by worker"},
                      .right = {true, true, false, false, true, false}};
  table.note = "a server's value after each push, and the value that each pull returns";
  if (lesson.values.size() > kMostValueRows)
    table.note += fmt::format(": {} of {}, --json has all", kMostValueRows, lesson.values.size());
  for (const ServerValue& value : lesson.values) {
    if (table.rows.size() == kMostValueRows) break;
    table.rows.push_back({fmt::format("{:.6g}", value.time), std::to_string(value.worker),
                          value.is_pull ? value.is_partial ? "pulls a partial sum" : "pulls"
                                        : fmt::format("pushes {:.6g}", value.push_value),
                          value.key, fmt::format("{:.6g}", value.content.value),
                          fmt::format("{}", fmt::join(value.content.pushes, " "))});
  }
  return table;
}

std::string pulls_in_words(const ServerLesson& lesson) {
  const std::size_t all = lesson.pulls(false), partial = lesson.pulls(true);
  const std::string pulls = fmt::format("{} return{}", counted_noun(all, "pull"), all == 1 ? "s" : "");
  if (partial == 0) return pulls + " whole sums: all pushes that a synchronous server waits for are in them";
  return fmt::format("{} a sum; {} of the sums lack{} a push that a synchronous server waits for", pulls, partial,
                     partial == 1 ? "s" : "");
}

nlohmann::ordered_json values_json(const ServerLesson& lesson) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const ServerValue& value : lesson.values) {
    nlohmann::ordered_json entry{
        {"what", value.is_pull ? "pull" : "push"}, {"worker", value.worker}, {"key", value.key}};
    if (value.is_pull) entry["asked"] = value.request_time;
    entry["time"] = value.time;
    if (!value.is_pull) entry["pushed"] = value.push_value;
    entry["value"] = value.content.value;
    entry["pushes"] = value.content.pushes;
    if (value.is_pull) entry["partial"] = value.is_partial;
    all.push_back(std::move(entry));
  }
  return all;
}

std::vector<std::string> script_sums(const ServerLesson& lesson) {
  const ServerQuestion& q = lesson.question;
  return {"row of a server: the worker whose push it adds",
          fmt::format("a push alone takes {:.6g}, is added in {:.6g}, and the answer to a pull takes {:.6g}", q.push,
                      q.apply, q.push),
          fmt::format("time: {:.6g}", lesson.end)};
}

std::string server_json(const ServerLesson& lesson, const nlohmann::ordered_json& actors) {
  const ServerQuestion& q = lesson.question;
  nlohmann::ordered_json j;
  if (lesson.script) j["script"] = lesson.script->name;
  j["workers"] = q.workers;
  if (lesson.script)
    j["keys"] = lesson.script->keys;
  else
    j["servers"] = q.servers;
  j["consistency"] = consistency_names()[static_cast<std::size_t>(q.consistency)];
  j["staleness_bound"] = q.staleness;
  if (!lesson.script) j.update({{"backup_workers", q.backups}, {"steps", q.steps}, {"compute", q.compute}});
  j.update({{"push", q.push}, {"apply", q.apply}, {"time", lesson.end}});
  if (!lesson.script) {
    j.update({{"steps_per_slot", lesson.steps_per_slot}, {"largest_lead_steps", largest_lead(lesson)}});
    nlohmann::ordered_json& staleness = j["staleness"] = nlohmann::ordered_json::object();
    for (const auto& [missed, count] : lesson.staleness) staleness[std::to_string(missed)] = count;
  }
  j.update({{"pulls", lesson.pulls(false)}, {"partial_pulls", lesson.pulls(true)}});
  j["actors"] = actors;
  j["values"] = values_json(lesson);
  return json_text(j, 2);
}

std::vector<FieldRow> server_json_rows() {
  return {{"script", "text", "name of the script of pushes and pulls", "with --script"},
          {"workers", "number", "number of workers", ""},
          {"keys", "[text]", "names of the values on the server", "with --script"},
          {"servers", "number", "number of servers", "without --script"},
          {"consistency", "text", "when a pull is answered: bsp, ssp, …", ""},
          {"staleness_bound", "number", "most steps that a worker may be ahead", ""},
          {"backup_workers", "number", "number of workers whose pushes a step does not wait for", "without --script"},
          {"steps", "number", "number of steps of each worker", "without --script"},
          {"compute", "slots", "time of a gradient", "without --script"},
          {"push", "slots", "time of a message", ""},
          {"apply", "slots", "time in which a server adds a push", ""},
          {"time", "slots", "end of the last step", ""},
          {"steps_per_slot", "number", "steps of all workers over time", "without --script"},
          {"largest_lead_steps", "number", "most steps by which one worker was ahead of another", "without --script"},
          {"staleness", "{key: number}", "number of gradients by the updates that they missed", "without --script"},
          {"pulls", "number", "number of pulls that were answered", ""},
          {"partial_pulls", "number", "pulls whose sum lacks a push that a synchronous server waits for", ""},
          {"actors", "list", "workers and servers", ""},
          {"actors[].name", "text", "name of the worker or server", ""},
          {"actors[].spans", "list", "work of the actor over time", ""},
          {"actors[].spans[].what", "text", "compute, push, apply, …; of a script the value", ""},
          {"actors[].spans[].worker", "number", "worker whose push the server adds", "with --script, of servers"},
          {"actors[].spans[].begin", "slots", "begin of the span", ""},
          {"actors[].spans[].end", "slots", "end of the span", ""},
          {"values", "list", "pushes and answers to pulls, in the order of time", ""},
          {"values[].what", "text", "push or pull, as a word", ""},
          {"values[].worker", "number", "worker that pushes or pulls", ""},
          {"values[].key", "text", "name of the value", ""},
          {"values[].asked", "slots", "time at which the pull was asked", "of pulls"},
          {"values[].time", "slots", "time at which the push was added or the pull answered", ""},
          {"values[].pushed", "number", "number that the worker pushed", "of pushes"},
          {"values[].value", "number", "value on the server then", ""},
          {"values[].pushes", "[number]", "how many pushes of each worker it has", ""},
          {"values[].partial", "true|false", "a push that a synchronous server waits for is missing", "of pulls"}};
}
const RegisterJsonReference server_json_reference{"teach server", "parameter servers and their workers over time",
                                                  server_json_rows};

}  // namespace

double ServerQuestion::push_value(int worker) const {
  const auto number = static_cast<std::size_t>(worker);
  return number < values.size() ? values[number] : worker + 1;
}

std::size_t ServerLesson::pulls(bool partial_only) const {
  return static_cast<std::size_t>(std::ranges::count_if(values, [partial_only](const ServerValue& value) {
    return value.is_pull && (value.is_partial || !partial_only);
  }));
}

ServerLesson teach_server(const ServerQuestion& q) {
  ServerCellRun run(cell_of(q));
  Spans spans(q.workers, q.servers);
  PushedValues values(q, run.plan());
  run.run({&values, &spans});
  return {q, run.end().value, spans.of_actors(), run.board().staleness(), run.board().steps_per_s(), values.take()};
}

ServerLesson teach_push_pull(const ServerQuestion& question, const PushPullScript& script) {
  ServerQuestion q = question;
  q.workers = script.workers;
  q.servers = 1;
  Spans spans(q.workers, q.servers);
  const PushPullRun run = run_push_pull(script, {q.consistency, q.staleness, q.push, q.apply}, spans);
  ServerLesson lesson{q, run.end, spans.of_actors(), {}, 0};
  lesson.script = script;
  for (const PushPullRun::Addition& addition : run.additions) {
    const PushPullCommand& command = script.commands[addition.command];
    lesson.values.push_back(
        {false, command.worker, script.keys[command.key], 0, addition.time, command.amount, addition.value});
  }
  for (std::size_t i = 0; i < script.commands.size(); ++i) {
    const PushPullCommand& command = script.commands[i];
    if (command.verb != PushPullCommand::Verb::pull) continue;
    const PushPullAnswer& answer = run.answers[i];
    lesson.values.push_back({true, command.worker, script.keys[command.key], answer.request_time, answer.time, 0,
                             answer.value, answer.is_partial});
  }
  sort_stably(lesson.values, [](const ServerValue& a, const ServerValue& b) { return a.time < b.time; });
  return lesson;
}

LessonView lesson_view(const ServerLesson& lesson) {
  const ServerQuestion& q = lesson.question;
  LessonView view{server_title(q, lesson.script),
                  "Compute, pushes and pulls of each worker over time, and the updates of each server",
                  {}};
  view.sums = lesson.script ? script_sums(lesson) : server_sums(lesson);
  view.sums.push_back(pulls_in_words(lesson));
  view.figures = value_table(lesson);
  LessonFrame frame{.axis = LessonFrame::Axis::time, .end = lesson.end};
  for (const SpanStyle& style : kSpanStyles) frame.legend.push_back({"", style.name, style.tone});
  nlohmann::ordered_json actors = nlohmann::ordered_json::array();
  for (int actor = 0; actor < q.workers + q.servers; ++actor) {
    const bool worker = actor < q.workers;
    const std::string name = worker ? fmt::format("worker {}", actor) : fmt::format("server {}", actor - q.workers);
    const std::size_t first = frame.lanes.size();
    for (const SpanStyle& style : kSpanStyles)
      if (worker != (style.tone == Tone::purple)) frame.lanes.push_back({name, style.row, {}});
    nlohmann::ordered_json spans = nlohmann::ordered_json::array();
    for (const ServerSpan& s : lesson.actors[static_cast<std::size_t>(actor)]) {
      const SpanStyle& style = kSpanStyles[static_cast<std::size_t>(s.kind)];
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
  view.json = server_json(lesson, actors);
  return view;
}

}  // namespace trainyard
