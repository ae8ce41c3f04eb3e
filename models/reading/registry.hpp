#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/reading/document.hpp"

namespace trainyard {

/// The entries of a registry, whatever their type: one code for all registries compiles once.
class NamedEntries {
 public:
  using Entry = std::shared_ptr<const void>;
  using Reader = std::function<Entry(const std::filesystem::path&)>;

  /// `read` makes an entry from a file whose name ends in one of `endings` (".yaml").
  explicit NamedEntries(std::string what, const std::vector<std::string>& endings = {}, Reader read = {});
  void add(const std::string& name, Entry);
  const void* find(const std::string& name, const Place& where) const;
  std::vector<std::string> names() const;

 private:
  struct Files;
  std::string what_;
  std::map<std::string, std::pair<std::string, Entry>> entries_;  // indexed by name with '-' for '_'
  std::shared_ptr<Files> files_;
};

/// Named entries, each of which adds itself before main() runs. A name that is added twice is an InternalError. The
/// error for an unknown name lists the nearest name, or all names. '-' and '_' are the same in names. A registry with a
/// reader also takes the path of a file as a name.
template <class T>
class Registry {
 public:
  using Reader = std::function<T(const std::filesystem::path&)>;

  explicit Registry(std::string what) : entries_(std::move(what)) {}
  /// `read` makes an entry from a file whose name ends in one of `endings` (".yaml").
  Registry(std::string what, const std::vector<std::string>& endings, Reader read)
      : entries_(std::move(what), endings, [read](const auto& file) { return std::make_shared<const T>(read(file)); }) {
  }

  void add(const std::string& name, T thing) { entries_.add(name, std::make_shared<const T>(std::move(thing))); }
  /// Throws UserError at `where` if nothing has that name. A file is looked for as `file_named` does, and is read again
  /// if it has changed.
  const T& find(const std::string& name, const Place& where) const {
    return *static_cast<const T*>(entries_.find(name, where));
  }
  std::vector<std::string> names() const { return entries_.names(); }

 private:
  NamedEntries entries_;
};

/// A static object that adds a thing to a registry before main() runs.
template <class T>
struct Registration {
  Registration(Registry<T>& registry, const char* name, T thing) { registry.add(name, std::move(thing)); }
};

}  // namespace trainyard
