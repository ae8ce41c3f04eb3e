#include <fmt/format.h>
#include <algorithm>
#include <cmath>

#include "scenarios/src/pictures/chart.hpp"
#include "scenarios/src/reading/training_length.hpp"
#include "scenarios/src/studies/sweeps/learn_study.hpp"
#include "tools/reports/report.hpp"
#include "tools/reports/report_lines.hpp"
#include "tools/reports/table.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kMostLooks = 12;  // most points of a curve on a screen

std::string digits(double v) { return std::isfinite(v) ? fmt::format("{:.4g}", v) : "-"; }
std::string share_text(double v) { return std::isfinite(v) ? fmt::format("{:.1f} %", 100 * v) : "-"; }
std::string volume_text(double bytes) { return std::isfinite(bytes) ? show(Bytes{bytes}) : "-"; }

/// A mean with its interval, "3.2 s ± 0.1 s"; a single seed has no interval.
template <class Show>
std::string with_interval(const SeedMean& m, Show show_value) {
  if (m.seeds == 0) return "-";
  if (!std::isfinite(m.half_width)) return show_value(m.mean);
  return fmt::format("{} ± {}", show_value(m.mean), show_value(m.half_width));
}

std::string time_text(double seconds) { return long_time(Seconds{seconds}); }

std::string target_words(const LearnChoice& learn) {
  std::vector<std::string> words;
  if (learn.target_loss) words.push_back(fmt::format("loss {:.4g}", *learn.target_loss));
  if (learn.target_accuracy) words.push_back(fmt::format("accuracy {:.4g} %", *learn.target_accuracy * 100));
  return fmt::format("{}", fmt::join(words, " and "));
}

std::string rule_words(const Scenario& s) {
  const LearnChoice& learn = s.learn;
  std::string words = fmt::format("{}, rate {:.4g}", s.optimizer.name, learn.rule.learning_rate);
  if (learn.scaling != RateScaling::none)
    words += fmt::format(" ({:.4g} at {:.6g} samples, {} scaling{})", learn.base_rate, learn.base_batch,
                         scaling_names()[static_cast<std::size_t>(learn.scaling)],
                         learn.scaling != RateScaling::published ? ""
                         : learn.exponent == 1                   ? ": linear"
                                                                 : ": by the square root");
  if (learn.rule.gradients_have_momentum)
    words += fmt::format(", momentum {:.4g} by the compressor", learn.rule.momentum);
  if (learn.rule.schedule.warmup > 0) words += fmt::format(", warm-up {:.0f} steps", learn.rule.schedule.warmup);
  if (learn.rule.schedule.decay != RateSchedule::Decay::none)
    words += fmt::format(", {} decay", decay_names()[static_cast<std::size_t>(learn.rule.schedule.decay)]);
  if (learn.rule.clip > 0) words += fmt::format(", clipped at {:.4g}", learn.rule.clip);
  return words;
}

std::string header(const Scenario& s, const LearnResult& r) {
  if (s.post_training)
    return fmt::format(
        "{} · {:.0f} GPUs, {} · {} samples a step\n"
        "times of   the post-training of {}, {} a step\n"
        "numbers of {}; loss: how much less often it is right than the best one; accuracy: how often it gives the best "
        "answer\n",
        s.name, r.ranks, r.mechanism, s.post_training->samples(), s.network.name, show(r.step_time()), r.task);
  return fmt::format(
      "{} · {}, {} · batch {}\n"
      "times of   {} ({:.4g} M parameters), {} a step\n"
      "numbers of {}: {}\n",
      s.name, counted_noun(s.ranks(), "GPU"), r.mechanism, s.global_batch_size, s.network.name,
      s.network.parameters() * 1e-6, show(r.step_time()), r.task, r.parameters > 0 ? rule_words(s) : "no numbers");
}

std::string curve(const LearnResult& r) {
  TextTable table{">time",          ">step", ">samples",  ">bytes",
                  ">training loss", ">loss", ">accuracy", ">noise scale, samples"};
  const std::size_t every = (r.points.size() + kMostLooks - 1) / kMostLooks;
  for (std::size_t i = 0; i < r.points.size(); ++i) {
    if (i % every != 0 && i + 1 != r.points.size()) continue;
    const LearnPoint& p = r.points[i];
    table.rows.push_back({time_text(p.time), count_text(p.steps), count_text(p.samples), volume_text(p.bytes),
                          digits(p.training_loss), digits(p.loss), share_text(p.accuracy), count_text(p.noise_scale)});
  }
  return table.text("  ");
}

std::string diverged_words(const LearnResult& r) {
  return std::isfinite(r.diverged_loss)
             ? fmt::format("the loss is {:.3g} and began with {:.3g}", r.diverged_loss, r.points.front().loss)
             : "the loss is no longer a number";
}

std::string ended_words(const LearnResult& r) {
  if (r.diverged_at >= 0) return fmt::format("diverged at step {:.0f}: {}\n", r.diverged_at, diverged_words(r));
  if (r.ended == "early stopping")
    return fmt::format("stopped at step {:.0f}: the loss was best at step {:.0f}\n", r.last().steps, r.best().steps);
  if (r.ended == "interrupted") return fmt::format("interrupted after step {:.0f}\n", r.last().steps);
  if (r.worse_than_start())
    return fmt::format("learned nothing: the loss is {:.4g} at the end and was {:.4g} at the start\n", r.last().loss,
                       r.points.front().loss);
  return "";
}

/// The positions of the replicas at the evaluation at which they are farthest apart.
std::string positions_line(const LearnResult& r) {
  const LearnPoint& far = r.farthest();
  const auto below = std::ranges::count_if(far.positions, [](double w) { return w < 0; });
  return fmt::format(
      "positions  farthest apart at step {:.0f}: {} replicas below 0, {} above; their own loss is {:.3g} on average, "
      "that of their mean {:.3g}\n",
      far.steps, below, std::ssize(far.positions) - below, far.replicas_loss, far.loss);
}

/// Says that the target is looked for in evaluations only; "" if each step has one.
std::string evaluation_words(const Scenario& s) {
  return s.learn.interval_steps == 1
             ? ""
             : fmt::format("at the first evaluation that reaches it, one every {} steps (learn.evaluate_every)",
                           s.learn.interval_steps);
}

std::string target_lines(const Scenario& s, const LearnVariant& v, int seeds) {
  if (!s.learn.has_target() && !s.learn.task.formula.is_given()) return "";
  const std::string target = s.learn.has_target() ? target_words(s.learn) : "the formula's";
  if (v.reached_runs() == 0 && v.runs.front().ended == "interrupted")
    return fmt::format("target     {}: not within {}, before the interruption\n", target,
                       counted_noun(std::llround(v.runs.front().last().steps), "step"));
  if (v.reached_runs() == 0 && v.diverged_runs() == v.runs.size())
    return fmt::format("target     {}: not reached, the training diverged\n", target);
  if (v.reached_runs() == 0)
    return fmt::format("target     {}: not within {}\n", target, counted_noun(s.learn.steps, "step"));
  const std::string seeds_text = v.reached_runs() < static_cast<std::size_t>(seeds)
                                     ? fmt::format(" ({} of {} seeds reached it)", v.reached_runs(), seeds)
                                 : seeds > 1 ? fmt::format(" (mean of {} seeds, 95 % interval)", seeds)
                                             : "";
  const auto mean = [&](auto of_target) { return v.to_target(of_target); };
  const std::string evaluation = s.learn.has_target() ? evaluation_words(s) : "";
  return fmt::format(
      "target     {}{}: {} · {} steps · {} samples · {} GPU-hours\n{}", target, seeds_text,
      with_interval(mean([](const LearnResult&, const LearnPoint& p) { return p.time; }), time_text),
      with_interval(mean([](const LearnResult&, const LearnPoint& p) { return p.steps; }), count_text),
      with_interval(mean([](const LearnResult&, const LearnPoint& p) { return p.samples; }), count_text),
      with_interval(mean([](const LearnResult& r, const LearnPoint& p) { return r.gpu_hours(p); }), digits),
      evaluation.empty() ? "" : "           " + evaluation + "\n");
}

struct Against {
  const char* name;
  double LearnPoint::*figure;
  ChartAxis::Scale scale;
  std::string (*label)(double);
};
constexpr Against kAgainst[] = {
    {"simulated time", &LearnPoint::time, ChartAxis::Scale::linear, [](double v) { return show(Seconds{v}); }},
    {"samples", &LearnPoint::samples, ChartAxis::Scale::linear, [](double v) { return fmt::format("{:.6g}", v); }},
    {"bytes", &LearnPoint::bytes, ChartAxis::Scale::binary, [](double v) { return show(Bytes{v}); }}};

/// The mean over the seeds at each point of the curves, up to the end of the shortest curve.
std::vector<ChartSeries::Point> mean_points(const LearnVariant& v, double LearnPoint::*across, double LearnPoint::*up) {
  std::size_t count = v.runs.empty() ? 0 : v.runs.front().points.size();
  for (const LearnResult& r : v.runs) count = std::min(count, r.points.size());
  std::vector<ChartSeries::Point> points;
  for (std::size_t i = 0; i < count; ++i) {
    double x = 0, y = 0;
    for (const LearnResult& r : v.runs) {
      x += r.points[i].*across / static_cast<double>(v.runs.size());
      y += r.points[i].*up / static_cast<double>(v.runs.size());
    }
    if (std::isfinite(x) && std::isfinite(y)) points.push_back({x, y});
  }
  return points;
}

/// The values of each replica's first parameter over the steps, in the first seed; an empty chart if the task has many
/// parameters. The dashed line is their mean.
Chart positions_chart(const LearnStudy& study, std::size_t variant) {
  const LearnVariant& v = study.variants[variant];
  Chart chart{study.variants.size() == 1 ? "replicas' positions against steps" : "positions: " + v.name};
  if (v.runs.empty() || v.runs.front().points.front().positions.empty()) return chart;
  const std::vector<LearnPoint>& points = v.runs.front().points;
  const std::size_t replicas = points.front().positions.size();
  ChartSeries mean{.color = series_color(variant + 1), .dashed = true};
  for (std::size_t replica = 0; replica < replicas; ++replica) {
    ChartSeries path{.color = series_color(variant)};
    for (const LearnPoint& p : points) path.points.push_back({p.steps, p.positions.at(replica)});
    chart.series.push_back(std::move(path));
  }
  for (const LearnPoint& p : points) {
    double sum = 0;
    for (const double w : p.positions) sum += w;
    mean.points.push_back({p.steps, sum / static_cast<double>(replicas)});
  }
  if (replicas > 1) chart.series.push_back(std::move(mean));
  return chart;
}

}  // namespace

std::string scaling_advice(const Scenario& s) {
  const LearnChoice& learn = s.learn;
  const bool lamb = learn.rule.kind == UpdateRule::Kind::lamb;
  std::string text;
  if (learn.scaling == RateScaling::linear && learn.rule.is_adaptive())
    text +=
        "           linear scaling is SGD's (Goyal et al. 2017); LAMB's paper scales by the square root of the\n"
        "           batch, with a warm-up: --set learn.scaling=published\n";
  constexpr double large = 0.1;
  if (lamb && learn.rule.learning_rate > large)
    text += fmt::format(
        "           a step of LAMB changes each layer by the rate times the norm of its weights; the\n"
        "           rate is {:.3g}: set a smaller learn.learning_rate\n",
        learn.rule.learning_rate);
  return text;
}

/// A line about a small network that compression shrinks far less than the timed one, whose time is shown. `name` "": it
/// is the only training.
std::string compression_line(const std::string& name, const LearnResult& r) {
  constexpr double kFarLess = 2;
  if (r.sent_share < kFarLess * r.timed_sent_share) return "";
  return broken_lines(fmt::format(
      "{}{}compression leaves {} of the gradients of the small network, whose loss this is, and {} of those of the "
      "timed network: a loss with so little sent is not known\n",
      report_label("doubt"), name.empty() ? "" : name + ": ", percent(r.sent_share), percent(r.timed_sent_share)));
}

std::string learn_report(const Scenario& s, const LearnVariant& v, int seeds) {
  const LearnResult& r = v.runs.front();
  std::string text = header(s, r);
  if (v.likely_steps)
    text += fmt::format("doubt      80 % of real steps take {} to {}: all times are as uncertain\n",
                        show(Seconds{v.likely_steps->front()}), show(Seconds{v.likely_steps->back()}));
  text += compression_line("", r);
  if (r.parameters > 0) text += "\n" + curve(r) + "\n" + ended_words(r);
  if (r.saved_step >= 0)
    text += fmt::format("saved      the weights of step {:.0f}, in {}\n", r.saved_step, s.learn.save);
  if (v.diverged_runs() > 0) text += scaling_advice(s);
  if (r.mean_lambda != 1)
    text +=
        fmt::format("lambda     {:.3g} on average: the factor on a worker's gradient, or the share of its weights\n",
                    r.mean_lambda);
  if (r.worst_staleness > 0)
    text += fmt::format("staleness  {:.3g} {} on average, {} at most\n", r.mean_staleness,
                        s.post_training ? "steps" : "updates", r.worst_staleness);
  if (r.merges > 0)
    text += fmt::format("merges     {:.0f} in {}\n", r.merges, counted_noun(std::llround(r.last().steps), "step"));
  if (const std::vector<double>& all = r.last().positions; all.size() > 1) text += positions_line(r);
  if (r.last().replica_distance > 0 || r.merges > 0)
    text += fmt::format("replicas   {:.3g} from their mean at the end, root mean square\n", r.last().replica_distance);
  if (seeds > 1)
    text +=
        fmt::format("{} seeds    loss {}, accuracy {}{}\n", seeds, with_interval(v.at_end(&LearnPoint::loss), digits),
                    with_interval(v.at_end(&LearnPoint::accuracy), share_text),
                    v.diverged_runs() > 0 ? fmt::format("; {} diverged", v.diverged_runs()) : "");
  return text + target_lines(s, v, seeds);
}

std::string learn_comparison(const Scenario& s, const LearnStudy& study) {
  std::string text = fmt::format("{}: {}\n", s.name, [&] {
    for (const LearnVariant& v : study.variants)
      if (!v.runs.empty()) return v.runs.front().task;
    return std::string();
  }());
  TextTable table{"", ">a step", ">loss", ">accuracy", ">samples", ">bytes"};
  const bool compares = study.variants.size() > 1;
  const bool formula = s.learn.task.formula.is_given();
  if (study.has_target || formula) {
    for (const char* head : {"time to target", "times as fast", "steps", "samples to target", "GPU-hours", "reached"}) {
      if (!compares && head == std::string("times as fast")) continue;
      table.add_column(head);
    }
    const std::string evaluation = formula ? "" : evaluation_words(s);
    text += fmt::format("target: {}{}\n", formula ? "the formula's" : target_words(s.learn),
                        evaluation.empty() ? "" : ", " + evaluation);
  }
  const bool has_intervals =
      std::ranges::any_of(study.variants, [](const auto& v) { return v.likely_steps.has_value(); });
  if (has_intervals) table.add_column("80 % of real steps");
  const bool shows_replicas = std::ranges::any_of(study.variants, [](const LearnVariant& v) {
    return std::ranges::any_of(v.runs, [](const LearnResult& r) { return r.last().replica_distance > 0; });
  });
  if (shows_replicas) table.add_column("replicas apart");
  for (const LearnVariant& v : study.variants) {
    if (!v.error.empty()) {
      table.rows.push_back({v.name, v.error});
      table.rows.back().resize(table.head.size());
      continue;
    }
    std::vector<std::string> row{v.name,
                                 show(v.runs.front().step_time()),
                                 with_interval(v.at_end(&LearnPoint::loss), digits),
                                 with_interval(v.at_end(&LearnPoint::accuracy), share_text),
                                 with_interval(v.at_end(&LearnPoint::samples), count_text),
                                 volume_text(v.at_end(&LearnPoint::bytes).mean)};
    if (v.diverged_runs() > 0)
      row[2] = fmt::format(
          "diverged at step {:.0f}{}",
          [&] {
            for (const LearnResult& r : v.runs)
              if (r.diverged_at >= 0) return r.diverged_at;
            return 0.0;
          }(),
          v.diverged_runs() < v.runs.size() ? fmt::format(" ({} of {})", v.diverged_runs(), v.runs.size()) : "");
    else if (std::ranges::all_of(v.runs, [](const LearnResult& r) { return r.worse_than_start(); }))
      row[2] += ", above the start's";
    if (study.has_target || formula) {
      row.push_back(
          with_interval(v.to_target([](const LearnResult&, const LearnPoint& p) { return p.time; }), time_text));
      if (compares)
        row.push_back(
            with_interval(v.speedup(study.variants.front()), [](double x) { return fmt::format("{:.3g}", x); }));
      row.push_back(
          with_interval(v.to_target([](const LearnResult&, const LearnPoint& p) { return p.steps; }), count_text));
      row.push_back(
          with_interval(v.to_target([](const LearnResult&, const LearnPoint& p) { return p.samples; }), count_text));
      row.push_back(
          with_interval(v.to_target([](const LearnResult& r, const LearnPoint& p) { return r.gpu_hours(p); }), digits));
      row.push_back(fmt::format("{} of {}", v.reached_runs(), v.runs.size()));
    }
    if (has_intervals)
      row.push_back(v.likely_steps ? fmt::format("{} to {}", show(Seconds{v.likely_steps->front()}),
                                                 show(Seconds{v.likely_steps->back()}))
                                   : std::string("no interval"));
    if (shows_replicas) row.push_back(with_interval(v.at_end(&LearnPoint::replica_distance), digits));
    table.rows.push_back(std::move(row));
  }
  const std::string cells = table.text("  ");
  const bool has_seeds = cells.find("±") != std::string::npos;
  std::string doubts;
  for (const LearnVariant& v : study.variants)
    if (!v.runs.empty()) doubts += compression_line(v.name, v.runs.front());
  return text + cells + doubts + (has_seeds ? "±: half of the 95 % interval of the mean over the seeds\n" : "");
}

std::string learn_svg(const std::string& title, const LearnStudy& study) {
  ChartSheet sheet{.title = title,
                   .description = "Loss of a small training against simulated time, samples and bytes",
                   .columns = std::size(kAgainst)};
  for (std::size_t v = 0; v < study.variants.size() && study.variants.size() > 1; ++v)
    sheet.legend.push_back({series_color(v), study.variants[v].name});
  std::vector<Chart> charts;
  for (const auto& [up, figure] : {std::pair{"loss", &LearnPoint::loss}, std::pair{"accuracy", &LearnPoint::accuracy}})
    for (const Against& against : kAgainst) {
      Chart chart{fmt::format("{} against {}", up, against.name), ChartAxis(against.scale), ChartAxis(), against.label};
      for (std::size_t v = 0; v < study.variants.size(); ++v)
        chart.series.push_back({series_color(v), mean_points(study.variants[v], against.figure, figure)});
      charts.push_back(std::move(chart));
    }
  const bool has_accuracy = std::ranges::any_of(study.variants, [](const LearnVariant& v) {
    return !v.runs.empty() && std::isfinite(v.runs.front().last().accuracy);
  });
  if (!has_accuracy) charts.resize(std::size(kAgainst));
  for (std::size_t v = 0; v < study.variants.size(); ++v)
    if (const Chart chart = positions_chart(study, v); !chart.series.empty()) charts.push_back(chart);
  return charts_svg(sheet, charts);
}

}  // namespace trainyard
