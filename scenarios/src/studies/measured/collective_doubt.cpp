#include "scenarios/src/studies/measured/collective_doubt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "models/fitted/measured_table.hpp"
#include "models/fitted/nccl_curves.hpp"
#include "models/fitted/nccl_network_fit.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/answer/csv_cell.hpp"
#include "scenarios/src/studies/measured/system_spread.hpp"
#include "sim/observers/progress.hpp"
#include "sim/process/job.hpp"

namespace trainyard {
namespace {

constexpr const char* kDoubtTable = "scenarios/measured/tables/collective_doubt.csv";
constexpr std::array<const char*, kSizeRanges> kRangeNames{"below_64KiB", "below_64MiB", "from_64MiB"};
constexpr std::array<const char*, kSizeRanges> kAnchoredNames{"anchored_below_64KiB", "anchored_below_64MiB",
                                                              "anchored_from_64MiB"};

std::size_t range_of(Bytes size) { return size < kSmallCollective ? 0 : size < kLargeCollective ? 1 : 2; }

/// Returns the error of each row less the mean of the other ones: the errors that are left after an anchor to these.
std::vector<double> errors_around_others(const std::vector<double>& errors) {
  std::vector<double> remaining;
  if (errors.size() < 2) return remaining;
  const double sum = std::accumulate(errors.begin(), errors.end(), 0.0),
               others = static_cast<double>(errors.size() - 1);
  for (const double error : errors) remaining.push_back(error - (sum - error) / others);
  return remaining;
}

}  // namespace

std::string collective_kind(const ClusterSpec& cluster, const NcclNode& node) {
  if (cluster.nodes > 1) {
    if (cluster.sharp) return "between nodes, summed by switches";
    const std::string& network = node.linked().between.name;
    return "between nodes by " + network.substr(0, network.find('-'));
  }
  const int gpus = cluster.node.gpus;
  if (node.call(NcclOperation::all_reduce, Bytes{0}, {gpus, 1, gpus}).machine.value > 0) return "in one node by PCIe";
  if (!runs_nccl(cluster.node.gpu) && node.linked().gpu != cluster.node.gpu.name) return kScaledGpus;
  if (cluster.node.interconnect != "nvswitch") return kLinkedGpus;
  return node.linked().scaled.empty() ? kFittedGpus : kScaledGpus;
}

CollectiveDoubt CollectiveDoubt::fit(const std::vector<CollectiveError>& all, const std::string& left_out,
                                     double probability) {
  using Ranges = std::array<SystemErrors, kSizeRanges>;
  std::map<std::string, Ranges> kinds, anchored;
  for (const CollectiveError& e : all)
    if (e.system != left_out) kinds[e.kind][range_of(e.size)][e.system].push_back(e.error);
  for (const auto& [name, ranges] : kinds)
    for (std::size_t range = 0; range < kSizeRanges; ++range)
      for (const auto& [system, errors] : ranges[range])
        if (std::vector<double> remaining = errors_around_others(errors); !remaining.empty())
          anchored[name][range][system] = std::move(remaining);
  const auto spread_of = [probability](const std::map<std::string, Ranges>& by_kind, const std::string& kind,
                                       std::size_t range) {
    static const SystemErrors none;
    std::vector<const SystemErrors*> others;
    for (const auto& [other, ranges] : by_kind)
      if (other != kind) others.push_back(&ranges[range]);
    const auto kind_errors = by_kind.find(kind);
    return spread_of_kind(kind_errors == by_kind.end() ? none : kind_errors->second[range], others, probability);
  };
  CollectiveDoubt doubt;
  for (const auto& [name, ranges] : kinds) {
    Kind& kind = doubt.kinds_.emplace_back(Kind{name});
    std::set<std::string> systems;
    for (std::size_t range = 0; range < kSizeRanges; ++range) {
      for (const auto& [system, list] : ranges[range]) systems.insert(system);
      kind.spread[range] = spread_of(kinds, name, range);
      kind.scatter[range] = std::min(kind.spread[range], spread_of(anchored, name, range));
    }
    kind.systems = static_cast<int>(systems.size());
  }
  return doubt;
}

const CollectiveDoubt& CollectiveDoubt::shipped() {
  static const CollectiveDoubt doubt = [] {
    CollectiveDoubt result;
    MeasuredTable table(shipped_file(kDoubtTable));
    while (table.next()) {
      Kind& kind = result.kinds_.emplace_back(Kind{table.text("kind")});
      kind.systems = static_cast<int>(table.positive(table.column("systems")));
      for (std::size_t range = 0; range < kSizeRanges; ++range)
        kind.spread[range] = table.positive(table.column(kRangeNames[range])),
        kind.scatter[range] = table.positive(table.column(kAnchoredNames[range]));
    }
    return result;
  }();
  return doubt;
}

std::string CollectiveDoubt::csv() const {
  std::string text = fmt::format(
      "# |ln(predicted / measured)| that {:.0f} % of measured times of collectives do not exceed, by kind of machine "
      "and size;\n# anchored: around the mean error of the machine's other times of such sizes.\n# Repeat: trainyard "
      "validate collectives --csv FILE\nkind,systems,{},{}\n",
      kLikely * 100, fmt::join(kRangeNames, ","), fmt::join(kAnchoredNames, ","));
  for (const Kind& kind : kinds_) {
    text += csv_cell(kind.name) + fmt::format(",{}", kind.systems);
    for (const auto& spreads : {kind.spread, kind.scatter})
      for (const double spread : spreads) text += fmt::format(",{:.4f}", spread);
    text += "\n";
  }
  return text;
}

const CollectiveDoubt::Kind& CollectiveDoubt::kind_called(const std::string& name) const {
  const auto found = std::ranges::find(kinds_, name, &Kind::name);
  if (found != kinds_.end()) return *found;
  // A kind that nobody measured is as uncertain as the most uncertain one, judged by the middle range of sizes.
  const auto is_narrower = [](const Kind& a, const Kind& b) { return a.spread[1] < b.spread[1]; };
  return *std::ranges::max_element(kinds_, is_narrower);
}

StepRange CollectiveDoubt::range(const std::string& kind, Bytes size, bool is_anchored) const {
  const Kind& found = kind_called(kind);
  const double factor = std::exp((is_anchored ? found.scatter : found.spread)[range_of(size)]);
  return {1 / factor, factor};
}

int CollectiveDoubt::systems(const std::string& kind) const {
  const auto found = std::ranges::find(kinds_, kind, &Kind::name);
  return found == kinds_.end() ? 0 : found->systems;
}

std::vector<CoveredCollective> cover_each_collective(const std::vector<CollectiveError>& all, bool are_anchored) {
  std::map<std::string, std::vector<CollectiveError>> systems;
  for (const CollectiveError& e : all) systems[e.system].push_back(e);
  if (are_anchored)
    for (auto& [system, rows] : systems) {
      std::vector<CollectiveError> anchored_rows;
      for (std::size_t range = 0; range < kSizeRanges; ++range) {
        std::vector<CollectiveError> in_range;
        std::vector<double> errors;
        for (const CollectiveError& e : rows)
          if (range_of(e.size) == range) in_range.push_back(e), errors.push_back(e.error);
        const std::vector<double> remaining = errors_around_others(errors);
        for (std::size_t i = 0; i < remaining.size(); ++i) {
          anchored_rows.push_back(in_range[i]);
          anchored_rows.back().error = remaining[i];
        }
      }
      rows = std::move(anchored_rows);
    }
  std::vector<CoveredCollective> covered;
  ProgressLine progress;
  std::size_t begun = 0;
  for (const auto& [system, rows] : systems) {
    end_if_interrupted();
    progress.show(fmt::format("intervals of collectives: system {} of {}", ++begun, systems.size()));
    std::map<double, CollectiveDoubt> others;  // indexed by probability
    for (const double probability : kCoverageProbabilities)
      others.emplace(probability, CollectiveDoubt::fit(all, system, probability));
    for (const CollectiveError& e : rows) {
      const auto range = [&](double probability) { return others.at(probability).range(e.kind, e.size, are_anchored); };
      covered.push_back({covered_row(system, std::exp(-e.error), range), e.kind, e.size});
    }
  }
  return covered;
}

std::vector<CollectiveCoverage> cover_each_system(const std::vector<CollectiveError>& all) {
  std::map<std::string, std::vector<CoveredRow>> kinds;
  for (const CoveredCollective& row : cover_each_collective(all)) kinds[row.kind].push_back(row);
  const CollectiveDoubt doubt = CollectiveDoubt::fit(all);
  std::vector<CollectiveCoverage> coverage;
  CollectiveCoverage total{.kind = "all"};
  for (const auto& [kind, rows] : kinds) {
    const ClassCoverage of_kind = coverage_of(kind, 0, rows);
    CollectiveCoverage& c = coverage.emplace_back(CollectiveCoverage{
        kind, of_kind.steps, of_kind.families, of_kind.by_steps[kLikelyIndex], of_kind.by_families[kLikelyIndex]});
    for (const CollectiveError& e : all)
      if (e.kind == kind) c.half[range_of(e.size)] = doubt.range(kind, e.size).half_width();
    total.by_rows += c.by_rows * static_cast<double>(c.rows);
    total.by_systems += c.by_systems * static_cast<double>(c.systems);
    total.rows += c.rows;
    total.systems += c.systems;
  }
  total.by_rows /= static_cast<double>(total.rows);
  total.by_systems /= static_cast<double>(total.systems);
  coverage.insert(coverage.begin(), total);
  return coverage;
}

}  // namespace trainyard
