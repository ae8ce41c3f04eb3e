// The data parallelism of measured runs: `trainyard validate dataparallel` and `validate horovod`.
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "models/fitted/measured_family.hpp"
#include "sim/json_text.hpp"
#include "tests/support.hpp"
#include "tools/verbs/validation/validation.hpp"
#include "topo_shell.hpp"

namespace tools_test_validate_dataparallel {

using namespace trainyard;
using namespace trainyard::test;
using nlohmann::json;

TEST_CASE("times of both transports agree only if all are numbers and alike", "[validate-engines]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const EngineTimes good{1, 1 + 1e-12}, off{1, 1 + 1e-6};
  CHECK(judge_engines({good, good}).agree);
  CHECK_FALSE(judge_engines({}).agree);
  CHECK_FALSE(judge_engines({good, off, good}).agree);
  CHECK(judge_engines({good, off, good}).largest == Approx(1e-6).epsilon(1e-3));
  for (const EngineTimes& bad : {EngineTimes{nan, 1}, EngineTimes{1, nan}, EngineTimes{0, 0}}) {
    for (const auto& all : {std::vector{bad, good}, std::vector{good, bad}, std::vector{off, bad, good}}) {
      CHECK_FALSE(judge_engines(all).agree);
      CHECK(std::isnan(judge_engines(all).largest));
    }
  }
}

TEST_CASE("the scaling of CNNs over servers is within 3 points, and that over rings is reported",
          "[validate-dataparallel]") {
  const TopoFolder shell;
  const TopoAnswer answer = shell.trainyard("validate dataparallel --points --json -");
  INFO(answer.err);
  REQUIRE(answer.exit == 0);
  const json sets = parse_json(answer.out).at("sets");
  REQUIRE(sets.size() == 3);
  std::map<std::string, json> by_name;
  for (const json& set : sets) {
    CHECK(set.at("error_kind") == "points");
    CHECK(set.at("points").size() == set.at("n"));
    by_name[set.at("name")] = set;
  }
  CHECK(by_name.at("scaling of p100-servers").at("n") == 18);
  CHECK(by_name.at("scaling of p100-servers").at("mean_abs_error") <= 0.03);
  CHECK(by_name.at("scaling of k80-servers").at("n") == 10);  // rows of 4 and 8 GPUs; rows of 2 GPUs calibrate
  CHECK(by_name.at("scaling of k80-servers").at("mean_abs_error") <= 0.03);
  // AlexNet and VGG-16 with small batches scale worst on eight GPUs, as in the measurements.
  std::map<std::string, double> ring;
  for (const json& p : by_name.at("scaling of p100-ring").at("points")) ring[p.at("id")] = p.at("predicted");
  CHECK(ring.at("vgg16 batch 32, 8 GPUs") < ring.at("alexnet batch 512, 8 GPUs"));
  CHECK(ring.at("alexnet batch 512, 8 GPUs") < ring.at("vgg16 batch 64, 8 GPUs"));
}

TEST_CASE("a table of scaling needs the rate of one GPU", "[validate-dataparallel]") {
  const TopoFolder folder;
  folder.write("rates.csv", "model,batch,gpus,images_per_s\nresnet50,64,2,479\n");
  const auto file =
      folder.write("scaling.yaml",
                   "family: y\nsource: x\nscenario: dataparallel/p100-servers.yaml\n"
                   "table: {file: rates.csv}\n"
                   "columns: {id: \"${model}\", figure.scaling: \"${images_per_s / images_per_s_of_one}\"}\n");
  CHECK_THROWS_WITH(MeasuredFamily(file), Catch::Contains("rates.csv:1:1: no column \"images_per_s_of_one\""));
}

TEST_CASE("validate horovod prints its four predictions, and writes their errors", "[cli][horovod]") {
  const TopoFolder shell;
  const TopoAnswer text = shell.trainyard("validate horovod --json out.json --points");
  CHECK(text.exit == 0);
  for (const char* words :
       {"(a) single-node times given", "(b) the same with one fitted constant", "(c) the T4's compute",
        "each batch by a constant fitted to the others", "H1", "the literal 12000", "crossover",
        "(d) (b) with rank 0's own work", "in the median stay unexplained"})
    CHECK(text.out.find(words) != std::string::npos);
  const json sets = parse_json(shell.trainyard("validate horovod --json -").out).at("sets");
  REQUIRE(sets.size() == 9);
  CHECK(sets[3].at("name") == "horovod both ranks, rank 0");
  CHECK(sets[4].at("name") == "horovod both ranks, rank 1");
  for (const json& set : sets) {
    for (const char* key : {"name", "n", "error_kind", "mean_abs_error", "median_abs_error", "p90_abs_error",
                            "worst_abs_error", "signed_mean_error", "rank_correlation"})
      CHECK(set.contains(key));
    CHECK_FALSE(set.contains("points"));
  }
  CHECK(sets[0].at("crossover_batch") > 128);
  CHECK(sets[0].at("crossover_batch") < 256);
  CHECK(shell.trainyard("validate horovod --fit").out.find("= collective_launch of stack horovod-tcp") !=
        std::string::npos);
  shell.check_refused("validate training --fit", "--fit: only with validate horovod");
  shell.check_refused(
      "validate seeds",
      "trainyard validate: unknown set \"seeds\"; known: collectives, kernels, training, coverage, anchors, memory, "
      "plans, mlperf, published, dataparallel, horovod, post-training, serving, packets, engines, answered, "
      "training-2026, "
      "mlperf-v6, "
      "outside-the-fit, schedules, diloco");
  // The help and the error name every folder with measured runs.
  const std::string help = shell.trainyard("validate --help").out, error = shell.trainyard("validate seeds").err;
  const std::string summary = help.substr(0, help.find("Usage:"));
  for (const auto& folder : std::filesystem::directory_iterator(TRAINYARD_SOURCE_DIR "/scenarios/measured")) {
    const std::string name = folder.path().filename();
    if (!folder.is_directory() || name == "tables") continue;
    CAPTURE(name);
    CHECK(error.find(" " + name) != std::string::npos);
    CHECK(summary.find(name) != std::string::npos);
  }
}

}  // namespace tools_test_validate_dataparallel
