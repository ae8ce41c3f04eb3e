#pragma once
#include <string>
#include <vector>

#include "models/reading/asked_fields.hpp"

namespace trainyard {

/// A field of a scenario that holds one value, by the path that overrides have for it.
struct ScenarioField {
  std::string path;
  std::string words;      ///< what it means; "" of the hardware's figures, which have their sources
  std::string condition;  ///< under which alone it is required: "with mechanism local-sgd"
  std::string
      type;  ///< "a whole number", "a rate such as 400 Gbit/s or 25 GB/s", "a name", …; "" where it depends on what is there
  bool required = false;
  std::string fallback;  ///< what it is where it is not given; "": another key, the software or the node says
  std::vector<std::string> choices;  ///< names that it may be
  std::string value;                 ///< as it stands there; "": it is not given, or no single value
};

/// What was asked for while scenarios were read, in that order: their own sections, and of the hardware what a cluster takes
/// over ("cluster.hca.rate").
std::vector<ScenarioField> scenario_fields(const AskedFields&);

/// Of all scenarios that come with the program: every field that some reader asks for. Values are left out.
std::vector<ScenarioField> known_scenario_fields();

}  // namespace trainyard
