#include "scenarios/src/lessons/teach_learning.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/running/learn_run.hpp"
#include "sim/json_text.hpp"

namespace trainyard {
namespace {

constexpr const char* kAsynchronous =
    "mechanism: parameter-server, servers: {count: 1, keys: buckets}, consistency: asynchronous";

/// The keys of plan.data_parallel, by the method's name on the command line.
const std::map<std::string, std::string>& method_keys() {
  static const std::map<std::string, std::string> all{
      {"all-reduce", "all_reduce: ring"},
      {"asynchronous", kAsynchronous},
      {"backup", "mechanism: parameter-server, servers: {count: 1, keys: buckets}, backup_workers: 1"},
      {"delayed", "delay: 1"},
      {"gossip", "gossip: ring"},
      {"local-sgd", "local_steps: 2"},
      {"stale", "mechanism: parameter-server, servers: {count: 1, keys: buckets}, consistency: stale, staleness: 1"},
      {"staleness-aware", kAsynchronous},
      {"synchronous", "mechanism: parameter-server, servers: {count: 1, keys: buckets}"}};
  return all;
}

std::vector<std::string> figures_of(const LearnedUpdate& u) {
  const std::string when = show(Seconds{u.time});
  if (u.gradient)
    return {when, u.actor_name, fmt::format("has a gradient of weights {:.0f}", u.version),
            std::isfinite(u.loss) ? fmt::format("its loss {:.3f}", u.loss) : ""};
  const std::string by = u.worker >= 0 && u.worker != u.actor ? fmt::format(" by rank {}'s", u.worker) : "";
  return {when, u.actor_name, fmt::format("has weights {:.0f}{}", u.version, by),
          (u.staleness > 0 ? fmt::format("{} late", counted_noun(u.staleness, "update")) : "") +
              (u.lambda != 1 ? fmt::format("{}lambda {:.3g}", u.staleness > 0 ? ", " : "", u.lambda) : "")};
}

nlohmann::ordered_json event_json(const LearnedUpdate& u) {
  nlohmann::ordered_json j{{"time_s", u.time},
                           {"actor", u.actor_name},
                           {"what", u.gradient ? "gradient" : "update"},
                           {"weights", u.version}};
  if (u.gradient && std::isfinite(u.loss)) j["loss"] = u.loss;
  if (!u.gradient) j["staleness"] = u.staleness;
  if (!u.gradient) j["lambda"] = u.lambda;
  if (!u.gradient && u.worker >= 0) j["worker"] = u.worker;
  return j;
}

/// Draws a lane per actor with a bar up to each of its events, in ms.
LessonFrame frame_of(const std::vector<LearnedUpdate>& events) {
  LessonFrame frame{.caption = "times of gradients and updates, in ms", .axis = LessonFrame::Axis::time};
  frame.drawn_only = true;
  frame.legend = {{"", "ends with a gradient of the weights with this number", Tone::blue},
                  {"", "ends with an update to the weights with this number", Tone::green},
                  {"", "the same update, by a gradient of older weights", Tone::orange}};
  std::map<int, LessonLane> lanes;
  for (const LearnedUpdate& u : events) {
    LessonLane& lane = lanes[u.actor];
    lane.actor = u.actor_name;
    const double begin = lane.bars.empty() ? 0 : lane.bars.back().end;
    frame.end = u.time * 1e3;
    lane.bars.push_back({begin, frame.end, "", fmt::format("{:.0f}", u.version),
                         u.gradient        ? Tone::blue
                         : u.staleness > 0 ? Tone::orange
                                           : Tone::green});
  }
  for (auto& [actor, lane] : lanes) frame.lanes.push_back(std::move(lane));
  return frame;
}

std::vector<FieldRow> learning_json_rows() {
  return {{"scenario", "text", "name of the scenario", ""},
          {"events", "list", "gradients and updates, in the order of time", ""},
          {"events[].time_s", "s", "time at which the gradient or the update ends", ""},
          {"events[].actor", "text", "worker or server that made it", ""},
          {"events[].what", "text", "gradient or update, as a word", ""},
          {"events[].weights", "number",
           "number of the weights that a gradient was computed on, or that an update made", ""},
          {"events[].loss", "number", "loss on the samples of the gradient", "of gradients, if it is finite"},
          {"events[].staleness", "number", "how many updates late the gradient was", "of updates"},
          {"events[].lambda", "number", "factor on the gradient, or share of a worker's weights", "of updates"},
          {"events[].worker", "number", "worker whose gradient it applied", "of updates by the gradient of one worker"},
          {"mean_staleness", "number", "mean number of updates by which gradients were late, over the whole run", ""},
          {"worst_staleness", "number", "largest number of updates by which a gradient was late", ""},
          {"mean_lambda", "number", "mean of lambda over the whole run", ""}};
}
const RegisterJsonReference learning_json_reference{"teach learning", "the first updates of a training",
                                                    learning_json_rows};

}  // namespace

std::vector<std::string> ways_to_learn() {
  std::vector<std::string> names;
  for (const auto& [name, keys] : method_keys()) names.push_back(name);
  return names;
}

Scenario small_training(const std::string& method, int workers, const Overrides& overrides) {
  const std::string text = fmt::format(
      "cluster: {{nodes: 1, node: {{base: pcie-1, gpu: {{type: p100-pcie-16gb, count: {0}}}, cpu: xeon-e5-2698-v4}}}}\n"
      "model: {{mlp: {{widths: [256, 1024, 10], loss: softmax_cross_entropy}}}}\n"
      "plan: {{micro_batch_size: 8, precision: fp32, optimizer: sgd, data_parallel: {{size: {0}, {1}}}}}\n"
      "faults: {{stragglers: {{kind: lognormal, sigma: 0.5, seed: 1}}}}\n"
      "learn: {{task: softmax, steps: 20, evaluate_every: 20, data: {{classes: 3, features: 4, samples: 256}}{2}}}\n",
      workers, method_keys().at(method), method == "staleness-aware" ? ", staleness_aware: true" : "");
  return read_scenario_text(text, method + ".yaml", overrides);
}

LessonView teach_learning(const Scenario& s, int events) {
  LearnOptions options;
  options.first_events = events;
  options.noise = false;
  const LearnResult r = learn(s, options);
  LessonView view{fmt::format("{}: {}, {}; {}", s.name, counted_noun(s.ranks(), "worker"), r.mechanism, r.task),
                  "A lane per worker and server, with a bar up to each gradient and update, over time",
                  {}};
  view.frames = {frame_of(r.first)};
  view.figures = {.head = {"time", "who", "what", ""}, .right = {true, false, false, false}};
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const LearnedUpdate& u : r.first) {
    view.figures.rows.push_back(figures_of(u));
    rows.push_back(event_json(u));
  }
  if (r.worst_staleness > 0)
    view.sums = {fmt::format("over the whole run, gradients came {:.3g} updates late on average, {} at most",
                             r.mean_staleness, r.worst_staleness)};
  if (r.diverged_at >= 0) view.sums.push_back(fmt::format("the training diverged at step {:.0f}", r.diverged_at));
  if (r.mean_lambda != 1)
    view.sums.push_back(fmt::format(
        "lambda, the factor on a gradient or the share of a worker's weights, was {:.3g} on average", r.mean_lambda));
  view.json = json_text(nlohmann::ordered_json{{"scenario", s.name},
                                               {"events", rows},
                                               {"mean_staleness", r.mean_staleness},
                                               {"worst_staleness", r.worst_staleness},
                                               {"mean_lambda", r.mean_lambda}},
                        2);
  return view;
}

}  // namespace trainyard
