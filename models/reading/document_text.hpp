#pragma once
#include <string>

#include "models/reading/document.hpp"

namespace trainyard {

/// A document as YAML that reads back the same: maps with a key a line, maps of maps below that in braces, lists in
/// brackets.
std::string yaml_text(const Node&);

}  // namespace trainyard
