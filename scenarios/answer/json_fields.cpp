#include "scenarios/answer/json_fields.hpp"

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>

namespace trainyard::json_access {
namespace {

using Shares = std::map<std::string, double>;
using Counts = std::map<std::uint32_t, std::uint64_t>;

template <class V>
struct Codec {
  static Json write(const V& v) { return v; }
  static void read(const Json& j, V& v) { v = j.get<V>(); }
};
template <class V>
struct Codec<std::optional<V>> {
  static Json write(const std::optional<V>& v) { return v ? Json(*v) : Json(nullptr); }
  static void read(const Json& j, std::optional<V>& v) {
    v.reset();
    if (!j.is_null()) v = j.get<V>();
  }
};
template <>
struct Codec<Shares> {
  static Json write(const Shares& all) {
    Json j = Json::object();
    for (const auto& [name, v] : all) j[name] = v;
    return j;
  }
  static void read(const Json& j, Shares& all) { all = j.get<Shares>(); }
};
/// JSON's keys are texts.
template <>
struct Codec<Counts> {
  static Json write(const Counts& all) {
    Json j = Json::object();
    for (const auto& [number, count] : all) j[std::to_string(number)] = count;
    return j;
  }
  static void read(const Json& j, Counts& all) {
    all.clear();
    for (const auto& [number, count] : j.items()) all[static_cast<std::uint32_t>(std::stoul(number))] = count;
  }
};

}  // namespace

template <class V>
void put(Json& object, const std::string& key, const V& v) {
  object[key] = Codec<V>::write(v);
}
template <class V>
void get(const Json& object, const std::string& key, V& v) {
  Codec<V>::read(object.at(key), v);
}
template <class V>
std::string type_words(const std::string& unit) {
  const std::string number = unit.empty() ? "number" : unit;
  if constexpr (std::is_same_v<V, std::string>) return "text";
  if constexpr (std::is_same_v<V, bool>) return "true|false";
  if constexpr (std::is_same_v<V, Shares> || std::is_same_v<V, Counts>) return "{key: " + number + "}";
  if constexpr (std::is_same_v<V, std::vector<int>>) return "[" + number + "]";
  return number;
}

#define TRAINYARD_JSON_VALUE(V)                              \
  template void put<V>(Json&, const std::string&, const V&); \
  template void get<V>(const Json&, const std::string&, V&); \
  template std::string type_words<V>(const std::string&);
TRAINYARD_JSON_VALUE(bool)
TRAINYARD_JSON_VALUE(int)
TRAINYARD_JSON_VALUE(std::int64_t)
TRAINYARD_JSON_VALUE(std::uint64_t)
TRAINYARD_JSON_VALUE(double)
TRAINYARD_JSON_VALUE(std::string)
TRAINYARD_JSON_VALUE(std::optional<double>)
TRAINYARD_JSON_VALUE(std::optional<std::int64_t>)
TRAINYARD_JSON_VALUE(Shares)
TRAINYARD_JSON_VALUE(Counts)
TRAINYARD_JSON_VALUE(std::vector<int>)
#undef TRAINYARD_JSON_VALUE

Json& put_object(Json& object, const std::string& key) { return object[key] = Json::object(); }
Json& put_list(Json& object, const std::string& key) { return object[key] = Json::array(); }
Json& append_object(Json& list) { return list.emplace_back(Json::object()); }
bool has(const Json& object, const std::string& key) { return object.contains(key); }
const Json& at(const Json& object, const std::string& key) { return object.at(key); }
std::size_t size(const Json& list) { return list.size(); }
const Json& item(const Json& list, std::size_t i) { return list.at(i); }

}  // namespace trainyard::json_access
