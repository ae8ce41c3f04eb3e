#pragma once
#include <string>
#include <vector>

namespace trainyard {

/// Where the answer goes besides the terminal.
struct LeftOutOutputs {
  std::string json, csv;  ///< csv: errors of steps that are alike, as scenarios/measured/tables keeps them
  bool points = false;    ///< every point in the JSON
};

/// `validate SET --left-out` of training or mlperf: each family (or `families`) by constants that were fitted to the others
/// of the set, and to those of training. Returns an exit code.
int validate_left_out(const LeftOutOutputs&, const std::string& set, const std::vector<std::string>& families);

}  // namespace trainyard
