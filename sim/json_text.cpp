#include "sim/json_text.hpp"

#include <istream>
#include <nlohmann/json.hpp>

namespace trainyard {
namespace {

template <class Json>
std::string text_of(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

class JsonTeller : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit JsonTeller(JsonEvents& to) : to_(to) {}
  std::string fault;

  bool null() override { return to_.word(), true; }
  bool boolean(bool) override { return to_.word(), true; }
  bool number_integer(number_integer_t value) override { return to_.number(static_cast<double>(value)), true; }
  bool number_unsigned(number_unsigned_t value) override { return to_.number(static_cast<double>(value)), true; }
  bool number_float(number_float_t value, const string_t&) override { return to_.number(value), true; }
  bool string(string_t& value) override { return to_.text(value), true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return to_.begins(true), true; }
  bool key(string_t& value) override { return to_.key(value), true; }
  bool end_object() override { return to_.ends(), true; }
  bool start_array(std::size_t) override { return to_.begins(false), true; }
  bool end_array() override { return to_.ends(), true; }
  bool parse_error(std::size_t position, const std::string& last, const nlohmann::detail::exception&) override {
    fault = "byte " + std::to_string(position) + ": no JSON goes on so: " + last;
    return false;
  }

 private:
  JsonEvents& to_;
};

}  // namespace

std::string read_json(std::streambuf& from, JsonEvents& to) {
  JsonTeller teller(to);
  std::istream in(&from);
  nlohmann::json::sax_parse(in, static_cast<nlohmann::json_sax<nlohmann::json>*>(&teller));
  return teller.fault;
}

std::string json_text(const nlohmann::json& json, int indent) { return text_of(json, indent); }
std::string json_text(const nlohmann::ordered_json& json, int indent) { return text_of(json, indent); }
std::string json_string(const std::string& text) { return text_of(nlohmann::json(text), -1); }
nlohmann::json parse_json(const std::string& text) { return nlohmann::json::parse(text); }
nlohmann::ordered_json parse_ordered_json(const std::string& text) { return nlohmann::ordered_json::parse(text); }

}  // namespace trainyard
