#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/studies/measured/step_doubt.hpp"

namespace trainyard {

template <class T>
class JsonFields;

/// A measurement that narrows the interval of one step.
struct NarrowingMeasurement {
  std::string words;
  double half_width = 0;  ///< half width of the 80 % interval after an anchor to it, as a share of the step
  std::string command;    ///< the command that anchors to it, with FILE for the file of the times; "": no anchor
};

/// The doubts that make the interval of one step wide.
struct DoubtAnswer {
  std::string scenario;
  double step_time = 0;                           ///< s
  std::optional<std::array<double, 2>> interval;  ///< 80 % interval, s
  std::string no_interval;                        ///< why there is no interval; "": there is one
  std::vector<DoubtPart> parts;
  std::vector<NarrowingMeasurement> measurements;  ///< the one that narrows the interval most first; empty: none does
};
/// `file`: the scenario as a command line names it, with its --set.
DoubtAnswer explain_doubt(const Scenario&, const Result&, const std::string& file = "SCENARIO");
const JsonFields<DoubtAnswer>& doubt_fields();

/// Returns the groups of rank 0 that exchange data in collectives, as lists of ranks. Groups of one rank are among them.
std::vector<std::vector<int>> exchanging_groups(const Scenario&);
/// No value: no node has a larger group than was measured, or collectives are not modelled by measurements.
std::optional<ExtrapolatedCollectives> extrapolated_collectives(const Scenario&);

}  // namespace trainyard
