// `trainyard run --chakra` writes a simulated step that `trainyard replay` can read back.
#include "tests/tools/trace_shell.hpp"

namespace tools_test_chakra_export {

using namespace trainyard::test;
using Catch::Matchers::Contains;

namespace {

/// Writes the step and replays it on the scenario's own cluster.
void check_round_trip(const std::string& scenario, const std::string& sets, double tolerance) {
  const TraceFolder shell;
  const std::string file = TRAINYARD_SOURCE_DIR "/scenarios/" + scenario;
  const std::string set_flags = sets.empty() ? "" : " " + sets;
  const nlohmann::json run = shell.answer("run " + file + set_flags + " --no-what-if --chakra step");
  const nlohmann::json replayed = shell.answer("replay step --on " + file + set_flags);
  CAPTURE(scenario, sets);
  CHECK(replayed["ranks"] == run["fold"]["ranks"]);
  CHECK(replayed["time_s"] == Approx(run["step_time_s"].get<double>()).epsilon(tolerance));
  CHECK(replayed["traffic_bytes"]["total"] == Approx(run["traffic_bytes"]["total"].get<double>()).epsilon(tolerance));
}

}  // namespace

TEST_CASE("a replayed Chakra trace of a step takes the time of the step", "[replay][chakra]") {
  constexpr double tolerance = 1e-6;
  check_round_trip("gpt2-one-a100.yaml", "", tolerance);
  check_round_trip("gpt2-xl-ddp-dgx-a100.yaml", "--set cluster.nodes=2 --set plan.global_batch_size=256", tolerance);
  check_round_trip("naive-vs-gpipe.yaml", "", tolerance);  // messages between stages
  check_round_trip("gpt2-ddp-t4-servers.yaml", "--set plan.data_parallel.all_reduce=ring", tolerance);
}

TEST_CASE("replayed Chakra traces of sharded, tensor and expert parallelism take the time of their steps",
          "[replay][chakra]") {
  constexpr double tolerance = 1e-6;
  for (const std::string stage : {"1", "3"})
    check_round_trip("zero-stages.yaml",
                     "--set \"model={base: gpt2, n_layer: 4}\" --set plan.data_parallel.zero_stage=" + stage,
                     tolerance);
  check_round_trip("llama3-70b-tp8-pp4.yaml",
                   "--set \"model={base: llama-3-70b, num_hidden_layers: 8}\" --set plan.global_batch_size=8",
                   tolerance);
  check_round_trip("mixtral-ep8.yaml",
                   "--set \"model={base: mixtral-8x7b, num_hidden_layers: 4}\" --set plan.global_batch_size=32",
                   tolerance);
}

TEST_CASE("a step with parameter servers is not written as a Chakra trace", "[replay][chakra]") {
  const TraceFolder shell;
  const TopoAnswer servers = shell.trainyard("run " TRAINYARD_SOURCE_DIR
                                             "/scenarios/parameter-server-resnet50.yaml --no-what-if --chakra step");
  CHECK(servers.exit == 2);
  CHECK_THAT(servers.err, Contains("--chakra"));
  CHECK_FALSE(std::filesystem::exists(shell.path() / "step.0.et"));
}

}  // namespace tools_test_chakra_export
