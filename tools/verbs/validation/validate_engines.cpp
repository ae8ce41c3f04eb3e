#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/planning/size.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "sim/observers/progress.hpp"
#include "sim/process/parallel.hpp"
#include "sim/units.hpp"
#include "tools/verbs/validation/validation.hpp"

namespace trainyard {
namespace {

constexpr double kMostOperations = 2.5e6;  // SimGrid takes half a minute for these
constexpr double kEqual = 1e-9;            // relative precision of SimGrid's times

struct EngineCase {
  std::string scenario;
  double operations = 0;  ///< estimated operations of all ranks, without folding
  EngineTimes times;
  std::string left_out;  ///< the reason why the scenario is not run; empty: it is run
};

EngineCase engine_case(const std::filesystem::path& file) {
  EngineCase result;
  result.scenario = file.stem().string();
  try {
    const Scenario s = read_scenario(file);
    if (s.prescribed_step.exists()) throw UserError("its step time is given");
    const Plan laid_out = plan(s);
    result.operations = estimated_operations(laid_out);
    if (result.operations > kMostOperations)
      throw UserError(
          fmt::format("{:.2g} operations; at most {:.2g} are compared", result.operations, kMostOperations));
    SimulateOptions options;
    options.critical_path = false;
    result.times.flow = simulate(s, laid_out, options).step_time.value;
    options.transport = TransportKind::native;
    result.times.native = simulate(s, laid_out, options).step_time.value;
  } catch (const UserError& e) {
    result.left_out = e.what();
  }
  return result;
}

/// The shipped scenarios with these names; without names, all. Throws UserError for an unknown name.
std::vector<std::filesystem::path> compared_files(const std::vector<std::string>& names) {
  const std::vector<std::filesystem::path> shipped = shipped_yaml_files("scenarios");
  if (names.empty()) return shipped;
  std::vector<std::filesystem::path> files;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(shipped, name, [](const auto& file) { return file.stem().string(); });
    if (found == shipped.end())
      throw UserError(
          fmt::format("--family {}: the name of a shipped scenario expected (trainyard list scenarios)", name));
    files.push_back(*found);
  }
  return files;
}

}  // namespace

double EngineTimes::difference() const { return std::abs(flow / native - 1); }

EngineVerdict judge_engines(const std::vector<EngineTimes>& all) {
  EngineVerdict verdict;
  for (const EngineTimes& times : all)
    if (const double difference = times.difference(); !(difference <= verdict.largest)) {
      verdict.largest = difference;
      if (std::isnan(difference)) break;
    }
  verdict.agree = !all.empty() && verdict.largest <= kEqual;
  return verdict;
}

int validate_engines(const ValidationRequest& request) {
  const std::vector<std::filesystem::path> files = compared_files(request.families);
  std::vector<EngineCase> cases;
  {
    ProgressLine progress;
    std::size_t ended = 0;
    cases = all_in_parallel(
        files.size(), processors(), [&](std::size_t i) { return engine_case(files[i]); },
        [&](std::size_t, const EngineCase&) {
          progress.show(fmt::format("{} of {} scenarios", ++ended, files.size()));
        });
  }
  std::vector<EngineTimes> times;
  TextTable table{"scenario", ">operations", ">step by flow", ">step by native", ">difference"};
  std::string left_out;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const EngineCase& one : cases) {
    nlohmann::ordered_json& row = rows.emplace_back(nlohmann::ordered_json{{"scenario", one.scenario}});
    if (!one.left_out.empty()) {
      row["left_out"] = one.left_out;
      left_out += fmt::format("  {}: {}\n", one.scenario, one.left_out);
      continue;
    }
    times.push_back(one.times);
    const double difference = one.times.difference();
    row.update({{"operations", one.operations},
                {"flow_s", one.times.flow},
                {"native_s", one.times.native},
                {"difference", difference}});
    table.rows.push_back({one.scenario, fmt::format("{:.0f}", one.operations), show(Seconds{one.times.flow}),
                          show(Seconds{one.times.native}), fmt::format("{:.1e}", difference)});
  }
  const std::size_t run = times.size();
  const auto [largest, agree] = judge_engines(times);
  const int code = agree ? kGood : kFailsLimit;
  report(request,
         fmt::format("Steps by the default transport (flow) and by SimGrid's own communications (--transport native), "
                     "rank by rank.\n\n{}\nThe largest difference of {} scenarios is {:.1e}{}.\n{}{}",
                     table.text(), run, largest, code == kGood ? "" : fmt::format(", MORE THAN {:.0e}", kEqual),
                     left_out.empty() ? "" : "\nNot compared:\n", left_out),
         {{"largest_difference", largest}, {"run", run}, {"scenarios", rows}});
  return code;
}

}  // namespace trainyard
