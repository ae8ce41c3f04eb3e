#include "sim/executor/route_cache.hpp"

#include <algorithm>

#include "sim/machine.hpp"

namespace trainyard::execution {
namespace {

template <typename T>
bool same(std::span<const T> a, std::span<const T> b) {
  return a.data() == b.data() && a.size() == b.size();
}
bool same(const Route& a, const Route& b) {
  return same(a.links, b.links) && same(a.legs, b.legs) && a.latency.count == b.latency.count &&
         a.reachable == b.reachable && a.chunk.value == b.chunk.value && a.name == b.name;
}

}  // namespace

const Route& RouteCache::ask(ChannelId channel, PathClass path, Actor from, Actor to) {
  IndexedVector<Entry, ChannelId>& cache = by_path_[static_cast<std::uint8_t>(path)];
  if (!cache.contains(channel)) cache.resize(std::max(position(channel) + 1, cache.size() * 2));
  Entry& entry = cache[channel];
  entry.version = version_;
  if (const Program::Endpoints* endpoints = endpoints_.find(channel); endpoints && endpoints->from >= 0) {
    from = endpoints->from;
    to = endpoints->to;
  }
  const Route route = machine_.route(from, to, path);
  entry.current = entry.newest;
  while (entry.current && !same(entry.current->route, route)) entry.current = entry.current->older;
  if (!entry.current) add(entry, route);
  return entry.current->route;
}

const Route& RouteCache::find(const GroupFlow& group) {
  Entry& entry = group_entries_[&group];
  if (entry.version == version_) return entry.current->route;
  entry.version = version_;
  Route route;
  if (const KnownGroup* known_group = machine_.known_group(group)) {
    route = known_group->route;
  } else {
    GroupRoute found = route_of_group(machine_, group);
    route.latency = found.latency;
    route.reachable = found.reachable;
    route.links = group_links_.emplace_back(std::move(found.links));
  }
  add(entry, route);
  return entry.current->route;
}

void RouteCache::add(Entry& entry, const Route& route) {
  cached_.push_back({route, entry.newest});
  entry.current = entry.newest = &cached_.back();
}

}  // namespace trainyard::execution
