#include "sim/json_text.hpp"

#include <istream>
#include <nlohmann/json.hpp>

namespace trainyard {
namespace {

template <class Json>
std::string text_of(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string read_json_items(std::streambuf& from,
                            const std::function<void(const std::string&, const nlohmann::json&)>& take) {
  using JsonEvent = nlohmann::json::parse_event_t;
  std::istream in(&from);
  std::string list;
  int depth_of_items = 2;
  bool is_member = false;  // an object that is a member of the outermost object is being read
  const auto keep = [&](int depth, JsonEvent event, nlohmann::json& parsed) {
    if (event == JsonEvent::array_start && depth == 0) depth_of_items = 1;
    if (event == JsonEvent::key && depth == 1) list = parsed.get<std::string>();
    if (event == JsonEvent::object_start && depth == 1 && depth_of_items == 2) is_member = true;
    if (event == JsonEvent::object_end && depth == (is_member ? 1 : depth_of_items)) {
      take(depth_of_items == 1 ? "" : list, parsed);
      is_member = false;
      return false;
    }
    return is_member || depth > depth_of_items || event == JsonEvent::object_start || event == JsonEvent::array_start ||
           event == JsonEvent::key;
  };
  try {
    [[maybe_unused]] const nlohmann::json nothing = nlohmann::json::parse(in, keep);
  } catch (const nlohmann::json::parse_error& e) {
    const std::string what = e.what(), mark = "last read: '";
    const std::size_t last = what.rfind(mark);
    const std::string read =
        last == std::string::npos ? "" : what.substr(last + mark.size(), what.size() - last - mark.size() - 1);
    return "byte " + std::to_string(e.byte) +
           (read.empty() && e.byte <= 1 ? ": empty, JSON expected" : ": JSON cannot continue with: " + read);
  }
  return "";
}

std::string json_text(const nlohmann::json& json, int indent) { return text_of(json, indent); }
std::string json_text(const nlohmann::ordered_json& json, int indent) { return text_of(json, indent); }
std::string json_string(const std::string& text) { return text_of(nlohmann::json(text), -1); }
// By pointers, because the library's own literals, which each unit compiles, need that parser too.
nlohmann::json parse_json(const std::string& text) {
  return nlohmann::json::parse(text.data(), text.data() + text.size());
}
nlohmann::ordered_json parse_ordered_json(const std::string& text) { return nlohmann::ordered_json::parse(text); }

}  // namespace trainyard
