#include "strategies/mechanisms/servers/server_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <string_view>

#include "strategies/mechanisms/servers/server_step.hpp"

namespace trainyard {

const std::vector<std::string>& consistency_names() {
  static const std::vector<std::string> names{"synchronous", "stale", "asynchronous"};
  return names;
}

const std::vector<std::string>& key_sharding_names() {
  static const std::vector<std::string> names{"round-robin", "balanced", "split"};
  return names;
}

std::vector<int> share_keys(const std::vector<GradientBucket>& keys, int servers, KeySharding sharding) {
  std::vector<int> server_of(keys.size());
  if (sharding != KeySharding::balanced) {
    for (std::size_t k = 0; k < keys.size(); ++k) server_of[k] = static_cast<int>(k) % servers;
    return server_of;
  }
  std::vector<std::size_t> largest_first(keys.size());
  std::iota(largest_first.begin(), largest_first.end(), 0U);
  std::stable_sort(largest_first.begin(), largest_first.end(),
                   [&keys](std::size_t a, std::size_t b) { return keys[a].elements > keys[b].elements; });
  std::vector<std::pair<double, int>> loads;  // elements, keys
  loads.resize(static_cast<std::size_t>(servers));
  for (const std::size_t k : largest_first) {
    const auto least = std::min_element(loads.begin(), loads.end());
    server_of[k] = static_cast<int>(least - loads.begin());
    least->first += keys[k].elements;
    ++least->second;
  }
  return server_of;
}

namespace {

/// Elements [from, to) of a key.
GradientBucket slice_of(const GradientBucket& key, double from, double to) {
  GradientBucket slice = key;
  slice.parts.clear();
  slice.elements = to - from;
  double at = 0;
  for (const GradientBucket::Part& part : key.parts) {
    const double first = std::max(from, at), last = std::min(to, at + part.elements);
    if (first < last) slice.parts.push_back({part.layer, part.tensor, last - first, part.first + first - at});
    at += part.elements;
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

ServerLabel parse_server_label(const std::string& label, const Place& where) {
  ServerLabel read;
  const char* at = label.data();
  const char* const end = at + label.size();
  const auto number = [&](int& into, std::string_view unit) {
    const auto [next, error] = std::from_chars(at, end, into);
    const std::string_view rest(next, static_cast<std::size_t>(end - next));
    if (error != std::errc{} || into < 1 || !rest.starts_with(unit))
      fail(where, fmt::format("\"{}\" is no label of workers and servers; expected one such as 8W2PS", label));
    at = next + unit.size();
  };
  number(read.workers, "W");
  number(read.servers, "PS");
  if (at != end) fail(where, fmt::format("\"{}\": nothing expected after \"PS\", as in 8W2PS", label));
  return read;
}

Bytes ServerPlan::push_bytes(std::size_t k) const {
  return key(k).elements * (mixes() ? base.step.parameter_element : base.step.gradient_element);
}
Bytes ServerPlan::pull_bytes(std::size_t k) const { return key(k).elements * base.step.parameter_element; }

double ServerPlan::share_of(std::size_t k) const {
  double all = 0;
  for (std::size_t i = 0; i < keys(); ++i) all += key(i).elements;
  return all > 0 ? key(k).elements / all : 1 / static_cast<double>(keys());
}

ServerPlan server_plan(const Network& network, const DataParallelPlan& data, int servers, KeySharding sharding,
                       const Place& where) {
  ServerPlan plan;
  plan.base = central_plan(Mechanism::parameter_server, network, data);
  plan.servers = servers;
  std::vector<GradientBucket>& keys = plan.base.step.stages.front().buckets;
  if (sharding == KeySharding::split) keys = split_keys(keys, servers);
  if (static_cast<std::size_t>(servers) > plan.keys())
    fail(where, fmt::format("{} servers, but {} has {} keys: at most as many servers as keys", servers, network.name,
                            plan.keys()));
  plan.server_of = share_keys(keys, servers, sharding);
  plan.mixing = plan.base.addition;  // two tensors read, one written
  return plan;
}

std::vector<std::string> server_streams(const ServerPlan& plan) {
  const int most = std::max(server_streams_of(plan), worker_streams_of(plan));
  std::vector<std::string> names{"compute"};
  for (int i = 1; i < most; ++i) names.push_back(fmt::format("messages {}", i));
  return names;
}

Effect ServerPush::effect(ServerCall call) const {
  return effect_of(call, {arrival, worker, 0, static_cast<std::uint16_t>(key)});
}

ServerPush ServerPush::of(const CallArguments& call) {
  return {call.buffer, call.micro_batch, static_cast<std::uint16_t>(call.index)};
}

}  // namespace trainyard
