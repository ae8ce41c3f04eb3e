#include "scenarios/src/answer/json_fields.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/units.hpp"

namespace trainyard {

template <int Time, int Data, int Flop, int Energy>
void to_json(nlohmann::ordered_json& j, const Quantity<Time, Data, Flop, Energy>& q) {
  j = q.value;
}
template <int Time, int Data, int Flop, int Energy>
void from_json(const nlohmann::ordered_json& j, Quantity<Time, Data, Flop, Energy>& q) {
  q.value = j.get<double>();
}

namespace {

using Json = nlohmann::ordered_json;
using Shares = std::map<std::string, double>;
using Counts = std::map<std::uint32_t, std::uint64_t>;
using NamedNumbers = std::vector<std::pair<std::string, double>>;  // in their order
using OptionalTexts = std::vector<std::optional<std::string>>;     // no value is null

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
/// A number that is not finite is null in JSON, and is read as NaN.
template <>
struct Codec<double> {
  static Json write(double v) { return std::isfinite(v) ? Json(v) : Json(nullptr); }
  static void read(const Json& j, double& v) { v = j.is_null() ? std::nan("") : j.get<double>(); }
};
template <>
struct Codec<NamedNumbers> {
  static Json write(const NamedNumbers& all) {
    Json j = Json::object();
    for (const auto& [name, number] : all) j[name] = number;
    return j;
  }
  static void read(const Json& j, NamedNumbers& all) {
    all.clear();
    for (const auto& [name, number] : j.items()) all.emplace_back(name, number.get<double>());
  }
};
template <>
struct Codec<OptionalTexts> {
  static Json write(const OptionalTexts& texts) {
    Json j = Json::array();
    for (const auto& text : texts) j.push_back(Codec<std::optional<std::string>>::write(text));
    return j;
  }
  static void read(const Json& j, OptionalTexts& texts) {
    texts.clear();
    for (const Json& text : j) Codec<std::optional<std::string>>::read(text, texts.emplace_back());
  }
};
/// A map with numbers as keys: in JSON the keys are texts.
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

template <class V>
std::string type_words(const std::string& unit) {
  const std::string number = unit.empty() ? "number" : unit;
  if constexpr (std::is_same_v<V, std::string>) return "text";
  if constexpr (std::is_same_v<V, bool>) return "true|false";
  if constexpr (std::is_same_v<V, Shares> || std::is_same_v<V, Counts> || std::is_same_v<V, NamedNumbers>)
    return "{key: " + number + "}";
  if constexpr (std::is_same_v<V, std::vector<int>> || std::is_same_v<V, std::vector<std::int64_t>> ||
                std::is_same_v<V, std::vector<double>> || std::is_same_v<V, std::array<double, 3>> ||
                std::is_same_v<V, std::array<bool, 3>>)
    return "[" + number + "]";
  if constexpr (std::is_same_v<V, std::optional<std::array<double, 2>>>) return "[" + number + ", " + number + "]";
  if constexpr (std::is_same_v<V, std::vector<std::string>> || std::is_same_v<V, OptionalTexts>) return "[text]";
  return number;
}

}  // namespace

template <class V>
const JsonCodec& json_codec() {
  static constexpr JsonCodec codec{[](const void* v, Json& j) { j = Codec<V>::write(*static_cast<const V*>(v)); },
                                   [](const Json& j, void* v) { Codec<V>::read(j, *static_cast<V*>(v)); },
                                   type_words<V>};
  return codec;
}
template const JsonCodec& json_codec<bool>();
template const JsonCodec& json_codec<int>();
template const JsonCodec& json_codec<std::int64_t>();
template const JsonCodec& json_codec<std::uint64_t>();
template const JsonCodec& json_codec<double>();
template const JsonCodec& json_codec<std::string>();
template const JsonCodec& json_codec<std::optional<double>>();
template const JsonCodec& json_codec<std::optional<Seconds>>();
template const JsonCodec& json_codec<std::optional<std::int64_t>>();
template const JsonCodec& json_codec<std::optional<std::array<double, 2>>>();
template const JsonCodec& json_codec<std::array<double, 3>>();
template const JsonCodec& json_codec<std::array<bool, 3>>();
template const JsonCodec& json_codec<Shares>();
template const JsonCodec& json_codec<Counts>();
template const JsonCodec& json_codec<NamedNumbers>();
template const JsonCodec& json_codec<OptionalTexts>();
template const JsonCodec& json_codec<std::vector<int>>();
template const JsonCodec& json_codec<std::vector<std::int64_t>>();
template const JsonCodec& json_codec<std::vector<double>>();
template const JsonCodec& json_codec<std::vector<std::string>>();

FieldTable::Field& FieldTable::add(const char* key, std::string type, const char* words) {
  Field& field = fields_.emplace_back(Field{Form::value, key});
  field.rows.push_back({key, std::move(type), words, ""});
  return field;
}

void FieldTable::add_member(const char* key, const char* unit, std::ptrdiff_t offset, const JsonCodec& codec,
                            const char* words) {
  Field& field = add(key, codec.type_words(unit), words);
  field.write = [offset, &codec](const void* owner, Json& j) {
    codec.write(static_cast<const char*>(owner) + offset, j);
  };
  field.read = [offset, &codec](const Json& j, void* owner) { codec.read(j, static_cast<char*>(owner) + offset); };
}

void FieldTable::nest_member(Field& field, std::ptrdiff_t offset, bool (*visit_parts)(const void*, const Visit&),
                             void* (*made_part)(void*)) {
  field.parts = [offset, visit_parts](const void* owner, const Visit& visit) {
    return visit_parts(static_cast<const char*>(owner) + offset, visit);
  };
  field.make = [offset, made_part](void* owner) { return made_part(static_cast<char*>(owner) + offset); };
}

FieldTable::Field& FieldTable::add(Form form, const char* key, const char* type, const char* words, FieldTable inner) {
  const bool is_inlined = form == Form::inlined;
  Field& field = fields_.emplace_back(Field{form, is_inlined ? inner.fields_.front().key : key});
  if (!is_inlined) field.rows.push_back({key, type, words, ""});
  for (FieldRow& row : inner.rows(is_inlined ? "" : key + std::string(form == Form::list ? "[]." : ".")))
    field.rows.push_back(std::move(row));
  field.inner = std::make_shared<FieldTable>(std::move(inner));
  return field;
}

void FieldTable::when(std::function<bool(const void*)> present, const char* words) {
  fields_.back().present = std::move(present);
  for (FieldRow& row : fields_.back().rows)
    if (*words != '\0') row.when = row.when.empty() ? words : words + ("; " + row.when);
}

void FieldTable::when_since(const char* key, const std::function<bool(const void*)>& present, const char* words) {
  for (auto field = std::ranges::find(fields_, key, &Field::key); field != fields_.end(); ++field) {
    field->present = present;
    for (FieldRow& row : field->rows) row.when = row.when.empty() ? words : words + ("; " + row.when);
  }
}

void FieldTable::when_member(std::ptrdiff_t offset, bool (*has_content)(const void*), const char* words) {
  when([offset, has_content](const void* owner) { return has_content(static_cast<const char*>(owner) + offset); },
       words);
}

void FieldTable::write(const void* owner, Json& object) const {
  for (const Field& field : fields_) {
    if (field.present && !field.present(owner)) continue;
    if (field.form == Form::value) {
      field.write(owner, object[field.key]);
      continue;
    }
    const bool is_list = field.form == Form::list;
    Json content = is_list ? Json::array() : Json::object();
    const bool is_present = field.parts(owner, [&](const void* part) {
      Json& target = is_list ? content.emplace_back(Json::object()) : field.form == Form::inlined ? object : content;
      field.inner->write(part, target);
    });
    if (is_present && field.form != Form::inlined) object[field.key] = std::move(content);
  }
}

FieldTable::Json FieldTable::json(const void* owner) const {
  Json object = Json::object();
  write(owner, object);
  return object;
}

void FieldTable::read(const Json& object, void* owner) const {
  for (const Field& field : fields_) {
    const bool is_required = !field.present && !field.optional;
    if (!(field.read || field.make) || !(is_required || object.contains(field.key))) continue;
    if (field.form == Form::value)
      field.read(object.at(field.key), owner);
    else if (field.form == Form::inlined)
      field.inner->read(object, field.make(owner));
    else if (field.form == Form::object)
      field.inner->read(object.at(field.key), field.make(owner));
    else
      for (const Json& item : object.at(field.key)) field.inner->read(item, field.make(owner));
  }
}

std::vector<FieldRow> FieldTable::rows(const std::string& prefix) const {
  std::vector<FieldRow> all;
  for (const Field& field : fields_)
    for (FieldRow row : field.rows) {
      row.path = prefix + row.path;
      all.push_back(std::move(row));
    }
  return all;
}

}  // namespace trainyard
