#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// Scenarios side by side.
struct Comparison {
  std::vector<Result> results;
  /// A field that not all of them say alike: its path, and each one's value as YAML; "": not said.
  struct Difference {
    std::string path;
    std::vector<std::string> values;
  };
  std::vector<Difference> differences;
};

/// Simulates each, two or more, on the processors there are.
Comparison compare_scenarios(const std::vector<Scenario>&);

/// The parts of two steps that differ, the largest difference first: by name, seconds of the second less those of the
/// first.
std::vector<std::pair<std::string, double>> changed_parts(const Result& first, const Result& second);

nlohmann::ordered_json comparison_json(const Comparison&);

}  // namespace trainyard
