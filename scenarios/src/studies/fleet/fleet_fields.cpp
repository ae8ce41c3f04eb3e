// The answer of a fleet as JSON and CSV, and its sentences.
#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "scenarios/src/answer/csv_cell.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/answer/memory_verdict.hpp"
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/pictures/chart.hpp"
#include "scenarios/src/studies/fleet/fleet.hpp"

namespace trainyard {
namespace {

JsonFields<FleetStep> fleet_step_fields() {
  using S = FleetStep;
  const auto writes = [](const S& s) { return s.size.checkpoint.interval_steps > 0; };
  return JsonFields<S>()
      .value("training", "", &S::training, "name of the training")
      .value("nodes", "", &S::nodes, "number of nodes")
      .value("step_time_s", "s", &S::step_time, "time of one step, as run gives it")
      .value(
          "step_time_interval_s", "s", &S::likely_step_times,
          "lower and upper end of the interval that holds the step time of the real machine with a probability of 80 %")
      .when(&S::likely_step_times, "if the stack is one that can be measured")
      .value("out_of_memory_probability", "share", &S::risk, "probability that a device runs out of memory")
      .value("alone_time_s", "s", &S::alone_time,
             "time of the whole training with its checkpoints, if nothing interrupts it")
      .value("tokens_per_J", "1/J", &S::tokens_per_joule, "tokens of its steps a joule of the site")
      .when(&S::tokens_per_joule, "if the power of the devices is stated")
      .value(
          "checkpoint_interval_s", "s", [](const S& s) { return s.size.checkpoint.interval_steps * s.step_time; },
          "training time between checkpoints")
      .value(
          "checkpoint_stall_s", "s", [](const S& s) { return s.size.checkpoint.stall.value; },
          "time for which a checkpoint stops training")
      .when_since("checkpoint_interval_s", writes, "with checkpoints");
}

JsonFields<FleetGroup> fleet_group_fields() {
  using G = FleetGroup;
  return JsonFields<G>()
      .value("training", "", &G::training, "name of the training")
      .value("arrivals", "", &G::arrivals, "number of arrivals in the shown run")
      .value("in_time_share", "share", &G::in_time, "share of the arrivals of all runs that end in time")
      .value("mean_wait_s", "s", &G::mean_wait, "mean time from arrival to start")
      .value("mean_time_s", "s", &G::mean_time, "mean time from arrival to end")
      .value("longest_time_s", "s", &G::longest_time, "longest time from arrival to end")
      .value("failures", "", &G::failures, "mean number of failures of an arrival")
      .value("preemptions", "", &G::preemptions, "mean number of times that an arrival is stopped for others")
      .value("cost", "money", &G::money,
             "share of all its arrivals of the shown run in the least cost of the cluster, by node-hours; all shares "
             "are that cost")
      .when(&G::money, "with prices")
      .value("money_per_million", "money", &G::per_million, "that cost for a million tokens of these arrivals")
      .when(&G::per_million, "with prices, if the network has tokens")
      .value("tokens_per_J", "1/J", &G::tokens_per_joule,
             "tokens of these arrivals a joule of the site, for the time in which they have nodes")
      .when(&G::tokens_per_joule, "if the power of the devices is stated");
}

JsonFields<FleetRow> fleet_row_fields() {
  using R = FleetRow;
  const auto seconds = [](double TrainingTime::*part) { return [part](const R& r) { return r.outcome.time.*part; }; };
  return JsonFields<R>()
      .value("name", "", &R::name, "name of the training, with the number of its arrival if there may be several")
      .value("priority", "", &R::priority, "priority of the training")
      .value("arrival_s", "s", &R::arrival, "time of the arrival")
      .value(
          "start_s", "s", [](const R& r) { return r.outcome.start.value; }, "time at which training begins")
      .value(
          "end_s", "s", [](const R& r) { return r.outcome.end.value; }, "time at which training ends")
      .value("due_s", "s", &R::due, "latest end in time: the deadline, or the horizon if there is none")
      .value("in_time", "", &R::in_time,
             "whether training ends in time; also true without a deadline, if the arrival is too late for any number "
             "of nodes")
      .value(
          "nodes", "",
          [](const R& r) {
            std::vector<int> nodes;
            for (const QueueOutcome::Stay& stay : r.outcome.stays) nodes.push_back(stay.nodes);
            return nodes;
          },
          "number of nodes of each uninterrupted stay")
      .value("waiting_s", "s", seconds(&TrainingTime::waiting), "time in the queue, also after interruptions")
      .value("steps_s", "s", seconds(&TrainingTime::steps), "time of steps that count")
      .value("checkpoints_s", "s", seconds(&TrainingTime::checkpoints), "time for which checkpoints stop training")
      .value("lost_to_failures_s", "s", seconds(&TrainingTime::lost_to_failures),
             "time of steps that are repeated after failures")
      .value("lost_to_preemption_s", "s", seconds(&TrainingTime::lost_to_preemption),
             "time of steps that are repeated after preemption")
      .value("restarts_s", "s", seconds(&TrainingTime::restarts),
             "time to detect failures, to restart and to read checkpoints")
      .value(
          "failures", "", [](const R& r) { return r.outcome.failures; }, "number of failures")
      .value(
          "preemptions", "", [](const R& r) { return r.outcome.preemptions; }, "number of stops for other trainings")
      .value(
          "node_hours", "h", [](const R& r) { return r.outcome.node_seconds.on_nodes() / 3600; },
          "node-hours within the horizon")
      .value("cost", "money", &R::money, "share in the least cost of the cluster, by node-hours")
      .when(&R::money, "with prices");
}

JsonFields<FleetUse> fleet_use_fields() {
  using U = FleetUse;
  return JsonFields<U>()
      .value("steps", "h", &U::steps, "node-hours of steps that count")
      .value("checkpoints", "h", &U::checkpoints, "node-hours for which checkpoints stop training")
      .value("lost_to_failures", "h", &U::lost_to_failures, "node-hours of steps that are repeated after failures")
      .value("lost_to_preemption", "h", &U::lost_to_preemption,
             "node-hours of steps that are repeated after preemption")
      .value("restarts", "h", &U::restarts, "node-hours of detection, restarts and reading checkpoints")
      .value("idle", "h", &U::idle, "node-hours without a training")
      .value("spare", "h", &U::spare, "node-hours of spares that wait to replace a failed node")
      .value("repair", "h", &U::repair, "node-hours of failed nodes until they are back")
      .value("sum", "h", &U::sum, "sum of these: number of nodes times horizon");
}

const JsonFields<FleetAnswer>& fleet_fields() {
  using A = FleetAnswer;
  const auto has_prices = [](const A& a) { return !a.currency.empty(); };
  static const JsonFields<A> fields =
      JsonFields<A>()
          .value("name", "", &A::name, "name of the file")
          .value("cluster", "", &A::cluster, "the cluster in one line")
          .value("nodes", "", &A::nodes, "number of nodes of the cluster")
          .value("gpus", "", &A::gpus, "number of devices of all nodes")
          .value("spares", "", &A::spares, "nodes among these that only replace failed ones")
          .value(
              "policy", "", [](const A& a) { return queue_policy_names()[static_cast<std::size_t>(a.policy)]; },
              "order of waiting trainings: fifo, priority or preemptive")
          .value("backfill", "", &A::backfill, "whether trainings overtake those that this does not delay")
          .value("grace_time_s", "s", &A::grace,
                 "time that a stopped training has for a checkpoint; 0: it stops at once")
          .value("horizon_s", "s", &A::horizon, "time that is simulated")
          .value("verdict", "", &A::verdict, "whether the cluster is enough, in a sentence")
          .value("limit", "", &A::limit, "the training with the least slack in the shown run, and where its time goes")
          .value("runs", "", &A::runs, "number of runs; each has other random failures and arrivals")
          .value("runs_in_time", "", &A::good_runs, "number of runs in which no training is late")
          .value(
              "runs_in_time_if_slow", "", [](const A& a) { return a.good_slow_runs.value_or(0); },
              "number of such runs if all steps take as long as the upper ends of their intervals")
          .when(&A::good_slow_runs, "if a step has an interval")
          .value("shown_run", "", &A::shown_run, "number of the first run with a late training; 1: there is none")
          .list("steps", &A::steps, fleet_step_fields(), "the trainings on each of their numbers of nodes")
          .list("groups", &A::groups, fleet_group_fields(), "the trainings of the file, over all arrivals and runs")
          .list("trainings", &A::rows, fleet_row_fields(), "the arrivals of the shown run, by time")
          .object("node_hours", &A::use, fleet_use_fields(), "use of the cluster within the horizon, mean of the runs")
          .value("mean_queue", "", &A::mean_queue, "mean number of waiting trainings")
          .value("longest_queue", "", &A::longest_queue, "largest number of waiting trainings")
          .value("currency", "", &A::currency, "currency of the prices")
          .when(has_prices, "with prices")
          .list("costs", &A::costs,
                JsonFields<FleetCost>()
                    .value("terms", "", &FleetCost::terms, "way to pay: on demand, a reserved term, or purchase")
                    .value("cost", "money", &FleetCost::money, "cost of all nodes for the horizon")
                    .value("node_hour", "money", &FleetCost::node_hour, "that cost over all node-hours")
                    .value("years", "years", &FleetCost::years, "years of depreciation")
                    .value("total", "money", &FleetCost::total, "cost of owning it for these years, in use as here")
                    .when_since("years", &FleetCost::years, "of a purchase"),
                "cost of the cluster by each way to pay, the least first")
          .when(has_prices, "with prices")
          .object("ownership", &A::ownership, ownership_fields(),
                  "cost of buying the cluster, with the power that it takes here, beside its rents")
          .when(&A::ownership, "if its nodes have a purchase price")
          .list("tries", &A::tries,
                JsonFields<FleetTrial>()
                    .value("nodes", "", &FleetTrial::nodes, "number of nodes")
                    .value("spares", "", &FleetTrial::spares, "spares among these nodes")
                    .value("late", "", &FleetTrial::late,
                           "number of late trainings in the first run with late ones; 0: no run has any"),
                "the clusters that were tried, in their order")
          .when(&A::tries, "with --nodes choose, or if the given nodes are not enough")
          .value(
              "enough_nodes", "", [](const A& a) { return a.enough ? a.enough->nodes : 0; },
              "fewest nodes, of those tried, with which no training is late, if the given ones are not enough; 0: they "
              "are, or no number that was tried is")
          .value(
              "enough_spares", "", [](const A& a) { return a.enough ? a.enough->spares : 0; },
              "spares among these nodes")
          .value(
              "enough_nodes_above", "", [](const A& a) { return a.enough_above ? a.enough_above->nodes : 0; },
              "fewest nodes from the given number on with which no training is late, if fewer than given are enough; "
              "else 0")
          .value(
              "enough_spares_above", "", [](const A& a) { return a.enough_above ? a.enough_above->spares : 0; },
              "spares among these nodes")
          .value(
              "late_on_more_nodes", "", &A::late_on_more_nodes,
              "with --nodes choose: those of the next eight larger numbers of nodes with which some training is late")
          .value(
              "site_nodes", "", [](const A& a) { return a.room ? a.room->nodes : 0; },
              "most nodes that the site has room for")
          .value(
              "site_limit", "", [](const A& a) { return a.room ? a.room->limit : ""; },
              "the key of `site` that allows the fewest nodes")
          .when_since("site_nodes", &A::room, "with limits of the site")
          .value("left_out", "", &A::left_out,
                 "numbers of nodes that were left out of ranges, with the reason for one of them")
          .when(&A::left_out, "if a range has such numbers");
  return fields;
}

const RegisterJsonReference fleet_reference{"fleet", "trainings on one cluster over a year", fleet_fields};

/// The words about the fewest nodes from the given number on, if fewer are enough.
std::string larger_words(const FleetAnswer& a) {
  if (!a.enough_above) return "";
  return fmt::format(
      ", and from {} nodes on {} with {}: on more nodes trainings start in another order, and some end later", a.nodes,
      a.enough_above->nodes, counted_noun(a.enough_above->spares, "spare"));
}

/// Names the trainings that may run out of memory on nodes that the cluster has for them; "": none.
std::string at_risk(const FleetAnswer& a) {
  std::vector<std::string> words;
  for (const FleetStep& step : a.steps)
    if (!is_safe_risk(step.risk) && step.nodes <= a.nodes - a.spares)
      words.push_back(fmt::format("{} on {} with a probability of {}", step.training, counted_noun(step.nodes, "node"),
                                  percent(step.risk, 0)));
  return words.empty() ? "" : fmt::format(" At risk to run out of memory: {}.", fmt::join(words, ", "));
}

std::string verdict_of(const FleetAnswer& a) {
  const auto late = std::ranges::count_if(a.rows, [](const FleetRow& row) { return !row.in_time(); });
  const std::string cluster =
      fmt::format("{} ({} GPUs, {})", counted_noun(a.nodes, "node"), a.gpus, counted_noun(a.spares, "spare"));
  std::string text;
  if (a.is_enough())
    text = fmt::format("{} {} enough{}: {} late{}.", cluster, a.nodes == 1 ? "is" : "are",
                       a.is_chosen ? ", the fewest of those tried" : "",
                       a.runs > 1           ? "no training is"  // runs with random arrivals have other numbers of them
                       : a.rows.size() == 1 ? "the training is not"
                                            : fmt::format("none of {} trainings is", a.rows.size()),
                       a.runs == 1 ? "" : fmt::format(" in {} runs", a.runs));
  else
    text = fmt::format(
        "{}{} {} not enough: {} of {} late{}.", a.is_chosen ? "No number of nodes that was tried is enough. " : "",
        cluster, a.nodes == 1 ? "is" : "are", late, counted_noun(static_cast<std::int64_t>(a.rows.size()), "training"),
        a.runs == 1
            ? ""
            : fmt::format(" in run {}, and {} of {} runs have no late training", a.shown_run, a.good_runs, a.runs));
  if (a.good_slow_runs)
    text += fmt::format(" With steps at the upper ends of their 80 % intervals, {}.",
                        a.runs > 1 ? fmt::format("{} of {} runs have no late training", *a.good_slow_runs, a.runs)
                        : *a.good_slow_runs > 0 ? "none is late"
                                                : "some training is late");
  if (!a.is_chosen && !a.hopeless.empty())
    text += fmt::format(" No number of nodes is: {} would be late on a cluster of its own.", a.hopeless);
  else if (a.enough)
    text += fmt::format(" {} with {} would be enough{}.", counted_noun(a.enough->nodes, "node"),
                        counted_noun(a.enough->spares, "spare"), larger_words(a));
  else if (!a.is_chosen && !a.tries.empty())
    text +=
        fmt::format(" No number up to {} is enough either.", std::ranges::max(a.tries, {}, &FleetTrial::nodes).nodes);
  if (!a.is_enough() && a.room && a.hopeless.empty())
    text += fmt::format(" The site has room for {} (site.{}).", counted_noun(a.room->nodes, "node"), a.room->limit);
  if (!a.late_on_more_nodes.empty())
    text += fmt::format(" More nodes are not always better: with {} of them some training is late.",
                        fmt::join(a.late_on_more_nodes, ", "));
  return text + fmt::format(" Steps take {} of the node-hours.", percent(a.use.steps / a.use.sum())) + at_risk(a);
}

std::string limit_of(const FleetAnswer& a) {
  const FleetRow* row = a.tightest();
  if (!row) return "No training has to end within the horizon.";
  const TrainingTime& time = row->outcome.time;
  const double slack = row->due - row->outcome.end.value;
  std::vector<std::pair<double, std::string>> parts{{time.steps, "steps"},
                                                    {time.waiting, "waiting for nodes"},
                                                    {time.lost_to_failures, "steps repeated after failures"},
                                                    {time.lost_to_preemption, "steps repeated after preemption"},
                                                    {time.restarts, "restarts"},
                                                    {time.checkpoints, "checkpoints"}};
  std::ranges::stable_sort(parts, [](const auto& x, const auto& y) { return x.first > y.first; });
  std::vector<std::string> words;
  for (const auto& [seconds, name] : parts)
    if (seconds > 0) words.push_back(fmt::format("{} {}", name, long_time(Seconds{seconds})));
  std::string text =
      fmt::format("{} has the least slack: it ends {} {} its time is up. From arrival to end: {}.", row->name,
                  long_time(Seconds{std::abs(slack)}), slack < 0 ? "after" : "before", fmt::join(words, ", "));
  double alone = HUGE_VAL;
  for (const FleetStep& step : a.steps)
    if (step.training == a.groups[row->training].training) alone = std::min(alone, step.alone_time);
  if (alone > row->due - row->arrival)
    text += fmt::format(" Alone on its best number of nodes it would take {}: a larger cluster does not help.",
                        long_time(Seconds{alone}));
  return text;
}

constexpr double kFleetWidth = 1000, kFleetLeft = 150, kLaneHeight = 16, kFleetTop = 56, kUseHeight = 120;
constexpr std::size_t kMostLanes = 100;
constexpr double kPictureDay = 86400;
constexpr const char *kFleetInk = "#222222", *kWaitingFill = "#d8d8d8", *kLateInk = "#cc0000";

/// Returns the numbers of nodes with a training over time: each holds from its time on.
std::map<double, int> nodes_in_use(const FleetAnswer& answer) {
  std::map<double, int> changes{{0, 0}}, use;
  for (const FleetRow& row : answer.rows)
    for (const QueueOutcome::Stay& stay : row.outcome.stays) {
      changes[stay.begin.value] += stay.nodes;
      changes[stay.end.value] -= stay.nodes;
    }
  int nodes = 0;
  for (const auto& [time, change] : changes) use[time] = nodes += change;
  return use;
}

}  // namespace

nlohmann::ordered_json fleet_json(const FleetAnswer& answer) { return fleet_fields().json(answer); }

std::string fleet_csv(const FleetAnswer& answer) {
  const JsonFields<FleetRow> fields = fleet_row_fields();
  std::vector<std::string> keys;
  for (const FieldRow& field : fields.rows())
    if (field.path != "nodes" && (field.path != "cost" || !answer.currency.empty())) keys.push_back(field.path);
  std::string text = fmt::format("{}\n", fmt::join(keys, ","));
  for (const FleetRow& row : answer.rows) text += csv_line(fields.json(row), keys);
  return text;
}

std::string ranges_in_words(const std::vector<int>& numbers) {
  std::vector<std::string> words;
  for (std::size_t first = 0, last = 0; first < numbers.size(); first = ++last) {
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    words.push_back(first == last ? fmt::format("{}", numbers[first])
                                  : fmt::format("{} to {}", numbers[first], numbers[last]));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

void judge_fleet(FleetAnswer& answer) {
  answer.verdict = verdict_of(answer);
  answer.limit = limit_of(answer);
}

std::string fleet_picture(const FleetAnswer& answer) {
  const std::size_t lanes = std::min(kMostLanes, answer.rows.size());
  ChartAxis days(0, answer.horizon / kPictureDay);
  for (std::size_t i = 0; i < lanes; ++i) days.include(answer.rows[i].outcome.end.value / kPictureDay);
  const PlotArea area{kFleetLeft, kFleetTop, kFleetWidth - kFleetLeft - 20, static_cast<double>(lanes) * kLaneHeight};
  const PlotArea use{kFleetLeft, area.top + area.height + 50, area.width, kUseHeight};
  const auto x = [&](double seconds) { return area.x(days, seconds / kPictureDay); };
  Svg svg(kFleetWidth, use.top + use.height + 60, "trainings of " + answer.name,
          "a lane for each training from its arrival to its end, and the nodes in use over time");
  svg.text(16, 22, answer.name + ": " + answer.cluster, {.size = 13, .bold = true});
  svg.text(16, 40,
           fmt::format("days; the first {} of {} trainings of run {}; a red line: the deadline of a late one", lanes,
                       answer.rows.size(), answer.shown_run),
           {});
  const TickLabel label = short_number;
  draw_x_axis(svg, area, days, label);
  for (std::size_t i = 0; i < lanes; ++i) {
    const FleetRow& row = answer.rows[i];
    const double top = area.top + static_cast<double>(i) * kLaneHeight, height = kLaneHeight - 3;
    svg.text(kFleetLeft - 8, top + 11, row.name, {.size = 10, .anchor = Svg::Anchor::end});
    svg.rect(x(row.arrival), top + 4, x(row.outcome.end.value) - x(row.arrival), height - 8, kWaitingFill);
    for (const QueueOutcome::Stay& stay : row.outcome.stays)
      svg.bar(x(stay.begin.value), top, x(stay.end.value) - x(stay.begin.value), height, series_color(row.training),
              fmt::format("{}", stay.nodes), "#ffffff");
    if (!row.in_time()) svg.line(x(row.due), top - 1, x(row.due), top + height + 1, {kLateInk, 2});
  }
  ChartAxis nodes(0, answer.nodes);
  draw_x_axis(svg, use, days, label);
  for (const double tick : nodes.ticks(4))
    svg.text(kFleetLeft - 8, use.y(nodes, tick) + 4, short_number(tick), {.anchor = Svg::Anchor::end});
  std::string path = fmt::format("M{} {}", Svg::number(use.x(days, 0)), Svg::number(use.y(nodes, 0)));
  for (const auto& [time, in_use] : nodes_in_use(answer))
    path += fmt::format("H{}V{}", Svg::number(x(time)), Svg::number(use.y(nodes, in_use)));
  svg.path(path + fmt::format("V{}Z", Svg::number(use.y(nodes, 0))), series_color(0), 0.5);
  svg.frame(use.left, use.top, use.width, use.height, "#999999");
  svg.text(use.left, use.top - 8, "nodes with a training", {.fill = kFleetInk, .bold = true});
  std::vector<LegendEntry> legend{{kWaitingFill, "waiting"}};
  for (std::size_t i = 0; i < answer.groups.size(); ++i)
    legend.push_back({series_color(i), answer.groups[i].training + " on so many nodes"});
  const double bottom = use.top + use.height + 34, below = draw_legend(svg, 16, bottom, kFleetWidth - 16, legend);
  svg.resize(kFleetWidth, bottom + below + 16);
  return svg.finish();
}

}  // namespace trainyard
