#include "tools/verbs/validation/validate_horovod.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "scenarios/src/studies/measured/horovod_study.hpp"
#include "sim/json_text.hpp"
#include "sim/process/output.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::json;
using StudyRow = HorovodStudy::Row;

/// What a reading must reach; 0: no limit.
struct Limits {
  double median = 0, worst = 0;
  bool crosses = false;  ///< between the same two batches as measured
};

struct JudgedReading {
  char letter;
  std::string what;
  ErrorSet errors;
  Limits limits;
  std::optional<Crossover> crossing;
  bool holds = true;
};

bool within_limits(const JudgedReading& r, const std::optional<Crossover>& measured) {
  if (r.limits.median > 0 && r.errors.median_abs > r.limits.median) return false;
  if (r.limits.worst > 0 && r.errors.worst_abs > r.limits.worst) return false;
  return !r.limits.crosses || (r.crossing && measured && r.crossing->below == measured->below);
}

std::string crossing_in_words(const std::optional<Crossover>& c) {
  return c ? fmt::format("batch {:.0f}", c->batch) : "never, or more than once";
}

std::string limit_in_words(const JudgedReading& r) {
  std::vector<std::string> words;
  if (r.limits.median > 0) words.push_back(fmt::format("median {:.0f} %", r.limits.median * 100));
  if (r.limits.worst > 0) words.push_back(fmt::format("worst {:.0f} %", r.limits.worst * 100));
  if (r.limits.crosses) words.emplace_back("crossover between the measured batches");
  return words.empty() ? "no limit" : fmt::format("limit: {}: {}", fmt::join(words, ", "), r.holds ? "holds" : "FAILS");
}

void print_table(const HorovodStudy& study, const std::vector<JudgedReading>& readings, const ErrorSet& single) {
  fmt::print("{:>6} {:>10} {:>10} {:>10}", "batch", "one node", "rank 0", "rank 1");
  for (const JudgedReading& r : readings) fmt::print(" {:>17}", fmt::format("({})", r.letter));
  fmt::print(" {:>18}\n", "(c) one node");
  for (std::size_t i = 0; i < study.rows.size(); ++i) {
    const StudyRow& row = study.rows[i];
    fmt::print("{:>6} {:>8.2f} s {:>8.2f} s {:>8.2f} s", row.batch, row.single, row.multi_0, row.multi_1);
    for (const JudgedReading& r : readings)
      fmt::print(" {:>7.1f} s {:>7}", r.errors.points[i].predicted, signed_percent(r.errors.points[i].error()));
    fmt::print(" {:>8.1f} s {:>7}\n", single.points[i].predicted, signed_percent(single.points[i].error()));
  }
}

void print_errors(const std::string& what, const ErrorSet& e) {
  fmt::print("{}\n    error: median {:.1f} %, mean {:.1f} %, p90 {:.1f} %, worst {:.1f} %, signed mean {:+.1f} %\n",
             what, e.median_abs * 100, e.mean_abs * 100, e.p90_abs * 100, e.worst_abs * 100, e.signed_mean * 100);
}

int print_fit(const HorovodStudy& study, const std::vector<double>& documented) {
  std::vector<double> missing;
  for (const Seconds s : missing_step_time(study, documented)) missing.push_back(s.value);
  const Seconds inside = horovod_scenario(study, HorovodReading::fitted, study.rows.front()).software.collective_launch;
  fmt::print("what a step of two nodes takes beyond compute, wire, copies and cycle, by batch (rank 0):\n");
  for (std::size_t i = 0; i < missing.size(); ++i)
    fmt::print("{:>6} {:>8.2f} ms\n", study.rows[i].batch, missing[i] * 1e3);
  fmt::print("median {:.2f} ms = collective_launch of stack horovod-tcp (there: {})\n", quantile(missing, 0.5) * 1e3,
             show(inside));
  return kGood;
}

std::vector<JudgedReading> read_all(const HorovodStudy& study, const std::vector<double>& documented,
                                    const std::vector<double>& single_predicted) {
  const std::vector<double> fitted = predict(study, HorovodReading::fitted);
  const std::vector<double> compute = predict(study, HorovodReading::predicted_compute);
  const std::vector<double> single = study.column(&StudyRow::single);
  std::vector<JudgedReading> readings;
  const auto add = [&](const char* name, const char* what, const std::vector<double>& times, Limits limits,
                       const std::vector<double>& alone) {
    readings.push_back({static_cast<char>('a' + readings.size()), what, against(study, name, times, &StudyRow::multi_0),
                        limits, crossover(study, alone, times)});
  };
  add("horovod documented", "single-node times given, network at its stated rate, Horovod as documented", documented,
      {0.12, 0, true}, single);
  add("horovod fitted", "the same with one fitted constant a step, collective_launch of stack horovod-tcp", fitted,
      {0.03, 0.15, true}, single);
  add("horovod predicted-compute", "the T4's compute predicted too, with its launch floor", compute, {},
      single_predicted);
  const std::optional<Crossover> measured = crossover(study, single, study.column(&StudyRow::multi_0));
  for (JudgedReading& r : readings) r.holds = within_limits(r, measured);
  return readings;
}

Json json_of(const JudgedReading& r, bool points) {
  std::map<std::string, double> limits;
  if (r.limits.median > 0) limits["median_abs_error"] = r.limits.median;
  if (r.limits.worst > 0) limits["worst_abs_error"] = r.limits.worst;
  const auto crossing = r.crossing ? std::optional<double>(r.crossing->batch) : std::nullopt;
  return to_json(r.errors, points, {crossing, limits, r.holds});
}

/// Everything that is compared.
struct Study {
  HorovodStudy table;
  std::vector<JudgedReading> readings;
  ErrorSet left_out;  ///< (b), each batch by a constant fitted to the others
  ErrorSet rank_1;    ///< (b) against the other column
  ErrorSet single;    ///< (c) of one node
  ErrorSet literal;   ///< (a) by the steps that the study's text states
};

Study compare(const HorovodStudy& study, const std::vector<double>& documented) {
  const std::vector<double> alone = predict(study, HorovodReading::predicted_single);
  Study all{study, read_all(study, documented, alone), {}, {}, {}, {}};
  std::vector<double> fitted, twice = documented;
  for (const MeasuredPoint& p : all.readings[1].errors.points) fitted.push_back(p.predicted);
  for (double& t : twice) t *= kHorovodWorkers;
  all.left_out = against(study, "horovod fitted leave-one-out", leave_one_out(study, documented), &StudyRow::multi_0);
  all.rank_1 = against(study, "horovod fitted rank 1", fitted, &StudyRow::multi_1);
  all.single = against(study, "horovod predicted-compute one node", alone, &StudyRow::single);
  all.literal = against(study, "horovod documented literal steps", twice, &StudyRow::multi_0);
  return all;
}

void print_study(const Study& all) {
  const HorovodStudy& study = all.table;
  fmt::print("{}; predicted times of the whole training and their errors against rank 0\n", study.source);
  print_table(study, all.readings, all.single);
  for (const JudgedReading& r : all.readings) {
    print_errors(fmt::format("({}) {}", r.letter, r.what), r.errors);
    fmt::print("    two nodes faster from {}; {}\n", crossing_in_words(r.crossing), limit_in_words(r));
    if (r.letter != 'b') continue;
    print_errors("    each batch by a constant fitted to the others", all.left_out);
    print_errors("    against rank 1", all.rank_1);
  }
  print_errors("    one node alone", all.single);
  const auto measured = crossover(study, study.column(&StudyRow::single), study.column(&StudyRow::multi_0));
  fmt::print("measured: two nodes faster from {}\n", crossing_in_words(measured));
  const double shared = study.steps_per_epoch / kHorovodWorkers;
  fmt::print(
      "steps: {:.0f} x ({:.0f} // 2) = {:.0f}, the table's batch on each worker (H1, as Horovod's Keras example shares "
      "them); the literal {:.0f} would be {:.0f} % off (median) and never faster than one node\n",
      study.epochs, study.steps_per_epoch, study.epochs * shared, study.steps(), all.literal.median_abs * 100);
}

}  // namespace

int validate_horovod(const std::string& json_file, bool points, bool fit) {
  const HorovodStudy study = read_horovod_study();
  const std::vector<double> documented = predict(study, HorovodReading::documented);
  if (fit) return print_fit(study, documented);
  const Study all = compare(study, documented);
  bool holds = true;
  Json sets = Json::array();
  for (const JudgedReading& r : all.readings) {
    holds &= r.holds;
    sets.push_back(json_of(r, points));
  }
  for (const ErrorSet* e : {&all.left_out, &all.rank_1, &all.single, &all.literal}) sets.push_back(to_json(*e, points));
  if (json_file != "-") print_study(all);
  if (!json_file.empty()) write_atomically(json_file, json_text(Json{{"sets", sets}}, 2) + "\n");
  return holds ? kGood : kFailsLimit;
}

}  // namespace trainyard
