// The parts of a step sum to the step, in JSON and on the screen, in every scenario, lesson and mode.
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "models/reading/document.hpp"
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/pictures/step_picture.hpp"
#include "scenarios/src/planning/size.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/running/step_run.hpp"
#include "scenarios/src/studies/failures/failure_study.hpp"
#include "scenarios/src/studies/layer_costs.hpp"
#include "sim/error.hpp"
#include "strategies/mechanisms/mechanism.hpp"
#include "tools/reports/report.hpp"

namespace tools_test_parts {

using namespace trainyard;
using Json = nlohmann::ordered_json;

namespace {

namespace fs = std::filesystem;

/// A scenario's file and the changes with which it is run.
struct ScenarioRun {
  fs::path file;
  Overrides changes;
};

/// Reads the changes of a command such as `run {this} --set a=b`. No value: another verb, or another file.
std::optional<Overrides> changes_of_command(const std::string& command) {
  if (!std::regex_search(command, std::regex("^run \\{this\\}"))) return std::nullopt;
  static const std::regex set("--set (?:\"([^\"]*)\"|'([^']*)'|([^ ]+))");
  Overrides changes;
  for (auto found = std::sregex_iterator(command.begin(), command.end(), set); found != std::sregex_iterator();
       ++found) {
    const std::string text = (*found)[1].str() + (*found)[2].str() + (*found)[3].str();
    const std::size_t equals = text.find('=');
    changes.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return changes;
}

/// The changes of a lesson's runs, except the run without changes.
std::vector<Overrides> runs_of_lesson(const fs::path& file) {
  std::vector<Overrides> all;
  const Node document = read_document(file);
  const Node* lesson = document.find("lesson");
  const Node* runs = lesson ? lesson->find("runs") : nullptr;
  if (runs)
    for (const auto& [name, command] : runs->fields)
      if (const auto changes = changes_of_command(command.scalar); changes && !changes->empty())
        all.push_back(*changes);
  return all;
}

std::vector<ScenarioRun> shipped_runs() {
  std::vector<ScenarioRun> all;
  const fs::path folder = fs::path(TRAINYARD_SOURCE_DIR) / "scenarios";
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const std::string place = fs::relative(entry.path(), folder).generic_string();
    if (entry.path().extension() != ".yaml" || place.starts_with("src/") || place.starts_with("measured/")) continue;
    all.push_back({entry.path(), {}});
    for (Overrides& changes : runs_of_lesson(entry.path())) all.push_back({entry.path(), std::move(changes)});
  }
  std::ranges::sort(all, {}, [](const ScenarioRun& run) { return std::pair(run.file, run.changes); });
  return all;
}

double sum_of(const Json& parts) {
  double sum = 0;
  for (const Json& part : parts) sum += part.is_object() ? sum_of(part) : part.get<double>();
  return sum;
}

Approx near(double value) { return Approx(value).epsilon(1e-9).margin(1e-15); }

/// Shares are between 0 and 1, and no time, size or count is negative.
void check_numbers(const Json& j, const std::string& path) {
  if (j.is_structured())
    for (const auto& [key, value] : j.items()) check_numbers(value, path + "." + key);
  if (!j.is_number()) return;
  CAPTURE(path);
  const double value = j.get<double>();
  CHECK(value >= 0);
  const bool share = path.find("share") != std::string::npos || path.ends_with(".goodput");
  if (share) CHECK(value <= 1 + 1e-9);
  if (share || path.ends_with("_probability")) CHECK((value == 0 || value >= 1e-9));
}

void check_memory(const Json& j, std::vector<const char*> parts) {
  double sum = 0;
  for (const char* part : parts) sum += j.at(part).get<double>();
  CHECK(sum == near(j.at("peak").get<double>()));
}

/// The memory of the device holds what the allocator takes, which holds the peak; the interval holds the device's.
void check_device(const Json& j) {
  const Json& memory = j.at("memory_bytes");
  const double most = 1 + 1e-12, peak = memory.at("peak"), reserved = memory.at("reserved"),
               device = memory.at("device"), needed = memory.at("needed");
  CHECK((peak <= reserved * most && reserved <= device * most));
  CHECK((peak <= needed * most && needed <= device * most));
  CHECK((j.at("memory_interval_bytes").at(0) <= device && j.at("memory_interval_bytes").at(1) >= device));
  if (!j.contains("host_memory_bytes") && !j.contains("drive_bytes"))
    CHECK(j.at("fits") == (needed <= memory.at("usable").get<double>()));
}

void check_training(const Json& j) {
  double phases = 0;
  for (const Json& phase : j.value("training_phases", Json::array()))
    phases += phase.at("time_s").get<double>() * phase.at("times").get<double>();
  if (j.contains("failures")) {
    const Json& f = j.at("failures");
    const double end = f.at("training_time_s");
    const double lost = j.at("lost_work_s").get<double>() + f.at("checkpoint_stall_s").get<double>() +
                        f.at("down_s").get<double>() + f.at("waiting_for_repair_s").get<double>() +
                        f.at("fewer_replicas_s").get<double>() + f.at("unfinished_step_s").get<double>();
    CHECK(j.at("goodput").get<double>() * end + lost == Approx(end).epsilon(1e-6));
    CHECK(j.at("training_time_s") == near(end + phases));
  } else if (j.contains("training_time_s")) {
    CHECK(j.at("training_time_s") == j.at("training_time_without_failures_s"));
  }
  if (j.contains("training_time_s")) CHECK(j.at("training_time_without_failures_s").get<double>() >= phases);
}

/// Checks the parts in the JSON of `run`.
void check_json(const Json& j, const Scenario& s) {
  const double step = j.at("step_time_s"), own = j.at("breakdown_step_time_s");
  const Json& parts = j.at("breakdown_s");
  CHECK(sum_of(parts) == near(own));
  CHECK(parts.at("other").get<double>() < 0.01 * own);
  if (s.plan.mechanism->is_synchronous()) CHECK(own == near(step));
  if (s.plan.inference) CHECK(parts.at("optimizer") == 0);
  check_numbers(j, "");
  check_memory(j.at("memory_bytes"), {"parameters", "gradients", "optimizer", "activations", "buffers"});
  check_device(j);
  double least = step;
  for (const Json& stage : j.value("stages", Json::array())) {
    CHECK(sum_of(stage.at("breakdown_s")) == near(step));
    check_memory(stage.at("memory_bytes"), {"parameters", "gradients", "optimizer", "activations", "buffers"});
    least = std::min(least, stage.at("breakdown_s").at("bubble").get<double>());
  }
  if (j.contains("stages")) CHECK(parts.at("bubble").get<double>() == Approx(least).margin(1e-8 * step));
  if (j.contains("host_memory_bytes"))
    check_memory(j.at("host_memory_bytes"),
                 {"parameters", "gradients", "optimizer", "activations", "buffers", "input"});
  if (const Json& path = j.at("critical_path_s"); !path.empty()) {
    CHECK(sum_of(path) == near(step));
    double longest = 0;
    for (const Json& seconds : path) longest = std::max(longest, seconds.get<double>());
    CHECK(longest == near(j.at("bottleneck").at("share").get<double>() * step));
  }
  const Json& traffic = j.at("traffic_bytes");
  CHECK(sum_of(traffic.at("by_content")) == near(traffic.at("total").get<double>()));
  double sent = 0, received = 0;
  for (const Json& actor : j.value("actors", Json::array())) {
    sent += actor.at("sent").get<double>() * actor.at("count").get<double>();
    received += actor.at("received").get<double>() * actor.at("count").get<double>();
  }
  // A message under way at the edge of the averaged steps counts on one side only.
  if (j.contains("actors")) CHECK(sent == Approx(traffic.at("total").get<double>()).epsilon(0.02));
  if (j.contains("actors")) CHECK(received == Approx(sent).epsilon(0.02));
  if (j.contains("waits_for_ranks_s"))
    CHECK(j.at("waits_for_ranks_s").get<double>() <= parts.at("bubble").get<double>() + 1e-9 * step);
  if (j.contains("waits_s") && s.plan.mechanism->is_synchronous()) CHECK(sum_of(j.at("waits_s")) <= step * (1 + 1e-9));
  if (j.contains("servers") && j.at("servers").contains("stages")) {
    double sum = 0;
    for (const Json& stage : j.at("servers").at("stages")) sum += stage.at("time_s").get<double>();
    CHECK(sum >= step * (1 - 1e-6));
  }
  if (j.contains("starved_share")) CHECK(j.at("starved_share").get<double>() * own == near(parts.at("input")));
  if (j.contains("compression")) {
    const double kernels =
        j.at("compression").at("encode_s").get<double>() + j.at("compression").at("decode_s").get<double>();
    const double slack = s.document.find("faults") ? 0.01 : 1e-9;  // the kernels of a straggler are drawn at random
    CHECK(kernels <= parts.value("compression", 0.0) * (1 + slack));
  }
  if (j.contains("energy"))
    CHECK(sum_of(j.at("energy").at("devices_J")) * j.at("energy").at("pue").get<double>() ==
          near(j.at("energy").at("step_J")));
  check_training(j);
}

/// The parts on the screen sum to the printed step, which is the step of the JSON.
void check_screen(const std::string& text, const Json& j) {
  CAPTURE(text);
  const std::regex line("\n +(compute [0-9][^(]*)\\((s|ms|us), together ([0-9.]+)");
  std::smatch found;
  REQUIRE(std::regex_search(text, found, line));
  const std::string parts = found[1];
  double sum = 0;
  const std::regex number(" ([0-9]+\\.?[0-9]*)(?= +│| *\n|   )");
  for (auto part = std::sregex_iterator(parts.begin(), parts.end(), number); part != std::sregex_iterator(); ++part)
    sum += std::stod((*part)[1]);
  const double unit = found[2] == "s" ? 1 : found[2] == "ms" ? 1e-3 : 1e-6;
  CHECK(fmt::format("{:.6g}", sum) == fmt::format("{:.6g}", std::stod(found[3])));
  CHECK(sum * unit == Approx(j.at("breakdown_step_time_s").get<double>()).epsilon(2e-3));  // three digits of each part
}

/// The layers and the compute beside them sum to the compute of the step.
void check_layers(const Scenario& s, const Plan& laid_out, const Result& r) {
  const Json j = layer_costs_json(layer_costs(s, laid_out.training, r.breakdown.rank), r);
  double shares = 0, kinds = 0;
  for (const Json& layer : j.at("layers")) shares += layer.at("share").get<double>();
  for (const Json& kind : j.at("kernels")) kinds += kind.at("share").get<double>();
  const double step = j.at("step_time_s");
  CHECK(shares == Approx(j.at("layers_s").get<double>() / step).epsilon(1e-6));
  CHECK(kinds == Approx(shares).epsilon(1e-6));
  CHECK(j.at("layers_s").get<double>() + j.at("accumulation_s").get<double>() + j.at("bucket_copies_s").get<double>() +
            j.at("slowed_by_communication_s").get<double>() ==
        near(j.at("compute_s")));
  CHECK(shares <= r.breakdown.step_time.value / r.step_time.value * (1 + 1e-9));
}

/// The tones of the picture of one step sum to it, and its length is that of the step, or it states the mean.
void check_picture(const StepRun& run) {
  const StepPicture picture = step_picture(run, run.last(), PicturePart::one_step);
  double sum = 0;
  for (const StepPicture::Tone& tone : picture.tones) sum += tone.seconds;
  CHECK(sum == Approx(picture.end).epsilon(1e-6));
  CHECK(picture.title.ends_with(": " + show(Seconds{picture.end})));
  const double mean = (run.end_of_steps() - run.begin()) / run.steps();
  const double expected = run.plan.marks_steps ? mean : mean * run.steps();
  if (!run.planned.search && run.is_synchronous() && std::abs(picture.end - expected) > 0.05 * expected)
    CHECK_THAT(picture.subtitle, Catch::Contains(" each in the mean"));  // steps differ, as with late updates
}

/// Simulates a step, and checks the parts in its JSON, on its screen and in its layers.
void check_answer(const Scenario& s, const Plan& laid_out, bool checks_picture) {
  SimulateOptions options;
  if (checks_picture) options.watch = check_picture;
  const Result r = simulate_training(s, laid_out, options);
  if (!laid_out.search)  // without a critical path kernels run as one, exactly so if nothing slows them
    CHECK(simulate(s, laid_out, {.critical_path = false}).step_time.value == Approx(r.step_time.value).epsilon(2e-3));
  const Json j = to_json(r);
  check_json(j, s);
  check_screen(screen(s, laid_out, r, {}), j);
  check_layers(s, laid_out, r);
}

/// A picture records each operation. More operations of a step than these would fill the memory.
constexpr double kMostOfPicture = 5e6;

/// Checks the shipped runs with at most `most` operations per step, with these changes.
/// Skips those that are impossible. Returns the number of checked runs.
int check_shipped(double most, const Overrides& changes = {}) {
  int checked = 0;
  for (const ScenarioRun& run : shipped_runs()) {
    CAPTURE(run.file.string());
    Overrides all = run.changes;
    all.insert(all.end(), changes.begin(), changes.end());
    try {
      const Scenario s = read_scenario(run.file, all);
      if (s.prescribed_step.exists()) continue;
      const Plan laid_out = plan(s);
      if (estimated_operations(laid_out) > most) continue;
      check_answer(s, laid_out, estimated_operations(laid_out) < std::min(0.1 * most, kMostOfPicture));
      ++checked;
    } catch (const UserError&) {  // the scenario has no step, or none with these changes
    }
  }
  return checked;
}

constexpr double kCheap = 1e5, kAll = 1e12;

struct Mode {
  const char* name;
  Overrides changes;
  int least;  ///< least number of cheap runs in which it is possible
};

const std::vector<Mode>& modes() {
  static const std::vector<Mode> all{
      {"as they stand", {}, 60},
      {"inference",
       {{"plan.mode", "inference"},
        {"plan.optimizer", "null"},
        {"plan.training", "null"},
        {"plan.recompute", "null"},
        {"plan.measured_step", "null"},
        {"learn", "null"},
        {"faults", "null"},
        {"input", "null"}},
       20},
      {"input",
       {{"input",
         "{dataset: {samples: 100000, sample_size: 110 kB}, storage: nfs-10g, decode: {workers: 8, rate: 100 "
         "/s}, sample_on_gpu: 150528 B}"}},
       10},
      {"input without overlap",
       {{"input",
         "{dataset: {samples: 100000, sample_size: 110 kB}, storage: nfs-10g, decode: {workers: 8, rate: 100 "
         "/s}, sample_on_gpu: 150528 B, overlap: none}"}},
       10},
      {"failures",
       {{"faults",
         "{failures: {mtbf: {gpu: 5000 h, node: 20000 h}}, checkpoint: {every: 30 min, storage: nfs-10g}, "
         "restart: {restart: 5 min}}"},
        {"plan.training", "{steps: 20000, start: 60 s, weights: true, rank_0: {time: 3 s, every: 1000}}"}},
       10},
      {"compression", {{"plan.data_parallel.compression", "{name: top-k, density: 0.01}"}}, 10},
      {"local steps", {{"plan.data_parallel.mechanism", "local-sgd"}, {"plan.data_parallel.local_steps", "4"}}, 10},
      {"gossip", {{"plan.data_parallel", "{mechanism: gossip, gossip: ring}"}}, 5},
      {"servers", {{"plan.data_parallel.mechanism", "parameter-server"}, {"plan.data_parallel.servers", "1"}}, 5},
      {"asynchronous servers",
       {{"plan.data_parallel.mechanism", "parameter-server"},
        {"plan.data_parallel.servers", "{count: 2}"},
        {"plan.data_parallel.consistency", "asynchronous"}},
       2},
      {"central storage", {{"plan.strategy", "tf-central-storage"}}, 3},
      {"a pipeline", {{"plan.pipeline_parallel", "2"}}, 3},
      {"shards", {{"plan.data_parallel.zero_stage", "3"}}, 10},
      {"TCP", {{"cluster.hca.transport", "tcp"}}, 3},
      {"products in fp8, each of several launches",
       {{"plan.precision", "fp8"}, {"software.fp8_linear_launches", "23"}, {"software.host.runs_ahead", "true"}},
       3},
      {"several steps", {{"plan.steps", "5"}}, 10}};
  return all;
}

void check_modes(double most) {
  for (const Mode& mode : modes()) {
    INFO(mode.name);
    const int checked = check_shipped(most, mode.changes);
    CHECK(checked >= mode.least);
    UNSCOPED_INFO(fmt::format("{}: {}", mode.name, checked));
  }
}

}  // namespace

TEST_CASE("parts sum to the step in every cheap scenario, lesson and mode", "[breakdown][scenarios]") {
  check_modes(kCheap);
}

TEST_CASE("parts sum to the step in every scenario, lesson and mode", "[breakdown][.deep]") { check_modes(kAll); }

TEST_CASE("parts sum to the step with context parallelism and networks of operators", "[breakdown][scenarios]") {
  const std::string llama = "llama3-8b-fsdp-64xh100.yaml", gpt2 = "gpt2-xl-ddp-dgx-a100.yaml";
  const auto network = [](const char* name, Overrides more) {
    more.insert(more.end(), {{"model", name}, {"plan.micro_batch_size", "1"}, {"plan.global_batch_size", "32"}});
    return more;
  };
  const std::pair<std::string, Overrides> runs[] = {
      {llama, {{"plan.context_parallel", "{size: 8}"}}},
      {llama, {{"plan.context_parallel", "{size: 8, exchange: all-to-all}"}}},
      {llama, {{"plan.context_parallel", "{size: 8, ulysses: 2}"}}},
      {gpt2, network("dit-xl-2", {})},
      {gpt2, network("dit-xl-2", {{"plan.context_parallel", "{size: 2, exchange: all-to-all}"}})},
      {gpt2, network("qwen2.5-vl-7b", {{"plan.data_parallel", "{zero_stage: 3}"}})},
      {gpt2, network("qwen2.5-vl-7b", {{"plan.mode", "inference"}, {"plan.optimizer", "null"}})}};
  for (const auto& [file, changes] : runs) {
    CAPTURE(file, changes);
    const Scenario s = read_scenario(fs::path(TRAINYARD_SOURCE_DIR) / "scenarios" / file, changes);
    check_answer(s, plan(s), false);
  }
}

TEST_CASE("the wait for samples is a part of the step, as the screen says", "[breakdown][input]") {
  const fs::path file = fs::path(TRAINYARD_SOURCE_DIR) / "scenarios/input-resnet50-dgx.yaml";
  const Scenario s = read_scenario(file);
  const Result r = simulate(s);
  CHECK(r.breakdown.step_time.value == near(r.step_time.value));
  CHECK(r.breakdown.input.value > r.breakdown.compute.value);
  const std::string text = screen(s, plan(s), r, {});
  CHECK(text.find(fmt::format("together {:.1f}", r.step_time.value * 1e3)) != std::string::npos);
  CHECK(text.find("whose own steps") == std::string::npos);
}

TEST_CASE(
    "waits for the host are the part of the framework, the critical path has all that a late host launches, and "
    "waiting "
    "GPUs draw idle power",
    "[breakdown]") {
  const fs::path file = fs::path(TRAINYARD_SOURCE_DIR) / "scenarios/gpt2-one-a100.yaml";
  for (const char* batch : {"1", "32"}) {
    const Scenario s = read_scenario(file, {{"plan.micro_batch_size", batch}});
    const Result r = simulate(s);
    const auto host = r.critical_path.find("framework");
    const double waits = host == r.critical_path.end() ? 0 : host->second;
    CAPTURE(batch, screen(s, plan(s), r, {}));
    CHECK((waits >= 0.05 * r.step_time.value) == (std::string(batch) == "1"));
    CHECK(r.breakdown.framework.value <= waits + 1e-9);
    if (std::string(batch) == "32")
      CHECK(r.breakdown.framework.value == Approx(waits).margin(0.02 * r.step_time.value));
    // A GPU that waits draws its idle power.
    const PowerDraw& draw = s.cluster.node.gpu.power;
    const double running = 1 - r.breakdown.framework.value / r.step_time.value;
    CHECK(r.energy->gpu_power == Approx(draw.idle.value + (draw.busy.value - draw.idle.value) * running).epsilon(0.01));
  }
}

TEST_CASE("the critical path of joined kernels has the resources of the path of single ones", "[breakdown]") {
  // A step of so many operations joins the kernels of a pass, unless its path is recorded piece by piece. The host is late
  // for the first kernel of a pass that follows a message.
  const Scenario s = read_scenario_text(
      "cluster: {nodes: [{count: 1, node: dgx-b200}, {count: 1, node: dgx-h100}], fabric: nonblocking}\n"
      "model: llama-3-8b\nsoftware: megatron-core\nplan: {strategy: megatron, global_batch_size: 512, "
      "micro_batch_size: "
      "1, "
      "seq_length: 4096, precision: bf16, pipeline_parallel: 8, data_parallel: {size: 2, zero_stage: 1}}\n",
      "joined.yaml");
  const Result joined = simulate(s), single = simulate(s, {.path_pieces = true});
  REQUIRE(joined.step_time.value == Approx(single.step_time.value).epsilon(1e-9));
  for (const auto& [resource, seconds] : single.critical_path) {
    const auto found = joined.critical_path.find(resource);
    CAPTURE(resource, seconds);
    CHECK((found == joined.critical_path.end() ? 0 : found->second) ==
          Approx(seconds).margin(0.02 * single.step_time.value));
  }
}

TEST_CASE("a forward pass has no layers of a backward pass", "[layers]") {
  const fs::path file = fs::path(TRAINYARD_SOURCE_DIR) / "scenarios/gpt2-one-a100.yaml";
  const Scenario s = read_scenario(file, {{"plan.mode", "inference"}, {"plan.optimizer", "null"}});
  const Result r = simulate(s);
  const LayerCosts costs = layer_costs(s, plan(s).training, 0);
  CHECK(costs.micro_batch.flops == s.network.forward_flops());
  CHECK(costs.accumulation == Seconds{0});
  CHECK(costs.step().value <= r.step_time.value);
}

TEST_CASE("the stages of servers with local sums cover the step", "[breakdown][servers]") {
  const Scenario s = read_scenario(fs::path(TRAINYARD_SOURCE_DIR) / "scenarios/dataparallel/two-level-servers.yaml");
  const Result r = simulate(s);
  double sum = 0, update = 0, exchange = 0;
  for (const NamedTime& stage : figure<std::vector<NamedTime>>(r.servers, "stages")) {
    sum += stage.time;
    if (stage.name == "update on the servers") update = stage.time;
    if (stage.name == "push" || stage.name == "update on the servers" || stage.name == "pull") exchange += stage.time;
  }
  CHECK(update > 0);
  // No wait of a worker has the name of a stage that takes longer.
  const auto waits = figure<NumbersByName>(r.servers, "waits_s");
  CHECK(waits.at("exchange with the servers") > 0.99 * exchange);
  for (const char* name : {"push", "pull", "barrier"}) CHECK_FALSE(waits.contains(name));
  CHECK(sum == Approx(r.step_time.value).epsilon(1e-3));
}

}  // namespace tools_test_parts
