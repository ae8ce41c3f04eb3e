// Relations between a step and the same step on a faster machine or by another transport, over random scenarios.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <functional>

#include "scenarios/src/running/faster_fields.hpp"
#include "scenarios/src/running/path_resources.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "sim/error.hpp"
#include "tests/scenarios/random_scenarios.hpp"

namespace scenarios_test_metamorphic {

using namespace trainyard;

namespace {

/// The resource of the critical path that a what-if makes faster.
std::string resource_of(const std::string& resource_class) {
  if (resource_class == "compute") return "GPU compute";
  if (resource_class == "memory") return "GPU memory";
  return resource_class;
}

/// A saving may exceed its bound by this share of the step: concurrent pieces of messages have several critical paths
/// of nearly the same length.
constexpr double kNoise = 0.04;
/// A few savings may exceed their bound by this share: messages that a faster link lets through earlier free a shared
/// lane for others.
constexpr double kRareNoise = 0.08;
constexpr int kRareCases = 8;  // savings, of 200 scenarios with some ten each
/// A faster resource may lengthen a list schedule (Graham 1969). If it lengthens the step by more than this share, it
/// must do so with SimGrid's own communications too.
constexpr double kAnomaly = 1e-3;

bool lengthens_step_natively(const Scenario& s, const std::string& resource_class) {
  const SimulateOptions native{.transport = TransportKind::native};
  const double before = simulate(s, native).step_time.value;
  return simulate(read_again(s, faster(s, resource_class, 2)), native).step_time.value > before * (1 + kAnomaly / 2);
}

/// The largest share of the step that a resource twice as fast can save, from its share of the critical path and from that
/// of the slow-down by exchanges, which shrinks with kernels and with exchanges. The path assigns to the framework only
/// the time by which a launch exceeds its kernel, so launches of half the time can save all of it.
double largest_saving(const std::string& resource_class, double share, double slowed) {
  return (resource_class == "framework" ? share : share / 2) + slowed / 2;
}

void check_what_ifs(const Scenario& s, int& beyond_noise) {
  const Plan step_plan = plan(s);
  const Result r = simulate(s, step_plan);
  const auto shares = r.shares();
  if (shares.empty()) return;
  const std::vector<WhatIf> table = what_if(s);
  const WhatIf* best = nullptr;
  std::vector<double> changeable_shares;  // of the critical path, by resources that can be made faster
  for (const WhatIf& w : table) {
    const double saved = 1 - w.step_time.value / r.step_time.value;
    CAPTURE(w.resource_class, saved);
    CHECK((saved > -kAnomaly || lengthens_step_natively(s, w.resource_class)));
    const auto share_of = [&r](const std::string& resource) {
      const auto entry = r.critical_path.find(resource);
      return entry == r.critical_path.end() ? 0 : entry->second / r.step_time.value;
    };
    const double share = share_of(resource_of(w.resource_class));
    const double bound = largest_saving(w.resource_class, share, share_of(kSlowdownName));
    CHECK(saved <= bound * 1.05 + kRareNoise);
    if (saved > bound * 1.05 + kNoise) ++beyond_noise;
    changeable_shares.push_back(share);
    if (!best || w.step_time.value < best->step_time.value) best = &w;
  }
  if (1 - best->step_time.value / r.step_time.value < 2 * kNoise) return;
  // The best resource has nearly the second-largest share of the path, or a larger one: other work may partly hide the
  // largest.
  CAPTURE(best->resource_class);
  const auto entry = r.critical_path.find(resource_of(best->resource_class));
  REQUIRE(entry != r.critical_path.end());
  std::sort(changeable_shares.rbegin(), changeable_shares.rend());
  CHECK(entry->second / r.step_time.value >= 0.65 * changeable_shares[1]);
}

/// Returns the largest relative change of the step time if one resource class is faster by 1e-13.
double rounding_sensitivity(const Scenario& s, const Result& r) {
  double most = 0;
  for (const Scenario& faster : barely_faster(s))
    most = std::max(most, std::abs(simulate(faster, {.critical_path = false}).step_time.value / r.step_time.value - 1));
  return most;
}

/// The share by which rounding may change a step: it decides the order of pieces of a double binary tree that end at
/// the same instant.
constexpr double kTieNoise = 2e-3;

/// Checks that both transports give the same, to the precision of SimGrid's own times (see FlowTransport).
/// `unexplained` counts steps that differ although a change of rounding alone does not move them.
void check_transports(const Scenario& s, int& unexplained) {
  const Plan step_plan = plan(s);
  const SimulateOptions native{.transport = TransportKind::native};
  const Result expected = simulate(s, step_plan, native), r = simulate(s, step_plan);
  const auto close_to = [](double v) { return Approx(v).epsilon(1e-9); };
  if (r.step_time.value != close_to(expected.step_time.value)) {
    if (rounding_sensitivity(s, r) <= 1e-9) ++unexplained;
    CHECK(r.step_time.value == Approx(expected.step_time.value).epsilon(kTieNoise));
  }
  CHECK(r.bytes_total.value == close_to(expected.bytes_total.value));
  CHECK(r.memory.peak.value == close_to(expected.memory.peak.value));
  CHECK(r.host_memory.peak.value == close_to(expected.host_memory.peak.value));
  REQUIRE(r.bytes_by_link_kind.size() == expected.bytes_by_link_kind.size());
  for (const auto& [kind, bytes] : expected.bytes_by_link_kind) {
    CAPTURE(kind);
    CHECK(r.bytes_by_link_kind.at(kind) == close_to(bytes));
  }
}

/// Checks `count` scenarios that can be laid out. The plan of each has one of the further lines `more`.
void check_random(unsigned seed, int count, const std::function<void(const Scenario&)>& check_one,
                  const std::vector<std::string>& more = {""}) {
  test::RandomScenarios scenarios(seed);
  int checked = 0;
  for (std::size_t i = 0; i < 3 * static_cast<std::size_t>(count) && checked < count; ++i) {
    const std::string text = scenarios.next() + more[i % more.size()];
    CAPTURE(i, text);
    try {
      check_one(read_scenario_text(text, "random.yaml"));
      ++checked;
    } catch (const UserError&) {
    }
  }
  CHECK(checked == count);
}

const std::vector<std::string> kFidelities{"", "  collectives: flows\n", "  collectives: messages\n"};

}  // namespace

TEST_CASE("a faster resource saves no more than the critical path allows, over random scenarios",
          "[metamorphic][.deep]") {
  int beyond_noise = 0;
  check_random(16, 200, [&beyond_noise](const Scenario& s) { check_what_ifs(s, beyond_noise); });
  CHECK(beyond_noise <= kRareCases);
}

TEST_CASE("native and flow transport agree on some random scenarios", "[metamorphic]") {
  int unexplained = 0;
  check_random(
      17, 6, [&unexplained](const Scenario& s) { check_transports(s, unexplained); }, kFidelities);
  CHECK(unexplained == 0);
}

TEST_CASE("native and flow transport agree over random scenarios", "[metamorphic][.deep]") {
  int unexplained = 0;
  check_random(
      18, 200, [&unexplained](const Scenario& s) { check_transports(s, unexplained); }, kFidelities);
  CHECK(unexplained <= 1);  // the scenario with a double binary tree within one node
}

}  // namespace scenarios_test_metamorphic
