#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "models/reading/catalog.hpp"
#include "models/software/stack.hpp"
#include "scenarios/src/pictures/chart.hpp"
#include "scenarios/src/studies/measured/horovod_study.hpp"
#include "tools/verbs/validation/validation.hpp"

namespace trainyard {
namespace {

using StudyRow = HorovodStudy::Row;

/// The readings of the study on two nodes, (a) to (c), by their families in scenarios/measured/horovod.
constexpr std::array<const char*, 3> kReadings{"documented", "fitted", "predicted-compute"};

const FamilyPrediction& family_of(const std::vector<FamilyPrediction>& families, const std::string& name) {
  return *std::ranges::find(families, name, &FamilyPrediction::name);
}
const FamilyPrediction& one_node(const std::vector<FamilyPrediction>& families) {
  return family_of(families, "predicted-compute one node");
}

std::string crossing_in_words(std::optional<double> batch) {
  return batch ? fmt::format("batch {:.0f}", *batch) : "never, or more than once";
}
std::optional<double> batch_of(const std::optional<Crossover>& c) { return c ? std::optional(c->batch) : std::nullopt; }

std::string limit_in_words(const JudgedSet& set) {
  const std::string words = words_of(set.limits);
  return words.empty() ? "no limit"
                       : fmt::format("limit: {}, crossover between the measured batches: {}", words,
                                     set.pass ? "holds" : "FAILS");
}

/// A table of the measured times by batch, with the times that each reading of the study predicts.
std::string batches_table(const HorovodStudy& study, const std::vector<JudgedSet>& readings, const ErrorSet& single) {
  std::string text = fmt::format("{:>6} {:>10} {:>10} {:>10}", "batch", "one node", "rank 0", "rank 1");
  for (std::size_t r = 0; r < readings.size(); ++r) text += fmt::format(" {:>17}", fmt::format("({:c})", 'a' + r));
  text += fmt::format(" {:>18}\n", "(c) one node");
  for (std::size_t i = 0; i < study.rows.size(); ++i) {
    const StudyRow& row = study.rows[i];
    text += fmt::format("{:>6} {:>8.2f} s {:>8.2f} s {:>8.2f} s", row.batch, row.single, row.multi_0, row.multi_1);
    for (const JudgedSet& r : readings) {
      const MeasuredPoint& point = r.errors.points[i];
      text += fmt::format(" {:>7.1f} s {:>7}", point.predicted, signed_percent(point.error()));
    }
    text += fmt::format(" {:>8.1f} s {:>7}\n", single.points[i].predicted, signed_percent(single.points[i].error()));
  }
  return text;
}

std::string errors_in_words(const std::string& what, const ErrorSet& e) {
  return fmt::format(
      "{}\n    error: median {:.1f} %, mean {:.1f} %, p90 {:.1f} %, worst {:.1f} %, signed mean {:+.1f} %\n", what,
      e.median_abs * 100, e.mean_abs * 100, e.p90_abs * 100, e.worst_abs * 100, e.signed_mean * 100);
}

int print_fit(const HorovodStudy& study) {
  const std::vector<double> missing = missing_step_time(study, training_times(predict_horovod({"documented"}).front()));
  print("what a step of two nodes takes beyond compute, wire, copies and cycle, by batch (rank 0):\n");
  for (std::size_t i = 0; i < missing.size(); ++i)
    print(fmt::format("{:>6} {:>8.2f} ms\n", study.rows[i].batch, missing[i] * 1e3));
  const SoftwareStack stack = read_stack(Catalog().resolve("stack", Node::scalar_node("horovod-tcp")));
  print(fmt::format("median {:.2f} ms = collective_launch of stack horovod-tcp (there: {})\n",
                    quantile(missing, 0.5) * 1e3, show(stack.collective_launch)));
  return kGood;
}

/// Seconds of the whole training against the batch of a worker: squares are measured, lines are predicted.
std::string study_picture(const HorovodStudy& study, const std::vector<FamilyPrediction>& families) {
  Chart chart{"", ChartAxis(ChartAxis::Scale::log2), ChartAxis(ChartAxis::Scale::log10)};
  std::vector<LegendEntry> legend;
  const auto add = [&](const std::string& words, const std::vector<double>& seconds, bool measured) {
    ChartSeries series{.color = series_color(legend.size()), .line = !measured};
    for (std::size_t i = 0; i < seconds.size(); ++i)
      series.points.push_back({study.rows[i].batch, seconds[i], "", measured, measured ? series.color : ""});
    legend.push_back({series.color, words});
    chart.series.push_back(std::move(series));
  };
  add("measured, one node", study.column(&StudyRow::single), true);
  add("measured, two nodes, rank 0", study.column(&StudyRow::multi_0), true);
  add("measured, two nodes, rank 1", study.column(&StudyRow::multi_1), true);
  for (std::size_t r = 0; r < kReadings.size(); ++r)
    add(fmt::format("({:c}) two nodes, {}", 'a' + r, kReadings[r]), training_times(family_of(families, kReadings[r])),
        false);
  add("(c) one node", training_times(one_node(families)), false);
  return charts_svg({.title = "The Horovod study: seconds of the whole training by batch of a worker",
                     .note = "squares: measured; lines: predicted; both axes logarithmic",
                     .width = 720,
                     .height = 420,
                     .legend = legend},
                    {chart});
}

ErrorSet errors_of(const FamilyPrediction& family) {
  ErrorSet errors = *family.figure(0);
  errors.name = "horovod " + family.name;
  return errors;
}

/// Both ranks of one run, with their limits.
std::vector<JudgedSet> judged_ranks(const FamilyPrediction& both) {
  std::vector<JudgedSet> ranks;
  for (const std::size_t rank : {0, 1}) {
    ErrorSet errors = *both.figure(rank);
    errors.name = fmt::format("horovod {}, rank {}", both.name, rank);
    ranks.push_back(judge_set(std::move(errors), both.figures[rank].limits));
    ranks.back().says_limits = true;
  }
  return ranks;
}

/// The times of both ranks, and how much of their difference the work of rank 0 explains.
std::string ranks_in_words(const HorovodStudy& study, const FamilyPrediction& both,
                           const std::vector<JudgedSet>& ranks) {
  std::string text = fmt::format("(d) {}\n{:>6} {:>27} {:>27} {:>25}\n", both.note, "batch", "rank 0", "rank 1",
                                 "rank 0 ends later by");
  const std::vector<double> gaps = measured_gaps(study), predicted = predicted_gaps(both);
  std::vector<double> unexplained;
  for (std::size_t i = 0; i < study.rows.size(); ++i) {
    text += fmt::format("{:>6}", study.rows[i].batch);
    for (const JudgedSet& rank : ranks) {
      const MeasuredPoint& point = rank.errors.points[i];
      text +=
          fmt::format(" {:>8.2f} s {:>8.1f} s {:>6}", point.measured, point.predicted, signed_percent(point.error()));
    }
    text += fmt::format(" {:>11.2f} s {:>10.2f} s\n", gaps[i], predicted[i]);
    unexplained.push_back(gaps[i] - predicted[i]);
  }
  for (const JudgedSet& rank : ranks)
    text += errors_in_words(rank.errors.name, rank.errors) +
            fmt::format("    limit: {}: {}\n", words_of(rank.limits), rank.pass ? "holds" : "FAILS");
  return text + fmt::format(
                    "    rank 0 ends {:.2f} to {:.2f} s later in the study, {:.2f} s in the median, and {:.2f} s by "
                    "the model, which is the evaluation,\n    the last checkpoint and the last line of the log: rank 1 "
                    "waits for all earlier ones at its next step.\n    {:.2f} s in the median stay unexplained; the "
                    "study does not say what rank 0 does alone, or when its clocks start\n",
                    quantile(gaps, 0), quantile(gaps, 1), quantile(gaps, 0.5), quantile(predicted, 0.5),
                    quantile(unexplained, 0.5));
}

/// The three readings of the study on two nodes, with their limits.
std::vector<JudgedSet> judged_readings(const HorovodStudy& study, const std::vector<FamilyPrediction>& families,
                                       const std::optional<Crossover>& measured) {
  std::vector<JudgedSet> readings;
  for (const std::string reading : kReadings) {
    const FamilyPrediction& family = family_of(families, reading);
    const bool predicts_one_node = reading == "predicted-compute";
    const auto crossing =
        crossover(study, predicts_one_node ? training_times(one_node(families)) : study.column(&StudyRow::single),
                  training_times(family));
    JudgedSet& set = readings.emplace_back(judge_set(errors_of(family), family.figures[0].limits));
    set.says_limits = true;
    set.crossover_batch = batch_of(crossing);
    const bool crosses = crossing && measured && crossing->lower_batch == measured->lower_batch;
    set.pass = set.pass && (crosses || words_of(set.limits).empty());
  }
  return readings;
}

}  // namespace

int validate_horovod(const ValidationRequest& request) {
  const HorovodStudy study = read_horovod_study();
  if (request.fit) return print_fit(study);
  const std::vector<FamilyPrediction> families = predict_horovod();
  const auto measured = crossover(study, study.column(&StudyRow::single), study.column(&StudyRow::multi_0));
  std::vector<JudgedSet> sets = judged_readings(study, families, measured);
  const FamilyPrediction& both_ranks = family_of(families, "both ranks");
  const std::vector<double> documented = training_times(family_of(families, "documented"));
  std::vector<double> twice = documented;
  for (double& t : twice) t *= study.workers;
  const ErrorSet left_out =
      horovod_errors(study, "horovod fitted leave-one-out", leave_one_out(study, documented), &StudyRow::multi_0);
  const ErrorSet rank_1 =
      horovod_errors(study, "horovod fitted rank 1", training_times(family_of(families, "fitted")), &StudyRow::multi_1);
  const ErrorSet single = errors_of(one_node(families));
  const std::vector<JudgedSet> ranks = judged_ranks(both_ranks);
  const ErrorSet literal = horovod_errors(study, "horovod documented literal steps", twice, &StudyRow::multi_0);
  std::string text =
      fmt::format("{}; predicted times of the whole training and their errors against rank 0\n", both_ranks.source);
  text += batches_table(study, sets, single);
  for (std::size_t r = 0; r < sets.size(); ++r) {
    text += errors_in_words(fmt::format("({:c}) {}", 'a' + r, family_of(families, kReadings[r]).note), sets[r].errors);
    text += fmt::format("    two nodes faster from {}; {}\n", crossing_in_words(*sets[r].crossover_batch),
                        limit_in_words(sets[r]));
    if (r != 1) continue;
    text += errors_in_words("    each batch by a constant fitted to the others", left_out);
    text += errors_in_words("    against rank 1", rank_1);
  }
  text += errors_in_words("    one node alone", single);
  text += ranks_in_words(study, both_ranks, ranks);
  sets.insert(sets.end(), ranks.begin(), ranks.end());
  text += fmt::format("measured: two nodes faster from {}\n", crossing_in_words(batch_of(measured)));
  text += fmt::format(
      "steps: {:.0f} x ({:.0f} // 2) = {:.0f}, the table's batch on each worker (H1, as Horovod's Keras example shares "
      "them); the literal {:.0f} would be {:.0f} % off (median) and never faster than one node\n",
      study.epochs, study.steps_per_epoch, study.steps() / study.workers, study.steps(), literal.median_abs * 100);
  for (const ErrorSet& errors : {left_out, rank_1, single, literal})
    sets.push_back({.errors = errors, .judges = false});
  if (!request.svg.empty()) write_atomically(request.svg, study_picture(study, families));
  return report(request, "", text, sets);
}

}  // namespace trainyard
