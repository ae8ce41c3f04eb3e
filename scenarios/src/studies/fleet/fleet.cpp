#include "scenarios/src/studies/fleet/fleet.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "models/energy/energy.hpp"
#include "models/reading/document_text.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "sim/hashing.hpp"
#include "sim/observers/progress.hpp"
#include "sim/process/parallel.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

constexpr double kHourSeconds = 3600;

/// The step of a training on one number of nodes, or the reason why there is none.
struct StepOutcome {
  FleetStep step;
  std::string error;
};

StepOutcome simulate_fleet_step(Scenario s) {
  StepOutcome outcome;
  FleetStep& step = outcome.step;
  const int nodes = s.cluster.nodes;
  s.failures.runs = 1;  // only the cost and the interval of checkpoints are needed
  s.failures.find_best = false;
  try {
    const Result r = answer(s).result;
    if (!r.fits)
      fail(s.document.place,
           fmt::format("trainings: {} does not fit into the memory of its devices; expected more nodes or another plan",
                       s.name));
    step.nodes = step.size.nodes = nodes;
    step.step_time = r.step_time.value;
    step.likely_step_times = r.likely_step_times;
    step.risk = r.risk;
    step.size.step = r.phases.empty() ? r.step_time : r.training_time / r.training_steps;
    step.size.recovery = s.failures.recovery;
    step.size.parts = s.failures.parts;
    if (r.failures && s.failures.checkpoints) {
      const FailureResult::Checkpoint& checkpoint = r.failures->checkpoint;
      step.size.checkpoint = {std::round(checkpoint.interval / r.step_time), checkpoint.stall, checkpoint.write,
                              checkpoint.load};
    }
    step.alone_time = step.size.time_of_steps(r.training_steps).value;
    if (r.energy) step.watts_a_node = r.energy->step() / r.step_time.value / nodes;
    if (r.tokens_per_s > 0) step.tokens = r.training_steps * r.tokens_of_step();
    if (r.energy && r.energy->step() > 0) step.tokens_per_joule = r.tokens_of_step() / r.energy->step();
  } catch (const UserError& e) {
    outcome.error = fmt::format("{} (on {})", e.what(), counted_noun(nodes, "node"));
  }
  return outcome;
}

/// A fleet with the steps of its trainings.
class FleetStudy {
 public:
  FleetStudy(const FleetFile& file, const FleetQuestion& question)
      : file_(file), question_(question), room_(site_limit(file.site, file.cluster.node, Catalog())) {
    simulate_steps();
    bool is_random = false;
    for (const FleetTraining& training : file.trainings) {
      is_random |= training.mean_interval.value > 0;
      for (const Scenario& s : training.scenarios) is_random |= !s.failures.parts.empty();
      if (training.arrival >= file.horizon)
        fail(training.place, fmt::format("trainings.arrival: {} arrives after the horizon of {:g} days", training.name,
                                         file.horizon.value / kSecondsOfFleetDay));
    }
    runs_ = is_random ? file.runs : 1;
    for (int run = 0; run < runs_; ++run) arrivals_.push_back(arrivals_of_run(run));
  }

  /// Returns the steps and the tries alone if a signal ends the work.
  FleetAnswer answer() {
    try {
      return complete_answer();
    } catch (const Interruption&) {
      FleetAnswer a;
      a.name = file_.name;
      for (const std::vector<FleetStep>& steps : steps_) a.steps.insert(a.steps.end(), steps.begin(), steps.end());
      a.tries = std::move(tries_);
      a.unfinished = fmt::format(
          "the steps are simulated, and {} tried",
          a.tries.size() == 1 ? "1 number of nodes is" : fmt::format("{} numbers of nodes are", a.tries.size()));
      return a;
    }
  }

 private:
  FleetAnswer complete_answer() {
    int nodes = question_.nodes.value_or(file_.cluster.nodes), spares = question_.spares.value_or(file_.spares);
    if (!question_.choose) require_room(nodes);
    if (question_.choose) choose(nodes, spares, 0);
    FleetAnswer a = evaluate(nodes, spares);
    a.is_chosen = question_.choose;
    for (const FleetRow& row : a.rows)
      if (a.hopeless.empty() && !row.in_time() && least_time(row.training) > row.due - row.arrival)
        a.hopeless = row.name;
    if (!question_.choose && !a.is_enough() && a.hopeless.empty()) {
      int enough = nodes, enough_spares = spares;
      if (choose(enough, enough_spares, 0)) a.enough = FleetTrial{enough, enough_spares, 0};
      // More nodes are not always better, so that the next larger number may be another one.
      if (a.enough && a.enough->nodes < nodes && choose(enough, enough_spares, nodes))
        a.enough_above = FleetTrial{enough, enough_spares, 0};
    }
    if (a.is_chosen && a.is_enough()) a.late_on_more_nodes = late_above(nodes, spares);
    a.tries = std::move(tries_);
    a.left_out = left_out_;
    judge_fleet(a);
    return a;
  }

  static constexpr double kSecondsOfFleetDay = 24 * kHourSeconds;
  const FleetFile& file_;
  const FleetQuestion& question_;
  const std::optional<SiteLimit> room_;              // no value: the site has no limits
  std::vector<std::vector<FleetStep>> steps_;        // indexed by training
  std::vector<std::vector<QueueArrival>> arrivals_;  // indexed by run
  std::vector<FleetTrial> tries_;
  std::string left_out_;
  int runs_ = 1;

  /// Simulates each training on each of its numbers of nodes. Equal scenarios are simulated once.
  void simulate_steps() {
    std::map<std::string, std::size_t> known_texts;
    std::vector<const Scenario*> distinct;
    std::vector<std::vector<std::size_t>> numbers(file_.trainings.size());
    for (std::size_t i = 0; i < numbers.size(); ++i)
      for (const Scenario& s : file_.trainings[i].scenarios) {
        Node document = s.document;
        std::erase_if(document.fields, [](const auto& field) { return field.first == "name"; });
        const auto [text, is_new] = known_texts.emplace(yaml_text(document), distinct.size());
        if (is_new) distinct.push_back(&s);
        numbers[i].push_back(text->second);
      }
    ProgressLine progress;
    std::size_t done = 0;
    const std::vector<StepOutcome> outcomes = all_in_parallel(
        distinct.size(), processors(), [&](std::size_t i) { return simulate_fleet_step(*distinct[i]); },
        [&](std::size_t, const StepOutcome&) {
          progress.show(fmt::format("steps: {} of {}", ++done, distinct.size()));
        });
    steps_.resize(numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const FleetTraining& training = file_.trainings[i];
      std::string reason = training.left_out;
      std::vector<int> left_out = training.left_out_nodes;
      for (std::size_t k = 0; k < numbers[i].size(); ++k) {
        const StepOutcome& outcome = outcomes[numbers[i][k]];
        if (!training.is_range && !outcome.error.empty()) throw UserError(outcome.error);
        if (outcome.error.empty()) {
          steps_[i].push_back(outcome.step);
          steps_[i].back().training = training.name;
        } else {
          reason = outcome.error;
          left_out.push_back(training.nodes[k]);
        }
      }
      std::ranges::sort(left_out);
      if (steps_[i].empty()) fail(training.place, "trainings.nodes: no number of the range is possible: " + reason);
      if (!reason.empty())
        left_out_ += fmt::format("{}: {} node{}; {}\n", training.name, ranges_in_words(left_out),
                                 left_out == std::vector{1} ? "" : "s", reason);
    }
  }

  std::vector<QueueArrival> arrivals_of_run(int run) const {
    constexpr std::size_t most = 100000;
    std::vector<QueueArrival> arrivals;
    for (std::size_t i = 0; i < file_.trainings.size(); ++i) {
      const FleetTraining& training = file_.trainings[i];
      const UniformDraws draw = seeded_draws(hash_numbers({file_.seed + static_cast<std::uint64_t>(run), i}));
      Seconds time = training.arrival;
      for (int k = 0; training.count == 0 || k < training.count; ++k) {
        if (training.mean_interval.value > 0) time += training.mean_interval * -std::log1p(-draw(k));
        if (time >= file_.horizon) break;
        arrivals.push_back({i, time, training.scenarios.front().training.steps, training.priority});
        if (arrivals.size() > most)
          fail(training.place, fmt::format("trainings: more than {} arrivals within the horizon", most));
        time += training.interval;
      }
    }
    sort_stably(arrivals, [](const QueueArrival& a, const QueueArrival& b) { return a.time < b.time; });
    return arrivals;
  }

  /// Returns the sizes of each training on a cluster. Throws UserError if none of one training fits.
  /// `is_slow`: steps take as long as their likely intervals end.
  std::vector<std::vector<QueueSize>> sizes_on(int nodes, int spares, bool is_slow = false) const {
    std::vector<std::vector<QueueSize>> sizes(steps_.size());
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      for (const FleetStep& step : steps_[i])
        if (step.nodes <= nodes - spares) {
          sizes[i].push_back(step.size);
          if (is_slow && step.likely_step_times)
            sizes[i].back().step = sizes[i].back().step * (step.likely_step_times->back() / step.step_time);
        }
      if (sizes[i].empty())
        fail(file_.trainings[i].place,
             fmt::format("trainings.nodes: {} needs at least {}, but the cluster has {}{}", file_.trainings[i].name,
                         counted_noun(steps_[i].front().nodes, "node"), nodes,
                         spares > 0 ? fmt::format(", {} of them spare", spares) : ""));
    }
    return sizes;
  }
  QueueResult run(int number, int nodes, int spares, const std::vector<std::vector<QueueSize>>& sizes) const {
    if (is_interrupted()) throw Interruption();
    const QueueRules rules{nodes,          spares,        file_.policy,
                           file_.backfill, file_.horizon, file_.seed + static_cast<std::uint64_t>(number),
                           file_.grace};
    return run_queue(rules, sizes, arrivals_[static_cast<std::size_t>(number)]);
  }
  double least_time(std::size_t training) const {
    double least = HUGE_VAL;
    for (const FleetStep& step : steps_[training]) least = std::min(least, step.alone_time);
    return least;
  }
  FleetRow row_of(const QueueArrival& arrival, const QueueOutcome& outcome) const {
    const FleetTraining& training = file_.trainings[arrival.training];
    FleetRow row;
    row.name = training.name;
    row.training = arrival.training;
    row.priority = arrival.priority;
    row.arrival = arrival.time.value;
    row.due = training.deadline ? (arrival.time + *training.deadline).value : file_.horizon.value;
    row.outcome = outcome;
    row.is_too_late_to_count = !training.deadline && row.arrival + least_time(arrival.training) > file_.horizon.value;
    return row;
  }
  std::vector<FleetRow> rows_of(int run, const QueueResult& result) const {
    std::vector<FleetRow> rows;
    const std::vector<QueueArrival>& arrivals = arrivals_[static_cast<std::size_t>(run)];
    for (std::size_t i = 0; i < arrivals.size(); ++i) rows.push_back(row_of(arrivals[i], result.outcomes[i]));
    return rows;
  }

  static int count_late(const std::vector<FleetRow>& rows) {
    return static_cast<int>(std::ranges::count_if(rows, [](const FleetRow& row) { return !row.in_time(); }));
  }

  // The search.

  /// Returns the number of late trainings in the first run that has any; 0: no run has.
  int late_trainings(int nodes, int spares) const {
    const std::vector<std::vector<QueueSize>> sizes = sizes_on(nodes, spares);
    int late = 0;
    for (int i = 0; i < runs_ && late == 0; ++i) late = count_late(rows_of(i, run(i, nodes, spares, sizes)));
    return late;
  }
  /// Returns the same, and notes the try. A cluster that was tried before is not simulated again.
  int tried_late(int nodes, int spares) {
    for (const FleetTrial& listed : tries_)
      if (listed.nodes == nodes && listed.spares == spares) return listed.late;
    tries_.push_back({nodes, spares, late_trainings(nodes, spares)});
    return tries_.back().late;
  }
  /// Returns those of the next larger numbers of nodes with which some training is late.
  std::vector<int> late_above(int nodes, int spares) const {
    constexpr int next_numbers = 8;
    std::vector<int> late;
    for (int more = nodes + 1; more <= std::min(nodes + next_numbers, most_nodes(nodes)); ++more)
      if (late_trainings(more, spares) > 0) late.push_back(more);
    return late;
  }
  /// Throws UserError if the site has no room for so many nodes.
  void require_room(int nodes) const {
    if (!room_ || nodes <= room_->nodes) return;
    const std::string why = fmt::format("the site has room for {} (site.{}){}", room_->nodes, room_->limit,
                                        room_->shortage.empty() ? "" : ": " + room_->shortage);
    if (question_.choose) throw UserError(fmt::format("the trainings need at least {} nodes, but {}", nodes, why));
    if (question_.nodes) throw UserError(fmt::format("--nodes {}: {}", nodes, why));
    fail(file_.cluster.place, fmt::format("cluster.nodes {}: {}", nodes, why));
  }
  /// Returns the largest number of nodes of the search: at least `lowest`, unless the site has less room.
  int most_nodes(int lowest) const {
    const int most = most_wanted_nodes(lowest);
    return room_ ? std::min(most, room_->nodes) : most;
  }
  int most_wanted_nodes(int lowest) const {
    if (question_.most_nodes > 0) return question_.most_nodes;
    int all = question_.most_spares;
    for (const QueueArrival& arrival : arrivals_.front())
      all = std::min(kMostSearched, all + steps_[arrival.training].back().nodes);
    return std::max(all, lowest);
  }
  /// Returns true if no training is late on these nodes with one of the possible numbers of spares, the fewest first.
  bool is_enough(int nodes, int least, int& spares) {
    bool takes_nodes = false;
    for (const std::vector<FleetStep>& steps : steps_)
      for (const FleetStep& step : steps)
        takes_nodes |= std::ranges::any_of(step.size.parts, &FailingParts::takes_node);
    const int first = question_.spares.value_or(0);
    const int last = question_.spares.value_or(takes_nodes ? question_.most_spares : 0);
    for (int number = first; number <= std::min(last, nodes - least); ++number)
      if (tried_late(nodes, number) == 0) {
        spares = number;
        return true;
      }
    return false;
  }
  /// Searches upwards, from `first` on, for the fewest nodes on which no training is late. Returns false and leaves the
  /// largest number that was tried if there is none.
  bool choose(int& nodes, int& spares, int first) {
    constexpr int most_strides = 256;
    int least = 1;
    for (const std::vector<FleetStep>& steps : steps_) least = std::max(least, steps.front().nodes);
    const int lowest = std::max(first, least + question_.spares.value_or(0)), most = most_nodes(lowest);
    require_room(lowest);
    if (most < lowest) throw UserError(fmt::format("--most-nodes {}: the trainings need at least {}", most, lowest));
    ProgressLine progress;
    const int stride = std::max(1, (most - lowest) / most_strides);
    spares = question_.spares.value_or(0);
    int before = lowest - 1;
    // Steps of more than one node jump over numbers, which are tried once a larger one is enough.
    bool is_found = false;
    for (nodes = lowest; !(is_found = is_enough(nodes, least, spares)) && nodes < most;
         nodes = std::min(most, nodes + stride)) {
      progress.show(fmt::format("{} nodes", nodes));
      before = nodes;
    }
    for (int fewer = before + 1; fewer < nodes; ++fewer)
      if (is_enough(fewer, least, spares)) nodes = fewer;
    return is_found;
  }
  static constexpr int kMostSearched = 1 << 20;

  // The answer.

  FleetAnswer evaluate(int nodes, int spares) const {
    FleetAnswer a;
    ClusterSpec cluster = file_.cluster;
    cluster.nodes = nodes;
    a.name = file_.name;
    a.cluster = describe(cluster);
    a.node = cluster.node.name;
    a.nodes = nodes;
    a.gpus = cluster.gpus();
    a.spares = spares;
    a.policy = file_.policy;
    a.backfill = file_.backfill;
    a.grace = file_.grace.value;
    a.horizon = file_.horizon.value;
    a.room = room_;
    a.runs = runs_;
    for (const std::vector<FleetStep>& steps : steps_) a.steps.insert(a.steps.end(), steps.begin(), steps.end());
    for (const FleetTraining& training : file_.trainings) {
      FleetGroup group;
      group.training = training.name;
      group.in_time = 0;
      a.groups.push_back(group);
    }
    const std::vector<std::vector<QueueSize>> sizes = sizes_on(nodes, spares);
    std::vector<double> arrivals(file_.trainings.size());
    double watt_seconds = 0;
    for (int i = 0; i < runs_; ++i) {
      const QueueResult result = run(i, nodes, spares, sizes);
      std::vector<FleetRow> rows = rows_of(i, result);
      const bool is_good = count_late(rows) == 0, is_first_late = !is_good && a.good_runs == i;
      a.good_runs += is_good ? 1 : 0;
      a.mean_queue += result.mean_length / runs_;
      a.longest_queue = std::max(a.longest_queue, result.longest);
      add_use(a.use, result);
      for (const FleetRow& row : rows) {
        add_row(a.groups[row.training], row);
        ++arrivals[row.training];
        watt_seconds += row.outcome.node_seconds.on_nodes() * steps_[row.training].front().watts_a_node / runs_;
      }
      if (is_first_late) a.shown_run = i + 1;
      if (i == 0 || is_first_late) a.rows = std::move(rows);
    }
    if (std::ranges::any_of(a.steps, [](const FleetStep& step) { return step.likely_step_times.has_value(); })) {
      const std::vector<std::vector<QueueSize>> slow_sizes = sizes_on(nodes, spares, true);
      a.good_slow_runs = 0;
      for (int i = 0; i < runs_; ++i)
        *a.good_slow_runs += count_late(rows_of(i, run(i, nodes, spares, slow_sizes))) == 0 ? 1 : 0;
    }
    for (std::size_t i = 0; i < arrivals.size(); ++i)
      for (double* sum : {&a.groups[i].in_time, &a.groups[i].mean_wait, &a.groups[i].mean_time, &a.groups[i].failures,
                          &a.groups[i].preemptions})
        *sum /= std::max(1.0, arrivals[i]);
    for (FleetRow& row : a.rows) {
      FleetGroup& group = a.groups[row.training];
      ++group.arrivals;
      if (file_.trainings[row.training].count != 1) row.name += fmt::format(" {}", group.arrivals);
    }
    add_fleet_costs(file_, watt_seconds, a);
    return a;
  }
  void add_use(FleetUse& use, const QueueResult& result) const {
    const double factor = 1 / kHourSeconds / runs_;
    for (const QueueOutcome& outcome : result.outcomes) use.add(outcome.node_seconds, factor);
    use.idle += result.idle * factor;
    use.spare += result.spare * factor;
    use.repair += result.repair * factor;
  }
  static void add_row(FleetGroup& group, const FleetRow& row) {
    const double time = row.outcome.end.value - row.arrival;
    group.in_time += row.in_time() ? 1 : 0;
    group.mean_wait += row.outcome.start.value - row.arrival;
    group.mean_time += time;
    group.longest_time = std::max(group.longest_time, time);
    group.failures += row.outcome.failures;
    group.preemptions += row.outcome.preemptions;
  }
};

}  // namespace

const std::vector<std::string>& queue_policy_names() {
  static const std::vector<std::string> names{"fifo", "priority", "preemptive"};
  return names;
}

const FleetRow* FleetAnswer::tightest() const {
  const FleetRow* tightest = nullptr;
  const auto slack = [](const FleetRow& row) { return (row.due - row.outcome.end.value) / (row.due - row.arrival); };
  for (const FleetRow& row : rows)
    if (!row.is_too_late_to_count && (!tightest || slack(row) < slack(*tightest))) tightest = &row;
  return tightest;
}

FleetAnswer answer_fleet(const FleetFile& file, const FleetQuestion& question) {
  return FleetStudy(file, question).answer();
}

}  // namespace trainyard
