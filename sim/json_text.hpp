#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <streambuf>
#include <string>

namespace trainyard {

/// Prints JSON with `indent` spaces a level; −1 prints it on one line. Bytes that are not UTF-8 become U+FFFD. The
/// library's printer and parser are templates that compile to 150 kB; therefore only json_text.cpp includes them.
std::string json_text(const nlohmann::json&, int indent = -1);
std::string json_text(const nlohmann::ordered_json&, int indent = -1);
/// Returns the text as a JSON string: in quotes, with escapes.
std::string json_string(const std::string&);
/// Throws nlohmann::json::parse_error if the text is not JSON.
nlohmann::json parse_json(const std::string& text);
nlohmann::ordered_json parse_ordered_json(const std::string& text);

/// Reads a JSON text that may be larger than memory. Calls `take` with each object of the outermost list (`list` is ""
/// then). If the outermost value is an object, `take` gets its members that are objects, and the objects of its lists.
/// Returns "", or the syntax error: "byte 17: …".
std::string read_json_items(std::streambuf&,
                            const std::function<void(const std::string& list, const nlohmann::json& item)>& take);

}  // namespace trainyard
