#include <fmt/format.h>

#include "scenarios/src/studies/measured/post_training_errors.hpp"
#include "sim/units.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/validation/validation.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

std::string loop_runs_table(const std::vector<LoopRun>& runs) {
  TextTable table{{"step", "generation", "training", "log-prob", "weights", "reload", "loop", "predicted", "measured",
                   "error", "tail", "preempted"},
                  {false, true, true, true, true, true, true, true, true, true, true, true}};
  for (const LoopRun& run : runs) {
    const PostTrainingResult& r = run.predicted;
    std::vector<std::string>& row = table.rows.emplace_back(1, run.id);
    for (const double seconds :
         {r.generation, r.training, r.log_probabilities, r.weights, r.reload, r.loop, r.step_time, run.measured})
      row.push_back(fmt::format("{:.1f}", seconds));
    row.push_back(signed_percent(r.step_time / run.measured - 1));
    row.push_back(fmt::format("{:.1f}", r.tail));
    row.push_back(fmt::format("{:.0f}", r.preemptions));
  }
  return table.text() +
         "times in s; a row one step off takes the longer of generation and of training, log-prob and loop "
         "together\n\n";
}

std::string loop_constants_line(const char* name, const LoopConstants& c) {
  return fmt::format("{}: loop {:.1f} s, reload {:.1f} s, weights {:.1f} GB/s colocated and {:.1f} GB/s apart\n", name,
                     c.loop, c.reload, c.colocated_rate * 1e-9, c.apart_rate * 1e-9);
}

}  // namespace

int validate_post_training(const ValidationRequest& request) {
  const PostTrainingErrors errors = post_training_errors();
  std::vector<JudgedSet> sets{judge_set(errors.in_sample, errors.limits)};
  for (const ErrorSet* left_out : {&errors.model_left_out, &errors.release_left_out}) {
    JudgedSet& set = sets.emplace_back(JudgedSet{*left_out});
    set.part = true;
    set.judges = false;
  }
  for (const ErrorSet& transfer : errors.transfers) sets.push_back({.errors = transfer, .judges = false});
  std::string text = fmt::format("steps of post-training loops ({}) against the simulator\n", errors.source);
  if (request.points) text += loop_runs_table(errors.runs);
  text += error_table(sets, {"mean", "median", "worst", "signed mean", "rank"}, "none");
  text += loop_constants_line("constants of the catalog", errors.catalog);
  text += loop_constants_line("a new fit to all steps  ", errors.fitted);
  text +=
      "left out: these four are fitted without the steps of that model or release; if the weights take less than a "
      "tenth of each of the other steps, their rate is taken as 50 GB/s, that of an adapter; the host time of a "
      "running sequence (engine vllm) is not fitted again\n";
  return report(request, "Steps of post-training loops", text, sets);
}

}  // namespace trainyard
