// The limits of data, tensor and pipeline parallelism, each used alone.
#include <fmt/format.h>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "scenarios/src/reading/training_length.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/search/axis_limits.hpp"
#include "scenarios/src/studies/sweeps/scaling_knee.hpp"
#include "sim/json_text.hpp"
#include "tests/tools/topo_shell.hpp"
#include "tools/reports/report.hpp"

namespace scenarios_test_axis_limits {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;

namespace {

constexpr const char* kLimitsModel = "{base: gpt2, n_layer: 8, n_head: 12, n_embd: 768}";

std::string limits_text(const std::string& plan, int nodes) {
  return "cluster: {node: dgx-a100, nodes: " + std::to_string(nodes) + (nodes > 1 ? ", fabric: nonblocking" : "") +
         "}\nmodel: " + kLimitsModel + "\nplan: {global_batch_size: 32, seq_length: 256, precision: bf16, " + plan +
         "}\nsoftware: megatron-core\n";
}

}  // namespace

TEST_CASE("beyond the knee, added GPUs give less than half of their ideal speed-up", "[axis-limits]") {
  const ScalingKnee knee = knee_of({{1, 10}, {2, 20}, {4, 31}, {8, 35}, {16, 30}});
  CHECK(knee.fastest.gpus == 8);
  CHECK(knee.half.gpus == 4);  // 31 / 20: 55 % more with 4 GPUs; 35 / 31: 13 % more with 8
  CHECK_FALSE(knee.last);
  CHECK(knee_of({{1, 10}, {2, 19}}).last);
}

TEST_CASE("each kind of parallelism is simulated by itself, on one GPU and more", "[axis-limits]") {
  const PlanQuestion question = read_plan_question(
      parse_document(limits_text("micro_batch_size: 4, data_parallel: {size: 8}", 1), "limits.yaml"), "limits");
  const AxisLimits limits = axis_limits(question, 16);
  REQUIRE(limits.axes.size() == 3);
  const auto point = [&](std::size_t axis, int gpus) {
    for (const AxisPoint& p : limits.axes[axis].points)
      if (p.gpus == gpus) return p;
    FAIL("no such point");
    return AxisPoint{};
  };
  const auto step = [](const std::string& plan, int nodes = 1) {
    return simulate(read_scenario_text(limits_text(plan, nodes), "limits.yaml")).step_time.value;
  };
  CHECK(limits.axes[0].axis == "data");
  CHECK(point(0, 1).efficiency == 1);
  CHECK(point(0, 4).step_time ==
        Approx(step("micro_batch_size: 4, idle_devices: allowed, data_parallel: {size: 4, zero_stage: 0}"))
            .epsilon(1e-9));
  // Sixteen replicas have two samples each, and need a second node.
  CHECK(point(0, 16).step_time ==
        Approx(step("micro_batch_size: 2, data_parallel: {size: 16, zero_stage: 0}", 2)).epsilon(1e-9));
  CHECK(limits.axes[1].axis == "tensor");
  std::vector<int> tensors;
  for (const AxisPoint& p : limits.axes[1].points) tensors.push_back(p.gpus);
  CHECK(tensors == std::vector<int>{1, 2, 3, 4, 6, 12});
  CHECK(point(1, 4).step_time == Approx(step("micro_batch_size: 4, tensor_parallel: 4, sequence_parallel: false, "
                                             "idle_devices: allowed, data_parallel: {size: 1, zero_stage: 0}"))
                                     .epsilon(1e-9));
  CHECK(limits.axes[2].axis == "pipeline");
  CHECK(point(2, 4).step_time == Approx(step("micro_batch_size: 4, pipeline_parallel: 4, pipeline: {schedule: 1f1b}, "
                                             "idle_devices: allowed, data_parallel: {size: 1, zero_stage: 0}"))
                                     .epsilon(1e-9));
  CHECK(limits.axes[2].points.back().gpus == 8);  // as many stages as layers
  CHECK_THAT(limits.axes[2].end, Contains("layers"));
  for (const AxisLimit& axis : limits.axes) {
    CAPTURE(axis.axis);
    for (const AxisPoint& p : axis.points) {
      CHECK(p.step_time >= point(0, 1).step_time / p.gpus * 0.9);
      CHECK(p.rate <= axis.points[0].rate * p.gpus * 1.1);
      CHECK(p.rate == Approx(32 / p.step_time));
    }
    double fastest = 0;
    for (const AxisPoint& p : axis.points) fastest = std::max(fastest, p.rate);
    CHECK(fastest == point(axis.axis == "data" ? 0 : axis.axis == "tensor" ? 1 : 2, axis.most).rate);
    CHECK(axis.half <= axis.points.back().gpus);
    for (std::size_t i = 1; i < axis.points.size(); ++i) {
      const AxisPoint &before = axis.points[i - 1], &p = axis.points[i];
      const double gain = p.rate / before.rate - 1, ideal_gain = static_cast<double>(p.gpus) / before.gpus - 1;
      if (p.gpus <= axis.half) CHECK(gain >= ideal_gain / 2);
      if (before.gpus == axis.half) CHECK(gain < ideal_gain / 2);
    }
    if (axis.half < axis.most && axis.half == 1)
      CHECK_THAT(limits_screen(limits), Contains("GPUs give less than half of their ideal gain, compared with one"));
    else if (axis.half < axis.most)
      CHECK_THAT(limits_screen(limits), Contains(fmt::format("beyond {} (efficiency ", axis.half)) &&
                                            Contains("), more GPUs give less than half of their ideal gain"));
  }
}

TEST_CASE("explain prints and draws how far each kind of parallelism helps", "[axis-limits]") {
  const TopoFolder shell;
  shell.write("limits.yaml", limits_text("micro_batch_size: 4", 1));
  const TopoAnswer answer =
      shell.trainyard("explain limits.yaml --limits --most 8 --svg limits.svg --json limits.json");
  CHECK(answer.exit == 0);
  CHECK_THAT(answer.out, Contains("32 samples a step") && Contains("data") && Contains("speed-up"));
  const std::string svg = shell.text("limits.svg");
  for (const char* axis : {"data", "tensor", "pipeline"}) CHECK_THAT(svg, Contains(axis));
  const nlohmann::json json = parse_json(shell.text("limits.json"));
  CHECK(json.at("axes").at(0).at("points").size() == 4);
  CHECK(json.at("axes").at(0).at("points").at(0).at("scaling_efficiency") == 1);
  const TopoAnswer wrong_answer = shell.trainyard("explain limits.yaml --most 8");
  CHECK(wrong_answer.exit == 2);
  CHECK_THAT(wrong_answer.err, Contains("--most: only with --limits"));
  CHECK_THAT(shell.trainyard("explain limits.yaml --svg x.svg").err, Contains("--svg: only with --limits or --batch"));
}

TEST_CASE("explain --batch draws the time to the target and the published errors", "[learn][cli]") {
  const TopoFolder shell;
  const TopoAnswer answer = shell.trainyard(
      "explain " TRAINYARD_SOURCE_DIR
      "/scenarios/resnet50-4xv100-pcie.yaml --batch --set 'learn={task: noise-scale, least_steps: 500, noise_scale: "
      "1000}' --set plan.global_batch_size=4096 --set plan.micro_batch_size=32 --svg batch.svg --json batch.json");
  INFO(answer.err);
  REQUIRE(answer.exit == 0);
  const std::string svg = shell.text("batch.svg");
  for (const char* words : {"time to the target against batch", "top-1 validation error in % against batch", "34.0"})
    CHECK_THAT(svg, Contains(words));
  const nlohmann::json points = nlohmann::json::parse(shell.text("batch.json")).at("points");
  CHECK(points.at(8).at("batch") == 65536);
  CHECK(points.at(8).at("published_error_percent") > points.at(5).at("published_error_percent"));
  CHECK_FALSE(points.at(9).contains("published_error_percent"));
}

TEST_CASE("explain --batch prints the step that run has and the steps that learn needs, in the same digits",
          "[learn][cli]") {
  const TopoFolder shell;
  std::istringstream lines(shell.trainyard("explain learn-batch-size --batch").out);
  std::map<std::string, std::string> rows;  // indexed by batch
  for (std::string line; std::getline(lines, line);)
    if (const std::size_t begin = line.find_first_not_of(' '); begin != std::string::npos)
      rows[line.substr(begin, line.find(' ', begin) - begin)] = line;
  for (const int batch : {64, 256, 512}) {
    CAPTURE(batch);
    const std::string sets =
        fmt::format(" --set plan.global_batch_size={} --set plan.micro_batch_size={} --json -", batch, batch / 8);
    const nlohmann::json run = parse_json(shell.trainyard("run learn-batch-size --no-what-if" + sets).out),
                         learned = parse_json(shell.trainyard("learn learn-batch-size" + sets).out);
    const nlohmann::json& target = learned.at("variants").at(0).at("to_target");
    const std::string& row = rows[fmt::format("{}", batch)];
    CHECK_THAT(row, Contains(fmt::format(" {}  {} ", batch, show(Seconds{run.at("step_time_s").get<double>()}))));
    CHECK_THAT(row, Contains(fmt::format(" {:.0f} ", target.at("steps").at("mean").get<double>())));
    CHECK_THAT(row, Contains("  " + long_time(Seconds{target.at("time_s").at("mean").get<double>()})));
  }
  // By the formula of a noise scale, both print the same steps, samples and time.
  const std::string formula = " " TRAINYARD_SOURCE_DIR
                              "/scenarios/resnet50-4xv100-pcie.yaml --set 'learn={task: noise-scale, least_steps: 500, "
                              "noise_scale: 1000}' --set plan.global_batch_size=4096 --set plan.micro_batch_size=32";
  CHECK_THAT(shell.trainyard("learn" + formula).out, Contains(": 32.4 min · 622 steps · 2,548,000 samples · "));
  CHECK_THAT(shell.trainyard("explain --batch" + formula).out, Contains("  622    2,548,000   32.4 min"));
}

TEST_CASE("a plan that cannot use all GPUs has the limits of the same plan on fewer", "[axis-limits]") {
  for (const std::string plan : {"micro_batch_size: 4", "micro_batch_size: 2, recompute: full",
                                 "micro_batch_size: 2, tensor_parallel: 4, sequence_parallel: true"}) {
    CAPTURE(plan);
    const auto limits_on = [&plan](int nodes) {
      const PlanQuestion question =
          read_plan_question(parse_document(limits_text(plan, nodes), "limits.yaml"), "limits");
      CHECK(question.own.has_value() == (nodes == 1));
      return axis_limits(question, 4);
    };
    const AxisLimits legal = limits_on(1), illegal = limits_on(3);  // 24 replicas or 6 cannot share 32 samples
    for (std::size_t axis = 0; axis < legal.axes.size(); ++axis) {
      REQUIRE(legal.axes[axis].points.size() == illegal.axes[axis].points.size());
      for (std::size_t i = 0; i < legal.axes[axis].points.size(); ++i) {
        CHECK(illegal.axes[axis].points[i].micro_batch == legal.axes[axis].points[i].micro_batch);
        CHECK(illegal.axes[axis].points[i].step_time == Approx(legal.axes[axis].points[i].step_time));
        CHECK(illegal.axes[axis].points[i].peak == legal.axes[axis].points[i].peak);
      }
    }
    CHECK(illegal.axes[0].points[0].micro_batch == (plan.starts_with("micro_batch_size: 4") ? 4 : 2));
    CHECK_THAT(limits_screen(illegal), Contains("micro-batch"));
  }
}

TEST_CASE("an axis without a legal point ends with its reason, and the others are answered", "[axis-limits]") {
  const std::string plan = "micro_batch_size: 1, data_parallel: {bucket: 5000 B, bucket_boundaries: bytes}";
  const PlanQuestion question = read_plan_question(parse_document(limits_text(plan, 1), "limits.yaml"), "limits");
  const AxisLimits limits = axis_limits(question, 4);
  CHECK(limits.axes[0].points.empty());
  CHECK_THAT(limits.axes[0].end, Contains(" gradient buckets of ") && Contains("at most 60000; expected "));
  REQUIRE_FALSE(limits.axes[1].points.empty());
  CHECK(limits.axes[1].points.front().gpus > 1);
  CHECK(limits.axes[1].points.front().efficiency == 1);
  const std::string text = limits_screen(limits);
  CHECK_THAT(text, Contains("data ends: ") && !Contains("as fast as one"));
  CHECK(curves_of(limits).front().name != "data");
  const std::string& end = limits.axes[0].end;
  const std::size_t at = end.find("expected ") + 9;
  const std::string legal = end.substr(at, end.find(" or more") - at);
  std::string wider = limits_text(plan, 1);
  wider.replace(wider.find("5000 B"), 6, legal);
  CHECK_FALSE(
      axis_limits(read_plan_question(parse_document(wider, "limits.yaml"), "limits"), 1).axes[0].points.empty());
}

TEST_CASE("an axis that ends because the machine does is not said to help no further", "[axis-limits]") {
  AxisLimits limits;
  AxisLimit& tensor = limits.axes.emplace_back();
  tensor.axis = "tensor";
  const auto add_point = [&tensor](int gpus, double rate) {
    AxisPoint& point = tensor.points.emplace_back();
    point.gpus = gpus;
    point.rate = rate;
  };
  add_point(1, 1);
  add_point(2, 1.9);
  tensor.most = tensor.half = 2;
  CHECK_THAT(limits_screen(limits), Contains("2 GPUs are the fastest that were simulated"));
  tensor.end = "pcie-4 has no HCA";
  CHECK_THAT(limits_screen(limits), Contains("2 GPUs are the most of the tried ones that are possible"));
  add_point(4, 1.5);
  CHECK_THAT(limits_screen(limits), Contains("2 GPUs are the most that help"));
}

TEST_CASE("a pipeline of a sharded plan is tried at the stated stage of ZeRO, and with a stage for each layer",
          "[axis-limits]") {
  const auto limits_of = [](const std::string& software, int most) {
    return axis_limits(
        read_plan_question(
            parse_document("cluster: {node: dgx-a100}\nmodel: {base: gpt2, n_layer: 6}\nsoftware: " + software +
                               "\nplan: {global_batch_size: 24, micro_batch_size: 1, seq_length: 256, "
                               "precision: bf16, data_parallel: {zero_stage: 3}}\n",
                           "limits.yaml"),
            "limits"),
        most);
  };
  const auto counts = [](const AxisLimit& axis) {
    std::vector<int> gpus;
    for (const AxisPoint& point : axis.points) gpus.push_back(point.gpus);
    return gpus;
  };
  const AxisLimits fsdp = limits_of("pytorch-fsdp", 32);
  CHECK(counts(fsdp.axes[2]) == std::vector{1, 2, 4, 6});
  CHECK(counts(fsdp.axes[0]) == std::vector{1, 2, 4, 8, 24});
  CHECK_THAT(fsdp.axes[2].end, Contains("plan.pipeline_parallel"));
  CHECK_THAT(limits_screen(limits_of("pytorch-fsdp", 1)), Contains("only one GPU was tried") && !Contains("possible"));
}

TEST_CASE("a comparison of trainings shows that replicas come apart", "[learn][cli]") {
  const TopoFolder shell;
  const std::string learn = "learn learn-topk-1gbit --set plan.data_parallel.compression=none --set learn.steps=10";
  CHECK_THAT(shell.trainyard(learn + " --compare learn.leave_out=none,all-gather").out, Contains("replicas apart"));
  CHECK_THAT(shell.trainyard(learn + " --compare learn.seed=1,2").out, !Contains("replicas apart"));
}

}  // namespace scenarios_test_axis_limits
