// Anchors: figures of a stack and a node are fitted to steps that a user measured.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>

#include "models/fitted/measured_family.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "scenarios/src/studies/measured/anchor.hpp"
#include "scenarios/src/studies/measured/left_out_errors.hpp"
#include "scenarios/src/studies/measured/ratio_doubt.hpp"
#include "scenarios/src/studies/measured/step_doubt.hpp"
#include "tests/temporary_folder.hpp"

namespace scenarios_test_anchor {

using namespace trainyard;
using Catch::Matchers::Contains;

namespace {

constexpr const char* kScenario = "scenarios/llama3-8b-fsdp-64xh100.yaml";

Node document_of(const Overrides& sets = {}) {
  Node document = read_scenario_document(shipped_file(kScenario));
  set_field(document, "software", "pytorch-fsdp");
  for (const auto& [path, value] : sets) set_field(document, path, value);
  return document;
}

double step_time(const Node& document) {
  return simulate(read_scenario(document, "s"), {.critical_path = false}).step_time.value;
}

/// A step of a machine whose kernels take `slower` times as long as the catalog says.
AnchorStep step_of(const std::string& id, const Overrides& plan, double slower) {
  Node document = document_of(plan), machine = document;
  const Scenario s = read_scenario(document, id);
  const SoftwareStack::Slowdowns& slow = s.software.slowdowns;
  const std::pair<const char*, double> slowdowns[] = {{"products", slow.products},
                                                      {"attention", slow.attention},
                                                      {"elementwise", slow.elementwise},
                                                      {"optimizer", slow.optimizer}};
  for (const auto& [key, value] : slowdowns)
    set_field(machine, std::string("software.slowdowns.") + key, fmt::format("{}", value * slower));
  return {id, document, step_time(machine)};
}

}  // namespace

TEST_CASE("an anchor finds kernels that are slower than the catalog's, and predicts other plans", "[anchor]") {
  const Overrides small_plan{{"cluster.nodes", "1"}, {"plan.global_batch_size", "8"}},
      medium_plan{{"cluster.nodes", "2"}, {"plan.global_batch_size", "16"}};
  const Anchor anchor =
      anchor_steps({step_of("8", small_plan, 1.1), step_of("16", medium_plan, 1.1)}, {step_of("64", {}, 1.1)});
  const AnchorScale& kernels = anchor.scales.front();
  CHECK(kernels.is_determined());
  CHECK((kernels.factor > 1.04 && kernels.factor < 1.1));  // between the catalog's 1 and the measured 1.1
  CHECK(kernels.spread < kernels.prior);
  CHECK_FALSE(anchor.scales[1].is_determined());  // the host is hidden behind the GPU
  CHECK(anchor.scales[1].factor == 1);
  REQUIRE(anchor.judged.size() == 1);
  const AnchorStep& judged_step = anchor.judged.front();
  CHECK(std::abs(judged_step.error_after()) < 0.5 * std::abs(judged_step.error_before()));
  CHECK(anchor.structures.front().sets.empty());
  CHECK(anchor.basis.devices == 16);
  CHECK(anchor.basis.gpu == "h100-sxm5-80gb");
  CHECK(anchor.odd.empty());

  // The written stack gives the same step time as its changes with --set, and the anchor's interval.
  const test::TemporaryFolder folder;
  folder.write("catalog/stacks/mine.yaml", anchored_stack_yaml(anchor, "runs.csv"));
  Node document = document_of({{"software", "mine"}}), changed_document = document_of(anchor.sets);
  ::setenv("TRAINYARD_PATH", (folder.path() / "catalog").c_str(), 1);
  CHECK(step_time(document) == Approx(step_time(changed_document)).epsilon(1e-12));
  const Scenario s = read_scenario(document, "s");
  const Result r = answer(s).result;
  ::unsetenv("TRAINYARD_PATH");
  CHECK(judged_step.after == Approx(r.step_time.value).epsilon(1e-12));
  const DoubtModel& doubt = DoubtModel::shipped();
  const StepProfile profile = profile_of(s, r);
  const auto beyond = [&doubt](const char* term, double share, double measured) {
    return std::pow(doubt.spread_of(term) * std::max(0.0, share - measured), 2);
  };
  double variance = std::pow(anchor.basis.spread, 2) + std::pow(doubt.spread_of("scale"), 2);  // 64 > 2 x 16 devices
  for (std::size_t part = 0; part < kPathParts.size(); ++part) {
    CHECK(anchor.basis.path[part] > 0);
    variance += beyond((std::string(kPathParts[part]) + " path").c_str(), profile.path[part], anchor.basis.path[part]);
  }
  StepProfile measured = profile;
  measured.path = anchor.basis.path;
  measured.devices = anchor.basis.devices;
  measured.slow_host = anchor.basis.slow_host;
  const ProfilePlace place = place_of(profile), measured_place = place_of(measured);
  for (std::size_t i = 0; i < place.size(); ++i) variance += beyond("distance", place[i], measured_place[i]);
  CHECK(step_doubt(s, r).spread == Approx(std::sqrt(variance)).epsilon(1e-3));
}

TEST_CASE("an anchored stack is less sure of steps that are unlike the measured ones", "[anchor]") {
  const Scenario base = read_scenario(document_of(), "s");
  const Result r = simulate(base, {.critical_path = false});
  SoftwareStack::Anchor anchor{.spread = 0.08,
                               .stack = "pytorch-fsdp",
                               .gpu = "h100-sxm5-80gb",
                               .networks = {"dense decoders"},
                               .precisions = {"bf16"},
                               .features = {},
                               .devices = 64};
  anchor.path = profile_of(base, r).path;
  anchor.slow_host = profile_of(base, r).slow_host;
  const auto spread_with = [&](const auto& change) {
    Scenario s = base;
    s.software.anchor = anchor;
    change(s);
    return step_doubt(s, r).spread;
  };
  const double measured_spread = spread_with([](Scenario&) {});
  CHECK(measured_spread == Approx(0.08));
  const DoubtModel& doubt = DoubtModel::shipped();
  CHECK(spread_with([](Scenario& s) { s.cluster.node.gpu.name = "a100-sxm4-80gb"; }) ==
        Approx(std::hypot(0.08, doubt.spread_of("combination"))));
  CHECK(spread_with([](Scenario& s) { s.software.anchor.precisions = {"fp8"}; }) ==
        Approx(std::hypot(0.08, doubt.spread_of("combination"))));
  CHECK(spread_with([](Scenario& s) { s.software.anchor.path = {}; }) > measured_spread);
  CHECK(spread_with([](Scenario& s) { s.software.anchor.devices = 16; }) ==
        Approx(std::hypot(0.08, doubt.spread_of("scale"), doubt.spread_of("distance") * 0.03 * std::log(4))));
  CHECK(spread_with([](Scenario& s) { s.cluster.node.gpu.architecture = "cdna3"; }) ==
        Approx(0.08));  // these devices were measured, whoever made them
  CHECK(spread_with([](Scenario& s) {
          s.cluster.node.gpu.name = "mi300x";
          s.cluster.node.gpu.architecture = "cdna3";
        }) > std::hypot(0.08, doubt.spread_of("vendor")));
}

TEST_CASE("steps that no scale fits widen what an anchor leaves in doubt, and contradictory ones are named",
          "[anchor]") {
  const Overrides small_plan{{"cluster.nodes", "1"}, {"plan.global_batch_size", "8"}};
  const AnchorStep right_step = step_of("right", small_plan, 1);
  AnchorStep slow_step = step_of("slow", small_plan, 1);
  const Anchor good_anchor = anchor_steps({right_step, right_step}, {});
  CHECK(good_anchor.contradictions.empty());
  // Two steps of one plan count as one, and an anchor never widens the interval of steps that it fits.
  CHECK(good_anchor.basis.spread == Approx(spread_of_anchor(1, 0)));
  CHECK(good_anchor.basis.spread < DoubtModel::shipped().spread_of("any"));
  CHECK(anchor_steps(std::vector<AnchorStep>(8, right_step), {}).basis.spread ==
        Approx(good_anchor.basis.spread).epsilon(1e-9));
  slow_step.measured *= 1.5;
  const Anchor bad_anchor = anchor_steps({right_step, slow_step}, {});
  REQUIRE(bad_anchor.contradictions.size() == 1);
  CHECK_THAT(bad_anchor.contradictions.front(), Contains("right and slow") && Contains("1.50"));
  CHECK(bad_anchor.basis.spread > 1.3 * good_anchor.basis.spread);
  CHECK(bad_anchor.basis.spread > DoubtModel::shipped().spread_of("any"));
}

TEST_CASE("a log that states another batch, length or layout than the scenario is refused", "[anchor]") {
  const test::TemporaryFolder folder;
  const std::filesystem::path log = folder.path() / "train.log";
  const std::string steps = [] {
    std::string text;
    for (int i = 0; i < 5; ++i) text += "elapsed time per iteration (ms): 1250.0 |\n";
    return text;
  }();
  const auto read = [&](const std::string& line) {
    folder.write("train.log", line + "\n" + steps);
    return read_anchor_steps(document_of(), "run", log);
  };
  for (const char* good : {" iteration 1/10 | global batch size:    64 |", "  seq_length ............. 8192",
                           "world_size ............. 64", "using world size: 64, data-parallel size: 64"})
    CHECK(read(good).size() == 1);
  CHECK_THROWS_WITH(
      read(" iteration 1/10 | global batch size:   128 |"),
      Contains("train.log:1: global batch size 128; the scenario has 64 (--set plan.global_batch_size=128)"));
  CHECK_THROWS_WITH(read("  seq_length ............. 4096"), Contains("sequence length 4096; the scenario has 8192"));
  CHECK_THROWS_WITH(read("using world size: 32, data-parallel size: 32"),
                    Contains("number of devices 32; the scenario has 64"));
  CHECK_THROWS_WITH(read("  tensor_model_parallel_size ...... 8"), Contains("tensor-parallel size 8"));
}

TEST_CASE("steps of a log count if they ran with its last batch, and carriage returns end states of a line",
          "[anchor]") {
  const test::TemporaryFolder folder;
  const auto read = [&](const std::string& text) {
    folder.write("train.log", text);
    return read_anchor_steps(document_of(), "run", folder.path() / "train.log").front();
  };
  std::string ramp;
  for (int i = 1; i <= 10; ++i) ramp += "elapsed time per iteration (ms): 400.0 | global batch size:    16 |\r\n";
  for (int i = 1; i <= 4; ++i) ramp += "elapsed time per iteration (ms): 1250.0 | global batch size:    64 |\r\n";
  CHECK(read(ramp).measured == Approx(1.25));
  std::string bar;
  for (int i = 1; i <= 7; ++i) bar += fmt::format("completed step: {}, seconds: {}, loss: 1\r", i, i <= 3 ? 9 : 1.25);
  CHECK(read(bar).measured == Approx(1.25));
  CHECK(read(bar).place == (folder.path() / "train.log").string() + ":1");
  CHECK_THROWS_WITH(read("completed step: 1, seconds: 1.2.3, loss: 1\n"),
                    Contains("train.log:1: \"1.2.3\" is no positive number"));
  const std::string steps = ramp.substr(ramp.find("elapsed time per iteration (ms): 1250"));
  CHECK_THROWS_WITH(read("  num_layers ............ 40\n" + steps),
                    Contains("number of layers 40; the scenario has 32"));
  CHECK_THROWS_WITH(read("  params_dtype .......... torch.float16\n" + steps),
                    Contains("type of the parameters torch.float16; the scenario has torch.bfloat16"));
  CHECK_THROWS_WITH(read("  context_parallel_size . 2\n" + steps), Contains("--set plan.context_parallel=2"));
  CHECK_THROWS_WITH(read("  micro_batch_size ...... 4\n" + steps), Contains("micro-batch size 4; the scenario has 1"));
  CHECK(read("  num_layers ............ 32\n  params_dtype .......... torch.bfloat16\n  micro_batch_size . 1\n" + steps)
            .measured == Approx(1.25));
}

TEST_CASE("a step far off its prediction is refused with its place and the likely unit", "[anchor]") {
  const test::TemporaryFolder folder;
  const auto anchor = [&](const std::string& text) {
    folder.write("runs.csv", text);
    return anchor_steps(read_anchor_steps(document_of({{"cluster.nodes", "1"}, {"plan.global_batch_size", "8"}}), "run",
                                          folder.path() / "runs.csv"),
                        {});
  };
  CHECK_THROWS_WITH(anchor("step_time_s\n1300\n"), Contains("runs.csv:2: ") && Contains("is it in milliseconds?"));
  CHECK_THROWS_WITH(anchor("step_time_ms\n0.0013\n"), Contains("as from a time in ms divided twice?"));
  CHECK(anchor("step_time_ms\n1300\n").steps.front().measured == Approx(1.3));
  CHECK_THROWS_WITH(anchor("step_time_s,step_time_ms\n1.3,1300\n"), Contains("expected one of these columns"));
  CHECK_THROWS_WITH(anchor("plan.global_batch_size,step_time_s\n7,1.3\n"),
                    Contains("runs.csv:2, column plan.global_batch_size: ") && Contains("7 is not a multiple"));
  CHECK_THROWS_WITH(anchor("plan.micro_batch_size,step_time_s\n16,1.3\n"),
                    Contains("runs.csv:2: ") && Contains("is not a multiple"));
  CHECK_THROWS_WITH(anchor("seconds\n1.3\n"), Contains("expected a column step_time_s or step_time_ms"));
  CHECK_THROWS_WITH(anchor("plan.no_such_key,step_time_s\n1,1.3\n"),
                    Contains("runs.csv:2, column plan.no_such_key") && !Contains("--set"));
  CHECK_THROWS_WITH(anchor("step_time_s\n"), Contains("no rows"));
}

TEST_CASE("an anchor lists only structures whose steps differ", "[anchor]") {
  // Gradients and parameters at ZeRO 3 overlap as the plan says, whatever the stack would choose.
  const Overrides small_plan{{"cluster.nodes", "1"}, {"plan.global_batch_size", "8"}};
  REQUIRE(read_scenario(document_of(), "s").plan.zero == ZeroStage::parameters);
  CHECK(anchor_steps({step_of("8", small_plan, 1)}, {}).structures.size() == 1);
}

TEST_CASE("an anchored stack names the anchor as the source of what it changed, and keeps other sources", "[anchor]") {
  Anchor anchor;
  anchor.document = document_of({{"software",
                                  "{base: pytorch-fsdp, kernel_dispatch: 30 us, step_overhead: 4 ms, sources: "
                                  "{kernel_dispatch: my trace, step_overhead: my log}}"}});
  anchor.sets = {{"software.kernel_dispatch", "40 us"}, {"cluster.node.hca.efficiency", "0.9"}};
  const std::string yaml = anchored_stack_yaml(anchor, "runs.csv");
  CHECK_THAT(yaml, Contains("kernel_dispatch: 40 us") && Contains("kernel_dispatch: \"trainyard anchor, runs.csv\"") &&
                       Contains("step_overhead: my log") && !Contains("my trace") && !Contains("efficiency"));
  anchor.sets = {{"cluster.node.hca.efficiency", "0.9"}};
  CHECK(anchored_stack_yaml(anchor, "runs.csv").empty());
}

TEST_CASE("steps that the catalog predicts change nothing, and one odd step is named", "[anchor]") {
  const Overrides small_plan{{"cluster.nodes", "1"}, {"plan.global_batch_size", "8"}};
  const Anchor anchor = anchor_steps({step_of("8", small_plan, 1)}, {});
  for (const AnchorScale& scale : anchor.scales) CHECK(scale.factor == Approx(1).margin(1e-9));
  CHECK(anchor.steps.front().error_after() == Approx(0).margin(1e-9));
  std::vector<AnchorStep> steps;
  for (int i = 0; i < 4; ++i) steps.push_back(step_of(fmt::format("{}", i), small_plan, 1));
  steps[2].measured *= 2;
  const Anchor odd_anchor = anchor_steps(steps, {});
  CHECK(odd_anchor.odd == std::vector<std::string>{"2"});
  CHECK(odd_anchor.scales.front().factor < 1.06);  // the three other steps outweigh the odd one
}

TEST_CASE("the step time is read from logs of five frameworks", "[anchor]") {
  const test::TemporaryFolder folder;
  const std::filesystem::path log = folder.path() / "train.log";
  const Node document = document_of();
  const double tokens_per_step = 64.0 * 8192, devices = 64;
  const std::map<std::string, std::string> lines{
      {" iteration       {0}/     100 | consumed samples: 64 | elapsed time per iteration (ms): {1} | learning rate: "
       "1e-5",
       "1250.0"},
      {"Training epoch 0, iteration {0}/99 | lr: 1e-4 | reduced_train_loss: 10.5 | train_step_timing in s: {1}",
       "1.250"},
      {"completed step: {0}, seconds: {1}, TFLOP/s/device: 403.2, loss: 10.1", "1.250"},
      {"[rank0]: step: {0}  loss:  8.1  memory: 47.0GiB(59 %)  tps: {1}  mfu: 40.0%", "6,553.6"},
      {"[INFO] [timer.py:260:stop] epoch=0/micro_step={0}/global_step={0}, RunningAvgSamplesPerSec=9.1, "
       "CurrSamplesPerSec={1}, MemAllocated=1GB",
       "51.2"}};
  REQUIRE(tokens_per_step / devices / 1.25 == Approx(6553.6));
  for (const auto& [line, number] : lines) {
    std::string text = "starting\n";
    for (int i = 1; i <= 7; ++i)
      text += fmt::format(fmt::runtime(line), i, i <= 3 ? "10.0" : number) + "\n";  // three steps of warm-up
    folder.write("train.log", text);
    CAPTURE(text);
    const std::vector<AnchorStep> steps = read_anchor_steps(document, "run", log);
    REQUIRE(steps.size() == 1);
    CHECK(steps.front().measured == Approx(1.25));
  }
  folder.write("train.log", "completed step: 1, seconds: 3.0\n");
  CHECK_THROWS_WITH(read_anchor_steps(document, "run", log), Contains("more than 3 expected"));
  folder.write("train.log", "nothing\n");
  CHECK_THROWS_WITH(read_anchor_steps(document, "run", log),
                    Contains("no step time found; expected a log of Megatron"));
  CHECK_THROWS_WITH(read_anchor_steps(document, "run", folder.path() / "none.log"), Contains("no such file"));
}

TEST_CASE("a table of measured steps changes the scenario row by row", "[anchor]") {
  const test::TemporaryFolder folder;
  const std::filesystem::path table = folder.path() / "runs.csv";
  folder.write("runs.csv", "id,cluster.nodes,plan.global_batch_size,step_time_s\none,1,8,1.3\ntwo,2,16,1.4\n");
  const std::vector<AnchorStep> steps = read_anchor_steps(document_of(), "run", table);
  REQUIRE(steps.size() == 2);
  CHECK(steps[1].id == "two");
  CHECK(steps[1].measured == 1.4);
  CHECK(read_scenario(steps[1].document, "two").ranks() == 16);
  folder.write("runs.csv", "plan.no_such_key,step_time_s\n1,1.3\n");
  CHECK_THROWS_AS(read_anchor_steps(document_of(), "run", table), UserError);
  folder.write("runs.csv", "cluster.nodes,step_time_s\n1,fast\n");
  CHECK_THROWS_AS(read_anchor_steps(document_of(), "run", table), UserError);
  AnchorStep h100_step = step_of("8", {{"cluster.nodes", "1"}, {"plan.global_batch_size", "8"}}, 1),
             a100_step = h100_step;
  set_field(a100_step.document, "cluster.node", "dgx-a100");
  CHECK_THROWS_WITH(anchor_steps({h100_step, a100_step}, {}), Contains("one stack and one GPU expected"));
  CHECK_THROWS_WITH(anchor_steps({h100_step}, {h100_step, a100_step}), Contains("one stack and one GPU expected"));
  AnchorStep other_stack_step = h100_step;
  set_field(other_stack_step.document, "software", "plain");
  CHECK_THROWS_WITH(anchor_steps({h100_step}, {other_stack_step}),
                    Contains("pytorch-fsdp on ") && Contains("plain on "));
  CHECK_THROWS_WITH(anchor_steps({}, {}), Contains("no measured step"));
}

TEST_CASE("a slow-down of attention lengthens the step by the kernels of attention alone", "[anchor]") {
  const double catalog_step = step_time(document_of());
  const double slow_step = step_time(document_of({{"software.slowdowns.attention", "2"}}));
  const double unchanged_step = step_time(document_of({{"software.slowdowns.attention", "1"}}));
  CHECK(unchanged_step == Approx(catalog_step).epsilon(1e-12));
  CHECK((slow_step > 1.02 * catalog_step && slow_step < 1.6 * catalog_step));
}

}  // namespace scenarios_test_anchor
