#pragma once
#include <string>
#include <vector>

namespace trainyard {

/// What a reader asked of a document: a key of a map, which may be absent.
struct AskedField {
  std::string what, key;  ///< the map as errors call it ("plan.pipeline", "node dgx-a100"), and its key
  std::string words;      ///< what it means; "" where no reader says it
  std::string condition;  ///< under which alone it is required: "with mechanism local-sgd"
  std::string type;       ///< "a whole number", "a rate such as …", "text"; "" of maps and lists
  bool required = false;
  std::string fallback;              ///< where there is none; "" where the reader decides
  std::vector<std::string> choices;  ///< names that it may be
  std::string value;                 ///< as it stands there; "" where it is absent
};

/// Keeps what `Fields` are asked for as long as it lives, in order, each key once.
class AskedFields {
 public:
  AskedFields();
  ~AskedFields();
  AskedFields(const AskedFields&) = delete;
  AskedFields& operator=(const AskedFields&) = delete;
  const std::vector<AskedField>& all() const { return all_; }
  /// Of the innermost that lives; null where none does.
  static AskedFields* listening();
  void add(AskedField);
  /// What the last one is where it is absent, and which names it may be.
  void add_default(std::string text) { all_[last_].fallback = std::move(text); }
  void add_choices(const std::vector<std::string>& names) { all_[last_].choices = names; }

 private:
  std::vector<AskedField> all_;
  std::size_t last_ = 0;
  AskedFields* outer_;
};

}  // namespace trainyard
