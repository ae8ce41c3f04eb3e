#pragma once
#include <bit>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "models/reading/registry.hpp"

namespace trainyard {

/// A key of the JSON, as `trainyard help json` explains it.
struct FieldRow {
  std::string path;   ///< "memory_bytes.stages[].rank"
  std::string type;   ///< "s", "bytes", "text", "object", "list"; "{key: s}" has keys of its own, such as names
  std::string words;  ///< description
  std::string when;   ///< condition for the presence of the key; "": always present
};

/// The conversion of values of one type to JSON and back.
struct JsonCodec {
  void (*write)(const void* value, nlohmann::ordered_json&) = nullptr;
  void (*read)(const nlohmann::ordered_json&, void* value) = nullptr;
  /// Names the type: "text", "true|false", the unit or "number"; "{key: unit}" for a map.
  std::string (*type_words)(const std::string& unit) = nullptr;
};
/// Returns the codec of a type. It is defined in json_fields.cpp, so that this header does not need the JSON library.
template <class V>
const JsonCodec& json_codec();

/// The fields of any type, by address: the part of JsonFields that is compiled once for all types.
class FieldTable {
 public:
  using Json = nlohmann::ordered_json;
  enum class Form { value, object, list, inlined };
  struct Field {
    Form form = Form::value;
    std::string key;
    std::vector<FieldRow> rows = {};               ///< its own row, then those of its inner fields
    std::shared_ptr<const FieldTable> inner = {};  ///< fields of an object, or of each object in a list
    bool optional = false;                         ///< the key may be absent
    /// For a value: converts between the member and the JSON of its key. Null `read`: the value is computed from other
    /// fields.
    std::function<void(const void* owner, Json&)> write = {};
    std::function<void(const Json&, void* owner)> read = {};
    /// For other forms: calls `visit` with each object. Returns false if the member is absent.
    std::function<bool(const void* owner, const std::function<void(const void*)>& visit)> parts = {};
    /// For other forms: returns the object to read into, for a list a new one. Null: the object is computed.
    std::function<void*(void* owner)> make = {};
    std::function<bool(const void* owner)> present = {};  ///< true: the field is present; null: it always is
  };

  Field& add(const char* key, std::string type, const char* words);
  Field& add(Form, const char* key, const char* type, const char* words, FieldTable inner);
  using Visit = std::function<void(const void* part)>;
  /// Adds a value that is a data member, `offset` bytes after the beginning of its owner. `nest_member` does so for an
  /// object or a list. Both are compiled once for all types of owners.
  void add_member(const char* key, const char* unit, std::ptrdiff_t offset, const JsonCodec&, const char* words);
  static void nest_member(Field&, std::ptrdiff_t offset, bool (*visit_parts)(const void* member, const Visit&),
                          void* (*made_part)(void* member));
  void when(std::function<bool(const void* owner)> present, const char* words);
  void when_since(const char* key, const std::function<bool(const void* owner)>& present, const char* words);
  void describe_as_one() { fields_.back().rows.resize(1); }
  void when_member(std::ptrdiff_t offset, bool (*has_content)(const void* member), const char* words);
  void write(const void* owner, Json& object) const;
  Json json(const void* owner) const;
  void read(const Json& object, void* owner) const;
  std::vector<FieldRow> rows(const std::string& prefix) const;

 private:
  std::vector<Field> fields_;
};

/// A quantity, such as Seconds, is written as its value in SI units.
template <class V>
concept QuantityValue = requires(V v) {
  { v.value } -> std::same_as<double&>;
};

/// Returns true if a member of type V has a value, an element or a number above 0.
template <class V>
bool has_content(const void* member) {
  const V& v = *static_cast<const V*>(member);
  if constexpr (QuantityValue<V>)
    return v.value > 0;
  else if constexpr (requires { v.has_value(); })
    return v.has_value();
  else if constexpr (requires { v.empty(); })
    return !v.empty();
  else
    return v > V{};
}

/// The fields of a T. Each has a key in JSON (which names the unit), a unit, a member, a description and a condition
/// for its presence. The same table writes and reads the JSON and explains it to users.
///
/// `Get` is a pointer to a member, or a function. A value that a function returns by value is computed from other
/// fields: it is written, but not read.
template <class T>
class JsonFields {
 public:
  /// Adds a number, text, truth value, or map of numbers. An optional without a value is null.
  template <class Get>
  JsonFields& value(const char* key, const char* unit, Get get, const char* words) {
    if constexpr (std::is_member_object_pointer_v<Get>) {
      table_.add_member(key, unit, offset_of<Value<Get>>(get), codec_of<Get>(), words);
    } else {
      FieldTable::Field& field = table_.add(key, codec_of<Get>().type_words(unit), words);
      field.write = bound<const void*, Json&>(get, [](const Get& g, const void* owner, Json& j) {
        const auto& member = std::invoke(g, *static_cast<const T*>(owner));
        codec_of<Get>().write(&member, j);
      });
      if constexpr (kStored<Get>)
        field.read = bound<const Json&, void*>(get, [](const Get& g, const Json& j, void* owner) {
          codec_of<Get>().read(j, &std::invoke(g, *static_cast<T*>(owner)));
        });
    }
    return *this;
  }
  /// Adds a nested object. An optional without a value is absent.
  template <class Get, class M>
  JsonFields& object(const char* key, Get get, JsonFields<M> fields, const char* words) {
    return nested(get, table_.add(Form::object, key, "object", words, std::move(fields.table_)));
  }
  /// Adds a nested object whose fields are members of T itself.
  JsonFields& object(const char* key, JsonFields<T> fields, const char* words) {
    return object(key, std::identity{}, std::move(fields), words);
  }
  /// Adds an array of objects. An optional without a value is absent.
  template <class Get, class E>
  JsonFields& list(const char* key, Get get, JsonFields<E> fields, const char* words) {
    return nested(get, table_.add(Form::list, key, "list", words, std::move(fields.table_)));
  }
  /// Adds the fields of a member directly to this object. If they may be absent, the first key decides whether they
  /// are.
  template <class Get, class M>
  JsonFields& inlined(Get get, JsonFields<M> fields) {
    return nested(get, table_.add(Form::inlined, "", "", "", std::move(fields.table_)));
  }
  /// Describes the previous field, an object or a list, in one row, without rows for its inner fields.
  JsonFields& in_one_row() {
    table_.describe_as_one();
    return *this;
  }
  /// Makes the previous field present only if `present` returns true, or if the member has content: a value, an element
  /// or a number above 0. `words` describe that condition.
  template <class Present>
  JsonFields& when(Present present, const char* words) {
    if constexpr (std::is_member_object_pointer_v<Present>)
      table_.when_member(offset_of<Value<Present>>(present), has_content<Value<Present>>, words);
    else
      table_.when(bound_condition(present), words);
    return *this;
  }

  /// Does so for all fields from `key` to the previous one.
  template <class Present>
  JsonFields& when_since(const char* key, Present present, const char* words) {
    table_.when_since(key, bound_condition(present), words);
    return *this;
  }

  void write(const T& t, nlohmann::ordered_json& object) const { table_.write(&t, object); }
  /// Returns an object with these fields only, an ordered_json.
  auto json(const T& t) const { return table_.json(&t); }
  void read(const nlohmann::ordered_json& object, T& t) const { table_.read(object, &t); }
  /// Returns the rows of all fields, with `prefix` before each path.
  std::vector<FieldRow> rows(const std::string& prefix = "") const { return table_.rows(prefix); }

 private:
  template <class>
  friend class JsonFields;
  FieldTable table_;

  using Json = FieldTable::Json;
  using Form = FieldTable::Form;
  template <class Get>
  using Value = std::remove_cvref_t<std::invoke_result_t<Get, const T&>>;
  /// True if T stores the value; false if a function computes it.
  template <class Get>
  static constexpr bool kStored = std::is_lvalue_reference_v<std::invoke_result_t<Get, T&>>;
  template <class V>
  static constexpr bool kOptional = requires(V v) {
    v.has_value();
  };
  template <class V>
  static constexpr bool kVector = requires(V v) {
    v.emplace_back();
  };

  /// Binds the first argument of `call` to `get`. The result is a plain pointer if `get` has no state: std::function
  /// compiles code of its own for each type of lambda, but only once for pointers.
  template <class... Arguments, class Get, class Call>
  static auto bound(Get get, Call call) {
    if constexpr (std::is_empty_v<Get>)
      return +[](Arguments... arguments) { return Call{}(Get{}, arguments...); };
    else
      return [get, call](Arguments... arguments) { return call(get, arguments...); };
  }
  template <class Present>
  static auto bound_condition(Present present) {
    return bound<const void*>(present, [](const Present& p, const void* owner) -> bool {
      if constexpr (std::is_member_object_pointer_v<Present>)
        return has_content<Value<Present>>(&(static_cast<const T*>(owner)->*p));
      else
        return p(*static_cast<const T*>(owner));
    });
  }
  template <class Get>
  static const JsonCodec& codec_of() {
    using V = Value<Get>;
    if constexpr (QuantityValue<V>) {
      // A quantity has the address of its value.
      static_assert(std::is_standard_layout_v<V> && sizeof(V) == sizeof(double));
      return json_codec<double>();
    } else {
      return json_codec<V>();
    }
  }
  /// A pointer to a data member holds the offset (Itanium C++ ABI, 2.3, which GCC and Clang follow).
  template <class V>
  static std::ptrdiff_t offset_of(V T::*member) {
    return std::bit_cast<std::ptrdiff_t>(member);
  }
  template <class V>
  static bool visit_parts(const V& v, const FieldTable::Visit& visit) {
    if constexpr (kOptional<V>) {
      return v && visit_parts(*v, visit);
    } else if constexpr (kVector<V>) {
      for (const auto& part : v) visit(&part);
    } else {
      visit(&v);
    }
    return true;
  }
  template <class V>
  static void* made_part(V& v) {
    if constexpr (kOptional<V>)
      return made_part(v ? *v : v.emplace());
    else if constexpr (kVector<V>)
      return &v.emplace_back();
    else
      return &v;
  }

  template <class Get>
  JsonFields& nested(Get get, FieldTable::Field& field) {
    using V = Value<Get>;
    field.optional = kOptional<V>;
    if constexpr (std::is_member_object_pointer_v<Get>) {
      FieldTable::nest_member(
          field, offset_of<V>(get),
          [](const void* v, const FieldTable::Visit& visit) { return visit_parts(*static_cast<const V*>(v), visit); },
          [](void* v) { return made_part(*static_cast<V*>(v)); });
    } else {
      using Visit = FieldTable::Visit;
      field.parts = bound<const void*, const Visit&>(get, [](const Get& g, const void* owner, const Visit& visit) {
        return visit_parts(std::invoke(g, *static_cast<const T*>(owner)), visit);
      });
      if constexpr (kStored<Get>)
        field.make = bound<void*>(
            get, [](const Get& g, void* owner) { return made_part(std::invoke(g, *static_cast<T*>(owner))); });
    }
    return *this;
  }
};

/// A description of the JSON that a command writes, for `trainyard help json`. The file that writes it registers it.
struct JsonReference {
  std::string command;  ///< "bench"
  std::string words;
  std::function<std::vector<FieldRow>()> rows;
};
inline Registry<JsonReference>& json_references() {
  static Registry<JsonReference> registry{"command with --json"};
  return registry;
}

/// `fields` returns the JsonFields of the answer, or the rows themselves.
struct RegisterJsonReference {
  template <class Fields>
  RegisterJsonReference(const char* command, const char* words, Fields (*fields)()) {
    json_references().add(command, {command, words, [fields]() -> std::vector<FieldRow> {
                                      if constexpr (requires { fields().rows(); })
                                        return fields().rows();
                                      else
                                        return fields();
                                    }});
  }
};

}  // namespace trainyard
