#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "models/fitted/measured_table.hpp"
#include "models/fitted/nccl_between.hpp"
#include "models/fitted/nccl_cost.hpp"
#include "models/fitted/nccl_fit.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/studies/measured/collective_doubt.hpp"
#include "tools/verbs/validation/validate_systems.hpp"
#include "tools/verbs/validation/validation.hpp"

namespace trainyard {
namespace {

constexpr ErrorLimits kTableLimits{.median = 0.04, .p90 = 0.15}, kSystemLimits{.median = 0.10};

/// The catalog's GPU for a name in the tables. Throws UserError if there is none.
Gpu table_gpu(const std::string& table_name) {
  static const std::map<std::string, std::string> names{{"a100_sxm", "a100-sxm4-80gb"}, {"h100_sxm", "h100-sxm5-80gb"},
                                                        {"b200_sxm", "b200-sxm-180gb"}, {"A100", "a100-sxm4-80gb"},
                                                        {"A100-SXM", "a100-sxm4-80gb"}, {"H100-SXM", "h100-sxm5-80gb"},
                                                        {"B200-SXM", "b200-sxm-180gb"}, {"MI300X", "mi300x"}};
  const auto found = names.find(table_name);
  if (found == names.end())
    throw UserError(fmt::format("measured rows of gpu \"{}\", which the catalog lacks", table_name));
  return read_gpu(Catalog().resolve("gpu", Node::scalar_node(found->second)));
}

MeasuredPoint point_of(const NcclModel& model, const NcclCall& call, Seconds measured, const std::string& where) {
  const std::string id = fmt::format("{} {} {} {:.0f}", where, name_of(call.operation), call.gpus, call.size.value);
  return {id, nccl_cost(model, call).time.value, measured.value};
}

double log_error(const MeasuredPoint& point) { return std::log(point.predicted / point.measured); }

/// The sizes of nccl.csv that no fit uses, predicted by each GPU's own fit, and by the fit of another generation, as for
/// a GPU without a fit.
std::vector<PointSet> table_sets(std::vector<CollectiveError>& errors) {
  std::vector<PointSet> own, borrowed;
  PointSet pooled{"nccl pooled", kTableLimits};
  const std::vector<NcclLog> logs = read_nccl_logs(shipped_file("scenarios/measured/tables/nccl.csv"), {});
  const Catalog catalog;
  for (const NcclLog& log : logs) {
    const Gpu gpu = table_gpu(log.gpu);
    const std::string neighbour = log.gpu == "h100_sxm" ? "a100_sxm" : "h100_sxm";
    const NcclModel model = nccl_model_for(gpu, catalog);
    const NcclModel other = nccl_scaled(nccl_model_for(table_gpu(neighbour), catalog), gpu);
    own.push_back({"nccl " + log.gpu, kTableLimits});
    borrowed.push_back({fmt::format("nccl {} scaled from {}", log.gpu, neighbour)});
    for (const NcclRow& row : log.rows) {
      if (nccl_size_is_fitted(row.size)) continue;
      const NcclCall call{row.operation, row.size, row.gpus};
      own.back().points.push_back(point_of(model, call, row.time, log.gpu));
      borrowed.back().points.push_back(point_of(other, call, row.time, log.gpu));
      errors.push_back({kScaledGpus, borrowed.back().name, row.size, log_error(borrowed.back().points.back())});
    }
    pooled.points.insert(pooled.points.end(), own.back().points.begin(), own.back().points.end());
  }
  own.push_back(std::move(pooled));
  own.insert(own.end(), std::make_move_iterator(borrowed.begin()), std::make_move_iterator(borrowed.end()));
  return own;
}

/// The rate that a node sends, each way, from words such as "8 x 400 Gbps EFA v4 per node (AWS p6-b200)".
BytesPerSecond network_of(const MeasuredTable& table, const std::string& words) {
  int adapters = 0;
  double gigabits = 0;
  if (std::sscanf(words.c_str(), "%d x %lf Gbps", &adapters, &gigabits) != 2)
    table.refuse(fmt::format("inter_net: \"{}\": expected such as \"8 x 400 Gbps …\"", words));
  return BytesPerSecond{adapters * gigabits * 1e9 / 8};
}

/// All sizes of collectives.csv, published runs of nccl-tests, by system, within nodes and between them. No fit within a
/// node uses them.
std::vector<PointSet> system_sets(std::vector<CollectiveError>& errors) {
  MeasuredTable table(shipped_file("scenarios/measured/tables/collectives.csv"));
  const auto column = [&](const char* name) { return table.column(name); };
  const std::size_t source = column("source"), gpu = column("gpu"), operation = column("collective"),
                    gpus = column("n_gpus"), nodes = column("nodes"), algorithm = column("algo"),
                    placement = column("placement"), network = column("inter_net"), size = column("size_bytes"),
                    time = column("time_us");
  std::vector<PointSet> sets{{"collectives in one node", kSystemLimits}, {"collectives between nodes (in the fit)"}};
  std::map<std::string, NcclModel> models;
  while (table.next()) {
    const std::string& gpu_name = table.text(gpu);
    if (!models.contains(gpu_name))
      models.emplace(gpu_name, nccl_model_for(table_gpu(gpu_name), Catalog(), "efa-b200"));
    NcclCall call;
    call.operation = parse_nccl_operation(table.text(operation));
    call.size = Bytes{table.positive(size)};
    call.gpus = static_cast<int>(table.positive(gpus));
    call.nodes = static_cast<int>(table.positive(nodes));
    call.in_switch = table.text(algorithm).find("NCCL_NVLS_ENABLE=0") == std::string::npos;
    if (call.nodes > 1) call.network = network_of(table, table.text(network));
    const MeasuredPoint point = point_of(models.at(gpu_name), call, Seconds{table.positive(time) * 1e-6},
                                         fmt::format("{} {} {}", table.text(source), gpu_name, table.text(placement)));
    sets[call.nodes > 1 ? 1 : 0].points.push_back(point);
    if (call.nodes > 1) continue;
    PointSet& system = set_called(sets, fmt::format("of {}, {}", table.text(source), gpu_name));
    system.part = true;
    system.points.push_back(point);
    const bool rccl = uses_rccl(table_gpu(gpu_name).architecture);
    errors.push_back({rccl ? kLinkedGpus : kFittedGpus, system.name, call.size, log_error(point)});
  }
  std::rotate(sets.begin() + 1, sets.begin() + 2, sets.end());  // systems follow their sum; "between nodes" is last
  return sets;
}

/// The intervals of `bench` against the measured times, by kind of machine.
std::string coverage_text(const std::vector<CollectiveCoverage>& kinds) {
  TextTable table{"kind of machine", ">rows", ">systems", ">in 80 %", ">below 64 KiB", ">below 64 MiB", ">from 64 MiB"};
  for (const CollectiveCoverage& kind : kinds) {
    std::vector<std::string> cells{kind.kind, fmt::format("{}", kind.rows), fmt::format("{}", kind.systems),
                                   fmt::format("{:.0f} / {:.0f}", kind.by_rows * 100, kind.by_systems * 100)};
    for (const double half : kind.half) cells.push_back(half > 0 ? fmt::format("±{:.0f} %", half * 100) : "");
    table.rows.push_back(std::move(cells));
  }
  return "80 % intervals of the times that bench prints, by kind of machine and size; how many rows they hold of a\n"
         "system that they do not know (per cent of the rows / mean over the systems)\n" +
         table.text();
}

}  // namespace

std::vector<CollectiveError> collective_errors() {
  std::vector<CollectiveError> errors = judge_systems().errors;
  table_sets(errors);
  system_sets(errors);
  return errors;
}

int validate_collectives(const ValidationRequest& request) {
  JudgedSystems systems = judge_systems(request.systems);
  std::vector<JudgedSet> sets;
  const auto add = [&sets](const std::vector<PointSet>& more) {
    for (const PointSet& set : more) {
      JudgedSet& judged_set = sets.emplace_back(judge_set(error_set(set.name, set.points), set.limits));
      judged_set.part = set.part;
      judged_set.says_limits = true;
    }
  };
  add(table_sets(systems.errors));
  add(system_sets(systems.errors));
  add(systems.classes);
  const std::string text = fmt::format(
      "time of collectives by the fitted NCCL model; nccl: sizes with an odd log2, held out of the fits\n{}\n{}\n{}",
      error_table(sets, {"median", "p90", "worst", "signed mean"}, "reported"), systems.text,
      coverage_text(cover_each_system(systems.errors)));
  add(systems.systems);
  if (!request.csv.empty()) write_atomically(request.csv, CollectiveDoubt::fit(systems.errors).csv());
  if (!request.svg.empty()) write_atomically(request.svg, systems.svg);
  return report(request, "Measured collectives", text, sets);
}

}  // namespace trainyard
