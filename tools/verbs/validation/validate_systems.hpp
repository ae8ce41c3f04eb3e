#pragma once
#include <string>
#include <vector>

#include "scenarios/src/studies/measured/error_set.hpp"

namespace trainyard {

/// Points that are judged together.
struct PointSet {
  std::string name;
  ErrorLimits limits = {};
  std::vector<MeasuredPoint> points = {};
  bool part = false;  ///< of the set before
};
/// The set of that name; a new one at the end where there is none.
PointSet& set_called(std::vector<PointSet>&, const std::string& name);

/// The machines of scenarios/measured/tables/nccl_systems.csv against their sweeps.
struct JudgedSystems {
  std::vector<PointSet> classes;  ///< by class: in the fit, and with each source left out of it
  std::vector<PointSet> systems;  ///< by system and operation
  std::string text;               ///< a table of the systems, then what was left out and why
  std::string svg;
};
/// `shown`: names of systems by commas, which the picture shows; empty: all with eight sizes or more. Throws UserError for
/// unknown ones.
JudgedSystems judge_systems(const std::string& shown = "");

}  // namespace trainyard
