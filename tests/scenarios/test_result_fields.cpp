// The table of an answer's fields writes, reads and explains them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "models/fitted/measured_family.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/studies/failures/failure_study.hpp"
#include "scenarios/src/studies/sweeps/sweep.hpp"
#include "strategies/mechanisms/mechanism.hpp"

namespace scenarios_test_result_fields {

using namespace trainyard;
using nlohmann::json;

namespace {

using Reference = std::map<std::string, FieldRow>;

Reference reference_of(const std::vector<FieldRow>& rows) {
  Reference reference;
  for (const FieldRow& row : rows) {
    CAPTURE(row.path);
    CHECK(reference.emplace(row.path, row).second);
    CHECK_FALSE(row.words.empty());
    CHECK_FALSE(row.type.empty());
  }
  return reference;
}

/// Adds the paths of all keys, as the reference writes them. The keys of an object of numbers are names, not fields.
void add_paths(const json& j, const std::string& prefix, const Reference& reference, std::set<std::string>& paths) {
  for (const auto& [key, field] : j.items()) {
    const std::string path = prefix + key;
    paths.insert(path);
    const auto row = reference.find(path);
    if (row != reference.end() && row->second.type.starts_with("{")) continue;
    if (field.is_object()) add_paths(field, path + ".", reference, paths);
    if (field.is_array())
      for (const json& item : field)
        if (item.is_object()) add_paths(item, path + "[].", reference, paths);
  }
}

/// Checks that the reference explains every key of the answer, and that the answer has every key without a condition.
void check_against(const Reference& reference, const json& answer) {
  std::set<std::string> paths;
  add_paths(answer, "", reference, paths);
  for (const std::string& path : paths) {
    CAPTURE(path);
    CHECK(reference.contains(path));
  }
  for (const auto& [path, row] : reference) {
    CAPTURE(path);
    const std::size_t last_brackets = path.rfind("[]");
    const bool is_empty_list =
        last_brackets != std::string::npos && std::ranges::none_of(paths, [&](const std::string& p) {
          return p.starts_with(path.substr(0, last_brackets + 2));
        });
    if (row.when.empty() && !is_empty_list) CHECK(paths.contains(path));
  }
}

std::vector<std::filesystem::path> shipped_scenarios() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(shipped_file("scenarios")))
    if (entry.path().extension() == ".yaml" && entry.path().parent_path().filename() != "tables") {
      std::filesystem::path file = entry.path();
      const Node document = read_document(file);
      if (!document.find("cluster") && !is_measured_family(document)) continue;  // a lesson without a scenario
      if (is_measured_family(document)) {
        const std::vector<std::string> rows = MeasuredFamily(file).ids;
        const auto row = std::ranges::find_if(rows, [](const std::string& id) {
          return id.find("fp8") == std::string::npos && id.find("FP8") == std::string::npos;  // runs in FP8 are refused
        });
        if (row == rows.end()) continue;
        file += "@" + *row;
      }
      files.push_back(file);
    }
  return files;
}

/// Checks that no number is infinite or NaN, which JSON cannot write.
void check_finite(const json& answer) {
  const json values = answer.flatten();
  for (const auto& [path, value] : values.items()) {
    CAPTURE(path);
    CHECK((!value.is_number() || std::isfinite(value.get<double>())));
  }
}

}  // namespace

TEST_CASE("the reference has every key of the shipped scenarios' answers, and they survive JSON", "[answer]") {
  const Reference reference = reference_of(answer_fields().rows());
  std::size_t answered = 0;
  for (const std::filesystem::path& file : shipped_scenarios()) {
    CAPTURE(file.string());
    const SimulateOptions options{.critical_path = false};
    const Scenario s = read_scenario(file, {});
    const Result r = simulate_training(s, options);
    const json j = to_json(r);
    CHECK(to_json(result_from_json(j)) == j);
    check_finite(j);
    CHECK(result_from_json(to_json(r)).breakdown.exposed_communication == r.breakdown.exposed_communication);
    check_against(reference, answer_json({r, {WhatIf{"HCA", 2, r.step_time / 2}}, s.sources, {}, {}}, true));
    ++answered;
  }
  CHECK(answered > 40);
}

TEST_CASE("fields that few answers have are explained too, and survive JSON", "[answer]") {
  Result r;
  r.step_time.value = 2;
  r.step_time_interval = Seconds{0.01};
  r.likely_step_times = {1.5, 2.5};
  r.announced_step_times = {1.75, 2.25};
  r.expected_error = 0.05;
  r.tokens_per_s = 100;
  r.mfu_with_attention = 0.5;
  r.actors.push_back({"server 0", 1, Bytes{3}, Bytes{2}, Bytes{1}, {}});
  r.stages.resize(2);
  r.stages[1].layers = 3;
  r.stages[1].breakdown.exposed_communication["p2p"] = 0.5;
  r.stages[1].memory.rank = 4;
  r.all_reduce = {
      "ring", "flows", true, 2, {{"ring", 2, Bytes{1e6}, Seconds{1e-3}}, {"tree", 1, Bytes{1e6}, Seconds{2e-3}}}};
  r.compression = {"top-k of 1 %", Bytes{8}, Bytes{2}, Seconds{0.25}, Seconds{0.125}};
  r.breakdown.compression.value = r.stages[1].breakdown.compression.value = 0.375;
  r.host_memory.peak.value = 5;
  r.host_memory.weights.value = 1;
  r.idle_devices = 3;
  r.host_calls = Result::HostCalls{9, 4, 3, 2, false, 1};
  r.expert_load = Result::ExpertLoad{2, 0.5, Seconds{0.25}, Seconds{0.125}};
  for (const MechanismFigureKind& kind : mechanisms().find("parameter-server", {}).figures)
    r.servers[kind.key] = kind.none;
  r.servers["shares"] = NumbersByName{{"server 0", 1}};
  r.servers["stages"] = std::vector<NamedTime>{{"push", 0.5}};
  r.replicas = {{"delay", std::int64_t{2}},
                {"local_steps", std::int64_t{3}},
                {"inner_steps", std::int64_t{100}},
                {"workers", std::int64_t{14}},
                {"gossip", "ring"},
                {"neighbours", std::int64_t{2}},
                {"spectral_gap", std::optional{0.25}}};
  r.staleness = {{0, 7}, {12, 1}};
  r.steps = 4;
  r.input.emplace().starved_share = 0.5;
  r.failures.emplace().checkpoint.interval.value = 60;
  r.failures->checkpoint.best.simulated = Seconds{50};
  r.failures->checkpoint.snapshot.value = 0.5;
  r.failures->effective_epochs = 2;
  r.failures->planned_epochs = 3;
  r.failures->set_failures.push_back({"gpu 5", Seconds{10}, Seconds{2}, 5, 1, false});
  r.failures->pools.push_back({"training", 8, 2, Seconds{3}});
  r.failures->reduced_replicas.push_back({7, Seconds{2.5}, true});
  r.capacity.emplace().largest_micro_batch_size = 4;
  r.capacity->safe_micro_batch_size = 3;
  r.changes.push_back({"plan.recompute=full", Bytes{1e9}, false, Seconds{2}, 0.25, "host memory"});
  r.step_time_source = "measured";
  r.training_steps = 10;
  r.phases.push_back({"evaluation", Seconds{3}, 2});
  r.measured = {Seconds{1}, "a table"};
  r.energy.emplace();
  r.energy->parts = {{"GPU", 3}, {"CPU", 1}};
  r.energy->pue = 1.5;
  r.energy->not_stated = "switch";
  r.post_training.emplace();
  r.post_training->limit = LoopLimit::both_in_turn;
  r.post_training->likely_step_times = {40, 60};
  r.post_training->likely_samples = {2, 3};
  r.post_training->staleness = {{0, 3}, {1, 5}};
  r.post_training->pools = {
      {"training", 8, {{"waiting", Seconds{0}, Seconds{1}}, {"training", Seconds{1}, Seconds{2}}}}};
  r.post_training->phases = {{"reward", Bytes{3}, Bytes{4}}};
  r.post_training->step_time.value = 2;
  r.post_training->tokens_per_s = 100;
  r.generation.emplace().tokens_per_s = 100;
  r.generation->likely_tokens = r.generation->likely_time = {90, 110};
  r.generation->likely_token = r.generation->likely_first_token = {0.9, 1.1};
  r.splits.emplace_back();
  r.training_time.value = 20;
  r.alone_time.value = 2;
  r.flow_step_time = Seconds{1.5};
  r.full_pods = "the last pod, 84 of 128 nodes, counts as full; the step may be up to 0.36 % off";
  r.shared_draws = "all replicas are as slow as the slowest of the step";
  r.drawn_steps = DrawnSteps{Seconds{2}, Seconds{0.1}, Seconds{1.5}, Seconds{2.5}, 300};
  r.failures->end.value = 30;
  Ownership ownership;
  ownership.purchase_prices = {{"nodes", 8}};
  ownership.yearly = {{"depreciation", 2}, {"interest", 0}, {"electricity", 1}, {"cooling", 0.5}};
  ownership.rents = {{"on demand", 0, 9}};
  ownership.spot_year = 4;
  ownership.training = 1;
  ownership.owned_nodes = 3;
  ownership.delivery = 60;
  r.money = Money{
      "EUR", 2, 3, true, 4, ownership, {{"spot", "no checkpoint", 1, 2, 0.5, 3}, {"on demand", "", 1, 2, 0.5, 3, 7}},
      5};
  r.wall_s.value = 1;
  r.extrapolated = {72, 8};
  const json j = to_json(r);
  const Result back = result_from_json(j);
  CHECK(to_json(back) == j);
  CHECK(back.staleness == r.staleness);
  CHECK(back.energy->step() == 6);
  CHECK(back.money->training == 4);
  CHECK(j.at("tokens_per_J") == Approx(100 * 2 / 6.0));
  CHECK(figure<std::optional<double>>(back.replicas, "spectral_gap") == 0.25);
  CHECK(figure<std::vector<NamedTime>>(back.servers, "stages").at(0).time == 0.5);
  CHECK(back.all_reduce.averages_parameters);
  CHECK(back.post_training->limit == LoopLimit::both_in_turn);
  CHECK(back.changes[0].set == "plan.recompute=full");
  CHECK(j.at("memory_bytes").at("stages")[1] == j.at("stages")[1].at("memory_bytes"));
  CHECK(back.stages.at(1).layers == 3);
  CHECK(back.stages.at(1).breakdown.exposed_communication.at("p2p") == 0.5);
  CHECK(j.at("compression").at("ratio") == 4);
  CHECK(back.compression.decode.value == 0.125);
  CHECK(!back.capacity->largest_num_hidden_layers);
  CHECK(back.capacity->safe_micro_batch_size == 3);
  CHECK(j.at("largest_num_hidden_layers").is_null());
  CHECK(j.at("staleness").at("12") == 1);

  // If all optional fields are present, JSON and reference have the same keys.
  WhatIf faster{"HCA", 2, Seconds{1}};
  faster.goodput = 0.9;
  faster.compared_with.value = 2;
  WhatIf without_goodput{"HCA", 2, Seconds{1}};
  without_goodput.goodput_refused = "it ends before a failure";
  FailureWhatIf without_training;
  without_training.refused = "it ends before a failure";
  Answer answer{r, {faster, without_goodput}, {{"a", "1", "b", false}}, {{PathLine{}}}, {{without_training}}};
  answer.result.refused_what_ifs = {{}};
  const json full_json = answer_json(answer, true);
  CHECK(full_json.at("what_if")[0].at("saves_share") == 0.5);
  const Reference reference = reference_of(answer_fields().rows());
  std::set<std::string> paths, explained;
  add_paths(full_json, "", reference, paths);
  // The time of a what-if has the name of what the answer is about.
  Answer other = answer;
  CHECK(full_json.at("what_if")[0].contains("loop_time_s"));
  other.result.post_training.reset();
  add_paths(answer_json(other, true), "", reference, paths);
  CHECK(answer_json(other, true).at("what_if")[0].contains("generation_time_s"));
  other.result.generation.reset();
  add_paths(answer_json(other, true), "", reference, paths);
  CHECK(answer_json(other, true).at("what_if")[0].contains("step_time_s"));
  for (const auto& [path, row] : reference) explained.insert(path);
  CHECK(paths == explained);
  CHECK_FALSE(answer_json(answer, false).contains("wall_s"));
}

TEST_CASE("every column of a sweep is a field of the answer", "[answer][sweep]") {
  const Reference answer = reference_of(result_fields().rows());
  for (const SweepColumn& column : sweep_columns()) {
    CAPTURE(column.name);
    std::string path = column.path;
    if (path.ends_with(".0") || path.ends_with(".1")) path.resize(path.size() - 2);  // an item of an array
    CHECK(answer.contains(path));
  }
  const Reference sweep = reference_of(json_references().find("sweep", {}).rows());
  for (const char* name : {"memory_peak_bytes", "memory_low_bytes", "memory_high_bytes"})
    CHECK(sweep.at(std::string("points[].") + name).type == "bytes");
  CHECK(sweep.at("points[].step_time_low_s").type == "s");
}

}  // namespace scenarios_test_result_fields
