#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <streambuf>
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

/// Reads a JSON text that may be larger than memory: `take` gets the objects in the outermost list (its name is "" then), or
/// in each list of the outermost object, one by one. Returns "", or what is wrong: "byte 17: …".
std::string read_json_items(std::streambuf&,
                            const std::function<void(const std::string& list, const nlohmann::json& item)>& take);

}  // namespace trainyard
