#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/pictures/chart.hpp"
#include "scenarios/src/reading/training_length.hpp"
#include "scenarios/src/studies/batch_study.hpp"
#include "scenarios/src/studies/layer_costs.hpp"
#include "tools/reports/report.hpp"
#include "tools/reports/report_lines.hpp"
#include "tools/reports/show_network.hpp"
#include "tools/reports/table.hpp"

namespace trainyard {
namespace {

/// Layers of one kind with equal costs. Layers of other kinds may lie between them, as in hybrids.
struct LayerGroup {
  std::string name, kind;
  int count = 0;
  std::size_t first = 0, last = 0;       ///< indices of layers
  KernelTotals forward, backward, both;  ///< costs of one layer
};

/// The name of a layer without its number: "mamba" of "mamba 12".
std::string kind_of_layer(const std::string& name) { return name.substr(0, name.find_last_not_of(" 0123456789") + 1); }

/// Groups in the order of their first layers. A comma in a name says that other layers lie between its ends.
std::vector<LayerGroup> groups_of(const std::vector<LayerCost>& layers) {
  std::vector<LayerGroup> groups;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string kind = kind_of_layer(layers[i].name);
    const auto group = std::ranges::find_if(
        groups, [&](const LayerGroup& g) { return g.kind == kind && layers[g.first].same_cost(layers[i]); });
    if (group == groups.end()) {
      groups.push_back({layers[i].name, kind, 1, i, i, layers[i].forward, layers[i].backward, layers[i].both_passes()});
      continue;
    }
    ++group->count;
    group->last = i;
  }
  for (LayerGroup& group : groups) {
    if (group.count == 1) continue;
    const bool side_by_side = group.last - group.first + 1 == static_cast<std::size_t>(group.count);
    group.name += fmt::format("{} … {}", side_by_side ? "" : ",", layers[group.last].name);
  }
  return groups;
}

/// The share of the step that all layers of a group take in all micro-batches.
double share_of(const LayerGroup& group, const LayerCosts& costs, const Result& r) {
  return group.both.time.value * group.count * costs.micro_batches / r.breakdown.step_time.value;
}

/// The time that concurrent communication adds to the kernels.
Seconds slowed(const LayerCosts& costs, const Result& r) { return r.breakdown.compute - costs.step(); }

/// "memory", or "memory 59 %" if less than nearly all of the time is bound by it.
std::string bound_in_words(const KernelTotals& totals) {
  constexpr double kNearlyAll = 0.95;
  const char* bound = name_of(totals.bound());
  return totals.bound_share() > kNearlyAll ? bound : fmt::format("{} {}", bound, percent(totals.bound_share(), 0));
}

/// The kernels of all layers by their kind: what a convolution takes beside a matrix product.
std::string kinds_text(const LayerCosts& costs, const Result& r) {
  TextTable table{"kernels", ">time", ">FLOPs", ">bytes", ">FLOP/byte", "bound", ">of the step"};
  for (std::size_t kind = 0; kind < costs.kinds.size(); ++kind) {
    const KernelTotals& k = costs.kinds[kind];
    if (k.time > Seconds{0})
      table.rows.push_back({name_of(static_cast<Kernel>(kind)), show(k.time), show_flops(k.flops), show(k.bytes),
                            fmt::format("{:.4g}", k.flops_per_byte()), bound_in_words(k),
                            percent(k.time.value * costs.micro_batches / r.breakdown.step_time.value)});
  }
  return table.text("  ");
}

std::string head_text(const Scenario& s, const LayerCosts& costs) {
  return fmt::format(
      "layers of {} on {}, one micro-batch of {} in {}\n"
      "ridge {:.4g} FLOP/byte ({} over {}; {:.4g} at the rates that large matrix products reach)\n",
      s.network.name, costs.gpu, counted_noun(s.micro_batch_size, "sample"), s.precision_title(), costs.ridge,
      show(costs.peak), show(costs.memory_bandwidth), costs.product_ridge);
}

std::string sum_text(const Scenario& s, const LayerCosts& costs, const Result& r) {
  const auto line = [&r](const std::string& what, Seconds time) {
    return fmt::format("  {:<58} {:>10} {:>8}\n", what, show(time), percent(time.value / r.breakdown.step_time.value));
  };
  std::string text =
      line(fmt::format("layers, {} micro-batch{}", costs.micro_batches, costs.micro_batches == 1 ? "" : "es"),
           costs.micro_batch.time * costs.micro_batches);
  if (costs.accumulation.value > 0)
    text += line("adding gradients to those of earlier micro-batches", costs.accumulation);
  if (costs.bucket_copies.value > 0) text += line("gradients into buckets and back", costs.bucket_copies);
  if (std::abs(slowed(costs, r).value) > 1e-9 * r.breakdown.step_time.value)
    text += line(!s.slow.stragglers.empty()      ? "stragglers, and communication on the same GPU"
                 : slowed(costs, r) < Seconds{0} ? "the rest of the compute"
                                                 : "slowed by communication on the same GPU",
                 slowed(costs, r));
  text += line(fmt::format("compute of the step, as simulated (rank {})", r.breakdown.rank), r.breakdown.compute);
  const Seconds dispatch = costs.micro_batch.dispatch * costs.micro_batches;
  if (dispatch.value > 0) text += line("  of it, kernels that the framework issues too slowly", dispatch);
  return text;
}

}  // namespace

std::string layer_costs_text(const Scenario& s, const LayerCosts& costs, const Result& r) {
  TextTable table{"layer", ">×", ">forward", ">backward", ">FLOPs", ">bytes", ">FLOP/byte", "bound", ">of the step"};
  const auto row = [&table](const std::string& name, const std::string& count, const KernelTotals& forward,
                            const KernelTotals& backward, const KernelTotals& both, double share) {
    table.rows.push_back({name, count, show(forward.time), show(backward.time), show_flops(both.flops),
                          show(both.bytes), fmt::format("{:.4g}", both.flops_per_byte()), bound_in_words(both),
                          percent(share)});
  };
  KernelTotals forward, backward;
  for (const LayerCost& layer : costs.layers) {
    forward += layer.forward;
    backward += layer.backward;
  }
  const std::vector<LayerGroup> groups = groups_of(costs.layers);
  for (const LayerGroup& group : groups)
    row(group.name, group.count == 1 ? "" : fmt::format("× {}", group.count), group.forward, group.backward, group.both,
        share_of(group, costs, r));
  row("all layers", "", forward, backward, costs.micro_batch,
      costs.micro_batch.time.value * costs.micro_batches / r.breakdown.step_time.value);
  const bool mixed =
      std::ranges::any_of(groups, [](const LayerGroup& g) { return g.name.find(", … ") != g.name.npos; });
  return head_text(s, costs) + table.text("  ") + (mixed ? "  a comma: layers of other costs lie between\n" : "") +
         "\n" + kinds_text(costs, r) + "\n" + sum_text(s, costs, r);
}

nlohmann::ordered_json layer_costs_json(const LayerCosts& costs, const Result& r) {
  auto layers = nlohmann::ordered_json::array();
  for (const LayerGroup& group : groups_of(costs.layers))
    layers.push_back({{"layer", group.name},
                      {"count", group.count},
                      {"forward_s", group.forward.time.value},
                      {"backward_s", group.backward.time.value},
                      {"forward_FLOPs", group.forward.flops.value},
                      {"backward_FLOPs", group.backward.flops.value},
                      {"bytes", group.both.bytes.value},
                      {"FLOP_per_byte", group.both.flops_per_byte()},
                      {"bound", name_of(group.both.bound())},
                      {"bound_share", group.both.bound_share()},
                      {"share", share_of(group, costs, r)}});
  auto kinds = nlohmann::ordered_json::array();
  for (std::size_t kind = 0; kind < costs.kinds.size(); ++kind)
    if (const KernelTotals& k = costs.kinds[kind]; k.time > Seconds{0})
      kinds.push_back({{"kernels", name_of(static_cast<Kernel>(kind))},
                       {"time_s", k.time.value},
                       {"FLOPs", k.flops.value},
                       {"bytes", k.bytes.value},
                       {"FLOP_per_byte", k.flops_per_byte()},
                       {"bound", name_of(k.bound())},
                       {"bound_share", k.bound_share()},
                       {"share", k.time.value * costs.micro_batches / r.breakdown.step_time.value}});
  return {{"gpu", costs.gpu},
          {"ridge_FLOP_per_byte", costs.ridge},
          {"product_ridge_FLOP_per_byte", costs.product_ridge},
          {"micro_batches", costs.micro_batches},
          {"layers", layers},
          {"kernels", kinds},
          {"layers_s", costs.micro_batch.time.value * costs.micro_batches},
          {"accumulation_s", costs.accumulation.value},
          {"bucket_copies_s", costs.bucket_copies.value},
          {"slowed_by_communication_s", slowed(costs, r).value},
          {"framework_dispatch_s", costs.micro_batch.dispatch.value * costs.micro_batches},
          {"compute_s", r.breakdown.compute.value},
          {"step_time_s", r.breakdown.step_time.value}};
}

std::string batch_report(const Scenario& s, const BatchStudy& study) {
  std::string text = fmt::format(
      "{}: the time to the target against the batch, on {}\n"
      "steps by the noise scale: {:.4g} (1 + {:.4g} / batch){}; beyond the noise scale (the critical batch) a larger\n"
      "batch saves few steps and costs many samples (McCandlish et al. 2018)\n",
      s.name, counted_noun(s.ranks(), "GPU"), study.model.least, study.model.noise,
      study.measured ? fmt::format(", measured by the learner at batch {}", s.global_batch_size) : ", as given");
  TextTable table{">batch", ">a step", ">steps", ">samples", ">time", ""};
  if (study.measured) {
    for (const char* title : {"learner's steps", "its time"}) table.add_column(title);
    table.add_column("", false);
  }
  if (study.published) table.add_column("published error");
  for (const BatchPoint& p : study.points) {
    std::vector<std::string> row{fmt::format("{:.0f}", p.batch)};
    if (p.error.empty()) {
      row.push_back(show(Seconds{p.step_time}));
      row.push_back(count_text(p.steps));
      row.push_back(count_text(p.steps * p.batch));
      row.push_back(long_time(Seconds{p.time()}));
      row.emplace_back(&p == study.fastest() ? "fastest" : "");
      if (study.measured) {
        row.push_back(p.learned            ? count_text(*p.learned)
                      : p.diverged_at >= 0 ? fmt::format("diverged at {:.0f}", p.diverged_at)
                                           : "not reached");
        row.push_back(p.learned ? long_time(Seconds{p.learned_time()}) : "-");
        row.emplace_back(&p == study.fastest_learned() ? "fastest" : "");
      }
      if (study.published) {
        const std::optional<double> error = study.published->error_percent(p.batch);
        row.push_back(error ? fmt::format("{:.1f} %", *error) : "-");
      }
    } else {
      row.push_back(p.error);
    }
    row.resize(table.head.size());
    table.rows.push_back(std::move(row));
  }
  text += table.text("  ");
  if (study.published)
    text += fmt::format(
        "published error: a curve fitted to {} points of batches {:.0f} to {:.0f} (at most {:.1f} points off), no "
        "prediction of this training, and no figure beyond these batches:\n  {}\n",
        study.published->points.size(), study.published->range().first, study.published->range().second,
        study.published->worst(), study.published->source);
  const bool diverged = std::ranges::any_of(study.points, [](const BatchPoint& p) { return p.diverged_at >= 0; });
  if (diverged) text += scaling_advice(s);
  return text;
}

std::string batch_svg(const Scenario& s, const BatchStudy& study) {
  ChartSheet sheet{.title = s.name + ": what a larger batch costs",
                   .note = "batches logarithmic; squares: simulated, or published",
                   .description = "Time to the target and published validation error against the global batch",
                   .columns = 2,
                   .width = 352,
                   .legend = {{series_color(0), "steps by the noise scale"}}};
  const auto seconds = [](double v) { return show(Seconds{v}); };
  Chart time{"time to the target against batch", ChartAxis(ChartAxis::Scale::log2), ChartAxis(ChartAxis::Scale::log10),
             short_number, seconds};
  ChartSeries computed{series_color(0)}, learned{series_color(1)};
  for (const BatchPoint& p : study.points) {
    if (!p.error.empty()) continue;
    computed.points.push_back({p.batch, p.time(), "", true});
    if (p.learned) learned.points.push_back({p.batch, p.learned_time(), "", true});
  }
  time.series.push_back(std::move(computed));
  if (!learned.points.empty()) {
    sheet.legend.push_back({series_color(1), "steps of the learner"});
    time.series.push_back(std::move(learned));
  }
  std::vector<Chart> charts{std::move(time)};
  if (study.published) {
    sheet.legend.push_back({series_color(2), "published errors, and the curve fitted to them"});
    Chart error{"top-1 validation error in % against batch", ChartAxis(ChartAxis::Scale::log2)};
    ChartSeries curve{series_color(2)}, measured{.color = series_color(2), .line = false};
    const auto [least, most] = study.published->range();
    constexpr int kPieces = 64;
    for (int i = 0; i <= kPieces; ++i) {
      const double batch = std::clamp(least * std::pow(most / least, i / double{kPieces}), least, most);
      curve.points.push_back({batch, *study.published->error_percent(batch)});
    }
    for (const auto& [batch, percent] : study.published->points)
      measured.points.push_back({batch, percent, fmt::format("{:.1f}", percent), true});
    error.series = {std::move(curve), std::move(measured)};
    charts.push_back(std::move(error));
  }
  return charts_svg(sheet, std::move(charts));
}

namespace {

std::vector<FieldRow> layer_cost_json_rows() {
  return {{"gpu", "text", "name of the GPU", ""},
          {"ridge_FLOP_per_byte", "FLOP/byte", "intensity at which peak and memory bandwidth bound equally", ""},
          {"product_ridge_FLOP_per_byte", "FLOP/byte",
           "intensity at which they do so by the efficiencies of matrix products", ""},
          {"micro_batches", "number", "number of micro-batches of a step", ""},
          {"layers", "list", "layers of the stage; equal neighbours share a row", ""},
          {"layers[].layer", "text", "name of the layer or layers", ""},
          {"layers[].count", "number", "number of layers in the row", ""},
          {"layers[].forward_s", "s", "time of the forward pass of a micro-batch", ""},
          {"layers[].backward_s", "s", "time of the backward pass of a micro-batch", ""},
          {"layers[].forward_FLOPs", "FLOP", "operations of the forward pass", ""},
          {"layers[].backward_FLOPs", "FLOP", "operations of the backward pass", ""},
          {"layers[].bytes", "bytes", "bytes that both passes read and write", ""},
          {"layers[].FLOP_per_byte", "FLOP/byte", "intensity of both passes", ""},
          {"layers[].bound", "text", "what bounds most of the time", ""},
          {"layers[].bound_share", "share", "share of the time that it bounds", ""},
          {"layers[].share", "share", "share of the step time, over all micro-batches", ""},
          {"kernels", "list", "kinds of kernels of a micro-batch", ""},
          {"kernels[].kernels", "text", "name of the kind", ""},
          {"kernels[].time_s", "s", "time of these kernels", ""},
          {"kernels[].FLOPs", "FLOP", "operations of these kernels", ""},
          {"kernels[].bytes", "bytes", "bytes that these kernels read and write", ""},
          {"kernels[].FLOP_per_byte", "FLOP/byte", "intensity of these kernels", ""},
          {"kernels[].bound", "text", "what bounds most of the time", ""},
          {"kernels[].bound_share", "share", "share of the time that it bounds", ""},
          {"kernels[].share", "share", "share of the step time, over all micro-batches", ""},
          {"layers_s", "s", "time of all layers over all micro-batches", ""},
          {"accumulation_s", "s", "time to add up the gradients of micro-batches", ""},
          {"bucket_copies_s", "s", "time to copy gradients into buckets", ""},
          {"slowed_by_communication_s", "s", "what exchanges beside the kernels add to them", ""},
          {"framework_dispatch_s", "s", "host time of the kernels of all micro-batches", ""},
          {"compute_s", "s", "compute in the breakdown of the step", ""},
          {"step_time_s", "s", "time of the step", ""}};
}
const RegisterJsonReference layer_costs_json_reference{"explain --layers", "time, FLOPs and bytes of each layer",
                                                       layer_cost_json_rows};

}  // namespace

}  // namespace trainyard
