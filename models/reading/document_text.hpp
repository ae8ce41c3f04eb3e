#pragma once
#include <map>
#include <string>

#include "models/reading/document.hpp"

namespace trainyard {

/// A document as YAML that reads back the same: maps with a key a line, maps of maps below that in braces, lists in
/// brackets.
std::string yaml_text(const Node&);
/// The same in one line, maps in braces.
std::string flow_text(const Node&);

/// Every field that is no map, by its dotted path: as YAML.
std::map<std::string, std::string> flat_fields(const Node&);

}  // namespace trainyard
