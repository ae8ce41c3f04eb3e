#include <nlohmann/json.hpp>

#include "scenarios/running/failure_figures.hpp"

namespace trainyard {

using nlohmann::json;

void add_json(json& j, const FailureStudy& study) {
  j["goodput"] = study.goodput;
  j["goodput_deviation"] = study.goodput_deviation;
  j["lost_work_s"] = study.lost_work;
  j["lost_work_deviation_s"] = study.lost_work_deviation;
  j["failures"] = {{"runs", study.runs},
                   {"count", study.failures},
                   {"by_component", study.failures_of},
                   {"time_between_s", study.time_between_failures},
                   {"training_time_s", study.end},
                   {"steps", study.steps},
                   {"effective_step_time_s", study.effective_step_time()},
                   {"checkpoint_stall_s", study.stalled},
                   {"down_s", study.down},
                   {"waiting_for_repair_s", study.without_node},
                   {"fewer_replicas_s", study.slower}};
  for (const FailureStudy::Fewer& f : study.fewer)
    j["failures"]["steps_of_fewer_replicas"].push_back(
        {{"replicas", f.replicas}, {"step_time_s", f.step_time}, {"simulated", f.simulated}});
  for (const FailureStudy::Said& f : study.said)
    j["failures"]["said"].push_back({{"component", f.what},
                                     {"at_s", f.at},
                                     {"steps", f.steps},
                                     {"lost_steps", f.lost_steps},
                                     {"lost_work_s", f.lost_work},
                                     {"node_was_away", f.idle}});
  if (study.checkpoint.interval <= 0) return;
  j["checkpoint_interval_s"] = study.checkpoint.interval;
  j["checkpoint"] = {{"count", study.checkpoints},          {"bytes", study.checkpoint.bytes},
                     {"storage", study.checkpoint.storage}, {"stall_s", study.checkpoint.stall},
                     {"write_s", study.checkpoint.write},   {"load_s", study.checkpoint.load}};
  if (const BestInterval& best = study.checkpoint.best; best.simulated.value > 0)
    j["checkpoint"]["best_interval_s"] = {
        {"young", best.young.value},       {"daly", best.daly.value},        {"simulated", best.simulated.value},
        {"shortest", best.shortest.value}, {"nearly_from", best.from.value}, {"nearly_until", best.until.value},
        {"goodput", best.goodput}};
}

FailureStudy failure_study_from_json(const json& j) {
  FailureStudy study;
  study.goodput = j.at("goodput");
  study.goodput_deviation = j.at("goodput_deviation");
  study.lost_work = j.at("lost_work_s");
  study.lost_work_deviation = j.at("lost_work_deviation_s");
  const json& f = j.at("failures");
  study.runs = f.at("runs");
  study.failures = f.at("count");
  study.failures_of = f.at("by_component").get<std::map<std::string, double>>();
  study.time_between_failures = f.at("time_between_s");
  study.end = f.at("training_time_s");
  study.steps = f.at("steps");
  study.stalled = f.at("checkpoint_stall_s");
  study.down = f.at("down_s");
  study.without_node = f.at("waiting_for_repair_s");
  study.slower = f.at("fewer_replicas_s");
  if (const auto fewer = f.find("steps_of_fewer_replicas"); fewer != f.end())
    for (const json& one : *fewer)
      study.fewer.push_back({one.at("replicas"), one.at("step_time_s"), one.at("simulated")});
  if (const auto said = f.find("said"); said != f.end())
    for (const json& one : *said)
      study.said.push_back({one.at("component"), one.at("node_was_away"), one.at("at_s"), one.at("steps"),
                            one.at("lost_steps"), one.at("lost_work_s")});
  if (!j.contains("checkpoint_interval_s")) return study;
  study.checkpoint.interval = j.at("checkpoint_interval_s");
  const json& c = j.at("checkpoint");
  study.checkpoints = c.at("count");
  study.checkpoint.bytes = c.at("bytes");
  study.checkpoint.storage = c.at("storage");
  study.checkpoint.stall = c.at("stall_s");
  study.checkpoint.write = c.at("write_s");
  study.checkpoint.load = c.at("load_s");
  if (const auto best = c.find("best_interval_s"); best != c.end()) {
    study.checkpoint.best.young = Seconds{best->at("young").get<double>()};
    study.checkpoint.best.daly = Seconds{best->at("daly").get<double>()};
    study.checkpoint.best.simulated = Seconds{best->at("simulated").get<double>()};
    study.checkpoint.best.shortest = Seconds{best->at("shortest").get<double>()};
    study.checkpoint.best.from = Seconds{best->at("nearly_from").get<double>()};
    study.checkpoint.best.until = Seconds{best->at("nearly_until").get<double>()};
    study.checkpoint.best.goodput = best->at("goodput");
  }
  return study;
}

}  // namespace trainyard
