#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace trainyard {

using ServedJson = nlohmann::ordered_json;

/// Returns true if programs may call the verb of this name: it computes an answer, and its answer is JSON.
bool is_served(const std::string& verb);

/// The verbs that programs may call, as tools of the Model Context Protocol: name, title, description and arguments. The
/// flags and texts of --help make the JSON Schema. It leaves out flags that write files.
ServedJson served_tools();

/// Calls a verb and returns the text that it writes with --json. `arguments`: an object with the properties of the
/// schema. Throws UserError for an unknown argument and for a value of another type, and the errors of the verb.
std::string served_answer(const std::string& verb, const ServedJson& arguments);

}  // namespace trainyard
