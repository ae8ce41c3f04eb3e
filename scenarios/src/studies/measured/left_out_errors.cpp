#include "scenarios/src/studies/measured/left_out_errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>

#include "models/fitted/measured_table.hpp"
#include "models/fitted/nccl_curves.hpp"
#include "models/hardware/link_fields.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/answer/csv_cell.hpp"
#include "scenarios/src/running/path_resources.hpp"

namespace trainyard {
namespace {

constexpr const char* kTraitNames[] = {"network", "stack", "gpu", "precision"};

std::string kind_of_network(const ModelChoice& model) {
  if (model.entry.cnn()) return "CNNs";
  const TransformerConfig* transformer = model.entry.transformer();
  if (!transformer) return "MLPs";
  if (transformer->lists)
    return transformer->experts.count > 0 ? "listed mixtures of experts" : "networks written as operators";
  std::string kind = transformer->patch_size > 0           ? "vision transformers"
                     : transformer->num_decoder_layers > 0 ? "encoder-decoders"
                     : !transformer->causal                ? "encoders"
                     : transformer->experts.count > 0      ? "mixtures of experts"
                                                           : "dense decoders";
  if (transformer->has_layer(layer_letters::kScan))
    kind = transformer->has_layer(layer_letters::kAttention) ? "hybrid " + kind : "state-space models";
  return model.options.adapters.has_rank() ? "LoRA on " + kind : kind;
}

bool is_transformer(const std::string& kind) { return kind != "CNNs" && kind != "MLPs"; }

bool has_experts(const StepTraits& traits) {
  return trait_of(traits, StepTrait::network).ends_with("mixtures of experts");
}

std::string table_name(const std::string& set) { return fmt::format("scenarios/measured/tables/left_out_{}.csv", set); }

/// Returns the number of kernels that the host launches for a layer in a forward and a backward pass.
double launches_of(const Layer& layer) {
  double launches = 0;
  for (const KernelCall& call : layer.forward) launches += call.work.launches;
  for (const BackwardKernel& call : layer.backward) launches += call.work.launches;
  return launches;
}

bool crosses_switches(const Scenario& s) {
  const NodeType& node = s.cluster.node;
  const int tensor = s.plan.mesh.widest(Axis::tensor);
  return tensor > 1 && (tensor > node.gpus || node.interconnect == "pcie" || node.interconnect == "nvlink-mesh");
}

std::vector<LeftOutStep> read_tables() {
  std::vector<LeftOutStep> all;
  std::vector<std::string> sets(kFittedSets.begin(), kFittedSets.end());
  sets.emplace_back(kUnfittedSet);
  for (const std::string& set : sets) {
    MeasuredTable table(shipped_file(table_name(set)));
    while (table.next()) {
      LeftOutStep& row = all.emplace_back();
      row.set = set;
      row.family = table.text(table.column("family"));
      row.row = table.text(table.column("row"));
      row.source = table.text(table.column("source"));
      StepProfile& profile = row.profile;
      for (std::size_t t = 0; t < profile.traits.size(); ++t)
        profile.traits[t] = table.text(table.column(kTraitNames[t]));
      profile.devices = table.positive(table.column("devices"));
      for (std::size_t part = 0; part < kPathParts.size(); ++part)
        profile.path[part] = table.number(fmt::format("path_{}", kPathParts[part]));
      profile.slow_host = table.number("slow_host");
      profile.wide_tensor = table.text("wide_tensor") == "yes";
      profile.other_vendor = table.text("other_vendor") == "yes";
      if (table.text("unmeasured_part") == "yes") profile.unmeasured_parts.insert("some part");
      profile.experts = has_experts(profile.traits);
      row.fitted = table.number("fitted");
      row.left_out = table.number("left_out");
    }
  }
  return all;
}

/// Returns the time in which a slow host launches the kernels of a rank's micro-batches, s. A kernel takes 50 us and a
/// pass 3 ms, the largest costs of measured stacks.
double slow_host_time(const Scenario& s) {
  constexpr double kKernel = 50e-6, kPass = 3e-3;
  double launches = 0;
  for (const Layer& layer : s.network.layers) launches += s.software.host.cuda_graphs ? 2 : launches_of(layer);
  const double kernels = launches / s.plan.mesh.pipeline * kKernel;
  return s.micro_batches() * (kernels + 2 * kPass);
}

}  // namespace

StepTraits traits_of(const Scenario& s) {
  const std::string& stack = s.software.anchor.stack.empty() ? s.software.name : s.software.anchor.stack;
  return {kind_of_network(s.model), stack, s.cluster.node.gpu.name, s.precision_word()};
}

bool is_announced(const Gpu& gpu) {
  return std::ranges::any_of(gpu.sources,
                             [](const FigureSource& figure) { return figure.source.starts_with("announced"); });
}

PartShares path_shares(const Scenario& s, const Result& r) {
  PartShares shares{};
  const double step = r.step_time.value;
  if (step <= 0) return shares;
  const PathPart exchange = s.cluster.nodes > 1 ? PathPart::network : PathPart::node;
  const auto add = [&](PathPart part, double seconds) { shares[static_cast<std::size_t>(part)] += seconds / step; };
  for (const auto& [resource, seconds] : r.critical_path) {
    const auto kinds = all_link_kinds();
    const auto kind = std::ranges::find_if(kinds, [&](LinkKind k) { return resource == name_of(k); });
    if (resource == kMemoryName)
      add(PathPart::memory, seconds);
    else if (resource == kLibraryStart)
      add(PathPart::node, seconds);
    else if (resource == kSlowdownName || resource == kLatencyName ||
             (kind != kinds.end() && words_of(*kind).scope == LinkScope::fabric))
      add(exchange, seconds);
    else if (kind != kinds.end())
      add(PathPart::node, seconds);
  }
  if (r.critical_path.empty()) {
    add(exchange, r.breakdown.joining.value);
    for (const auto& [group, seconds] : r.breakdown.exposed_communication) add(exchange, seconds);
  }
  return shares;
}

StepProfile profile_of(const Scenario& s, double step_time) {
  const Gpu& gpu = s.cluster.node.gpu;
  const PlanChoice& plan = s.plan;
  StepProfile profile;
  profile.traits = traits_of(s);
  profile.devices = s.ranks();
  profile.slow_host = slow_host_time(s) / step_time;
  profile.other_vendor = !runs_nccl(gpu);
  const Fp8Scaling scaling = s.software.fp8_scaling;
  const auto add_part = [&profile](bool is_part, const std::string& words) {
    if (is_part) profile.unmeasured_parts.insert(words);
  };
  add_part(plan.mechanism_name != kAllReduce, plan.mechanism_name);
  add_part(plan.compression != nullptr, "compression");
  add_part(plan.offload.copies(), "offload");
  add_part(!s.cluster.others.empty(), "unlike nodes");
  add_part(is_announced(gpu), "announced chip");
  add_part(s.fp8 && scaling == Fp8Scaling::mxfp4, "mxfp4");
  add_part(s.fp8 && scaling == Fp8Scaling::mxfp6, "mxfp6");
  profile.experts = has_experts(profile.traits);
  profile.wide_tensor = crosses_switches(s);
  return profile;
}

StepProfile profile_of(const Scenario& s, const Result& r) {
  StepProfile profile = profile_of(s, r.step_time.value);
  profile.path = path_shares(s, r);
  return profile;
}

std::string left_out_csv(const std::string& set, const std::vector<LeftOutStep>& all) {
  std::string text = fmt::format(
      "# Errors of step times of measured runs, as ln(predicted / measured): fitted is that by the catalog's "
      "constants, left_out\n# that by constants that were fitted without the family. path_: shares of the critical "
      "path "
      "by the\n# catalog's constants; slow_host: time of a slow host as a multiple of the step.\n# Repeat: trainyard "
      "validate {} --left-out --csv FILE\n"
      "family,row,source,{},devices,path_{},slow_host,other_vendor,unmeasured_part,wide_tensor,fitted,left_out\n",
      set, fmt::join(kTraitNames, ","), fmt::join(kPathParts, ",path_"));
  for (const LeftOutStep& row : all) {
    text += fmt::format("{},{},{}", csv_cell(row.family), csv_cell(row.row), csv_cell(row.source));
    for (const std::string& trait : row.profile.traits) text += "," + csv_cell(trait);
    const StepProfile& profile = row.profile;
    text += fmt::format(",{:.0f}", profile.devices);
    for (const double share : profile.path) text += fmt::format(",{:.3f}", share);
    text += fmt::format(",{:.3f}", profile.slow_host);
    for (const bool is_so : {profile.other_vendor, !profile.unmeasured_parts.empty(), profile.wide_tensor})
      text += is_so ? ",yes" : ",no";
    text += fmt::format(",{:.4f},{:.4f}\n", row.fitted, row.left_out);
  }
  return text;
}

const std::vector<LeftOutStep>& kept_left_out_steps() {
  static const std::vector<LeftOutStep> rows = read_tables();
  return rows;
}

std::vector<LeftOutErrors> errors_by_traits(const std::vector<LeftOutStep>& rows) {
  std::map<std::tuple<std::string, std::string, StepTraits>, LeftOutErrors> groups;
  for (const LeftOutStep& row : rows) {
    LeftOutErrors& errors = groups[{row.set, row.family, row.profile.traits}];
    const double error = std::abs(std::expm1(row.left_out));
    ++errors.steps;
    errors.fitted += std::abs(std::expm1(row.fitted));
    errors.left_out += error;
    errors.worst = std::max(errors.worst, error);
  }
  std::vector<LeftOutErrors> all;
  for (auto& [key, errors] : groups) {
    std::tie(errors.set, errors.family, errors.traits) = key;
    errors.fitted /= errors.steps;
    errors.left_out /= errors.steps;
    all.push_back(errors);
  }
  return all;
}

NearestSteps nearest_steps(const StepTraits& traits, const std::vector<LeftOutErrors>& all) {
  constexpr auto kNetwork = static_cast<std::size_t>(StepTrait::network);
  constexpr auto kStack = static_cast<std::size_t>(StepTrait::stack), kGpu = static_cast<std::size_t>(StepTrait::gpu);
  NearestSteps nearest;
  std::pair<long, std::array<bool, kStepTraits>> best{0, {}};
  for (const LeftOutErrors& errors : all) {
    std::array<bool, kStepTraits> shared{};
    for (std::size_t t = 0; t < traits.size(); ++t) {
      shared[t] = errors.traits[t] == traits[t];
      nearest.seen[t] |= shared[t];
    }
    const bool comparable =
        shared[kNetwork] || (is_transformer(traits[kNetwork]) && is_transformer(errors.traits[kNetwork]));
    if (!comparable || !(shared[kStack] || shared[kGpu])) continue;
    // Among steps with equally many shared traits, the nearest share the network, or else the stack, or else the GPU.
    const std::pair rank{static_cast<long>(std::ranges::count(shared, true)), shared};
    if (rank < best) continue;
    if (rank > best) nearest.errors.clear();
    best = rank;
    nearest.errors.push_back(errors);
  }
  nearest.shared = best.second;
  return nearest;
}

}  // namespace trainyard
