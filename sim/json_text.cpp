#include "sim/json_text.hpp"

#include <nlohmann/json.hpp>

namespace trainyard {
namespace {

template <class Json>
std::string text_of(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string json_text(const nlohmann::json& json, int indent) { return text_of(json, indent); }
std::string json_text(const nlohmann::ordered_json& json, int indent) { return text_of(json, indent); }
std::string json_string(const std::string& text) { return text_of(nlohmann::json(text), -1); }
nlohmann::json parse_json(const std::string& text) { return nlohmann::json::parse(text); }
nlohmann::ordered_json parse_ordered_json(const std::string& text) { return nlohmann::ordered_json::parse(text); }

}  // namespace trainyard
