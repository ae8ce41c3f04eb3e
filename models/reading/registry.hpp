#pragma once
#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "models/reading/document.hpp"

namespace trainyard {

/// Things by name, which add themselves before main() runs. A name that is added twice is an InternalError. The error
/// for an unknown name lists the nearest name, or all. '-' and '_' are the same in names.
template <class T>
class Registry {
 public:
  explicit Registry(std::string what) : what_(std::move(what)) {}

  void add(const std::string& name, T thing) {
    if (!things_.emplace(plain(name), std::pair{name, std::move(thing)}).second)
      throw InternalError(fmt::format("two {}s are called {}", what_, name));
  }
  /// Throws UserError at `where` if nothing has that name.
  const T& find(const std::string& name, const Place& where) const {
    const auto entry = things_.find(plain(name));
    if (entry == things_.end()) fail(where, fmt::format("unknown {} \"{}\"{}", what_, name, hint(name, names())));
    return entry->second.second;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [key, named] : things_) all.push_back(named.first);
    return all;
  }

 private:
  std::string what_;
  std::map<std::string, std::pair<std::string, T>> things_;

  static std::string plain(std::string name) {
    for (char& c : name)
      if (c == '_') c = '-';
    return name;
  }
};

/// A static object that adds a thing to a registry before main() runs.
template <class T>
struct Registered {
  Registered(Registry<T>& registry, const char* name, T thing) { registry.add(name, std::move(thing)); }
};

}  // namespace trainyard
