#include "tools/verbs/validation/validate_systems.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "scenarios/src/studies/measured/measured_collectives.hpp"
#include "tools/reports/nccl_plot.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/arguments.hpp"

namespace trainyard {
namespace {

using Sweeps = std::map<NcclOperation, std::vector<CollectiveRow>>;

Sweeps sweeps_of(const MeasuredSystem& system) {
  Sweeps sweeps;
  for (const CollectiveRow& row : system.rows) sweeps[row.operation].push_back(row);
  return sweeps;
}

std::string gpus_in_words(const MeasuredSystem& system) {
  return system.nodes() > 1 ? fmt::format("{} x {}", system.nodes(), system.gpus / system.nodes())
                            : fmt::format("{}", system.gpus);
}

MeasuredPoint point_of(const MeasuredSystem& system, const CollectiveRow& row, double predicted) {
  return {fmt::format("{} {} {:.0f}", system.name, name_of(row.operation), row.size.value), predicted,
          row.measured.value};
}

/// The mean signed error of the sizes from `least` to below `most`; "-" if there are none.
std::string signed_error(const std::vector<CollectiveRow>& rows, Bytes least, Bytes most) {
  double sum = 0;
  int count = 0;
  for (const CollectiveRow& row : rows)
    if (row.size >= least && row.size < most) {
      sum += row.predicted / row.measured - 1;
      ++count;
    }
  return count == 0 ? "-" : fmt::format("{:+.0f} %", 100 * sum / count);
}

/// Says whether the system's rows are in a fit, and in which one, or why it is not judged.
std::string role_of(const MeasuredSystem& system) {
  if (!system.cluster) return "machine not stated";
  if (system.in_network) return "sums in the network, in no fit";
  if (!system.healthy()) return fmt::format("{:.0f} % of its wires: not judged", 100 * system.peak_share);
  if (system.nodes() > 1) return "in the fit of " + system.network();
  const NcclModel& model = system.nccl->front().linked();
  const auto names_it = [&](const FigureSource& figure) {
    return figure.source.find(system.name + ":") != std::string::npos;
  };
  return std::ranges::any_of(model.sources, names_it) ? "in the fit of " + model.name : "in no fit";
}

std::vector<std::string> line_of(const MeasuredSystem& system, NcclOperation operation,
                                 const std::vector<CollectiveRow>& rows) {
  const Bytes none{0}, all{1e18};
  std::vector<double> errors;
  for (const CollectiveRow& row : rows) errors.push_back(std::abs(row.predicted / row.measured - 1));
  return {system.name,
          name_of(operation),
          gpus_in_words(system),
          fmt::format("{}", rows.size()),
          fmt::format("{:.0f} %", 100 * quantile(errors, 0.5)),
          fmt::format("{:.0f} %", 100 * quantile(errors, 0.9)),
          signed_error(rows, none, kSmallCollective),
          signed_error(rows, kSmallCollective, kLargeCollective),
          signed_error(rows, kLargeCollective, all),
          role_of(system)};
}

/// Adds the point to the set of its class, and from 64 MiB on to the class of large sizes too.
void add_to_class(std::vector<PointSet>& sets, const std::string& name, Bytes size, const MeasuredPoint& point) {
  set_called(sets, name).points.push_back(point);
  if (size >= kLargeCollective) set_called(sets, name + ", 64 MiB and more").points.push_back(point);
}

/// Adds the points that are predicted with their source left out of the fit of its network.
void add_left_out(JudgedSystems& judged, const std::vector<MeasuredSystem>& systems) {
  std::map<std::string, std::string> networks, kinds;  // the class of each network, the kind of each system
  std::map<std::string, const NcclNetwork*> fitted;
  for (const MeasuredSystem& system : systems)
    if (system.nodes() > 1 && system.healthy()) {
      kinds[system.name] = collective_kind(*system.cluster, system.nccl->front());
      networks[system.network()] = system.kind;
      fitted[system.network()] = &system.nccl->front().linked().between;
    }
  std::vector<PointSet> sets;
  for (const auto& [network, kind] : networks) {
    const std::vector<NcclSweep> sweeps = network_sweeps(systems, network);
    for (const LeftOutRow& row : left_out_errors(*fitted.at(network), sweeps)) {
      const NcclSweep& sweep = sweeps[row.sweep];
      const auto& [size, time] = sweep.rows[row.row];
      const MeasuredPoint point{fmt::format("{} {} {:.0f}", sweep.system, name_of(sweep.call.operation), size.value),
                                time.value * (1 + row.error), time.value};
      add_to_class(sets, fmt::format("between nodes by {}, left out", kind), size, point);
      judged.errors.push_back({kinds.at(sweep.system), sweep.system, size, std::log1p(row.error)});
    }
  }
  judged.classes.insert(judged.classes.end(), sets.begin(), sets.end());
}

/// A class of machines that planners distinguish, with the limits of its errors.
struct SystemClass {
  const char* name;
  std::vector<const char*> sets;
  ErrorLimits limits, large;  ///< limits for all sizes, and for sizes from 64 MiB on
};

/// Adds the classes, which unite the points of several sets. Their errors are those to expect of a machine of that class
/// that has no measured rows.
void add_classes(JudgedSystems& judged) {
  const std::array<SystemClass, 4> classes{{
      {"class: InfiniBand and RoCE, left out",
       {"between nodes by infiniband, left out", "between nodes by roce, left out"},
       {.median = 0.08, .p90 = 0.27},
       {.median = 0.08}},
      {"class: EFA, TCPX and Slingshot, left out",
       {"between nodes by efa, left out", "between nodes by tcpx, left out", "between nodes by slingshot, left out"},
       {.median = 0.13, .p90 = 0.4},
       {.median = 0.06}},
      {"class: NVLink pairs and meshes, xGMI",
       {"in one node by nvlink", "in one node by xgmi"},
       {.median = 0.1, .p90 = 0.34},
       {.median = 0.02}},
      {"class: PCIe with and without peer to peer",
       {"in one node by pcie"},
       {.median = 0.12, .p90 = 0.29},
       {.median = 0.09}},
  }};
  std::vector<PointSet> pooled;
  for (const SystemClass& system_class : classes)
    for (const char* sizes : {"", ", 64 MiB and more"}) {
      PointSet all{system_class.name + std::string(sizes), *sizes == '\0' ? system_class.limits : system_class.large};
      for (const PointSet& set : judged.classes)
        for (const char* name : system_class.sets)
          if (set.name == name + std::string(sizes))
            all.points.insert(all.points.end(), set.points.begin(), set.points.end());
      if (!all.points.empty()) pooled.push_back(std::move(all));
    }
  judged.classes.insert(judged.classes.end(), pooled.begin(), pooled.end());
}

NcclPanel panel_of(const MeasuredSystem& system, NcclOperation operation, const std::vector<CollectiveRow>& rows) {
  NcclPanel panel{fmt::format("{}, {}", system.name, name_of(operation)), {}};
  for (const CollectiveRow& row : rows)
    panel.points.push_back({{operation, system.gpus, system.nodes(), row.size, row.measured},
                            row.predicted,
                            system.nodes() == 1 || !system.healthy()});
  return panel;
}

std::set<std::string> drawn_systems(const std::string& shown, const std::vector<MeasuredSystem>& systems) {
  std::set<std::string> drawn;
  std::vector<std::string> names;
  for (const MeasuredSystem& system : systems) names.push_back(system.name);
  for (const std::string& name : comma_list(shown)) {
    if (std::ranges::find(names, name) == names.end())
      throw UserError(fmt::format("--systems: unknown system \"{}\"{}", name, hint(name, names)));
    drawn.insert(name);
  }
  return drawn;
}

}  // namespace

PointSet& set_called(std::vector<PointSet>& sets, const std::string& name) {
  const auto found = std::ranges::find(sets, name, &PointSet::name);
  return found == sets.end() ? sets.emplace_back(PointSet{name}) : *found;
}

JudgedSystems judge_systems(const std::string& shown) {
  constexpr std::size_t kLeastDrawn = 8;
  const MeasuredSystems tables = measured_systems();
  const std::set<std::string> drawn = drawn_systems(shown, tables.systems);
  JudgedSystems judged;
  TextTable table{"system", "operation", ">GPUs", ">n", ">median", ">p90", ">to 64 KiB", ">middle", ">from 64 MiB", ""};
  std::vector<NcclPanel> panels;
  int unstated = 0;
  for (const MeasuredSystem& system : tables.systems) {
    if (!system.cluster) {
      ++unstated;
      continue;
    }
    for (const auto& [operation, rows] : sweeps_of(system)) {
      table.rows.push_back(line_of(system, operation, rows));
      if (system.in_network)
        for (const CollectiveRow& row : rows)
          add_to_class(judged.classes, "between nodes with SHARP, in no fit", row.size,
                       point_of(system, row, row.predicted.value));
      if (system.in_network || (system.healthy() && system.nodes() == 1)) {
        const std::string kind = collective_kind(*system.cluster, system.nccl->front());
        for (const CollectiveRow& row : rows)
          judged.errors.push_back({kind, system.name, row.size, std::log(row.predicted / row.measured)});
      }
      if (!system.healthy()) continue;
      PointSet set{fmt::format("{} {}", system.name, name_of(operation))};
      const std::string kind = system.nodes() > 1 ? fmt::format("between nodes by {}", system.kind)
                                                  : fmt::format("in one node by {}", system.kind);
      for (const CollectiveRow& row : rows) {
        const MeasuredPoint point = point_of(system, row, row.predicted.value);
        set.points.push_back(point);
        add_to_class(judged.classes, kind, row.size, point);
      }
      judged.systems.push_back(std::move(set));
      if (rows.size() >= kLeastDrawn && (drawn.empty() || drawn.contains(system.name)))
        panels.push_back(panel_of(system, operation, rows));
    }
  }
  std::ranges::sort(judged.classes, [](const auto& a, const auto& b) { return a.name < b.name; });
  add_left_out(judged, tables.systems);
  add_classes(judged);
  judged.text = "systems between nodes and without NVSwitch, mean signed errors by size\n" + table.text();
  judged.text += fmt::format("{} systems whose source does not state the machine are not judged\n", unstated);
  for (const std::string& row : tables.impossible) judged.text += fmt::format("left out {}\n", row);
  judged.svg =
      nccl_svg_panels("Collectives between nodes and without NVSwitch: bus bandwidth in GB/s against size", panels);
  return judged;
}

}  // namespace trainyard
