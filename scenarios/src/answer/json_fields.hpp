#pragma once
#include <any>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
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

/// JSON of the values of one type.
struct JsonCodec {
  void (*write)(const void* value, nlohmann::ordered_json&) = nullptr;
  void (*read)(const nlohmann::ordered_json&, void* value) = nullptr;
  /// "text", "true|false", the unit or "number"; of a map "{key: unit}".
  std::string (*type_words)(const std::string& unit) = nullptr;
};
/// Compiled in json_fields.cpp for each type of value: including this header does not include the JSON library.
template <class V>
const JsonCodec& json_codec();

/// The fields of any type, by address: the part of JsonFields that is compiled once for all types.
class FieldTable {
 public:
  using Json = nlohmann::ordered_json;
  /// The way from an object to its member.
  class Access {
   public:
    Access(bool optional, bool computed) : is_optional(optional), is_computed(computed) {}
    virtual ~Access() = default;
    /// The member, nullptr where it is an absent optional. `kept` holds one that is computed.
    virtual const void* find(const void* owner, std::any& kept) const = 0;
    /// The member to be read into; an absent optional is made. Not for computed ones.
    virtual void* make(void* owner) const = 0;
    const bool is_optional, is_computed;
  };
  /// How to reach the elements of a std::vector.
  struct Elements {
    std::size_t (*size)(const void*) = nullptr;
    const void* (*at)(const void*, std::size_t) = nullptr;
    void* (*append)(void*) = nullptr;
  };
  /// A row of the table.
  class Field;

  void add_value(const char* key, const char* unit, const JsonCodec&, std::unique_ptr<Access>, const char* words);
  void add_object(const char* key, std::unique_ptr<Access>, FieldTable, const char* words);
  void add_list(const char* key, const Elements&, std::unique_ptr<Access>, FieldTable, const char* words);
  void add_inlined(std::unique_ptr<Access>, FieldTable);
  void when(std::function<bool(const void* owner)> present, const char* words);

  void write(const void* owner, Json& object) const;
  Json json(const void* owner) const;
  void read(const Json& object, void* owner) const;
  std::vector<FieldRow> rows(const std::string& prefix) const;

 private:
  struct Entry {
    std::shared_ptr<const Field> field;                        ///< tables are copied, their fields do not change
    std::function<bool(const void* owner)> present = nullptr;  ///< none: always
    std::string when = "";
  };
  std::vector<Entry> entries_;
};

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
 public:
  /// A number, text, truth value, or map of numbers; an optional one is null where there is none.
  template <class Get>
  JsonFields& value(const char* key, const char* unit, Get get, const char* words) {
    table_.add_value(key, unit, codec<Value<Get>>(), std::make_unique<Way<Get, Whole>>(get), words);
    return *this;
  }
  /// An object of its own; an optional one is absent where there is none.
  template <class Get, class M>
  JsonFields& object(const char* key, Get get, JsonFields<M> fields, const char* words) {
    table_.add_object(key, std::make_unique<Way<Get, Held>>(get), std::move(fields.table_), words);
    return *this;
  }
  /// An object of fields that are members of T itself.
  JsonFields& object(const char* key, JsonFields<T> fields, const char* words) {
    return object(key, std::identity{}, std::move(fields), words);
  }
  /// An array of objects; an optional one is absent where there is none.
  template <class Get, class E>
  JsonFields& list(const char* key, Get get, JsonFields<E> fields, const char* words) {
    table_.add_list(key, elements<E>, std::make_unique<Way<Get, Held>>(get), std::move(fields.table_), words);
    return *this;
  }
  /// The keys of a member, directly in this object. Where they may be absent, the first of them tells.
  template <class Get, class M>
  JsonFields& inlined(Get get, JsonFields<M> fields) {
    table_.add_inlined(std::make_unique<Way<Get, Held>>(get), std::move(fields.table_));
    return *this;
  }
  /// The field before is present only where `present`; `words` say when that is.
  JsonFields& when(std::function<bool(const T&)> present, const char* words) {
    table_.when([present = std::move(present)](const void* owner) { return present(*static_cast<const T*>(owner)); },
                words);
    return *this;
  }

  void write(const T& t, nlohmann::ordered_json& object) const { table_.write(&t, object); }
  /// An object of the fields alone: an ordered_json.
  auto json(const T& t) const { return table_.json(&t); }
  void read(const nlohmann::ordered_json& object, T& t) const { table_.read(object, &t); }
  /// With `prefix` before each path.
  std::vector<FieldRow> rows(const std::string& prefix = "") const { return table_.rows(prefix); }

 private:
  template <class>
  friend class JsonFields;
  FieldTable table_;

  template <class Get>
  using Value = std::remove_cvref_t<std::invoke_result_t<Get, const T&>>;

  template <class V>
  static const JsonCodec& codec() {
    if constexpr (QuantityValue<V>) {
      static_assert(std::is_standard_layout_v<V> && sizeof(V) == sizeof(double));  // its address is its value's
      return json_codec<double>();
    } else {
      return json_codec<V>();
    }
  }
  template <class E>
  static constexpr FieldTable::Elements elements{
      [](const void* all) { return static_cast<const std::vector<E>*>(all)->size(); },
      [](const void* all, std::size_t i) -> const void* { return &(*static_cast<const std::vector<E>*>(all))[i]; },
      [](void* all) -> void* { return &static_cast<std::vector<E>*>(all)->emplace_back(); }};

  /// A member as it is.
  template <class V>
  struct Whole {
    static constexpr bool optional = false;
    static const void* find(const V& v) { return &v; }
    static void* make(V& v) { return &v; }
  };
  /// What an optional member holds.
  template <class V>
  struct Held : Whole<V> {};
  template <class V>
  struct Held<std::optional<V>> {
    static constexpr bool optional = true;
    static const void* find(const std::optional<V>& v) { return v ? &*v : nullptr; }
    static void* make(std::optional<V>& v) { return &v.emplace(); }
  };
  template <class Get, template <class> class Part>
  class Way final : public FieldTable::Access {
    using V = Value<Get>;
    static constexpr bool stored = std::is_lvalue_reference_v<std::invoke_result_t<Get, T&>>;
    Get get_;

   public:
    explicit Way(Get get) : Access(Part<V>::optional, !stored), get_(get) {}
    const void* find(const void* owner, std::any& kept) const override {
      const T& t = *static_cast<const T*>(owner);
      if constexpr (stored)
        return Part<V>::find(std::invoke(get_, t));
      else
        return Part<V>::find(kept.emplace<V>(std::invoke(get_, t)));
    }
    void* make(void* owner) const override {
      if constexpr (stored)
        return Part<V>::make(std::invoke(get_, *static_cast<T*>(owner)));
      else
        return nullptr;
    }
  };
};

}  // namespace trainyard
