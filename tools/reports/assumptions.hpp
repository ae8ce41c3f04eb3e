#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/reading/document.hpp"

namespace trainyard {

struct Scenario;

/// A figure that a page assumes and does not compute.
struct Assumption {
  std::string item;            ///< in words: "rent of one h100-sxm5-80gb, reserved 12 months"
  std::string figure;          ///< as it was written
  std::string unit;            ///< "USD an hour"; empty: the figure has its unit, or none
  std::string source;          ///< text of its source, or where it is stated
  const Node* node = nullptr;  ///< the figure in its document; null: a default, which the document does not state
};

/// Lists the figures of a price file (an entry of the kind price) with their units and sources, and the defaults of a
/// purchase that it leaves out. `names`: nodes and devices that an answer is about; prices of others are left out. Empty:
/// all prices are listed. The figures point into `prices`.
std::vector<Assumption> price_assumptions(const Node& prices, const std::vector<std::string>& names);

/// Names the types of nodes of a scenario's cluster.
std::vector<std::string> node_types(const Scenario&);

/// Lists the figures of a document that a page assumes: `prices`, `site`, `faults` and the length of the training, each if
/// there is any, as a JSON list of item, figure, unit and source. `nodes`: types of nodes that the answer is about.
nlohmann::ordered_json assumptions_json(const Node& document, const std::vector<std::string>& nodes);

}  // namespace trainyard
