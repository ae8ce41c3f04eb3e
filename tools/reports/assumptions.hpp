#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/reading/document.hpp"

namespace trainyard {

struct Scenario;

/// A figure that a page assumes and does not compute.
struct Assumption {
  std::string item;    ///< in words: "rent of one h100-sxm5-80gb, reserved 12 months"
  std::string figure;  ///< as it was written
  std::string unit;    ///< "USD an hour"; empty: the figure has its unit, or none
  std::string source;  ///< text of its source, or where it is stated
};

/// Names the types of nodes of a scenario's cluster.
std::vector<std::string> node_types(const Scenario&);

/// Lists the figures of a document that a page assumes: `prices`, `site`, `faults` and the length of the training, each if
/// there is any, as a JSON list of item, figure, unit and source. `nodes`: types of nodes that the answer is about.
nlohmann::ordered_json assumptions_json(const Node& document, const std::vector<std::string>& nodes);

}  // namespace trainyard
