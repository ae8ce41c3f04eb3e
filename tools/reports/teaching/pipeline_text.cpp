#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/reports/teaching/pipeline_views.hpp"

namespace trainyard {
namespace {

using TaskPass = PipelineTask::Pass;
constexpr int kTerminalColumns = 100, kMostBlocks = 40;

/// One character of the picture, and the pass that it belongs to (−1: idle).
struct Cell {
  char letter = '.';
  int pass = -1;
};

const char* colour_code(TaskPass pass) {
  switch (pass) {
    case TaskPass::forward:
      return "44;97";
    case TaskPass::backward:
    case TaskPass::backward_input:
      return "42;30";
    case TaskPass::backward_weights:
      return "43;30";
  }
  return "0";
}

std::string task_word(const PipelineLesson& lesson, const PipelineTask& task) {
  return tone_of(task.pass).letter + pipeline_label(lesson, task);
}

/// Columns a slot: the shortest task shows its word and a gap, or its word, where the whole then fits one block.
double columns_a_slot(const PipelineLesson& lesson, int width) {
  std::size_t longest = 1;
  for (const auto& stage : lesson.run.stages)
    for (const PipelineTaskRun& run : stage) longest = std::max(longest, task_word(lesson, run.task).size());
  const double word = static_cast<double>(longest) / shortest_task(lesson), gap = word + 1 / shortest_task(lesson);
  const double most = static_cast<double>(width) * kMostBlocks / lesson.run.end;
  if (gap * lesson.run.end <= width || word * lesson.run.end > width) return std::min(gap, most);
  return std::min(word, most);
}

std::vector<Cell> stage_cells(const PipelineLesson& lesson, std::size_t stage, double scale) {
  std::vector<Cell> row(static_cast<std::size_t>(std::lround(lesson.run.end * scale)));
  for (const PipelineTaskRun& run : lesson.run.stages[stage]) {
    const auto begin = static_cast<std::size_t>(std::lround(run.begin * scale));
    const auto end = std::min(row.size(), static_cast<std::size_t>(std::lround(run.end * scale)));
    const std::string word = task_word(lesson, run.task);
    for (std::size_t at = begin; at < end; ++at) {
      // A number cut short is a wrong number: then the letter alone.
      const bool shown = at - begin < word.size() && (word.size() <= end - begin || at == begin);
      const bool gap = at + 1 == end && end - begin > word.size();
      row[at] = {shown ? word[at - begin] : gap ? ' ' : '-', static_cast<int>(run.task.pass)};
    }
  }
  return row;
}

std::string printed(const std::vector<Cell>& row, std::size_t from, std::size_t to, bool colour) {
  std::string text;
  int now = -1;
  for (std::size_t at = from; at < to; ++at) {
    if (colour && row[at].pass != now)
      text += row[at].pass < 0 ? "\x1b[0m" : fmt::format("\x1b[{}m", colour_code(static_cast<TaskPass>(row[at].pass)));
    now = row[at].pass;
    text += row[at].letter;
  }
  if (colour && now >= 0) text += "\x1b[0m";
  return text;
}

std::string memory_table(const PipelineLesson& lesson) {
  std::string text = fmt::format("{:>7}{:>12}{:>12}   {}\n", "stage", "works", "idle",
                                 "keeps at most (activations of so many micro-batches)");
  double most = 0;
  for (std::size_t s = 0; s < lesson.run.stages.size(); ++s) most = std::max(most, lesson.activations(s));
  for (std::size_t s = 0; s < lesson.run.stages.size(); ++s) {
    const auto bar = static_cast<std::size_t>(std::lround(lesson.activations(s) * std::min(1.0, 40 / most)));
    text += fmt::format("{:>7}{:>12.6g}{:>12.6g}   {:<8.6g}{}\n", stage_label(lesson, s), lesson.run.busy(s),
                        lesson.run.end - lesson.run.busy(s), lesson.activations(s), std::string(bar, '#'));
  }
  return text;
}

}  // namespace

std::string pipeline_text(const PipelineLesson& lesson, bool colour) {
  const std::size_t names = fmt::format("stage {} ", stage_label(lesson, lesson.run.stages.size() - 1)).size();
  const std::size_t width = kTerminalColumns - names;
  const double scale = columns_a_slot(lesson, static_cast<int>(width));
  std::vector<std::vector<Cell>> rows;
  for (std::size_t stage = 0; stage < lesson.run.stages.size(); ++stage)
    rows.push_back(stage_cells(lesson, stage, scale));
  std::string text = pipeline_title(lesson) + "\n" + lesson.description + "\n";
  const std::size_t all = rows.front().size();
  for (std::size_t from = 0; from < all; from += width) {
    const std::size_t to = std::min(all, from + width);
    text += all > width ? fmt::format("\nfrom {:.6g} to {:.6g}\n", static_cast<double>(from) / scale,
                                      static_cast<double>(to) / scale)
                        : "\n";
    for (std::size_t stage = 0; stage < rows.size(); ++stage)
      text += fmt::format("{:<{}}{}\n", fmt::format("stage {}", stage_label(lesson, stage)), names,
                          printed(rows[stage], from, to, colour));
  }
  text += "\n";
  for (const TaskPass pass : passes_of(lesson))
    text += fmt::format("{}: {}   ", tone_of(pass).letter, tone_of(pass).words);
  text += ". : idle\n";
  if (lesson.shape.chunks > 1) text += "a, b, …: the stage's model chunks\n";
  text += "\n";
  if (lesson.steps > 1) text += fmt::format("works, idle: in the {} steps together\n", lesson.steps);
  text += memory_table(lesson) + "\n";
  for (const std::string& sentence : pipeline_sums(lesson)) text += sentence + "\n";
  return text;
}

}  // namespace trainyard
