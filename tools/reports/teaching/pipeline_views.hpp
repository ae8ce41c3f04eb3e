#pragma once
#include <string>
#include <vector>

#include "scenarios/src/lessons/teach_pipeline.hpp"

namespace trainyard {

/// A row a stage, time from left to right, for a terminal of 100 columns: longer runs go on below. `colour`: with its
/// escape codes.
std::string pipeline_text(const PipelineLesson&, bool colour);
/// The picture of the papers: a row a stage, a cell a task with its micro-batch; below, what each stage keeps at most.
std::string pipeline_svg(const PipelineLesson&);
/// One page that stands alone: the picture and the figures.
std::string pipeline_html(const PipelineLesson&);

/// What the views share: "1f1b: 4 stages, 8 micro-batches".
std::string pipeline_title(const PipelineLesson&);
/// The figures at the end, a sentence each.
std::vector<std::string> pipeline_sums(const PipelineLesson&);
/// Of each kind of task that occurs: its letter, fill in pictures, and words.
struct PipelineTone {
  char letter = 'F';
  const char* fill = "";
  const char* words = "";
};
PipelineTone tone_of(PipelineTask::Pass);
std::vector<PipelineTask::Pass> passes_of(const PipelineLesson&);
/// The number of a stage as it is shown.
std::size_t stage_label(const PipelineLesson&, std::size_t stage);
/// "0", "12b": the micro-batch and, where a stage has several, the chunk's letter.
std::string pipeline_label(const PipelineLesson&, const PipelineTask&);
/// The shortest task, in slots.
double shortest_task(const PipelineLesson&);

}  // namespace trainyard
