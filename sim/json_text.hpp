#pragma once
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

/// What a JSON text holds, told in its order while it is read: it may be larger than memory.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual void begins(bool /*object*/) {}  ///< an object, or a list
  virtual void ends() {}                   ///< the object or list that began last
  virtual void key(const std::string&) {}
  virtual void text(const std::string&) {}
  virtual void number(double) {}
  virtual void word() {}  ///< true, false, null
};
/// Returns "", or what is wrong: "byte 17: …".
std::string read_json(std::streambuf&, JsonEvents&);

}  // namespace trainyard
