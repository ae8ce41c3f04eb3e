#pragma once
#include <string>
#include <vector>

#include "models/reading/asked_fields.hpp"

namespace trainyard {

/// A field of a scenario: one value, or a map or list with a description.
struct ScenarioField {
  std::string path;       ///< as overrides name it: "plan.micro_batch_size"
  std::string words;      ///< description; "": the reader has none
  std::string condition;  ///< the field is required only then: "with mechanism local-sgd"
  /// "a whole number", "a rate such as 400 Gbit/s or 25 GB/s", "a name", …; "": it depends on the value.
  std::string type;
  bool required = false;
  std::string fallback;              ///< default value; "": it depends on another key, the software or the node
  std::vector<std::string> choices;  ///< possible names
  std::string value;                 ///< the value in the scenario; "": not given, or not a single value
  bool of_hardware = false;          ///< a figure of the hardware, whose source explains it
};

/// Returns the fields that readers asked for while scenarios were read, in that order: those of the scenario's
/// sections, and figures of the hardware that a cluster can change ("cluster.hca.rate"). has_operators: also the keys of a
/// network that is written as operators, once for all operators of a kind.
std::vector<ScenarioField> scenario_fields(const AskedFields&, bool has_operators = false);

/// Returns the text of a scenario with the keys that have no default, and no others.
const char* smallest_scenario();

/// Returns the texts of scenarios with keys that no shipped scenario has. They are read, never run.
std::vector<std::string> example_scenarios();

/// Returns an example of a field's value: the one that its description states, or one of its choices that is not the
/// default. "": the field is true or false, or a map of other fields.
std::string find_example(const ScenarioField&);

/// Returns every field that some reader asks for, without values. Examples and those shipped scenarios that have further
/// keys are read to find the fields. every_file: all shipped scenarios are read, which must find the same. Figures of
/// the hardware have no descriptions here.
std::vector<ScenarioField> known_scenario_fields(bool every_file = false);

}  // namespace trainyard
