// `trainyard teach learning`: the first updates of a training, one by one.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "scenarios/src/running/learn_run.hpp"
#include "sim/json_text.hpp"
#include "sim/process/output.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/arguments.hpp"
#include "tools/verbs/teaching/teach.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

constexpr int kMostWorkers = 16, kMostEvents = 10000;

/// Keys of plan.data_parallel that stand for a word of the command line.
const std::map<std::string, std::string>& ways() {
  static const std::map<std::string, std::string> all{
      {"all-reduce", "all_reduce: ring"},
      {"asynchronous", "mechanism: parameter-server, servers: {count: 1, keys: buckets}, consistency: asynchronous"},
      {"backup", "mechanism: parameter-server, servers: {count: 1, keys: buckets}, backup_workers: 1"},
      {"delayed", "delay: 1"},
      {"gossip", "gossip: ring"},
      {"local-sgd", "local_steps: 2"},
      {"stale", "mechanism: parameter-server, servers: {count: 1, keys: buckets}, consistency: stale, staleness: 1"},
      {"synchronous", "mechanism: parameter-server, servers: {count: 1, keys: buckets}"}};
  return all;
}

std::string lesson_text(const std::string& how, int workers) {
  return fmt::format(
      "cluster: {{nodes: 1, node: {{base: pcie-1, gpu: {{type: p100-pcie-16gb, count: {0}}}, cpu: xeon-e5-2698-v4}}}}\n"
      "model: {{mlp: {{widths: [256, 1024, 10], loss: softmax_cross_entropy}}}}\n"
      "plan: {{micro_batch_size: 8, precision: fp32, optimizer: sgd, data_parallel: {{size: {0}, {1}}}}}\n"
      "faults: {{stragglers: {{kind: lognormal, sigma: 0.5, seed: 1}}}}\n"
      "learn: {{task: softmax, steps: 20, evaluate_every: 20, data: {{classes: 3, features: 4, samples: 256}}}}\n",
      workers, how);
}

std::vector<std::string> row_of(const LearnedUpdate& u) {
  const std::string when = show(Seconds{u.time});
  if (u.gradient)
    return {when, u.actor_name, fmt::format("has a gradient of weights {:.0f}", u.version),
            std::isfinite(u.loss) ? fmt::format("its loss {:.3f}", u.loss) : ""};
  const std::string by = u.worker >= 0 && u.worker != u.actor ? fmt::format(" by rank {}'s", u.worker) : "";
  return {when, u.actor_name, fmt::format("has weights {:.0f}{}", u.version, by),
          u.staleness > 0 ? fmt::format("{} update{} late", u.staleness, u.staleness == 1 ? "" : "s") : ""};
}

nlohmann::ordered_json row_json(const LearnedUpdate& u) {
  nlohmann::ordered_json j{{"time_s", u.time},
                           {"actor", u.actor_name},
                           {"what", u.gradient ? "gradient" : "update"},
                           {"weights", u.version}};
  if (u.gradient && std::isfinite(u.loss)) j["loss"] = u.loss;
  if (!u.gradient) j["staleness"] = u.staleness;
  if (!u.gradient && u.worker >= 0) j["worker"] = u.worker;
  return j;
}

int teach_learning(const std::string&, const std::vector<std::string>& words) {
  Arguments arguments("teach learning",
                      "The first gradients and updates of a small training, one by one: who took a gradient at which "
                      "weights, and how many updates late it was applied.",
                      "teach learning --how asynchronous --workers 3\n"
                      "  trainyard teach learning scenarios/learn-async-vs-sync.yaml --events 30");
  std::string file, how, json;
  std::vector<std::string> sets;
  int workers = 3, events = 24;
  arguments.positional("SCENARIO", file, "a scenario with a section `learn` (default: a small one)", false);
  std::vector<std::string> names;
  for (const auto& [name, keys] : ways()) names.push_back(name);
  arguments.option("--how", how, "NAME", fmt::format("{} (default asynchronous)", fmt::join(names, ", ")));
  arguments.option("--workers", workers, "N", "2 to 16 (default 3)");
  arguments.option("--events", events, "N", "how many to show (default 24)");
  arguments.repeated("--set", sets, "PATH=VALUE", "override a field of the scenario, as often as needed");
  arguments.output("--json", json, "the same as data; - is stdout");
  if (!arguments.parse(words)) return kGood;
  if (!file.empty() && !how.empty()) throw UserError("--how: of the small scenario; the given one has its own");
  if (how.empty()) how = "asynchronous";
  if (!ways().contains(how)) throw UserError(fmt::format("--how {}: unknown{}", how, hint(how, names)));
  if (workers < 2 || workers > kMostWorkers)
    throw UserError(fmt::format("--workers {}: 2 to {} expected", workers, kMostWorkers));
  if (events < 1 || events > kMostEvents)
    throw UserError(fmt::format("--events {}: 1 to {} expected", events, kMostEvents));
  const Overrides overrides = parse_overrides(sets);
  const Scenario s = file.empty() ? read_scenario_text(lesson_text(ways().at(how), workers), how + ".yaml", overrides)
                                  : read_scenario(file, overrides);
  LearnOptions options;
  options.first_events = events;
  options.noise = false;
  const LearnResult r = learn(s, options);
  if (json != "-") {
    print(fmt::format("{}: {} workers, {}; {}\n", s.name, s.ranks(), r.mechanism, r.task));
    TextTable table{{"time", "who", "what", ""}, {true, false, false, false}};
    for (const LearnedUpdate& u : r.first) table.rows.push_back(row_of(u));
    print(table.text("  "));
    if (r.worst_staleness > 0)
      print(fmt::format("in all of it, gradients came {:.3g} updates late on average, {} at most\n", r.mean_staleness,
                        r.worst_staleness));
  }
  if (!json.empty()) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const LearnedUpdate& u : r.first) rows.push_back(row_json(u));
    write_atomically(json, json_text(nlohmann::ordered_json{{"scenario", s.name}, {"events", rows}}, 2) + "\n");
  }
  return kGood;
}

const RegisterTeachTopic register_teach_learning{
    "learning", "the first updates of a training: who read which weights, and how stale they were", teach_learning};

}  // namespace
}  // namespace trainyard
