#include "scenarios/src/answer/json_fields.hpp"

#include <any>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;
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

template <class V>
std::string type_words(const std::string& unit) {
  const std::string number = unit.empty() ? "number" : unit;
  if constexpr (std::is_same_v<V, std::string>) return "text";
  if constexpr (std::is_same_v<V, bool>) return "true|false";
  if constexpr (std::is_same_v<V, Shares> || std::is_same_v<V, Counts>) return "{key: " + number + "}";
  if constexpr (std::is_same_v<V, std::vector<int>> || std::is_same_v<V, std::vector<std::int64_t>>)
    return "[" + number + "]";
  if constexpr (std::is_same_v<V, std::vector<std::string>>) return "[text]";
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
template const JsonCodec& json_codec<std::optional<std::int64_t>>();
template const JsonCodec& json_codec<Shares>();
template const JsonCodec& json_codec<Counts>();
template const JsonCodec& json_codec<std::vector<int>>();
template const JsonCodec& json_codec<std::vector<std::int64_t>>();
template const JsonCodec& json_codec<std::vector<std::string>>();

class FieldTable::Field {
 public:
  Field(std::string name, std::unique_ptr<Access> way, std::string explanation)
      : key(std::move(name)), words(std::move(explanation)), access(std::move(way)) {}
  virtual ~Field() = default;
  virtual void write(const void* member, Json& object) const = 0;
  virtual void read(const Json& object, void* member) const = 0;
  virtual std::vector<FieldRow> rows(const std::string& prefix) const = 0;
  const std::string key, words;
  const std::unique_ptr<Access> access;

 protected:
  /// A row of its own, then those of the fields in it.
  std::vector<FieldRow> rows_of(const FieldTable& fields, const char* type, const std::string& prefix,
                                const char* joint) const {
    std::vector<FieldRow> rows{{prefix + key, type, words, ""}};
    for (FieldRow& row : fields.rows(prefix + key + joint)) rows.push_back(std::move(row));
    return rows;
  }
};

namespace {

class ValueField final : public FieldTable::Field {
  const JsonCodec& codec_;
  std::string type_;

 public:
  ValueField(const char* name, const char* unit, const JsonCodec& codec, std::unique_ptr<FieldTable::Access> way,
             const char* explanation)
      : Field(name, std::move(way), explanation), codec_(codec), type_(codec.type_words(unit)) {}
  void write(const void* member, Json& object) const override { codec_.write(member, object[key]); }
  void read(const Json& object, void* member) const override { codec_.read(object.at(key), member); }
  std::vector<FieldRow> rows(const std::string& prefix) const override { return {{prefix + key, type_, words, ""}}; }
};

class ObjectField final : public FieldTable::Field {
  FieldTable fields_;

 public:
  ObjectField(const char* name, std::unique_ptr<FieldTable::Access> way, FieldTable fields, const char* explanation)
      : Field(name, std::move(way), explanation), fields_(std::move(fields)) {}
  void write(const void* member, Json& object) const override { fields_.write(member, object[key] = Json::object()); }
  void read(const Json& object, void* member) const override { fields_.read(object.at(key), member); }
  std::vector<FieldRow> rows(const std::string& prefix) const override {
    return rows_of(fields_, "object", prefix, ".");
  }
};

class ListField final : public FieldTable::Field {
  FieldTable::Elements elements_;
  FieldTable fields_;

 public:
  ListField(const char* name, const FieldTable::Elements& elements, std::unique_ptr<FieldTable::Access> way,
            FieldTable fields, const char* explanation)
      : Field(name, std::move(way), explanation), elements_(elements), fields_(std::move(fields)) {}
  void write(const void* member, Json& object) const override {
    Json& items = object[key] = Json::array();
    for (std::size_t i = 0; i < elements_.size(member); ++i)
      fields_.write(elements_.at(member, i), items.emplace_back(Json::object()));
  }
  void read(const Json& object, void* member) const override {
    for (const Json& item : object.at(key)) fields_.read(item, elements_.append(member));
  }
  std::vector<FieldRow> rows(const std::string& prefix) const override {
    return rows_of(fields_, "list", prefix, "[].");
  }
};

class InlinedField final : public FieldTable::Field {
  FieldTable fields_;

 public:
  InlinedField(const std::string& first_key, std::unique_ptr<FieldTable::Access> way, FieldTable fields)
      : Field(first_key, std::move(way), ""), fields_(std::move(fields)) {}
  void write(const void* member, Json& object) const override { fields_.write(member, object); }
  void read(const Json& object, void* member) const override { fields_.read(object, member); }
  std::vector<FieldRow> rows(const std::string& prefix) const override { return fields_.rows(prefix); }
};

}  // namespace

void FieldTable::add_value(const char* key, const char* unit, const JsonCodec& codec, std::unique_ptr<Access> access,
                           const char* words) {
  entries_.push_back({std::make_shared<ValueField>(key, unit, codec, std::move(access), words)});
}
void FieldTable::add_object(const char* key, std::unique_ptr<Access> access, FieldTable fields, const char* words) {
  entries_.push_back({std::make_shared<ObjectField>(key, std::move(access), std::move(fields), words)});
}
void FieldTable::add_list(const char* key, const Elements& elements, std::unique_ptr<Access> access, FieldTable fields,
                          const char* words) {
  entries_.push_back({std::make_shared<ListField>(key, elements, std::move(access), std::move(fields), words)});
}
void FieldTable::add_inlined(std::unique_ptr<Access> access, FieldTable fields) {
  const std::string first_key = fields.entries_.front().field->key;
  entries_.push_back({std::make_shared<InlinedField>(first_key, std::move(access), std::move(fields))});
}
void FieldTable::when(std::function<bool(const void*)> present, const char* words) {
  entries_.back().present = std::move(present);
  entries_.back().when = words;
}

void FieldTable::write(const void* owner, Json& object) const {
  for (const Entry& entry : entries_) {
    if (entry.present && !entry.present(owner)) continue;
    std::any kept;
    if (const void* member = entry.field->access->find(owner, kept)) entry.field->write(member, object);
  }
}

FieldTable::Json FieldTable::json(const void* owner) const {
  Json object = Json::object();
  write(owner, object);
  return object;
}

void FieldTable::read(const Json& object, void* owner) const {
  for (const Entry& entry : entries_) {
    const Access& access = *entry.field->access;
    const bool always = !entry.present && !access.is_optional;
    if (!access.is_computed && (always || object.contains(entry.field->key)))
      entry.field->read(object, access.make(owner));
  }
}

std::vector<FieldRow> FieldTable::rows(const std::string& prefix) const {
  std::vector<FieldRow> all;
  for (const Entry& entry : entries_)
    for (FieldRow& row : entry.field->rows(prefix)) {
      if (!entry.when.empty()) row.when = row.when.empty() ? entry.when : entry.when + "; " + row.when;
      all.push_back(std::move(row));
    }
  return all;
}

}  // namespace trainyard
