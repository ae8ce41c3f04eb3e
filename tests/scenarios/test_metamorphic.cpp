// What must hold between a step and the same step on a faster machine, over random scenarios.
#include <catch2/catch.hpp>

#include <algorithm>

#include "scenarios/running/simulate.hpp"
#include "sim/error.hpp"
#include "tests/scenarios/random_scenarios.hpp"

using namespace trainyard;

namespace {

/// The resource of the critical path that a what-if makes faster.
std::string resource_of(const std::string& resource_class) {
  if (resource_class == "compute") return "GPU compute";
  if (resource_class == "memory") return "GPU memory";
  return resource_class;
}

/// Of the step: pieces of messages that are under way at once have several critical paths of nearly the same length.
constexpr double kNoise = 0.04;
/// A faster resource may make a list schedule longer (Graham 1969). Above this the same must happen to SimGrid's own
/// communications.
constexpr double kAnomaly = 1e-3;

bool also_natively(const Scenario& s, const Plan& laid_out, const std::string& resource_class) {
  SimulateOptions native;
  native.transport = TransportKind::native;
  const double before = simulate(s, laid_out, native).step_time;
  native.upgrade[resource_class] = 2;
  return simulate(s, laid_out, native).step_time > before * (1 + kAnomaly / 2);
}

void check(const Scenario& s) {
  const Plan laid_out = plan(s);
  const Result r = simulate(s, laid_out);
  const auto shares = r.shares();
  if (shares.empty()) return;
  const std::vector<WhatIf> table = what_if(s, laid_out);
  const WhatIf* best = nullptr;
  std::vector<double> changeable;  // shares of what can be made faster
  for (const WhatIf& w : table) {
    const double saved = 1 - w.step_time / r.step_time;
    CAPTURE(w.resource_class, saved);
    CHECK((saved > -kAnomaly || also_natively(s, laid_out, w.resource_class)));
    const auto at = r.critical_path.find(resource_of(w.resource_class));
    const double share = at == r.critical_path.end() ? 0 : at->second / r.step_time;
    CHECK(saved <= share / 2 * 1.05 + kNoise);
    changeable.push_back(share);
    if (!best || w.step_time < best->step_time) best = &w;
  }
  if (1 - best->step_time / r.step_time < 2 * kNoise) return;
  // It is named first or second, or nearly: a share that other work partly hides saves less than half of it.
  CAPTURE(best->resource_class);
  const auto at = r.critical_path.find(resource_of(best->resource_class));
  REQUIRE(at != r.critical_path.end());
  std::sort(changeable.rbegin(), changeable.rend());
  CHECK(at->second / r.step_time >= 0.7 * changeable[1]);
}

}  // namespace

TEST_CASE("a faster resource saves what the critical path says, over random scenarios", "[metamorphic][.deep]") {
  test::RandomScenarios scenarios(16);
  int checked = 0;
  for (int i = 0; i < 400 && checked < 200; ++i) {
    const std::string text = scenarios.next();
    CAPTURE(i, text);
    try {
      check(read_scenario_text(text, "random.yaml"));
      ++checked;
    } catch (const UserError&) {
    }
  }
  CHECK(checked == 200);
}
