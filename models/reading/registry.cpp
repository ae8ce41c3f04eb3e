#include "models/reading/registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

namespace trainyard {
namespace {

std::string plain(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

}  // namespace

/// The entries that were read from files. An entry stays where it is, because callers keep references to it.
struct NamedEntries::Files {
  std::vector<std::string> endings;
  Reader read;
  std::mutex mutex;
  std::map<std::pair<std::string, std::filesystem::file_time_type>, Entry> entries;

  const void* find(const std::filesystem::path& file) {
    const std::lock_guard lock(mutex);
    Entry& entry = entries[{file.string(), std::filesystem::last_write_time(file)}];
    if (!entry) entry = read(file);
    return entry.get();
  }
};

NamedEntries::NamedEntries(std::string what, const std::vector<std::string>& endings, Reader read)
    : what_(std::move(what)), files_(new Files{endings, std::move(read), {}, {}}) {}

void NamedEntries::add(const std::string& name, Entry entry) {
  if (!entries_.emplace(plain(name), std::pair{name, std::move(entry)}).second)
    throw InternalError(fmt::format("two {}s are called {}", what_, name));
}

const void* NamedEntries::find(const std::string& name, const Place& where) const {
  if (std::ranges::any_of(files_->endings, [&name](const std::string& ending) { return name.ends_with(ending); }))
    return files_->find(file_named(name, where, what_));
  const auto found = entries_.find(plain(name));
  if (found == entries_.end()) fail(where, fmt::format("unknown {} \"{}\"{}", what_, name, hint(name, names())));
  return found->second.second.get();
}

std::vector<std::string> NamedEntries::names() const {
  std::vector<std::string> all;
  for (const auto& [key, named] : entries_) all.push_back(named.first);
  return all;
}

}  // namespace trainyard
