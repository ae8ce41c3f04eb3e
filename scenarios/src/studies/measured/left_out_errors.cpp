#include "scenarios/src/studies/measured/left_out_errors.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/fitted/measured_table.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/answer/csv_cell.hpp"

namespace trainyard {
namespace {

constexpr const char* kSets[] = {"training", "training-2026", "mlperf", "mlperf-v6"};
constexpr const char* kTraitNames[] = {"network", "stack", "gpu", "precision"};

std::string kind_of_network(const ModelChoice& model) {
  if (model.entry.cnn()) return "CNNs";
  const TransformerConfig* transformer = model.entry.transformer();
  if (!transformer) return "MLPs";
  std::string kind = transformer->patch_size > 0           ? "vision transformers"
                     : transformer->num_decoder_layers > 0 ? "encoder-decoders"
                     : !transformer->causal                ? "encoders"
                     : transformer->experts.count > 0      ? "mixtures of experts"
                                                           : "dense decoders";
  return model.options.adapters.any() ? "LoRA on " + kind : kind;
}

bool is_transformer(const std::string& kind) { return kind != "CNNs" && kind != "MLPs"; }

std::string table_name(const std::string& set) { return fmt::format("scenarios/measured/tables/left_out_{}.csv", set); }

double share_in(const MeasuredTable& table, std::size_t column) {
  try {
    std::size_t read = 0;
    const double share = std::stod(table.text(column), &read);
    if (read == table.text(column).size() && share >= 0) return share;
  } catch (const std::exception&) {  // the error is thrown below
  }
  table.refuse("a share from 0 expected", column);
}

}  // namespace

StepTraits traits_of(const Scenario& s) {
  return {kind_of_network(s.model), s.software.name, s.cluster.node.gpu.name, name_of(s.multiplied_in())};
}

std::string left_out_csv(const std::string& set, const std::vector<LeftOutErrors>& all) {
  std::string text = fmt::format(
      "# Errors of step times of families of measured runs, as shares: fitted is the mean by the catalog's constants, "
      "left_out and worst\n# are mean and largest by constants that were fitted without the family. Repeat: trainyard "
      "validate {} --left-out --csv FILE\nfamily,{},steps,fitted,left_out,worst\n",
      set, fmt::join(kTraitNames, ","));
  for (const LeftOutErrors& e : all) {
    text += csv_cell(e.family);
    for (const std::string& trait : e.traits) text += "," + csv_cell(trait);
    text += fmt::format(",{},{:.4f},{:.4f},{:.4f}\n", e.steps, e.fitted, e.left_out, e.worst);
  }
  return text;
}

std::vector<LeftOutErrors> kept_left_out_errors() {
  std::vector<LeftOutErrors> all;
  for (const std::string set : kSets) {
    MeasuredTable table(shipped_file(table_name(set)));
    while (table.next()) {
      LeftOutErrors& errors = all.emplace_back();
      errors.set = set;
      errors.family = table.text(table.column("family"));
      for (std::size_t t = 0; t < errors.traits.size(); ++t)
        errors.traits[t] = table.text(table.column(kTraitNames[t]));
      errors.steps = static_cast<int>(table.positive(table.column("steps")));
      errors.fitted = share_in(table, table.column("fitted"));
      errors.left_out = share_in(table, table.column("left_out"));
      errors.worst = share_in(table, table.column("worst"));
    }
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
    // With equally many shared traits, the kind of network counts most, then the stack: the order of the array.
    const std::pair near{static_cast<long>(std::count(shared.begin(), shared.end(), true)), shared};
    if (near < best) continue;
    if (near > best) nearest.errors.clear();
    best = near;
    nearest.errors.push_back(errors);
  }
  nearest.shared = best.second;
  return nearest;
}

}  // namespace trainyard
