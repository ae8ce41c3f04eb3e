#include <fmt/format.h>
#include <cmath>
#include <functional>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/pictures/views.hpp"
#include "strategies/plan/training_plan.hpp"
#include "tools/reports/report.hpp"
#include "tools/reports/report_lines.hpp"
#include "tools/reports/table.hpp"

namespace trainyard {
namespace {

constexpr int kLayersWidth = 11;

using Row = std::function<std::string(std::size_t)>;

/// A table with a row for each stage; neighbouring stages with equal cells share a row ("0-2").
std::string table(const Result& r, const char* label, const std::string& columns, const Row& row) {
  std::string text = fmt::format("{}{:>6}{}\n", report_label(label), "stage", columns);
  for (std::size_t first = 0, next = 0; first < r.stages.size(); first = next) {
    const std::string cells = row(first);
    for (next = first + 1; next < r.stages.size() && row(next) == cells;) ++next;
    const std::string stages = next == first + 1 ? fmt::format("{}", first) : fmt::format("{}-{}", first, next - 1);
    text += fmt::format("{}{:>6}{}\n", report_label(""), stages, cells);
  }
  return text;
}

/// The number of layers of a stage: "12", "12 + E" with the embedding, "2 + E + H" with the head too.
std::string layers_of(const Result::Stage& stage, const TrainingPlan* plan, std::size_t number) {
  int ends = 0;
  std::string marks;
  if (plan && plan->network)
    for (const std::vector<int>& chunk : plan->stages.at(number).chunks)
      for (const int layer : chunk) {
        const std::string& name = plan->network->layers.at(static_cast<std::size_t>(layer)).name;
        const bool embedding = name.ends_with("embedding");
        if (!embedding && name != "head") continue;
        ++ends;
        marks += embedding ? " + E" : " + H";
      }
  return fmt::format("{}{}", stage.layers - ends, marks);
}

std::string times(const Result& r, const Result::Stage& stage, const std::string& layers) {
  const Result::Breakdown& b = stage.breakdown;
  double exposed = 0;
  for (const auto& [group, seconds] : b.exposed_communication) exposed += seconds;
  const PartUnit unit = part_unit(r);
  const std::vector<double> parts =
      rounded_parts({b.compute.value, exposed, b.bubble.value, b.optimizer.value,
                     b.compression.value + b.input.value + b.framework.value + b.other.value},
                    unit.seconds * std::pow(10.0, -unit.decimals));
  const auto part = [&](std::size_t i) { return unit.number(parts[i]); };
  return fmt::format("{:>{}}{:>10}{:>10}{:>10}{:>11}{:>8}{:>8}", layers, kLayersWidth, part(0), part(1), part(2),
                     part(3), part(4), gib(stage.memory.peak.value));
}

std::string parts_of_memory(const Result::Stage& stage) {
  const Result::StageMemory& m = stage.memory;
  return fmt::format("{:>8}{:>12}{:>11}{:>11}{:>13}{:>9}", gib(m.peak.value), gib(m.parameters.value),
                     gib(m.gradients.value), gib(m.optimizer.value), gib(m.activations.value), gib(m.buffers.value));
}

std::string way_in_words(const RouteView& way) {
  if (way.hops.empty()) return "itself";
  return fmt::format("at most {} ({}), latency {}", show(way.rate), way.bottleneck_link, show(way.latency.seconds()));
}

}  // namespace

std::string stage_table(const Result& r, const TrainingPlan* plan) {
  if (r.stages.empty()) return "";
  const auto layers = [&r, plan](std::size_t stage) { return layers_of(r.stages[stage], plan, stage); };
  bool ends = false;
  for (std::size_t stage = 0; stage < r.stages.size(); ++stage)
    ends = ends || layers(stage).find('+') != std::string::npos;
  std::string text = table(r, "by stage",
                           fmt::format("{:>{}}{:>10}{:>10}{:>10}{:>11}{:>8}{:>8}   ({}, GiB{})", "layers", kLayersWidth,
                                       "compute", "exposed", "bubble", "optimizer", "other", "peak", part_unit(r).name,
                                       ends ? "; E: embedding, H: head" : ""),
                           [&](std::size_t stage) { return times(r, r.stages[stage], layers(stage)); });
  if (!r.fits)
    text += table(r, "",
                  fmt::format("{:>8}{:>12}{:>11}{:>11}{:>13}{:>9}   (GiB of its fullest rank)", "peak", "parameters",
                              "gradients", "optimizer", "activations", "buffers"),
                  [&r](std::size_t stage) { return parts_of_memory(r.stages[stage]); });
  return text;
}

std::string capacity_line(const Capacity& capacity) {
  std::vector<std::string> words;
  if (capacity.largest_micro_batch_size == 0)
    words.emplace_back(capacity.counts_packs ? "not even a micro-batch of one pack fits"
                                             : "not even a micro-batch of one sample fits");
  else if (capacity.safe_micro_batch_size == 0)
    words.emplace_back("no micro-batch that divides the samples of the step fits with a risk below 5 %");
  else
    words.push_back(
        fmt::format("largest micro-batch that fits with a risk below 5 %, and divides the samples of the step: {}",
                    capacity.counts_packs ? counted_noun(capacity.safe_micro_batch_size, "pack")
                                          : fmt::format("{}", capacity.safe_micro_batch_size)));
  if (capacity.largest_micro_batch_size > capacity.safe_micro_batch_size)
    words.push_back(fmt::format("with a risk below 50 %: {}{}", capacity.largest_micro_batch_size,
                                capacity.counts_packs ? "" : ", if the step has a multiple of it"));
  if (capacity.largest_num_hidden_layers) {
    const bool billions = capacity.largest_parameters >= 1e9;
    if (*capacity.largest_num_hidden_layers > 0)
      words.push_back(fmt::format(
          "largest model at the given micro-batch, with a risk below 50 %: {} of this kind ({:.4g} {} parameters)",
          counted_noun(*capacity.largest_num_hidden_layers, "layer"),
          capacity.largest_parameters * (billions ? 1e-9 : 1e-6), billions ? "billion" : "million"));
    else
      words.emplace_back("not even one layer fits at the given micro-batch");
  }
  return broken_lines(wrapped(report_label(""), words, ";"));
}

std::string rank_text(const RankView& view) {
  std::string text = fmt::format("rank {} on {}: tensor {}, context {}, data {}, pipeline {}; ", view.place.rank,
                                 view.place.device, view.place.coordinates.tensor, view.place.coordinates.context,
                                 view.place.coordinates.data, view.place.coordinates.pipeline);
  if (!view.unfolded_reason.empty())
    text += "simulated itself\n";
  else if (view.simulated == view.place.rank)
    text += fmt::format("simulated for an equivalence class of {}\n", counted_noun(view.class_size, "rank"));
  else
    text += fmt::format("as rank {}, which is simulated for an equivalence class of {}\n", view.simulated,
                        counted_noun(view.class_size, "rank"));
  TextTable table{"group", ">ranks", "members", ">next", "over"};
  for (const RankView::Group& g : view.groups)
    table.rows.push_back({g.what, fmt::format("{}", g.members.size()), ranks_in_words(g.members),
                          fmt::format("{}", g.next.to), way_in_words(g.next)});
  for (const RouteView& peer : view.peers)
    table.rows.push_back({peer.what, "", "", fmt::format("{}", peer.to), way_in_words(peer)});
  return table.rows.empty() ? text : text + table.text("  ");
}

std::string rank_timeline_text(const RankTimeline& timeline, int rank) {
  constexpr std::size_t kShown = 40;
  TextTable table{">from ms", ">until ms", "stream", ">operations", "what"};
  const std::size_t shown = std::min(kShown, timeline.rows.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const RankTimeline::Row& row = timeline.rows[i];
    table.rows.push_back({fmt::format("{:.3f}", row.begin * 1e3), fmt::format("{:.3f}", row.end * 1e3), row.stream,
                          fmt::format("{}", row.operations), row.what});
  }
  std::string text = table.text("  ");
  if (shown < timeline.rows.size())
    text += fmt::format("  … {} more rows (--trace FILE --trace-ranks {} has every operation)\n",
                        timeline.rows.size() - shown, rank);
  return text;
}

}  // namespace trainyard
