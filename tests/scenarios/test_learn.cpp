// Trainings on the simulated clock: the losses they reach, and their times.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/batch_study.hpp"
#include "scenarios/src/studies/measured/step_doubt.hpp"
#include "scenarios/src/studies/sweeps/learn_study.hpp"
#include "tests/scenarios/learned.hpp"
#include "tests/temporary_folder.hpp"

namespace scenarios_test_learn {

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// Returns the largest difference of the losses at equal evaluations.
double loss_difference(const LearnResult& a, const LearnResult& b) {
  REQUIRE(a.points.size() == b.points.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.points.size(); ++i)
    worst = std::max(worst, std::abs(a.points[i].loss - b.points[i].loss));
  return worst;
}

const char* const kServers = "mechanism: parameter-server, servers: {count: 2, place: dedicated}";

}  // namespace

TEST_CASE("synchronous mechanisms learn what one device learns", "[learn]") {
  for (const std::string optimizer : {"momentum", "adam", "nesterov"}) {
    Learned one_rank;
    one_rank.optimizer = optimizer;
    one_rank.ranks = 1;
    one_rank.samples = 32;
    if (optimizer == "adam") one_rank.learn += ", learning_rate: 0.01";
    const LearnResult one_rank_result = one_rank.run();
    CHECK(one_rank_result.last().loss < 0.7 * one_rank_result.points.front().loss);
    for (const std::string mechanism :
         {"all_reduce: ring", "all_reduce: ring, overlap: false", "mechanism: parameter-server, servers: 1",
          "mechanism: parameter-server, servers: {count: 2, place: dedicated}, consistency: synchronous"}) {
      CAPTURE(optimizer, mechanism);
      Learned four_ranks = one_rank;
      four_ranks.ranks = 4;
      four_ranks.samples = 8;
      four_ranks.data_parallel = mechanism;
      CHECK(loss_difference(four_ranks.run(), one_rank_result) <= 1e-10);
    }
    if (optimizer != "momentum") continue;
    Learned accumulated = one_rank;
    accumulated.ranks = 2;
    accumulated.samples = 4;
    accumulated.plan = ", global_batch_size: 32";
    CHECK(loss_difference(accumulated.run(), one_rank_result) <= 1e-10);
    for (const std::string fidelity : {"messages", "flows", "modelled"}) {
      CAPTURE(fidelity);
      Learned four_ranks = one_rank;
      four_ranks.ranks = 4;
      four_ranks.samples = 8;
      four_ranks.plan = ", collectives: " + fidelity;
      CHECK(loss_difference(four_ranks.run(), one_rank_result) <= 1e-10);
    }
  }
}

TEST_CASE("a master and a central storage learn what an all-reduce learns", "[learn]") {
  const auto in_one_node = [](const char* mechanism) {
    return read_scenario_text(
        fmt::format(
            "cluster: {{nodes: 1, node: {{base: pcie-4, cpu: xeon-e5-2698-v4}}}}\n"
            "model: {{mlp: {{widths: [64, 64, 10]}}}}\n"
            "plan: {{micro_batch_size: 8, precision: fp32, optimizer: adam, data_parallel: {{mechanism: {}}}}}\n"
            "learn: {{task: mlp, data: {{samples: 512}}, steps: 30}}\n",
            mechanism),
        "node.yaml");
  };
  const LearnResult all_reduce = learn(in_one_node("all-reduce"));
  CHECK(all_reduce.last().loss < all_reduce.points.front().loss);
  for (const char* mechanism : {"master", "central-storage"}) {
    CAPTURE(mechanism);
    const LearnResult central = learn(in_one_node(mechanism));
    CHECK(loss_difference(central, all_reduce) <= 1e-10);
    CHECK(central.last().time != all_reduce.last().time);
  }
}

TEST_CASE("computing the numbers of a training does not change its step time", "[learn]") {
  for (const std::string mechanism : {"all_reduce: ring", "delay: 2", "local_steps: 4", "gossip: ring",
                                      "mechanism: parameter-server, servers: {count: 2, place: dedicated}"}) {
    CAPTURE(mechanism);
    Learned training;
    training.data_parallel = mechanism;
    const LearnResult learned = training.run();
    Scenario s = read_scenario_text(training.text(), "learned.yaml", {{"plan.steps", "60"}});
    const Result timed = simulate(s);
    // The last update comes before the last exchange ends, and fast workers run ahead at the beginning.
    CHECK(learned.step_time().value == Approx(timed.step_time.value).epsilon(0.07));
  }
  Learned training;
  const LearnResult learned = training.run();
  const Result timed = simulate(read_scenario_text(training.text(), "learned.yaml", {}));
  CHECK(learned.step_time().value == Approx(timed.step_time.value).epsilon(1e-9));
}

TEST_CASE("the same seed gives the same training, and another seed another one", "[learn]") {
  Learned training;
  training.data_parallel = std::string(kServers) + ", consistency: asynchronous";
  CHECK(to_text(training.run(3)) == to_text(training.run(3)));
  CHECK(training.run(3).last().loss != training.run(4).last().loss);
}

TEST_CASE("asynchronous workers have shorter steps, but learn less in as many steps", "[learn]") {
  Learned base;
  base.ranks = 8;
  base.faults = "faults: {stragglers: {kind: lognormal, sigma: 0.5, seed: 3}}\n";
  base.learn =
      "task: mlp, layers: [16], data: {samples: 1024, classes: 6, features: 8, clusters: 6}, steps: 80, learning_rate: "
      "0.3";
  const auto learned_with = [&base](const std::string& consistency, int ranks = 8) {
    Learned l = base;
    l.ranks = ranks;
    l.data_parallel = kServers + (", consistency: " + consistency);
    return l;
  };
  Learned sync = learned_with("synchronous"), async = learned_with("asynchronous");
  const LearnResult sync_result = sync.run(), async_result = async.run();
  CHECK(async_result.step_time().value < sync_result.step_time().value);
  CHECK(async_result.mean_staleness > 1);
  CHECK(async.mean_loss() > sync.mean_loss());
  // Staleness grows with the number of workers.
  CHECK(learned_with("asynchronous", 4).run().mean_staleness < async_result.mean_staleness);
}

TEST_CASE("a staleness-aware learning rate learns better than a constant one", "[learn]") {
  Learned base;
  base.ranks = 16;
  base.optimizer = "sgd";
  base.data_parallel = std::string(kServers) + ", consistency: asynchronous";
  base.learn = "task: quadratic, curvatures: [1, 0.1], noise: 0.01, steps: 60, learning_rate: 3.0";
  Learned aware = base;
  aware.learn += ", staleness_aware: true";
  const double constant_rate = base.mean_loss(), aware_rate = aware.mean_loss();
  CHECK((!std::isfinite(constant_rate) || aware_rate < constant_rate));
}

TEST_CASE("averaging two minima lands on the hill between them", "[learn]") {
  Learned l;
  l.ranks = 2;
  l.optimizer = "sgd";
  l.data_parallel = "local_steps: 400";
  l.learn = "task: double-well, noise: 0, start: [-0.5, 0.5], steps: 400, learning_rate: 0.05, evaluate_every: 400";
  const LearnResult r = l.run();
  CHECK(r.last().loss == Approx(1).epsilon(1e-9));
  // One replica alone goes down into a well.
  l.ranks = 1;
  l.data_parallel = "all_reduce: ring";
  l.learn = "task: double-well, noise: 0, start: [0.5], steps: 400, learning_rate: 0.05, evaluate_every: 400";
  CHECK(l.run().last().loss < 1e-12);
}

TEST_CASE("replicas that start on the hill fall into both wells", "[learn]") {
  Learned l;
  l.ranks = 16;
  l.optimizer = "sgd";
  l.data_parallel = "local_steps: 100";
  l.learn = "task: double-well, steps: 100, learning_rate: 0.05, evaluate_every: 10";
  const LearnResult r = l.run();
  const LearnPoint& far = r.farthest();
  REQUIRE(far.positions.size() == 16);
  const auto below = std::ranges::count_if(far.positions, [](double w) { return w < 0; });
  CHECK(below >= 3);
  CHECK(below <= 13);
  CHECK(far.replicas_loss < 0.2);           // each is near a minimum
  CHECK(far.loss > 3 * far.replicas_loss);  // their mean is not
  CHECK(r.last().replica_distance < 1e-12);
  // Replicas that meet at every step fall into one well together.
  l.data_parallel = "local_steps: 1";
  CHECK(l.run().last().loss < 0.2);
  l.learn = "task: double-well, noise: 0, steps: 100";
  CHECK_THROWS_WITH(l.scenario(), Catch::Contains("learn.noise: 0 leaves every worker on top of the hill"));
}

TEST_CASE("replicas that meet rarely send less and learn less", "[learn]") {
  Learned base;
  base.ranks = 8;
  base.samples = 4;
  base.rate = "1 Gbit/s";
  base.learn =
      "task: mlp, layers: [16], data: {samples: 1024, classes: 6, features: 8, clusters: 6}, steps: 128, "
      "learning_rate: 0.1";
  const auto learned_with = [&base](int period) {
    Learned l = base;
    l.data_parallel = fmt::format("mechanism: local-sgd, local_steps: {}", period);
    return l;
  };
  const LearnResult often = learned_with(1).run(), rarely = learned_with(64).run();
  CHECK(rarely.last().bytes < 0.05 * often.last().bytes);
  CHECK(rarely.step_time().value < often.step_time().value);
  CHECK(learned_with(64).mean_loss() > learned_with(1).mean_loss());
}

TEST_CASE("replicas that gossip with neighbours converge at the rate of their graph's spectral gap", "[learn]") {
  const auto contraction = [](const std::string& graph) {
    Learned l;
    l.ranks = 16;
    l.optimizer = "sgd";
    l.data_parallel = "gossip: " + graph;
    l.learn =
        "task: quadratic, start: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16], learning_rate: 0, steps: 12, "
        "evaluate_every: 1";
    const LearnResult r = l.run();
    CHECK(r.last().loss == Approx(8.5 * 8.5 / 2));  // the mean of the replicas stays
    return r.points[11].replica_distance / r.points[10].replica_distance;
  };
  const double ring = contraction("ring"), torus = contraction("torus"), exponential = contraction("exponential");
  CHECK(exponential < torus);
  CHECK(torus < ring);
  // Each round on a ring of n with weights 1/3 leaves (1 + 2 cos(2 pi / n)) / 3 of the slowest mode.
  CHECK(ring == Approx((1 + 2 * std::cos(2 * 3.14159265358979 / 16)) / 3).epsilon(0.01));
}

TEST_CASE("dropped gradients cost learning, and error feedback brings most of it back", "[learn]") {
  const auto learned_with = [](const std::string& compression) {
    Learned l;
    l.data_parallel = "all_reduce: ring, compression: " + compression;
    l.learn = "task: mlp, layers: [16], data: {samples: 1024, classes: 6, features: 8, clusters: 6}, steps: 120";
    return l;
  };
  const Learned dense = learned_with("none"), with_feedback = learned_with("{name: top-k, density: 0.01}"),
                no_feedback = learned_with("{name: top-k, density: 0.01, error_feedback: false}");
  CHECK(with_feedback.run().last().bytes < 0.1 * dense.run().last().bytes);
  CHECK(no_feedback.mean_loss() > with_feedback.mean_loss());
  CHECK(with_feedback.mean_loss() > dense.mean_loss());
  Learned server = learned_with("{name: top-k, density: 0.05}");
  server.data_parallel = std::string(kServers) + ", compression: {name: top-k, density: 0.05}";
  const LearnResult pushed = server.run();
  CHECK(pushed.last().loss < 0.8 * pushed.points.front().loss);
}

TEST_CASE("a large batch without warm-up and scaling learns less from the same number of samples", "[learn]") {
  Learned small, large;
  small.learn =
      "task: mlp, layers: [16], data: {samples: 2048, classes: 6, features: 8, clusters: 6}, steps: 400, "
      "learning_rate: 0.1";
  large = small;
  large.samples = 128;
  large.learn =
      "task: mlp, layers: [16], data: {samples: 2048, classes: 6, features: 8, clusters: 6}, steps: 25, learning_rate: "
      "0.1";
  Learned scaled = large;
  scaled.learn += ", scaling: linear, base_batch: 64, warmup: 5";
  CHECK(large.run().last().samples == small.run().last().samples);
  CHECK(large.mean_loss() > 1.1 * small.mean_loss());
  CHECK(scaled.mean_loss() < large.mean_loss());
}

TEST_CASE("LAMB's knee lies beyond SGD's", "[learn]") {
  static constexpr int kMost = 30;
  // Returns the mean of the steps to the target over five seeds. Each optimizer has its published scaling: SGD a linear
  // one (Goyal et al. 2017), LAMB one by the square root (You et al. 2020).
  const auto steps = [](const std::string& optimizer, int batch) {
    const bool lamb = optimizer == "lamb";
    Learned l;
    l.optimizer = optimizer;
    l.samples = batch / l.ranks;
    l.learn = fmt::format(
        "task: mlp, layers: [32, 32], data: {{classes: 6, features: 10, clusters: 6, noise: 0.3, samples: 8192}}, "
        "learning_rate: {}, scaling: {}, base_batch: 64, warmup: 5, steps: {}, evaluate_every: 1, target: {{loss: "
        "0.6}}",
        lamb ? 0.03 : 0.1, lamb ? "square-root" : "linear", kMost);
    double sum = 0;
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      const LearnResult r = l.run(seed);
      sum += r.reached ? r.last().steps : kMost;
    }
    return sum / 5;
  };
  // SGD needs fewer steps up to batches of 1,024 samples, and more at 4,096. LAMB needs the fewest at 4,096.
  const double sgd = steps("momentum", 1024), lamb = steps("lamb", 1024);
  CHECK(sgd < 0.5 * steps("momentum", 64));
  CHECK(steps("momentum", 4096) > 2 * sgd);
  CHECK(lamb < 0.5 * steps("lamb", 64));
  CHECK(steps("lamb", 4096) < 0.8 * lamb);
}

TEST_CASE("LAMB diverges with the scaling of SGD, says so, and learns with its own", "[learn]") {
  const auto training = [](const std::string& optimizer, const std::string& scaling) {
    Learned l;
    l.optimizer = optimizer;
    l.samples = 1024;
    l.learn =
        "task: mlp, layers: [64], data: {classes: 10, features: 20, clusters: 6, noise: 0.6, samples: 16384}, steps: "
        "40, learning_rate: 0.03, base_batch: 256, evaluate_every: 2, scaling: " +
        scaling;
    return l;
  };
  const LearnResult linear = training("lamb", "linear").run();
  CHECK(linear.ended == "diverged");
  CHECK(linear.diverged_at > 0);
  const Learned published = training("lamb", "published");
  CHECK(published.scenario().learn.rule.learning_rate == Approx(0.03 * std::sqrt(4096 / 256.0)));
  CHECK(published.scenario().learn.rule.schedule.warmup == 8);
  CHECK(training("momentum", "published").scenario().learn.rule.learning_rate == Approx(0.03 * 4096 / 256));
  const LearnResult learned = published.run();
  CHECK(learned.diverged_at < 0);
  CHECK(learned.last().loss < 0.5 * learned.points.front().loss);
}

TEST_CASE("errors are published for the published batches only", "[learn]") {
  const auto curve = batch_error_curve(Catalog(), "resnet50");
  REQUIRE(curve);
  CHECK(curve->range() == std::pair(256.0, 65536.0));
  CHECK_FALSE(curve->error_percent(255));
  CHECK(curve->error_percent(256));
  CHECK(*curve->error_percent(65536) == Approx(33.96).epsilon(0.01));
  CHECK_FALSE(curve->error_percent(131072));
}

TEST_CASE("momentum correction keeps the loss near that of uncompressed gradients", "[learn]") {
  const auto loss = [](const std::string& compression) {
    Learned l;
    l.ranks = 8;
    l.samples = 64;
    l.data_parallel = "all_reduce: ring, compression: " + compression;
    l.learn =
        "task: mlp, layers: [64], data: {classes: 10, features: 20, clusters: 6, noise: 0.5, samples: 8192}, "
        "learning_rate: 1, steps: 60";
    return l.mean_loss();
  };
  const std::string at_one_percent = "{name: dgc, density: 0.01, sample: 0, warmup_steps: 10";
  const double corrected = loss(at_one_percent + ", momentum_masking: false}");
  CHECK(loss(at_one_percent + ", momentum_correction: false}") > 5 * corrected);
  CHECK(corrected < 3 * loss("none"));
  CHECK(loss(at_one_percent + "}") < 3 * corrected);  // masking raises the loss only a little
}

TEST_CASE("eight workers learn about five times as fast as one", "[learn]") {
  const auto seconds = [](int workers, std::uint64_t seed) {
    const Scenario s = read_scenario(
        TRAINYARD_SOURCE_DIR "/scenarios/learn-workers.yaml",
        {{"plan.data_parallel.servers.label", fmt::format("{}W4PS", workers)}, {"learn.seed", std::to_string(seed)}});
    const LearnResult r = learn(s, {.noise = false});
    REQUIRE(r.reached);
    return r.reached->time;
  };
  double sum = 0;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) sum += seconds(1, seed) / seconds(8, seed) / 3;
  CHECK(sum > 4.25);
  CHECK(sum < 6.5);
}

TEST_CASE("a training can begin with the saved weights of another one", "[learn]") {
  const TemporaryFolder folder;
  const auto file = (folder.path() / "weights").string();
  Learned first;
  first.learn += ", save: " + file;
  const LearnOptions saves{.saves = true};
  const LearnResult before = learn(first.scenario(), saves);
  Learned second;
  second.learn += ", from: " + file;
  CHECK(second.run().points.front().loss == before.last().loss);
  Learned other;
  other.learn = "task: softmax, data: {samples: 512, classes: 4, features: 8}, from: " + file;
  CHECK_THROWS_WITH(other.run(), Catch::Contains("learned.yaml:") && Catch::Contains("weights, but the task has 36"));
}

TEST_CASE("a training ends at its target, by early stopping, or when it diverges", "[learn]") {
  Learned l;
  l.learn += ", target: {loss: 0.9}, evaluate_every: 5";
  const LearnResult finished = l.run();
  REQUIRE(finished.reached);
  CHECK(finished.ended == "target");
  CHECK(finished.last().loss <= 0.9);
  CHECK(finished.points[finished.points.size() - 2].loss > 0.9);
  Learned stops;
  stops.learn =
      "task: mlp, layers: [64], data: {samples: 64, classes: 4, features: 8, noise: 2}, steps: 600, evaluate_every: "
      "10, early_stopping: 3";
  const LearnResult early = stops.run();
  CHECK(early.ended == "early stopping");
  CHECK(early.last().steps < 600);
  Learned breaks;
  breaks.optimizer = "sgd";
  breaks.learn = "task: quadratic, curvatures: [1], steps: 5000, learning_rate: 30, evaluate_every: 5000";
  const LearnResult broken = breaks.run();
  CHECK(broken.ended == "diverged");
  CHECK(broken.diverged_at <= 2);  // the loss grows by a factor of 29² in each step
  CHECK(broken.diverged_loss > 100 * broken.points.front().loss);
  for (const LearnPoint& p : broken.points) CHECK(std::isfinite(p.loss));
}

TEST_CASE("an impossible `learn` is refused with its place", "[learn]") {
  const auto check_refusal = [](Learned l, const std::string& error) {
    CAPTURE(error);
    CHECK_THROWS_WITH(l.scenario(), Catch::Contains("learned.yaml:") && Catch::Contains(error));
  };
  Learned l;
  l.learn = "task: mlpp";
  check_refusal(l, "learn.task: unknown value \"mlpp\"");
  l.learn = "task: mlp, warm_up: 3";
  check_refusal(l, "warm_up");
  l.learn = "task: quadratic, target: {accuracy: 0.5}";
  check_refusal(l, "learn.target.accuracy: task quadratic has none");
  l.learn = "task: mlp, beta1: 0.5";
  check_refusal(l, "learn.beta1: plan.optimizer is momentum, which has none");
  l.learn = "task: mlp, staleness_aware: true";
  check_refusal(l, "learn.staleness_aware: only with parameter servers");
  l.learn = "task: mlp, layers: [0]";
  check_refusal(l, "learn.layers: 0, expected 1 to");
  Learned split;
  split.data_parallel = "all_reduce: ring, zero_stage: 1";
  check_refusal(split, "learn: needs replicas that each have the whole model");
  Learned missing;
  missing.learn = "task: mlp, data: {csv: nowhere.csv}";
  CHECK_THROWS_WITH(missing.run(), Catch::Contains("nowhere.csv: cannot be read"));
}

TEST_CASE("the time axis of a training is as uncertain as its step", "[learn]") {
  LearnQuestion question;
  question.scenario = shipped_file("scenarios/learn-local-sgd.yaml");
  question.overrides = {{"learn.steps", "4"}};
  const nlohmann::ordered_json variant = learn_study_json(question, run_learn_study(question)).at("variants").at(0);
  const double step = variant.at("step_time_s"), low = variant.at("step_time_interval_s").at(0),
               high = variant.at("step_time_interval_s").at(1);
  const Scenario s = read_scenario(question.scenario, question.overrides);
  const auto likely = likely_step_times(1, step_doubt(s, simulate(s)));
  REQUIRE(likely);
  CHECK(low == Approx(step * likely->front()));
  CHECK(high == Approx(step * likely->back()));
  CHECK((low < step && step < high));
  question.overrides.emplace_back("software", "plain");  // an ideal stack has no interval
  CHECK_FALSE(
      learn_study_json(question, run_learn_study(question)).at("variants").at(0).contains("step_time_interval_s"));
}

}  // namespace scenarios_test_learn
