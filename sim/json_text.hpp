#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trainyard {

/// The text of JSON, with `indent` spaces a level; -1: on one line. Bytes that are no UTF-8 become U+FFFD.
/// The library's printer and parser are templates of 150 kB: they are compiled here, and nowhere else.
std::string json_text(const nlohmann::json&, int indent = -1);
std::string json_text(const nlohmann::ordered_json&, int indent = -1);
/// A text as JSON has it: in quotes, with escapes.
std::string json_string(const std::string&);
/// Throws nlohmann::json::parse_error.
nlohmann::json parse_json(const std::string& text);
nlohmann::ordered_json parse_ordered_json(const std::string& text);

}  // namespace trainyard
