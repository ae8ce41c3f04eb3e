#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace trainyard {

/// A key that a reader looked up in a document. The document need not have it.
struct AskedField {
  std::string what, key;  ///< name of the map in errors ("plan.pipeline", "node dgx-a100"), and the key
  std::string words;      ///< description; "" if no reader has one
  std::string condition;  ///< the only condition under which it is required: "with mechanism local-sgd"
  std::string type;       ///< "a whole number", "a rate such as …", "text"; "" for maps and lists
  bool required = false;
  std::string fallback;              ///< default value; "" if the reader decides
  std::vector<std::string> choices;  ///< names that it may have as its value
  std::string value;                 ///< value in the document; "" if absent
};

/// Collects the keys that `Fields` look up while it lives, in order, each key once.
class AskedFields {
 public:
  AskedFields();
  ~AskedFields();
  AskedFields(const AskedFields&) = delete;
  AskedFields& operator=(const AskedFields&) = delete;
  const std::vector<AskedField>& fields() const { return all_; }
  /// Returns the innermost live collector, or null if there is none.
  static AskedFields* innermost();
  void add(AskedField);
  /// Sets the default value of the key that was added last.
  void add_default(std::string text) { all_[last_].fallback = std::move(text); }
  /// Sets the legal names of the key that was added last.
  void add_choices(const std::vector<std::string>& names) { all_[last_].choices = names; }

 private:
  std::vector<AskedField> all_;
  std::map<std::pair<std::string, std::string>, std::size_t> places_;  // in `all_`, by map and key
  std::size_t last_ = 0;
  AskedFields* outer_;
};

}  // namespace trainyard
