#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "scenarios/src/pictures/svg.hpp"
#include "sim/units.hpp"
#include "tools/reports/html_page.hpp"
#include "tools/reports/teaching/pipeline_views.hpp"

namespace trainyard {
namespace {

using Pass = PipelineTask::Pass;
constexpr double kEdge = 16, kStageRow = 28, kText = 11, kAboveStages = 60, kNames = 64, kWidest = 12000;

/// Pixels a slot: the widest label fits into the shortest task.
double pixels_a_slot(const PipelineLesson& lesson) {
  double widest = 14;
  for (const auto& stage : lesson.run.stages)
    for (const PipelineTaskRun& run : stage)
      widest = std::max(widest, Svg::text_width(pipeline_label(lesson, run.task), kText) + 8);
  return std::min(widest / shortest_task(lesson), kWidest / lesson.run.end);
}

void draw_rows(Svg& svg, const PipelineLesson& lesson, double scale) {
  double y = kAboveStages;
  for (std::size_t stage = 0; stage < lesson.run.stages.size(); ++stage, y += kStageRow) {
    svg.text(kEdge, y + 18, fmt::format("stage {}", stage_label(lesson, stage)), {kText});
    svg.rect(kEdge + kNames, y, lesson.run.end * scale, kStageRow, "#e6e6e6");
    for (const PipelineTaskRun& run : lesson.run.stages[stage]) {
      const double x = kEdge + kNames + run.begin * scale, width = (run.end - run.begin) * scale;
      const std::string label = pipeline_label(lesson, run.task);
      svg.rect(x, y, width, kStageRow, tone_of(run.task.pass).fill, 1 - 0.55 * run.task.chunk / lesson.shape.chunks);
      svg.frame(x, y, width, kStageRow, "#ffffff");
      if (Svg::text_width(label, kText) <= width)
        svg.text(x + width / 2, y + 18, label, {kText, "#111111", Svg::Anchor::middle});
    }
  }
}

/// Time below the rows, at round distances.
void draw_time(Svg& svg, const PipelineLesson& lesson, double scale, double y) {
  double step = std::pow(10.0, std::floor(std::log10(lesson.run.end)) - 1);
  for (int i = 0; step * scale < 50; ++i) step *= i % 3 == 1 ? 2.5 : 2;  // 1, 2, 5, 10, …
  for (int i = 0; i * step <= lesson.run.end * (1 + 1e-9); ++i) {
    const double x = kEdge + kNames + i * step * scale;
    svg.line(x, y, x, y + 5, "#666666");
    svg.text(x, y + 18, fmt::format("{:.6g}", i * step), {kText, "#666666", Svg::Anchor::middle});
  }
}

void draw_legend(Svg& svg, const PipelineLesson& lesson, double y) {
  double x = kEdge;
  const auto entry = [&](const char* fill, const std::string& words) {
    svg.rect(x, y, 14, 14, fill);
    svg.text(x + 20, y + 11, words, {kText});
    x += 32 + 1.15 * Svg::text_width(words, kText);
  };
  for (const Pass pass : passes_of(lesson)) entry(tone_of(pass).fill, tone_of(pass).words);
  entry("#e6e6e6", "idle");
  if (lesson.shape.chunks > 1) svg.text(x, y + 11, "lighter, a, b, …: later model chunks of the stage", {kText});
}

/// Bars of what each stage keeps at most.
double draw_memory(Svg& svg, const PipelineLesson& lesson, double y) {
  svg.text(kEdge, y, "activations kept at most, of so many micro-batches",
           {kText + 1, "#222222", Svg::Anchor::start, true});
  double most = 0;
  for (std::size_t s = 0; s < lesson.run.stages.size(); ++s) most = std::max(most, lesson.activations(s));
  y += 8;
  for (std::size_t s = 0; s < lesson.run.stages.size(); ++s, y += 20) {
    svg.text(kEdge, y + 13, fmt::format("stage {}", stage_label(lesson, s)), {kText});
    const double width = lesson.activations(s) / most * 300;
    svg.rect(kEdge + kNames, y + 2, width, 14, "#c9a7d8");
    svg.text(kEdge + kNames + width + 6, y + 13, fmt::format("{:.6g}", lesson.activations(s)), {kText});
  }
  return y;
}

}  // namespace

std::string pipeline_svg(const PipelineLesson& lesson) {
  const double scale = pixels_a_slot(lesson), stages = static_cast<double>(lesson.run.stages.size());
  const std::vector<std::string> sums = pipeline_sums(lesson);
  double width = std::max(kEdge + kNames + lesson.run.end * scale + 2 * kEdge, 760.0);
  for (const std::string& text : sums) width = std::max(width, 1.2 * Svg::text_width(text, kText) + 2 * kEdge);
  width = std::max(width, 1.2 * Svg::text_width(lesson.description, kText) + 2 * kEdge);
  const double below = kAboveStages + kStageRow * stages;
  const double height = below + 90 + 20 * stages + 18 * static_cast<double>(sums.size()) + 2 * kEdge;
  Svg svg(width, height, pipeline_title(lesson), "A row a stage, a cell a task of one micro-batch, over time");
  svg.text(kEdge, 24, pipeline_title(lesson), {15, "#222222", Svg::Anchor::start, true});
  svg.text(kEdge, 42, lesson.description, {kText, "#666666"});
  draw_rows(svg, lesson, scale);
  draw_time(svg, lesson, scale, below);
  draw_legend(svg, lesson, below + 30);
  double y = draw_memory(svg, lesson, below + 74) + 22;
  for (const std::string& sentence : sums) {
    svg.text(kEdge, y, sentence, {kText});
    y += 18;
  }
  return svg.finish();
}

std::string pipeline_html(const PipelineLesson& lesson) {
  std::string table =
      "<table>\n<tr><th>stage</th><th>works</th><th>idle</th><th>activations kept at most "
      "(micro-batches)</th></tr>\n";
  for (std::size_t s = 0; s < lesson.run.stages.size(); ++s)
    table += fmt::format("<tr><td>{}</td><td>{:.6g}</td><td>{:.6g}</td><td>{:.6g}</td></tr>\n", stage_label(lesson, s),
                         lesson.run.busy(s), lesson.run.end - lesson.run.busy(s), lesson.activations(s));
  return html_text(
      {.title = pipeline_title(lesson),
       .body = fmt::format("<div class=\"scroll machine\">{}</div>\n{}</table>\n", pipeline_svg(lesson), table)});
}

std::string pipeline_title(const PipelineLesson& lesson) {
  const auto counted = [](int count, const char* one, const char* more) {
    return fmt::format("{} {}", count, count == 1 ? one : more);
  };
  return fmt::format("{}: {}, {}{}{}", lesson.schedule, counted(lesson.shape.stages, "stage", "stages"),
                     counted(lesson.shape.micro_batches, "micro-batch", "micro-batches"),
                     lesson.shape.chunks > 1 ? fmt::format(", {} model chunks a stage", lesson.shape.chunks) : "",
                     lesson.steps > 1 ? fmt::format(", {} steps in a row", lesson.steps) : "");
}

std::vector<std::string> pipeline_sums(const PipelineLesson& lesson) {
  const PipelineTimes& t = lesson.times;
  double most = 0;
  for (std::size_t s = 0; s < lesson.run.stages.size(); ++s) most = std::max(most, lesson.activations(s));
  const std::string in_a_row =
      lesson.steps_overlap()
          ? fmt::format("one step alone, that is; in a row a step takes {:.6g}: bubble {} of the stages' time",
                        lesson.period, percent(std::max(0.0, lesson.bubble_share_in_a_row()), 2))
          : fmt::format("steps in a row take {:.6g} each, as one alone", lesson.period);
  return {fmt::format("a micro-batch on a stage: forward {:.6g}, backward {:.6g} ({:.6g} of it by the weights); a "
                      "message: {:.6g}",
                      t.forward, t.backward_input + t.backward_weights, t.backward_weights, lesson.transfer),
          fmt::format("time: {:.6g}; without waiting: {:.6g}", lesson.end, lesson.ideal()),
          fmt::format("bubble: {:.4g} % of the stages' time, {:.4g} % of the time without waiting",
                      100 * lesson.bubble_share(), 100 * lesson.bubble_over_ideal()),
          in_a_row,
          fmt::format("one micro-batch at a time (naive) takes {:.6g}: {:.4g} times as long", lesson.naive_end,
                      lesson.speed_up()),
          fmt::format("memory: activations of {:.6g} micro-batch{} at most", most, most == 1 ? "" : "es")};
}

PipelineTone tone_of(Pass pass) {
  switch (pass) {
    case Pass::forward:
      return {'F', "#7aa6dc", "forward"};
    case Pass::backward:
      return {'B', "#8fcf8f", "backward"};
    case Pass::backward_input:
      return {'I', "#b9e3b0", "backward by the input"};
    case Pass::backward_weights:
      return {'W', "#f2c14e", "backward by the weights"};
  }
  return {};
}

std::vector<Pass> passes_of(const PipelineLesson& lesson) {
  std::set<Pass> found;
  for (const auto& stage : lesson.run.stages)
    for (const PipelineTaskRun& run : stage) found.insert(run.task.pass);
  return {found.begin(), found.end()};
}

std::size_t stage_label(const PipelineLesson& lesson, std::size_t stage) {
  return stage + static_cast<std::size_t>(lesson.labels_from);
}

std::string pipeline_label(const PipelineLesson& lesson, const PipelineTask& task) {
  std::string label = std::to_string(task.micro_batch + lesson.labels_from);
  if (lesson.shape.chunks > 1) label += static_cast<char>('a' + task.chunk);
  return label;
}

double shortest_task(const PipelineLesson& lesson) {
  double shortest = lesson.run.end;
  for (const auto& stage : lesson.run.stages)
    for (const PipelineTaskRun& run : stage) shortest = std::min(shortest, run.end - run.begin);
  return shortest;
}

}  // namespace trainyard
