#include "strategies/mechanisms/servers/key_split.hpp"

#include <algorithm>
#include <cmath>

namespace trainyard {

const std::vector<NamedSplit>& named_splits() {
  static const std::vector<NamedSplit> splits{
      {"none", {}}, {"mxnet", {.bigarray_bound = 1e6}}, {"byteps", {.partition_bytes = Bytes{4096000}}}};
  return splits;
}

std::vector<int> share_keys(const std::vector<GradientBucket>& keys, int servers, KeySharding sharding,
                            const std::vector<int>& fixed) {
  std::vector<int> server_of = fixed;
  server_of.resize(keys.size(), -1);
  std::vector<std::pair<double, int>> loads;  // elements, keys
  loads.resize(static_cast<std::size_t>(servers));
  const auto give = [&](std::size_t k, int server) {
    server_of[k] = server;
    loads[server].first += keys[k].elements;
    ++loads[server].second;
  };
  std::vector<std::size_t> free;
  for (std::size_t k = 0; k < keys.size(); ++k)
    if (server_of[k] < 0)
      free.push_back(k);
    else
      give(k, server_of[k]);
  if (sharding != KeySharding::balanced) {
    for (std::size_t i = 0; i < free.size(); ++i) give(free[i], static_cast<int>(i) % servers);
    return server_of;
  }
  std::ranges::stable_sort(free, [&keys](std::size_t a, std::size_t b) { return keys[a].elements > keys[b].elements; });
  for (const std::size_t k : free) give(k, static_cast<int>(std::ranges::min_element(loads) - loads.begin()));
  return server_of;
}

namespace {

/// The elements [from, to) of a key.
GradientBucket slice_of(const GradientBucket& key, double from, double to) {
  GradientBucket slice = key;
  slice.parts.clear();
  slice.elements = to - from;
  double begin = 0;
  for (const GradientBucket::Part& part : key.parts) {
    const double first = std::max(from, begin), last = std::min(to, begin + part.elements);
    if (first < last) slice.parts.push_back({part.layer, part.tensor, last - first, part.first + first - begin});
    begin += part.elements;
  }
  return slice;
}

}  // namespace

std::vector<GradientBucket> split_keys(const std::vector<GradientBucket>& keys, int parts) {
  std::vector<GradientBucket> all;
  for (const GradientBucket& key : keys)
    for (int i = 0; i < parts; ++i)
      all.push_back(slice_of(key, std::floor(key.elements * i / parts), std::floor(key.elements * (i + 1) / parts)));
  return all;
}

SharedKeys share_out(const std::vector<GradientBucket>& keys, int servers, KeySharding sharding, const KeySplit& split,
                     Bytes element) {
  const double bound = sharding == KeySharding::split ? 0 : split.bigarray_bound;
  const double most = std::max(1.0, std::floor(split.partition_bytes / element));  // most elements of a part
  SharedKeys shared;
  std::vector<int> fixed;
  for (const GradientBucket& key : keys) {
    if (key.elements >= bound) {
      shared.first_slice.resize(shared.keys.size() + static_cast<std::size_t>(servers), shared.keys.size());
      for (GradientBucket& slice : split_keys({key}, servers)) shared.keys.push_back(std::move(slice));
      for (int server = 0; server < servers; ++server) fixed.push_back(server);
      continue;
    }
    double from = 0;
    for (; key.elements - from > most; from += most) shared.keys.push_back(slice_of(key, from, from + most));
    shared.keys.push_back(from > 0 ? slice_of(key, from, key.elements) : key);
    fixed.resize(shared.keys.size(), -1);
    while (shared.first_slice.size() < shared.keys.size()) shared.first_slice.push_back(shared.first_slice.size());
  }
  shared.server_of = share_keys(shared.keys, servers, sharding, fixed);
  return shared;
}

}  // namespace trainyard
