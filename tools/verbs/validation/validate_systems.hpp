#pragma once
#include <string>
#include <vector>

#include "scenarios/src/studies/measured/error_set.hpp"

namespace trainyard {

/// A set of points and what it must reach; 0: no limit, reported only.
struct CollectiveSet {
  std::string name;
  std::vector<MeasuredPoint> points;
  double median_limit = 0, p90_limit = 0;
};

/// The machines of scenarios/measured/tables/nccl_systems.csv against their sweeps.
struct JudgedSystems {
  std::vector<CollectiveSet> classes;  ///< by class: in the fit, and with each source left out of it
  std::vector<CollectiveSet> systems;  ///< by system and operation
  std::string text;                    ///< a table of the systems, then what was left out and why
  std::string svg;
};
/// `shown`: names of systems by commas, which the picture shows; empty: all with eight sizes or more. Throws UserError for
/// unknown ones.
JudgedSystems judge_systems(const std::string& shown = "");

}  // namespace trainyard
