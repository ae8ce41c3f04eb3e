#pragma once
#include <array>
#include <deque>
#include <unordered_map>
#include <vector>

#include "sim/executor/ids.hpp"
#include "sim/machine.hpp"
#include "sim/program.hpp"

namespace trainyard::execution {

/// Routes as the machine gave them, asked for once for each channel and path class. Routes stay valid when others
/// replace them: messages in flight refer to them.
class RouteCache {
 public:
  explicit RouteCache(const Machine& machine) : machine_(machine) {}

  const Route& find(ChannelId channel, PathClass path, Actor from, Actor to) {
    IndexedVector<Entry, ChannelId>& cache = by_path_[static_cast<std::uint8_t>(path)];
    if (cache.contains(channel) && cache[channel].version == version_) return cache[channel].current->route;
    return ask(channel, path, from, to);
  }
  const Route& find(const GroupFlow&);
  /// The channel's messages are routed between others than its sender and receiver.
  void set_way(ChannelId channel, Program::Way way) { ways_.grown(channel) = way; }
  /// A link failed or came back: all routes are asked for again.
  void invalidate() { ++version_; }

 private:
  struct Known {
    Route route;
    const Known* older;  // of the same entry, from before links failed or came back
  };
  struct Entry {
    const Known* current = nullptr;
    const Known* newest = nullptr;
    std::uint32_t version = 0;
  };
  const Machine& machine_;
  std::array<IndexedVector<Entry, ChannelId>, kPathClasses> by_path_;
  IndexedVector<Program::Way, ChannelId> ways_;
  std::unordered_map<const GroupFlow*, Entry> of_groups_;
  std::deque<Known> known_;
  std::deque<std::vector<LinkUse>> group_links_;  // that routes of groups refer to
  std::uint32_t version_ = 1;

  const Route& ask(ChannelId, PathClass, Actor from, Actor to);
  void add(Entry&, const Route&);
};

}  // namespace trainyard::execution
