#pragma once
#include <string>

#include "scenarios/src/studies/comparison.hpp"

namespace trainyard {

/// Names of the figures that loops, engines and other steps have in common.
struct ComparisonLabels {
  std::string time;         ///< the time that is compared (`Result::main_time`): "loop step"
  std::string of_pass;      ///< follows the name of a figure of the simulated pass: " of the training half"; empty: the
                            ///< pass is the whole step
  std::string loop_pass;    ///< the pass of loops: "optimizer step of the training half"; empty: there are no loops
  std::string engine_pass;  ///< the pass of engines: "forward pass of the plan"; empty: there are no engines
};
ComparisonLabels labels_of(const Comparison&);

/// A table with a line for each figure and a column for each scenario, and the parts of the step that differ. Loops
/// show the loop; figures of their training half are named so.
std::string comparison_screen(const Comparison&);

}  // namespace trainyard
