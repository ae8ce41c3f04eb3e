#pragma once
#include <concepts>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace trainyard {

/// A key of the JSON, as `trainyard help json` explains it.
struct FieldRow {
  std::string path;  ///< "memory_bytes.stages[].rank"
  std::string type;  ///< "s", "bytes", "text", "object", "list"; "{key: s}" has keys of its own, such as names
  std::string words;
  std::string when;  ///< the key is there only then; "": always
};

/// JSON of single values, compiled in fields.cpp: including this header does not include the JSON library.
namespace json_access {
using Json = nlohmann::ordered_json;
template <class V>
void put(Json& object, const std::string& key, const V&);
template <class V>
void get(const Json& object, const std::string& key, V&);
Json& put_object(Json& object, const std::string& key);
Json& put_list(Json& object, const std::string& key);
Json& append_object(Json& list);
bool has(const Json& object, const std::string& key);
const Json& at(const Json& object, const std::string& key);
std::size_t size(const Json& list);
const Json& item(const Json& list, std::size_t);
/// "text", "true|false", the unit or "number"; of a map "{key: unit}".
template <class V>
std::string type_words(const std::string& unit);
}  // namespace json_access

/// A quantity, such as Seconds, is written as its value in SI units.
template <class V>
concept QuantityValue = requires(V v) {
  { v.value } -> std::same_as<double&>;
};

/// The fields of a T: for each its key in JSON (which names its unit), unit, member, words of explanation, and when it
/// is present. The one table writes and reads the JSON and explains it to users.
///
/// `Get` is a pointer to a member, or a function. What a function returns by value is computed from other fields: it is
/// written, but not read.
template <class T>
class JsonFields {
  using Json = json_access::Json;

 public:
  using Present = std::function<bool(const T&)>;

  /// A number, text, truth value, or map of numbers; an optional one is null where there is none.
  template <class Get>
  JsonFields& value(std::string key, std::string unit, Get get, std::string words);
  /// An object of its own; an optional one is absent where there is none.
  template <class Get, class M>
  JsonFields& object(std::string key, Get get, JsonFields<M> fields, std::string words);
  /// An object of fields that are members of T itself.
  JsonFields& object(std::string key, JsonFields<T> fields, std::string words) {
    return object(std::move(key), std::identity{}, std::move(fields), std::move(words));
  }
  /// An array of objects; an optional one is absent where there is none.
  template <class Get, class E>
  JsonFields& list(std::string key, Get get, JsonFields<E> fields, std::string words);
  /// The keys of a member, directly in this object. Where they may be absent, the first of them tells.
  template <class Get, class M>
  JsonFields& inlined(Get get, JsonFields<M> fields);
  /// The field before is present only where `present`; `words` say when that is.
  JsonFields& when(Present present, std::string words) {
    entries_.back().present = std::move(present);
    entries_.back().when = std::move(words);
    return *this;
  }

  void write(const T&, Json& object) const;
  void read(const Json& object, T&) const;
  /// With `prefix` before each path.
  std::vector<FieldRow> rows(const std::string& prefix = "") const;
  const std::string& first_key() const { return entries_.front().key; }

 private:
  struct Entry {
    std::string key;
    std::function<void(const T&, Json&)> write;
    std::function<void(const Json&, T&)> read;  ///< none: computed from other fields
    std::function<std::vector<FieldRow>(const std::string& prefix)> rows;
    Present present = nullptr;  ///< none: always
    std::string when = "";
  };
  std::vector<Entry> entries_;

  template <class V>
  struct Inner {  // of an optional: what it holds
    using Type = V;
    static constexpr bool optional = false;
    static const V& of(const V& v) { return v; }
    static V& make(V& v) { return v; }
  };
  template <class V>
  struct Inner<std::optional<V>> {
    using Type = V;
    static constexpr bool optional = true;
    static const V& of(const std::optional<V>& v) { return *v; }
    static V& make(std::optional<V>& v) { return v.emplace(); }
  };
  template <class Get>
  using Value = std::remove_cvref_t<std::invoke_result_t<Get, const T&>>;
  /// Where T's member is an optional, the fields are present where it is.
  template <class Get>
  static Present presence(Get get) {
    if constexpr (Inner<Value<Get>>::optional)
      return [get](const T& t) { return std::invoke(get, t).has_value(); };
    else
      return nullptr;
  }
};

template <class T>
template <class Get>
JsonFields<T>& JsonFields<T>::value(std::string key, std::string unit, Get get, std::string words) {
  using V = Value<Get>;
  Entry entry{key, nullptr, nullptr, nullptr};
  entry.write = [key, get](const T& t, Json& object) {
    if constexpr (QuantityValue<V>)
      json_access::put(object, key, std::invoke(get, t).value);
    else
      json_access::put(object, key, std::invoke(get, t));
  };
  if constexpr (std::is_lvalue_reference_v<std::invoke_result_t<Get, T&>>)
    entry.read = [key, get](const Json& object, T& t) {
      if constexpr (QuantityValue<V>)
        json_access::get(object, key, std::invoke(get, t).value);
      else
        json_access::get(object, key, std::invoke(get, t));
    };
  std::string type;
  if constexpr (QuantityValue<V>)
    type = json_access::type_words<double>(unit);
  else
    type = json_access::type_words<V>(unit);
  entry.rows = [key, type, words = std::move(words)](const std::string& prefix) {
    return std::vector<FieldRow>{{prefix + key, type, words, ""}};
  };
  entries_.push_back(std::move(entry));
  return *this;
}

template <class T>
template <class Get, class M>
JsonFields<T>& JsonFields<T>::object(std::string key, Get get, JsonFields<M> fields, std::string words) {
  Entry entry{key, nullptr, nullptr, nullptr, presence(get)};
  entry.write = [key, get, fields](const T& t, Json& object) {
    fields.write(Inner<Value<Get>>::of(std::invoke(get, t)), json_access::put_object(object, key));
  };
  entry.read = [key, get, fields](const Json& object, T& t) {
    fields.read(json_access::at(object, key), Inner<Value<Get>>::make(std::invoke(get, t)));
  };
  entry.rows = [key, fields = std::move(fields), words = std::move(words)](const std::string& prefix) {
    std::vector<FieldRow> rows{{prefix + key, "object", words, ""}};
    for (FieldRow& row : fields.rows(prefix + key + ".")) rows.push_back(std::move(row));
    return rows;
  };
  entries_.push_back(std::move(entry));
  return *this;
}

template <class T>
template <class Get, class E>
JsonFields<T>& JsonFields<T>::list(std::string key, Get get, JsonFields<E> fields, std::string words) {
  Entry entry{key, nullptr, nullptr, nullptr, presence(get)};
  entry.write = [key, get, fields](const T& t, Json& object) {
    Json& items = json_access::put_list(object, key);
    const auto& all = std::invoke(get, t);  // may be a temporary
    for (const E& item : Inner<Value<Get>>::of(all)) fields.write(item, json_access::append_object(items));
  };
  if constexpr (std::is_lvalue_reference_v<std::invoke_result_t<Get, T&>>)
    entry.read = [key, get, fields](const Json& object, T& t) {
      const Json& items = json_access::at(object, key);
      auto& all = Inner<Value<Get>>::make(std::invoke(get, t));
      for (std::size_t i = 0; i < json_access::size(items); ++i)
        fields.read(json_access::item(items, i), all.emplace_back());
    };
  entry.rows = [key, fields = std::move(fields), words = std::move(words)](const std::string& prefix) {
    std::vector<FieldRow> rows{{prefix + key, "list", words, ""}};
    for (FieldRow& row : fields.rows(prefix + key + "[].")) rows.push_back(std::move(row));
    return rows;
  };
  entries_.push_back(std::move(entry));
  return *this;
}

template <class T>
template <class Get, class M>
JsonFields<T>& JsonFields<T>::inlined(Get get, JsonFields<M> fields) {
  Entry entry{fields.first_key(), nullptr, nullptr, nullptr, presence(get)};
  entry.write = [get, fields](const T& t, Json& object) {
    fields.write(Inner<Value<Get>>::of(std::invoke(get, t)), object);
  };
  entry.read = [get, fields](const Json& object, T& t) {
    fields.read(object, Inner<Value<Get>>::make(std::invoke(get, t)));
  };
  entry.rows = [fields = std::move(fields)](const std::string& prefix) { return fields.rows(prefix); };
  entries_.push_back(std::move(entry));
  return *this;
}

template <class T>
void JsonFields<T>::write(const T& t, Json& object) const {
  for (const Entry& entry : entries_)
    if (!entry.present || entry.present(t)) entry.write(t, object);
}

template <class T>
void JsonFields<T>::read(const Json& object, T& t) const {
  for (const Entry& entry : entries_)
    if (entry.read && (!entry.present || json_access::has(object, entry.key))) entry.read(object, t);
}

template <class T>
std::vector<FieldRow> JsonFields<T>::rows(const std::string& prefix) const {
  std::vector<FieldRow> all;
  for (const Entry& entry : entries_)
    for (FieldRow& row : entry.rows(prefix)) {
      if (!entry.when.empty()) row.when = row.when.empty() ? entry.when : entry.when + "; " + row.when;
      all.push_back(std::move(row));
    }
  return all;
}

}  // namespace trainyard
