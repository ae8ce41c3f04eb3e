#pragma once
#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "models/reading/document.hpp"

namespace trainyard {

/// Named entries, each of which adds itself before main() runs. A name that is added twice is an InternalError. The
/// error for an unknown name lists the nearest name, or all names. '-' and '_' are the same in names. A registry with a
/// reader also takes the path of a file as a name.
template <class T>
class Registry {
 public:
  using Reader = std::function<T(const std::filesystem::path&)>;

  explicit Registry(std::string what) : what_(std::move(what)) {}
  /// `read` makes an entry from a file whose name ends in one of `endings` (".yaml").
  Registry(std::string what, std::vector<std::string> endings, Reader read) : what_(std::move(what)) {
    files_ = std::make_shared<Files>();
    files_->endings = std::move(endings);
    files_->read = std::move(read);
  }

  void add(const std::string& name, T thing) {
    if (!things_.emplace(plain(name), std::pair{name, std::move(thing)}).second)
      throw InternalError(fmt::format("two {}s are called {}", what_, name));
  }
  /// Throws UserError at `where` if nothing has that name. A file is looked for as `file_named` does, and is read again
  /// if it has changed.
  const T& find(const std::string& name, const Place& where) const {
    if (files_ && files_->takes(name)) return files_->find(file_named(name, where, what_));
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
  /// The entries that were read from files. An entry is never moved, because callers keep references to it.
  struct Files {
    std::vector<std::string> endings;
    Reader read;
    std::mutex mutex;
    std::map<std::pair<std::string, std::filesystem::file_time_type>, T> things;

    bool takes(const std::string& name) const {
      for (const std::string& ending : endings)
        if (name.ends_with(ending)) return true;
      return false;
    }
    const T& find(const std::filesystem::path& file) {
      const std::lock_guard lock(mutex);
      const std::pair key{file.string(), std::filesystem::last_write_time(file)};
      const auto entry = things.find(key);
      return entry != things.end() ? entry->second : things.emplace(key, read(file)).first->second;
    }
  };
  std::string what_;
  std::map<std::string, std::pair<std::string, T>> things_;
  std::shared_ptr<Files> files_;  // null: names are no files

  static std::string plain(std::string name) {
    for (char& c : name)
      if (c == '_') c = '-';
    return name;
  }
};

/// A static object that adds a thing to a registry before main() runs.
template <class T>
struct Registration {
  Registration(Registry<T>& registry, const char* name, T thing) { registry.add(name, std::move(thing)); }
};

}  // namespace trainyard
