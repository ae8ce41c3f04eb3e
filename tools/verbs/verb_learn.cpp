#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "scenarios/src/studies/sweeps/learn_study.hpp"
#include "sim/observers/progress.hpp"
#include "sim/process/job.hpp"
#include "tools/reports/html_page.hpp"
#include "tools/reports/report.hpp"
#include "tools/verbs/study_shares.hpp"
#include "tools/verbs/verbs.hpp"
#include "topologies/device_noun.hpp"

namespace trainyard {
namespace {

struct LearnFlags {
  std::string file, svg, json, html;
  std::vector<std::string> sets, compared, required;
  int seeds = 1;
  StudyShares shares;
};

LearnQuestion question_of(const LearnFlags& flags) {
  LearnQuestion q;
  q.scenario = flags.file;
  q.overrides = parse_overrides(flags.sets);
  for (const std::string& option : flags.compared)
    for (SweepAxis& axis : parse_sweep_axes(option, "--compare")) q.axes.push_back(std::move(axis));
  q.seeds = flags.seeds;
  q.journal = flags.shares.points;
  q.shard = flags.shares.requested_shard(!(flags.svg + flags.json + flags.html).empty());
  for (const std::string& what : flags.required)
    if (what != "target") throw UserError(fmt::format("--require {}: unknown{}", what, hint(what, {"target"})));
  return q;
}

std::size_t count_trainings(const LearnQuestion& q) {
  read_scenario(q.scenario, q.overrides);  // reports errors here, before a task of the job array starts
  return Sweep{q.scenario, q.axes}.points() * static_cast<std::size_t>(q.seeds);
}

bool is_possible(const LearnVariant& v) { return v.error.empty(); }

bool reaches_target(const LearnVariant& v) { return is_possible(v) && v.reached_runs() == v.runs.size(); }

int learn_verb(const std::vector<std::string>& words) {
  Arguments arguments(
      "learn",
      "Trains a small network on real numbers, in simulated time. The cluster and the plan of the scenario give the "
      "times: a worker computes each gradient from the weights that it has at that time, and each update is applied "
      "when it arrives. The section `learn` describes the network and the data.",
      "learn scenarios/learn-async-vs-sync.yaml --compare plan.data_parallel.consistency=synchronous,asynchronous "
      "--seeds 3 --svg curves.svg");
  LearnFlags flags;
  arguments.positional("SCENARIO", flags.file, "scenario file (YAML) with a section `learn`");
  arguments.repeated_flag("--set", flags.sets, "PATH=VALUE", "override a field; may be repeated");
  arguments.repeated_flag("--compare", flags.compared, "PATH=A,B,...",
                          "train with each of these values and compare; \"A=1,2 & B=3,4\" changes fields together");
  arguments.option("--seeds", flags.seeds, "N", "train each variant N times, and give 95 % intervals (default 1)", 1,
                   1000);
  arguments.output("--svg", flags.svg, "draw loss and accuracy against time, samples and bytes; - is stdout");
  arguments.output("--json", flags.json, "write all curves as JSON; - is stdout (and prints nothing else there)");
  arguments.output("--html", flags.html, "write a page with all curves; - is stdout");
  arguments.repeated_flag("--require", flags.required, "target",
                          "end with exit code 1 unless all trainings reach learn.target");
  flags.shares.declare(arguments, "training");
  if (!arguments.parse(words)) return kGood;
  LearnQuestion question = question_of(flags);
  if (!flags.shares.slurm.empty()) return flags.shares.write_slurm_job(arguments, count_trainings(question));
  watch_interrupts();
  LearnStudy study;
  {
    ProgressLine line;
    if (question.seeds > 1 || !question.axes.empty())
      question.progress = [&line](std::size_t done, std::size_t total) {
        line.show(fmt::format("{} of {} trainings", done, total));
      };
    study = run_learn_study(question);
  }
  if (study.interrupted && (!flags.shares.shard.empty() || std::ranges::none_of(study.variants, is_possible))) {
    complain(study.progress_text());
    return flags.shares.interrupted_search();
  }
  if (!flags.shares.shard.empty()) {
    flags.shares.finish(arguments);
    return kGood;
  }
  const LearnVariant& first = *std::ranges::find_if(study.variants, is_possible);
  const Scenario scenario = read_scenario(flags.file, first.overrides);
  if (!flags.required.empty() && !study.has_target && !scenario.learn.task.formula.is_given())
    throw UserError("--require target: the scenario's `learn` has no target");
  if (arguments.leaves_stdout_free())
    print(fmt::format(
        "{}{}", study.interrupted ? "unfinished: " + study.progress_text() + "\n" : "",
        in_words_of(device_noun(scenario.cluster), question.axes.empty() ? learn_report(scenario, first, study.seeds)
                                                                         : learn_comparison(scenario, study))));
  if (!flags.svg.empty()) write_atomically(flags.svg, learn_svg(scenario.name, study));
  if (!(flags.json + flags.html).empty()) {
    const nlohmann::ordered_json answer = learn_study_json(question, study);
    write_json(flags.json, answer);
    if (!flags.html.empty())
      write_atomically(flags.html,
                       chart_page("Learning: " + scenario.name, {{"answer", answer}}, {page_script::learn()}));
  }
  if (study.interrupted) {
    complain("the answer is unfinished: " + study.progress_text());
    return flags.shares.interrupted_search();
  }
  return !flags.required.empty() && !std::ranges::all_of(study.variants, reaches_target) ? kFailsLimit : kGood;
}

const RegisterVerb registered_learn{"learn", VerbGroup::learn,
                                    "train a small network in simulated time: loss against seconds", learn_verb};

}  // namespace
}  // namespace trainyard
