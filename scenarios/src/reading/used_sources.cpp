#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {
namespace {

void append(Sources& to, const Sources& from) { to.insert(to.end(), from.begin(), from.end()); }

/// Returns true if the answer depends on a figure. One device uses no link, and one node no network.
bool is_used(const FigureSource& figure, const Scenario& s) {
  const std::size_t colon = figure.figure.find(": ");
  const std::string name = colon == std::string::npos ? figure.figure : figure.figure.substr(colon + 2);
  const auto begins = [&name](std::initializer_list<const char*> prefixes) {
    return std::ranges::any_of(prefixes, [&name](const char* p) { return name.starts_with(p); });
  };
  // Some figures are only stated: no time depends on them.
  const bool adapter = figure.figure.starts_with("hca ");
  if (adapter && (s.cluster.nodes == 1 || begins({"pcie"}))) return false;
  if (name == "clock" || begins({"sms", "l2", "reconfigure"})) return false;
  if (!s.cluster.joins_chips() && begins({"chip_links"})) return false;
  if (!s.plan.offload.copies() && begins({"host_memory"})) return false;
  if (!s.input.is_used() && !s.cluster.node.cpu.power.is_given() && begins({"cores"})) return false;
  if (s.plan.offload.copies() && begins({"pcie"})) return true;
  if (s.ranks() == 1 &&
      begins({"nvlink", "pcie", "socket", "interference", "collective_launch", "bucket", "first_bucket",
              "whole_tensors", "overlap", "gradient_bucket_copy", "host_buckets", "cycle_time"}))
    return false;
  return s.cluster.nodes > 1 || !begins({"hca", "network_step"});
}

Sources used_sources(const Scenario& s) {
  Sources all, used;
  for (const NodeType* type : s.cluster.types()) append(all, type->sources);
  append(all, s.software.sources);
  if (s.cluster.nodes > 1 || s.cluster.joins_chips()) append(all, s.cluster.fabric_sources);
  std::copy_if(all.begin(), all.end(), std::back_inserter(used), [&s](const FigureSource& f) { return is_used(f, s); });
  return used;
}

}  // namespace

Sources sources_of(const Scenario& s) {
  Sources sources = used_sources(s);
  append(sources, s.input.sources);
  append(sources, s.site.sources);
  append(sources, s.plan.dispatcher.sources);
  if (s.post_training) append(sources, s.post_training->sources());
  append(sources, s.plan.all_reduce.sources);
  if (!s.plan.all_reduce.scaled.empty()) sources.push_back({"collectives: NCCL", "", s.plan.all_reduce.scaled, true});
  if (s.measured.is_given())
    sources.push_back({fmt::format("plan: measured_step at batch {}", s.micro_batch_size),
                       show(s.measured.step_time(s.micro_batch_size)), s.measured.source, false});
  sources.push_back(
      {"model " + s.network.name, "", s.network.source.empty() ? "given in the scenario" : s.network.source, false});
  return sources;
}

}  // namespace trainyard
