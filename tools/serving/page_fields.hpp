#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/reading/document.hpp"
#include "scenarios/src/reading/scenario_fields.hpp"

namespace trainyard {

/// Returns true if the value is a number, a quantity or a switch. Such a value names no file.
bool is_plain_value(const std::string& value);

/// Returns the fields of a scenario that the page offers: those with a single value, which names no file.
std::vector<ScenarioField> offered_fields(const AskedFields&);

/// Returns the numbers of a section `prices` as fields: of machines only those with these names, and no price by quantity.
std::vector<ScenarioField> price_fields(const Node& prices, const std::vector<std::string>& machines);

/// Returns a value as a scenario takes it. Counts may have a prefix (k, M, B or G, T), separators, and a noun of their
/// field: "2 M tokens" is 2000000. All other values stay as they are; their reader knows their units. Throws UserError
/// for a noun that is not the field's.
std::string typed_value(const ScenarioField&, const std::string& text);

/// Returns the fields as the page's script takes them.
nlohmann::ordered_json controls_of(const std::vector<ScenarioField>&);

}  // namespace trainyard
