// The interval of a predicted step around a measured one, its coverage, and its meaning for decisions.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "models/fitted/measured_family.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/search/plan_answer.hpp"
#include "scenarios/src/sizing/size_answer.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "scenarios/src/studies/comparison.hpp"
#include "scenarios/src/studies/measured/collective_doubt.hpp"
#include "scenarios/src/studies/measured/doubt_answer.hpp"
#include "scenarios/src/studies/measured/interval_coverage.hpp"
#include "scenarios/src/studies/measured/ratio_doubt.hpp"
#include "tests/temporary_folder.hpp"
#include "tools/reports/report.hpp"

namespace scenarios_test_step_doubt {

using namespace trainyard;

namespace {

/// The profile of a dense step on a stack that was measured on 8 GPUs.
StepProfile profile_of_step(const char* stack = "nemo", const char* gpu = "h100") {
  StepProfile profile;
  profile.traits = {"dense decoders", stack, gpu, "bf16"};
  profile.devices = 8;
  return profile;
}

std::vector<LeftOutStep> one_step() { return {{"training", "a", "1", "nvidia", profile_of_step(), 0, 0}}; }

Scenario llama(const Overrides& overrides = {}) {
  return read_scenario(shipped_file("scenarios/llama3-8b-fsdp-64xh100.yaml"), overrides);
}

}  // namespace

TEST_CASE("the shipped spreads are those that a fit of the left-out steps gives", "[coverage]") {
  CHECK(DoubtModel::fit(kept_left_out_steps()).csv() ==
        test::file_text(shipped_file("scenarios/measured/tables/step_doubt.csv")));
}

TEST_CASE("80 % intervals hold 75 to 85 % of the measured steps of families left out of the fit", "[coverage]") {
  const std::vector<CoveredStep> covered = cover_each_family(kept_left_out_steps());
  for (const ClassCoverage& c : coverage_by_class(covered)) {
    CAPTURE(c.name, c.by_steps, c.by_families, c.half_width);
    CHECK(c.by_steps[0] <= c.by_steps[1]);
    CHECK(c.by_steps[1] <= c.by_steps[2]);
    CHECK(c.half_width <= c.most_half_width * 1.2);
    if (c.name != "all steps") continue;
    CHECK(c.steps > 600);
    CHECK(c.families > 35);
    CHECK(c.by_steps[1] == Approx(0.8).margin(0.05));
    CHECK(c.by_families[1] == Approx(0.8).margin(0.05));
    CHECK(c.by_steps[0] == Approx(0.5).margin(0.05));
    CHECK(c.by_steps[2] == Approx(0.95).margin(0.05));
  }
  // Thinning leaves each family at most kMostOfFamily steps.
  for (const auto& [family, rows] : thinned_families(kept_left_out_steps())) CHECK(rows.size() <= kMostOfFamily);
}

TEST_CASE("no measured step counts for two families", "[coverage]") {
  std::map<std::string, std::string> families;  // indexed by what tells two measured steps apart
  for (const LeftOutStep& step : kept_left_out_steps()) {
    const std::string key = fmt::format("{} {:.0f} {} {}", fmt::join(step.profile.traits, " "), step.profile.devices,
                                        step.profile.slow_host, step.fitted);
    CAPTURE(step.row, key);
    CHECK(families.try_emplace(key, step.family).first->second == step.family);
  }
}

TEST_CASE("each trait that was never measured widens the interval, and the parts of the doubt add up", "[coverage]") {
  const DoubtModel& doubt = DoubtModel::shipped();
  const Experience measured(one_step());
  const StepProfile plain = profile_of_step();
  const double spread = doubt.doubt(plain, measured).spread;
  REQUIRE(spread > 0);
  CHECK(doubt.parts(plain, measured).size() == 1);
  std::vector<StepProfile> unmeasured(8 + kPathParts.size(), plain);
  unmeasured[0].traits[1] = "nemo@24.01";  // another release: the combination is new, the stack is not
  unmeasured[1].traits[1] = "fsdp";
  unmeasured[2].traits[2] = "b200";
  unmeasured[3].traits[0] = "mixtures of experts";
  unmeasured[3].experts = true;
  unmeasured[4].devices = 17;
  unmeasured[5].unmeasured_parts = {"compression"};
  unmeasured[6].wide_tensor = true;
  unmeasured[7].other_vendor = true;
  unmeasured[7].unmeasured_parts = {"offload"};
  for (std::size_t part = 0; part < kPathParts.size(); ++part) unmeasured[8 + part].path[part] = 0.3;
  for (const StepProfile& profile : unmeasured) {
    CAPTURE(profile.traits, profile.devices);
    const StepDoubt wider_doubt = doubt.doubt(profile, measured);
    CHECK(wider_doubt.spread > spread);
    const std::vector<DoubtPart> parts = doubt.parts(profile, measured);
    REQUIRE(parts.size() > 1);
    const StepRange range = doubt.range(wider_doubt, kLikely);
    CHECK(range.low == Approx(1 / range.high));
    double squares = 0;
    for (const DoubtPart& part : parts) {
      CHECK(part.width_without < range.half_width());
      // With a factor of exp(x) on both sides, the half width is sinh(x).
      squares += std::pow(std::asinh(part.width_alone), 2);
    }
    CHECK(std::sqrt(squares) == Approx(std::asinh(range.half_width())));
  }
}

TEST_CASE("a slower network or memory widens the interval, since more of the step rests on its model", "[coverage]") {
  const auto half_width = [](const Overrides& overrides) {
    const Scenario s = llama(overrides);
    return DoubtModel::shipped().range(step_doubt(s, simulate(s)), kLikely).half_width();
  };
  const double unchanged = half_width({});
  double previous = unchanged;
  for (const char* rate : {"100 Gbit/s", "50 Gbit/s", "25 Gbit/s"}) {
    const double slower = half_width({{"cluster.node.hca.rate", rate}});
    CHECK(slower > previous);
    previous = slower;
  }
  CHECK(previous > 1.3 * unchanged);  // 96 % of the critical path are the adapters
  CHECK(half_width({{"cluster.node.gpu.memory_bandwidth", "0.2 TB/s"}}) > unchanged);
  // All shares follow the critical path; without it, the exposed exchanges stand for those between nodes.
  const Scenario s = llama();
  const Result r = simulate(s), blind = simulate(s, {.critical_path = false});
  const PartShares shares = path_shares(s, r);
  CHECK(shares[0] == Approx(r.critical_path.at("GPU memory") / r.step_time.value));
  CHECK(shares[1] ==
        Approx((r.critical_path.at("NVLink") + r.critical_path.at("NCCL's start-up")) / r.step_time.value));
  CHECK(shares[2] == Approx((r.critical_path.at("HCA") + r.critical_path.at("latency") +
                             r.critical_path.at("slow-down by exchanges")) /
                            r.step_time.value));
  REQUIRE(blind.critical_path.empty());
  double exposed = 0;
  for (const auto& [group, seconds] : blind.breakdown.exposed_communication) exposed += seconds;
  CHECK(path_shares(s, blind)[2] == Approx((exposed + blind.breakdown.joining.value) / blind.step_time.value));
  CHECK((path_shares(s, blind)[0] == 0 && path_shares(s, blind)[1] == 0));
}

TEST_CASE("collectives of an anchored machine differ only by their scatter around its mean error", "[coverage]") {
  std::vector<CollectiveError> errors;
  for (const double mean : {-0.5, -0.1, 0.3})
    for (const double scatter : {-0.02, 0.0, 0.02})
      errors.push_back({"kind", fmt::format("system {}", mean), Bytes{1024}, mean + scatter});
  const CollectiveDoubt doubt = CollectiveDoubt::fit(errors);
  CHECK(doubt.range("kind", Bytes{1024}).high == Approx(std::exp(0.5)));
  // Each row is compared with the mean of the other two: 0.03, 0 and 0.03 off.
  CHECK(doubt.range("kind", Bytes{1024}, true).high == Approx(std::exp(0.03)));
  const std::vector<CoveredCollective> covered = cover_each_collective(errors, true);
  REQUIRE(covered.size() == errors.size());
  for (const CoveredCollective& row : covered) CHECK(row.half_width == Approx(std::sinh(0.03)));
  const CollectiveDoubt& shipped = CollectiveDoubt::shipped();
  for (const char* kind : {kFittedGpus, kScaledGpus, kLinkedGpus})
    for (const double size : {1e3, 1e6, 1e9})
      CHECK(shipped.range(kind, Bytes{size}, true).half_width() <= shipped.range(kind, Bytes{size}).half_width());
}

TEST_CASE("the interval of a stack with an unmeasured host reaches the time of a slow host", "[coverage]") {
  const DoubtModel& doubt = DoubtModel::shipped();
  StepProfile small = profile_of_step();
  small.slow_host = 2;
  const StepDoubt unknown = doubt.doubt(small, Experience(one_step()));
  CHECK(unknown.slow_host == Approx(3));  // one and a half times as slow as the slowest measured host
  const StepRange range = doubt.range(unknown, kLikely);
  CHECK(range.high * range.low == Approx(3));
  std::vector<LeftOutStep> steps_with_host = one_step();
  steps_with_host.front().profile.slow_host = 0.6;
  CHECK(doubt.doubt(small, Experience(steps_with_host)).slow_host == 1);
  // The family that was measured with this host is left out.
  CHECK(doubt.doubt(small, Experience(steps_with_host, "a")).slow_host == Approx(3));
}

TEST_CASE("probabilities and intervals invert each other", "[coverage]") {
  const DoubtModel& doubt = DoubtModel::shipped();
  const StepDoubt doubtful{0.08, 1, 1};
  double previous_high = 0;
  for (const double probability : {0.1, 0.5, 0.7, 0.8, 0.9, 0.95, 0.97}) {
    const StepRange range = doubt.range(doubtful, probability);
    CHECK(range.high > previous_high);
    previous_high = range.high;
    CHECK(doubt.probability_within(doubtful, range.high) == Approx(0.5 + probability / 2).epsilon(1e-9));
    CHECK(doubt.probability_within(doubtful, range.low) == Approx(0.5 - probability / 2).margin(1e-9));
  }
  CHECK(doubt.probability_within(doubtful, 1) == Approx(0.5));
}

TEST_CASE("the error to expect lies between the half widths of narrow and wide intervals, and grows with the doubt",
          "[coverage]") {
  const DoubtModel& doubt = DoubtModel::shipped();
  double previous = 0;
  for (const double spread : {0.02, 0.08, 0.3}) {
    const StepDoubt doubtful{spread, 1, 1};
    const double error = doubt.expected_error(doubtful);
    CHECK((error > doubt.range(doubtful, 0.5).half_width() && error < doubt.range(doubtful, kLikely).half_width()));
    CHECK(error > previous);
    CHECK(doubt.expected_error({spread, 2, 1}) > error);
    previous = error;
  }
}

TEST_CASE("the errors to expect are those of measured steps that neither fit nor doubt knows", "[coverage]") {
  for (const ClassCoverage& c : coverage_by_class(cover_each_family(kept_left_out_steps()))) {
    if (c.steps < 100) continue;
    CAPTURE(c.name, c.error, c.expected_error);
    CHECK(std::abs(std::log(c.error / c.expected_error)) < std::log(1.35));
  }
}

TEST_CASE("the doubt that two steps share cancels in their ratio, and what one of them has alone stays", "[coverage]") {
  const DoubtModel& model = DoubtModel::shipped();
  const Experience measured(one_step());
  const auto doubt_of = [&](const StepProfile& profile, int tensor) {
    StepDoubt doubt = model.doubt(profile, measured);
    doubt.tensor = tensor;
    return doubt;
  };
  const StepProfile profile = profile_of_step();
  const StepDoubt a = doubt_of(profile, 4), other_tensor = doubt_of(profile, 8);
  CHECK(unshared_variance(a, a) == 0);
  CHECK(scale_of_ratio(a, a) == Approx(kSpreadOfPlans));
  CHECK(scale_of_ratio(a, other_tensor) > scale_of_ratio(a, a));
  // A scale of 1 and a spread of 1 have the same 80 % interval; Student's quantile there is 1.533206.
  CHECK(std::exp(1.533206 * student_scale()) == Approx(model.range({.spread = 1}, kLikely).high));
  CHECK(std::asinh(half_width_of_ratio(a, a)) == Approx(1.533206 * kSpreadOfPlans));
  // Both are mixtures of experts: the term cancels. Only one has it: the term stays.
  StepProfile experts = profile;
  experts.traits[0] = "mixtures of experts";
  experts.experts = true;
  CHECK(scale_of_ratio(doubt_of(experts, 4), doubt_of(experts, 4)) == Approx(kSpreadOfPlans));
  CHECK(unshared_variance(a, doubt_of(experts, 4)) ==
        Approx(std::pow(student_scale(), 2) *
               (std::pow(model.spread_of("experts"), 2) + std::pow(model.spread_of("network"), 2) +
                std::pow(model.spread_of("stack"), 2))));
  // Shares of the network on the critical path differ, and distances, which are 0.1 and at most 0.2: differences stay.
  StepProfile waiting = profile, longer_waiting = profile;
  waiting.path[2] = 0.1;
  longer_waiting.path[2] = 0.3;
  CHECK(std::sqrt(unshared_variance(doubt_of(waiting, 4), doubt_of(longer_waiting, 4))) ==
        Approx(student_scale() * std::hypot(0.2 * model.spread_of("network path"), 0.1 * model.spread_of("distance"))));
  // Another vendor's chip shares nothing with it.
  StepProfile foreign = profile;
  foreign.traits[2] = "mi300x";
  foreign.other_vendor = foreign.wide_tensor = true;
  const StepDoubt b = doubt_of(foreign, 4);
  CHECK(scale_of_ratio(a, b) == Approx(student_scale() * std::hypot(a.spread, b.spread)));
  // The ratio of two steps is never less sure than if they shared nothing.
  for (const StepDoubt& second : {a, other_tensor, b, doubt_of(experts, 8), doubt_of(waiting, 2)})
    CHECK(scale_of_ratio(a, second) <= student_scale() * std::hypot(a.spread, second.spread) * (1 + 1e-12));
  CHECK(probability_of_longer(1, a, 1, a) == Approx(0.5));
  // The 97.5 % quantile of Student's t with 4 degrees of freedom is 2.776445.
  const double longer = std::exp(2.776445 * scale_of_ratio(a, a));
  CHECK(probability_of_longer(1, a, longer, a) == Approx(0.975).epsilon(1e-6));
  CHECK(probability_of_longer(longer, a, 1, a) == Approx(0.025).epsilon(1e-4));
  const StepDoubt again = StepDoubt::from_figures(b.figures());
  CHECK((again.spread == b.spread && again.tensor == b.tensor && again.terms == b.terms));
}

TEST_CASE("the scatter of two plans is that of pairs of measured plans", "[coverage]") {
  const auto [equal, other] = measured_plan_pairs(kept_left_out_steps());
  CHECK(equal.scale == Approx(kSpreadOfPlans).epsilon(0.1));
  CHECK(other.scale == Approx(kSpreadOfTensorDegrees).epsilon(0.1));
  for (const PlanPairs& pairs : {equal, other}) {
    CHECK(pairs.pairs > 1000);
    CHECK(pairs.families >= 10);
    CHECK(pairs.inside == Approx(0.8).margin(0.06));
  }
}

TEST_CASE("more plans of an anchor narrow its interval, and their scatter widens it", "[coverage]") {
  double previous = DoubtModel::shipped().spread_of("any");
  for (const std::size_t plans : {1, 2, 4, 8, 32}) {
    const double spread = spread_of_anchor(plans, 0);
    CHECK(spread < previous);
    previous = spread;
  }
  CHECK(spread_of_anchor(2, 2 * 0.2 * 0.2) > DoubtModel::shipped().spread_of("any"));
}

TEST_CASE("an answer has an interval, unless its step is ideal or prescribed", "[coverage]") {
  const Scenario s = llama();
  const Result r = answer(s).result;
  REQUIRE(r.likely_step_times);
  const auto [low, high] = *r.likely_step_times;
  CHECK((low < r.step_time.value && r.step_time.value < high));
  const StepRange range = DoubtModel::shipped().range(step_doubt(s, r), kLikely);
  CHECK(low == Approx(r.step_time.value * range.low));
  CHECK(high == Approx(r.step_time.value * range.high));
  CHECK(result_fields().json(r).at("step_time_interval_s") == nlohmann::json({low, high}));
  const DoubtAnswer doubt = explain_doubt(s, r);
  CHECK(doubt.interval == r.likely_step_times);
  CHECK_THAT(
      doubt_screen(doubt),
      Catch::Contains(fmt::format("lies between {} and {} ({} to {}) with a probability of 80 %", show(Seconds{low}),
                                  show(Seconds{high}), signed_percent(low / r.step_time.value - 1),
                                  signed_percent(high / r.step_time.value - 1))));
  // An anchor narrows the interval even of a stack that was measured on this GPU. Its commands name runs that fit.
  REQUIRE(!doubt.measurements.empty());
  for (const NarrowingMeasurement& m : doubt.measurements) {
    CHECK(m.half_width < range.half_width());
    CHECK_THAT(m.command, Catch::StartsWith("trainyard anchor SCENARIO") && Catch::EndsWith(" --measured FILE"));
  }
  // 70 billion parameters do not fit on one node, so no command says so.
  const Scenario large = read_scenario(shipped_file("scenarios/plan-llama3-70b-512xh100.yaml"));
  for (const NarrowingMeasurement& m : explain_doubt(large, simulate(large, {.critical_path = false})).measurements)
    CHECK(m.command.find("cluster.nodes=1 ") == std::string::npos);
  const Scenario unlike = llama({{"software", "pytorch-fsdp"}, {"cluster.node", "mi300x-8x"}});
  const Result unlike_result = answer(unlike).result;
  const DoubtAnswer wider = explain_doubt(unlike, unlike_result);
  REQUIRE(!wider.measurements.empty());
  CHECK(wider.measurements.front().half_width <
        DoubtModel::shipped().range(step_doubt(unlike, unlike_result), kLikely).half_width());
  for (const Overrides& overrides : {Overrides{{"software", "plain"}}, Overrides{{"plan.step_time", "1 s"}}}) {
    const Scenario ideal = llama(overrides);
    CHECK_FALSE(answer(ideal).result.likely_step_times);
    CHECK_FALSE(no_doubt_reason(ideal).empty());
    CHECK(explain_doubt(ideal, answer(ideal).result).parts.empty());
  }
}

TEST_CASE("the interval takes in what the answer says about an estimate", "[coverage]") {
  // One replica's draws stand for all, and ranks that gather parameters ahead of use count as one.
  const Scenario s = llama({{"faults", "{stragglers: {kind: lognormal, sigma: 0.1}}"}});
  const Plan planned = plan(s);
  const Result estimate = simulate(s, planned, {.draws = DrawSharing::one_replica});
  REQUIRE_THAT(estimate.shared_draws, Catch::Contains("the step may be"));
  Result exact = estimate;
  exact.estimate_error = 0;
  REQUIRE(estimate.estimate_error >= 0.05);
  const auto deviation = [&s](const Result& r) {
    return std::log(DoubtModel::shipped().range(step_doubt(s, r), kLikely).high);
  };
  CHECK(deviation(estimate) == Approx(std::hypot(deviation(exact), std::log1p(estimate.estimate_error))));
  const DoubtAnswer doubt = explain_doubt(s, estimate), without = explain_doubt(s, exact);
  REQUIRE(doubt.parts.size() == without.parts.size() + 1);
  double squares = 0;
  for (const DoubtPart& part : doubt.parts) squares += std::pow(std::asinh(part.width_alone), 2);
  CHECK(std::sqrt(squares) == Approx(deviation(estimate)));
  for (const DoubtPart& part : doubt.parts)
    CHECK(std::asinh(part.width_without) ==
          Approx(std::sqrt(squares - std::pow(std::asinh(part.width_alone), 2))).margin(1e-9));
  const auto fold = std::ranges::find_if(doubt.measurements,
                                         [](const auto& m) { return m.words.find("--fold off") != std::string::npos; });
  REQUIRE(fold != doubt.measurements.end());
  CHECK(fold->half_width == Approx(std::sinh(deviation(exact))));
}

TEST_CASE("80 % intervals hold the measured collectives of systems left out of the fit, and inner intervals fewer",
          "[coverage]") {
  std::vector<CollectiveError> errors;
  for (const auto& [system, error, rows] :
       {std::tuple{"a", 0.1, 10}, std::tuple{"b", 0.12, 10}, std::tuple{"c", 0.3, 8}})
    for (int i = 0; i < rows; ++i) errors.push_back({"by wires", system, Bytes{1e6}, i % 2 == 0 ? error : -error});
  const std::map<std::string, std::array<bool, 3>> inside{
      {"a", {true, true, true}},      // within 0.12, which half of the other systems' errors do not exceed
      {"b", {false, true, true}},     // beyond 0.1, within 0.3
      {"c", {false, false, false}}};  // beyond all errors of the other systems
  const std::vector<CoveredCollective> covered = cover_each_collective(errors);
  REQUIRE(covered.size() == errors.size());
  for (const CoveredCollective& row : covered) {
    CAPTURE(row.family);
    CHECK(row.kind == "by wires");
    CHECK(row.inside == inside.at(row.family));
    CHECK(row.half_width == Approx(std::sinh(row.family == "c" ? 0.12 : 0.3)));
  }
  const ClassCoverage all = coverage_of("all", 0.25, {covered.begin(), covered.end()});
  CHECK(all.steps == 28);
  CHECK(all.families == 3);
  CHECK(all.by_steps[1] == Approx(20. / 28));
  CHECK(all.by_families[1] == Approx(2. / 3));
}

TEST_CASE("compare says how sure it is that a scenario is slower", "[coverage]") {
  const Comparison comparison =
      compare_scenarios({llama(), llama(), llama({{"cluster.node.gpu.memory_bandwidth", "1 TB/s"}})});
  CHECK_FALSE(comparison.slower(0));
  CHECK(comparison.slower(1) == Approx(0.5));
  CHECK(*comparison.slower(2) == 1);  // a machine with a slower part is not faster
  CHECK(*compare_scenarios({llama(), llama({{"cluster.node", "dgx-h200"}})}).slower(1) == 0);
  CHECK(*compare_scenarios({llama(), llama({{"cluster.node", "mi300x-8x"}})}).slower(1) > 0);
  CHECK(comparison_fields().json(comparison).at("changes")[1].at("slower_probability") == *comparison.slower(2));
}

TEST_CASE("plan calls plans equal if their difference is within the doubt that they do not share", "[coverage]") {
  const PlanQuestion question =
      read_plan_question(read_scenario_document(shipped_file("scenarios/llama3-8b-fsdp-64xh100.yaml")), "llama", {});
  PlanAnswerOptions options;
  options.search.work = 3e6;
  const PlanAnswer answer = answer_plan(question, options);
  REQUIRE(!answer.best.empty());
  const PlanOutcome& best = answer.best.front().outcome;
  REQUIRE(best.doubt.exists());
  CHECK_FALSE(answer.best.front().slower);
  CHECK(answer.equals >= 1);
  bool has_equal_plan = false, has_slower_plan = false;
  for (const PlanRow& row : answer.neighbours) {
    if (!row.slower) continue;
    CHECK(*row.slower ==
          Approx(probability_of_longer(best.step_time, best.doubt, row.outcome.step_time, row.outcome.doubt)));
    CHECK((*row.slower < 0.5) == (row.outcome.step_time < best.step_time));
    (*row.slower < kSurelySlower ? has_equal_plan : has_slower_plan) = true;
  }
  CHECK((has_equal_plan && has_slower_plan));
}

TEST_CASE("size meets a deadline with the confidence that is asked for", "[coverage]") {
  Node document = parse_document(
      "cluster: {node: dgx-a100}\nmodel: gpt2\n"
      "plan: {strategy: megatron, global_batch_size: 64, micro_batch_size: 1, seq_length: 1024, training: {tokens: "
      "1e9}, pipeline: {schedule: 1f1b}}\nsoftware: megatron-core\n",
      "small.yaml");
  SizeOptions options;
  options.node_types = {"dgx-a100"};
  options.work = 2e6;
  options.gpus = 16;
  options.days = 1;
  const SizeAnswer ample_answer = size_clusters(document, "small", options);
  REQUIRE(ample_answer.cheapest);
  const double days = ample_answer.cheapest->days();
  const StepDoubt doubt = ample_answer.cheapest->doubt;
  REQUIRE(doubt.exists());
  const double needed = days * DoubtModel::shipped().range(doubt, 0.8).high;  // with a probability of 90 %
  for (const double share : {0.999, 1.001}) {
    options.days = needed * share;
    options.confidence = 0;
    CHECK(size_clusters(document, "small", options).cheapest.has_value());
    options.confidence = 0.9;
    const SizeAnswer answer = size_clusters(document, "small", options);
    REQUIRE(answer.rows.size() == 1);
    CHECK(*answer.rows.front().on_time == Approx(0.9).margin(0.01));
    CHECK(answer.cheapest.has_value() == (share > 1));
  }
  set_field(document, "software", "plain");
  const SizeAnswer ideal = size_clusters(document, "small", options);
  CHECK(ideal.rows.front().error.find("plain is an ideal stack") != std::string::npos);
}

}  // namespace scenarios_test_step_doubt
