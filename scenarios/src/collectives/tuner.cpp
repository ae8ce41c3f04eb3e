#include "scenarios/src/collectives/tuner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "scenarios/src/collectives/collective_run.hpp"
#include "sim/error.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

constexpr int kMostRanksByMessages = 256;

/// Most messages of a candidate: those of one rank, times ranks. Algorithms with more would take too long to simulate.
constexpr double kMostMessages = 4e6;

double messages_of(const Collective& collective, GroupPlace place, Bytes size) {
  double count = 0;
  visit_ops(collective, place, size, [&](const Op& op) {
    count += op.kind == Kind::send ? 1 : 0;
    return count * place.size < kMostMessages;
  });
  return count * place.size;
}

/// Returns the time of a collective. No value: the algorithm cannot run it, or would take too long to simulate.
std::optional<double> time_of(const ClusterSpec& cluster, const Collective& collective, CollectiveRunOptions o,
                              bool switches) {
  CollectiveSettings& settings = o.options.settings;
  const bool as_flows = settings.fidelity == Fidelity::flows;
  if (as_flows && !collective.steady) return std::nullopt;
  settings.fidelity =
      as_flows || (o.ranks > kMostRanksByMessages && collective.steady) ? Fidelity::flows : Fidelity::messages;
  if (collective.switches != SwitchKind::none) {
    if (!switches) return std::nullopt;
    try {
      return run_collective(cluster, o).time;
    } catch (const UserError&) {  // the machine has no such switches
      return std::nullopt;
    }
  }
  const GroupPlace place{0, o.ranks, &settings};
  if (collective.refuses && !collective.refuses(place).empty()) return std::nullopt;
  if (o.ranks > 1 && settings.fidelity == Fidelity::messages &&
      messages_of(collective, place, o.options.size) >= kMostMessages)
    return std::nullopt;
  return run_collective(cluster, o).time;
}

}  // namespace

Tuning tune(Operation operation, Bytes size, const ClusterSpec& cluster, int ranks, const CollectiveSettings& settings,
            const SoftwareStack& software, bool switches) {
  Tuning tuning;
  tuning.operation = operation;
  tuning.size = size;
  if (ranks == 1) {  // nothing to exchange
    tuning.candidates.push_back({&default_collective(operation), 1, 0});
    return tuning;
  }
  for (const std::string& name : collectives(operation).names()) {
    const Collective& collective = collectives(operation).find(name, {});
    if (collective.for_teaching) continue;
    CollectiveRunOptions o;
    o.ranks = ranks;
    o.operation = operation;
    o.algorithm = name;
    o.options.size = size;
    o.options.settings = settings;
    o.keep_steps = false;
    o.software = software;
    std::vector<int> channel_counts{1};
    if (collective.channels == settings_channels && settings.ranks_per_node(ranks) < ranks)
      channel_counts.push_back(settings.ranks_per_node(ranks));
    for (const int channels : channel_counts) {
      o.options.settings.channels = channels;
      if (const auto seconds = time_of(cluster, collective, o, switches))
        tuning.candidates.push_back({&collective, channels, *seconds});
    }
  }
  if (tuning.candidates.empty())
    throw UserError(fmt::format("no algorithm for {} of {} ranks can be simulated", name_of(operation), ranks));
  sort_stably(tuning.candidates, [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  return tuning;
}

std::string in_words(const Tuning& tuning) {
  const auto words = [](const Tuning::Candidate& c) {
    return fmt::format("{}{} {}", c.algorithm->name, c.channels > 1 ? fmt::format(" of {} channels", c.channels) : "",
                       show(Seconds{c.seconds}));
  };
  std::string text = fmt::format("{} of {}: {}", name_of(tuning.operation), show(tuning.size), words(tuning.best()));
  for (std::size_t i = 1; i < std::min<std::size_t>(3, tuning.candidates.size()); ++i)
    text += (i == 1 ? ", then " : ", ") + words(tuning.candidates[i]);
  return text + fmt::format(" ({} tried, each alone)", tuning.candidates.size());
}

}  // namespace trainyard
