#pragma once
#include <map>
#include <string>

#include "models/reading/document.hpp"

namespace trainyard {

/// Returns a document as YAML that reads back the same: one key a line, deeper maps in braces, lists in brackets.
std::string yaml_text(const Node&);
/// Returns a document as YAML in one line, with maps in braces.
std::string flow_text(const Node&);

/// Reads a JSON text as if it were the content of a YAML file of this name: texts need no quotes to be numbers with
/// units or names. Throws UserError with the place.
Node parse_json_document(const std::string& json, const std::string& name);
/// Rewrites places in a document that a program wrote as JSON, a line for each key: "scenario.yaml:4:6", or
/// "scenario.yaml:4", becomes "scenario: plan.micro_batch_size". `name`: the name in these places, "scenario.yaml".
std::string places_as_keys(const std::string& text, const Node& document, const std::string& name);

/// Escapes a text for double quotes in YAML, on one line. Control characters become spaces.
std::string yaml_escaped(const std::string&);

/// Returns the YAML of every field that is no map, by its dotted path.
std::map<std::string, std::string> flat_fields(const Node&);

}  // namespace trainyard
