#include "tools/reports/stage_table.hpp"

#include <fmt/format.h>

#include <functional>

#include "tools/reports/report_lines.hpp"

namespace trainyard {
namespace {

using Row = std::function<std::string(const Result::Stage&)>;

/// "by stage     0-2 ..."
std::string table(const Result& r, const char* label, const std::string& columns, const Row& row) {
  std::string text = fmt::format("{}{:>6}{}\n", report_label(label), "stage", columns);
  for (std::size_t first = 0, next = 0; first < r.stages.size(); first = next) {
    const std::string cells = row(r.stages[first]);
    for (next = first + 1; next < r.stages.size() && row(r.stages[next]) == cells;) ++next;
    const std::string stages = next == first + 1 ? fmt::format("{}", first) : fmt::format("{}-{}", first, next - 1);
    text += fmt::format("{}{:>6}{}\n", report_label(""), stages, cells);
  }
  return text;
}

std::string times(const Result& r, const Result::Stage& stage) {
  const Result::Breakdown& b = stage.breakdown;
  double exposed = 0;
  for (const auto& [group, seconds] : b.exposed_communication) exposed += seconds;
  const auto part = [&r](double seconds) { return part_of(r, seconds); };
  return fmt::format("{:>8}{:>10}{:>10}{:>10}{:>11}{:>8}{:>8}", stage.layers, part(b.compute), part(exposed),
                     part(b.bubble), part(b.optimizer), part(b.compression + b.input + b.framework + b.other),
                     gib(stage.memory.peak));
}

std::string parts_of_memory(const Result::Stage& stage) {
  const Result::StageMemory& m = stage.memory;
  return fmt::format("{:>8}{:>12}{:>11}{:>11}{:>13}{:>9}", gib(m.peak), gib(m.parameters), gib(m.gradients),
                     gib(m.optimizer), gib(m.activations), gib(m.buffers));
}

}  // namespace

std::string stage_table(const Result& r) {
  if (r.stages.empty()) return "";
  std::string text =
      table(r, "by stage",
            fmt::format("{:>8}{:>10}{:>10}{:>10}{:>11}{:>8}{:>8}   ({} of its last rank to finish, GiB)", "layers",
                        "compute", "exposed", "bubble", "optimizer", "other", "peak", in_seconds(r) ? "s" : "ms"),
            [&r](const Result::Stage& stage) { return times(r, stage); });
  if (!r.fits)
    text += table(r, "",
                  fmt::format("{:>8}{:>12}{:>11}{:>11}{:>13}{:>9}   (GiB of its fullest rank)", "peak", "parameters",
                              "gradients", "optimizer", "activations", "buffers"),
                  parts_of_memory);
  return text;
}

}  // namespace trainyard
