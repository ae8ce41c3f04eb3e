#pragma once
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/studies/measured/step_doubt.hpp"

namespace trainyard {

template <class T>
class JsonFields;

/// Results of several scenarios and the differences of their fields.
struct Comparison {
  std::vector<Result> results;
  std::vector<StepDoubt> doubts;  ///< doubts of their step times
  /// Indexed by scenario: 1 if no figure of its machine is slower than that of the first scenario's and one is faster, -1
  /// if it is the other way round, and 0 if neither is so or if they differ in other things.
  std::vector<int> faster_machine;
  /// Returns the probability that a scenario is in truth slower than the first; errors that both share cancel. A machine
  /// with faster parts is not slower at the same work: if the simulation says so too, this is certain. No
  /// value: it is the first, one of the two has no interval, or one is a loop or engines, for which this is not known.
  std::optional<double> slower(std::size_t scenario) const;
  /// Returns the relative change of `Result::main_time` from the first scenario. No value: it is the first, or only one of
  /// the two is a loop or engines that answer prompts.
  std::optional<double> change_of_step(std::size_t scenario) const;
  /// A field with different values: its path, and each scenario's value as YAML. No value: the scenario does not set it.
  struct Difference {
    std::string path;
    std::vector<std::optional<std::string>> values;
  };
  std::vector<Difference> differences;
  /// A price, and its value at which two scenarios cost as much a token. All other prices stay.
  struct BreakEven {
    std::string price;                     ///< "node", "purchase", "kwh", "gpu_hour"
    std::optional<std::int64_t> scenario;  ///< index of the scenario that pays the price. No value: both pay it
    double value = 0;                      ///< the price now
    std::optional<double> equal;           ///< No value: there is no such price
  };
  std::vector<std::vector<BreakEven>> break_evens;  ///< indexed by scenario: beside the first; empty: no common prices
};

/// Simulates two or more scenarios in parallel on all processors.
Comparison compare_scenarios(const std::vector<Scenario>&);

/// Returns the parts of a step of a loop by name, s. Together they are the step.
std::vector<std::pair<std::string, double>> parts_of_loop(const PostTrainingResult&);

/// Returns the parts of two steps that differ, by name: seconds of the second minus those of the first. The largest
/// difference comes first. Two loops have the parts of their loops, and two scenarios of engines those of the slowest
/// engine. A loop and another step have no parts in common.
std::vector<std::pair<std::string, double>> changed_parts(const Result& first, const Result& second);

const JsonFields<Comparison>& comparison_fields();

}  // namespace trainyard
