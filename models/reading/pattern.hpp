#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trainyard {

/// A regular expression of ECMAScript. std::regex compiles for seconds in each unit that includes it: only
/// pattern.cpp does.
class Pattern {
 public:
  /// A match: the whole of it, then its groups.
  using Groups = std::vector<std::string>;

  explicit Pattern(const char* text);
  /// Returns the first match in `text`; an empty list if there is none.
  Groups find(const std::string& text) const;
  /// Replaces each match by what `write` returns for it.
  std::string replace(const std::string& text, const std::function<std::string(const Groups&)>& write) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace trainyard
