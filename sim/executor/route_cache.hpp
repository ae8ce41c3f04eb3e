#pragma once
#include <array>
#include <deque>
#include <unordered_map>
#include <vector>

#include "sim/executor/ids.hpp"
#include "sim/machine.hpp"
#include "sim/program.hpp"

namespace trainyard::execution {

/// Caches the machine's routes, which are requested once for each channel and path class. Replaced routes stay valid,
/// because messages in flight refer to them.
class RouteCache {
 public:
  explicit RouteCache(const Machine& machine) : machine_(machine) {}

  const Route& find(ChannelId channel, PathClass path, Actor from, Actor to) {
    IndexedVector<Entry, ChannelId>& cache = by_path_[static_cast<std::uint8_t>(path)];
    if (cache.contains(channel) && cache[channel].version == version_) return cache[channel].current->route;
    return ask(channel, path, from, to);
  }
  const Route& find(const GroupFlow&);
  /// Routes the channel's messages between other actors than its sender and receiver.
  void set_endpoints(ChannelId channel, Program::Endpoints endpoints) { endpoints_.grown(channel) = endpoints; }
  /// A link failed or came back: all routes are requested again.
  void invalidate() { ++version_; }

 private:
  struct CachedRoute {
    Route route;
    const CachedRoute* older;  // route of the same entry from before a link failed or came back
  };
  struct Entry {
    const CachedRoute* current = nullptr;
    const CachedRoute* newest = nullptr;
    std::uint32_t version = 0;
  };
  const Machine& machine_;
  std::array<IndexedVector<Entry, ChannelId>, kPathClasses> by_path_;
  IndexedVector<Program::Endpoints, ChannelId> endpoints_;
  std::unordered_map<const GroupFlow*, Entry> group_entries_;
  std::deque<CachedRoute> cached_;
  std::deque<std::vector<LinkUse>> group_links_;  // referred to by the routes of groups
  std::uint32_t version_ = 1;

  const Route& ask(ChannelId, PathClass, Actor from, Actor to);
  void add(Entry&, const Route&);
};

}  // namespace trainyard::execution
