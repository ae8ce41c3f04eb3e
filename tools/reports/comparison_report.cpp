#include "tools/reports/comparison_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>

#include "scenarios/src/answer/memory_verdict.hpp"
#include "scenarios/src/reading/training_length.hpp"
#include "scenarios/src/studies/measured/ratio_doubt.hpp"
#include "tools/reports/report_lines.hpp"

namespace trainyard {
namespace {

using Cell = std::function<std::string(const Result&)>;

/// The verdict on memory, if it is not that the plan fits.
std::string memory_note(const Result& r) {
  const std::string_view words = r.fits_in_words();
  return words == "yes" ? "" : words == "no" ? " (does not fit)" : " (at risk)";
}

std::string interval_cell(const std::optional<std::array<double, 2>>& interval) {
  return interval ? fmt::format("{} to {}", show(Seconds{interval->front()}), show(Seconds{interval->back()})) : "-";
}

/// The lines of the comparison. A line in which no scenario has a figure is left out.
class ComparedFigures {
 public:
  explicit ComparedFigures(const Comparison& comparison) : comparison_(comparison), table_{""} {
    for (const Result& r : comparison.results) table_.add_column(r.scenario);
  }

  void add(const std::string& name, const Cell& cell) {
    std::vector<std::string> row{name};
    for (const Result& r : comparison_.results) row.push_back(cell(r));
    add_row(std::move(row));
  }
  void add_row(std::vector<std::string> row) {
    if (std::any_of(row.begin() + 1, row.end(), [](const std::string& cell) { return cell != "-"; }))
      table_.rows.push_back(std::move(row));
  }
  /// Adds a line of loops; other scenarios have "-".
  void add_of_loop(const std::string& name, const std::function<std::string(const PostTrainingResult&)>& cell) {
    add(name, [&cell](const Result& r) { return r.post_training ? cell(*r.post_training) : std::string("-"); });
  }
  /// Adds an amount of money; 0 is "-". Engines that answer prompts have none: it would be that of forward passes.
  void add_money(const std::string& name, const std::function<double(const Money&)>& sum) {
    add(name, [&sum](const Result& r) {
      const double money = r.money && !r.generation ? sum(*r.money) : 0;
      return money > 0 ? fmt::format("{} {}", amount(money), r.money->currency) : std::string("-");
    });
  }
  std::string text() const { return table_.text(); }

 private:
  const Comparison& comparison_;
  TextTable table_;
};

/// Adds the figures of engines that answer prompts without a loop.
void add_engines(const Comparison& comparison, ComparedFigures& figures) {
  const auto add = [&](const std::string& name, const std::function<std::string(const GenerationResult&)>& cell) {
    figures.add(name, [&cell](const Result& r) { return r.generation ? cell(*r.generation) : std::string("-"); });
  };
  if (std::ranges::none_of(comparison.results, [](const Result& r) { return r.generation.has_value(); })) return;
  add("generated tokens/s", [](const GenerationResult& g) { return fmt::format("{:.4g}", g.tokens_per_s); });
  add("generated tokens/s with 80 % probability", [](const GenerationResult& g) {
    return g.likely_tokens ? fmt::format("{:.4g} to {:.4g}", g.likely_tokens->front(), g.likely_tokens->back())
                           : std::string("-");
  });
  add("generated tokens/s a GPU", [](const GenerationResult& g) { return thousands(g.tokens_per_s_per_gpu); });
  add("answers/s", [](const GenerationResult& g) { return fmt::format("{:.4g}", g.requests_per_s); });
  add("first token after, mean", [](const GenerationResult& g) { return show(g.engines.answers.first_token); });
  add("token to token", [](const GenerationResult& g) { return show(g.engines.answers.token); });
}

/// Adds the time that is compared, of a loop with its parts and the GPUs of all its nodes.
void add_steps(const Comparison& comparison, ComparedFigures& figures) {
  const std::string step = labels_of(comparison).time;
  figures.add(step, [](const Result& r) { return show(r.main_time()); });
  std::vector<std::string> changes{"against the first"}, slower{"slower with probability"};
  for (std::size_t i = 0; i < comparison.results.size(); ++i) {
    const std::optional<double> change = comparison.change_of_step(i), probability = comparison.slower(i);
    changes.push_back(change ? fmt::format("{:+.1f} %", *change * 100) : "-");
    const bool is_equal = probability && *probability<kSurelySlower&& * probability> 1 - kSurelySlower;
    slower.push_back(!probability ? "-"
                     : is_equal   ? fmt::format("equal ({})", probability_text(*probability))
                                  : probability_text(*probability));
  }
  figures.add_row(std::move(changes));
  figures.add(step + " with 80 % probability", [](const Result& r) {
    return interval_cell(r.post_training ? r.post_training->likely_step_times
                         : r.generation  ? r.generation->likely_time
                                         : r.likely_step_times);
  });
  figures.add_row(std::move(slower));
  if (labels_of(comparison).loop_pass.empty()) return;
  for (std::size_t part = 0; part < parts_of_loop({}).size(); ++part)
    figures.add_of_loop("  " + parts_of_loop({})[part].first, [part](const PostTrainingResult& r) {
      const double seconds = parts_of_loop(r)[part].second;
      return seconds == 0 ? std::string("-") : (seconds < 0 ? "−" : "") + show(Seconds{std::abs(seconds)});
    });
  figures.add_of_loop("limit", [](const PostTrainingResult& r) {
    return std::string(r.limit == LoopLimit::both_in_turn ? "halves in turn" : name_of(r.limit));
  });
  figures.add_of_loop("answers/s", [](const PostTrainingResult& r) { return fmt::format("{:.4g}", r.samples_per_s); });
  figures.add_of_loop("tokens/s a GPU, of all GPUs",
                      [](const PostTrainingResult& r) { return thousands(r.tokens_per_s_per_gpu); });
}

/// Adds rates, memory and bottleneck, of a loop those of its training half, of engines those of a forward pass.
void add_half(const Comparison& comparison, ComparedFigures& figures) {
  const auto [time, half, loop_pass, engine_pass] = labels_of(comparison);
  if (!engine_pass.empty())
    figures.add(engine_pass, [](const Result& r) { return r.generation ? show(r.step_time) : std::string("-"); });
  if (!loop_pass.empty())
    figures.add(loop_pass, [](const Result& r) { return r.post_training ? show(r.step_time) : std::string("-"); });
  figures.add("samples/s" + half, [](const Result& r) { return fmt::format("{:.4g}", r.samples_per_s); });
  figures.add("MFU" + half, [](const Result& r) { return fmt::format("{:.1f} %", r.mfu * 100); });
  figures.add("memory allocated, GiB" + half,
              [](const Result& r) { return gib(r.memory.peak.value) + memory_note(r); });
  figures.add("memory of a device, GiB" + half, [](const Result& r) {
    return r.memory_interval.empty() ? std::string("-") : gib(r.memory.device.value);
  });
  figures.add("memory of a device with 80 % probability, GiB" + half, [](const Result& r) {
    return r.memory_interval.empty()
               ? std::string("-")
               : fmt::format("{} to {}", gib(r.memory_interval.front()), gib(r.memory_interval.back()));
  });
  if (std::ranges::any_of(comparison.results, [](const Result& r) { return !is_safe_risk(r.risk); }))
    figures.add("runs out of memory with probability", [](const Result& r) { return probability_text(r.risk); });
  figures.add("bottleneck" + half, [](const Result& r) { return r.bottleneck; });
}

/// Adds length, goodput, energy and money, where a scenario has them.
void add_costs(const Comparison& comparison, ComparedFigures& figures) {
  figures.add("time of all steps",
              [](const Result& r) { return r.whole_time().value > 0 ? long_time(r.whole_time()) : std::string("-"); });
  figures.add("goodput", [](const Result& r) { return r.failures ? percent(r.failures->goodput) : std::string("-"); });
  figures.add("energy a step",
              [](const Result& r) { return r.energy && !r.generation ? joules(r.energy->step()) : std::string("-"); });
  figures.add("energy of all steps", [](const Result& r) {
    constexpr double kwh_of_mwh = 1000;
    const double mwh = r.training_energy() / kJoulesOfKwh / kwh_of_mwh;
    return mwh > 0 ? amount(mwh) + " MWh" : std::string("-");
  });
  figures.add("tokens per joule", [](const Result& r) {
    return r.energy && r.tokens_per_s > 0 && !r.generation ? amount(r.tokens_of_step() / r.energy->step())
                                                           : std::string("-");
  });
  figures.add_money("cost of a step", [](const Money& m) { return m.step; });
  figures.add_money("cost of a million tokens", [](const Money& m) { return m.of_tokens ? m.per_million : 0; });
  figures.add_money("cost of a million samples", [](const Money& m) { return m.of_tokens ? 0 : m.per_million; });
  figures.add_money("cost of a million answers", [](const Money& m) { return m.per_million_answers; });
  figures.add_money("cost of all steps, rents on demand", [](const Money& m) { return m.training; });
  const bool has_offers =
      std::ranges::any_of(comparison.results, [](const Result& r) { return r.money && !r.money->rents.empty(); });
  figures.add("least rent of all steps", [has_offers](const Result& r) {
    const RentCost* least = r.money ? least_rent(r.money->rents, HUGE_VAL) : nullptr;
    if (least)
      return fmt::format("{} {}, {}, in {}", amount(least->training), r.money->currency, least->terms,
                         long_time(Seconds{least->time}));
    // With rents on demand only, there is no list of them.
    const bool is_plain = has_offers && r.money && r.money->rents.empty() && r.money->training > 0;
    return is_plain
               ? fmt::format("{} {}, in {}", amount(r.money->training), r.money->currency, long_time(r.whole_time()))
               : std::string("-");
  });
  const auto owned = [&figures](const std::string& name, const std::function<double(const Ownership&)>& sum) {
    figures.add_money(name, [&sum](const Money& m) { return m.ownership ? sum(*m.ownership) : 0; });
  };
  owned("purchase", [](const Ownership& o) { return o.price(); });
  owned("a year of owning", [](const Ownership& o) { return o.year(); });
  owned("owning for all years of depreciation", [](const Ownership& o) { return o.total(); });
  owned("cost of all steps, owned", [](const Ownership& o) { return o.training; });
  owned("cost of a million tokens, owned", [](const Ownership& o) { return o.per_million; });
  const auto delivered = [](const Result& r) {
    return r.money && r.money->ownership ? r.money->ownership->delivery : 0;
  };
  if (std::ranges::none_of(comparison.results, [&](const Result& r) { return delivered(r) > 0; })) return;
  figures.add("delivery of all nodes",
              [&](const Result& r) { return delivered(r) > 0 ? long_time(Seconds{delivered(r)}) : std::string("-"); });
  figures.add("all steps end, if bought today", [&](const Result& r) {
    return r.money && r.money->ownership && r.whole_time().value > 0
               ? "after " + long_time(Seconds{delivered(r)} + r.whole_time())
               : std::string("-");
  });
}

std::string change_text(double seconds) { return (seconds < 0 ? "−" : "+") + show(Seconds{std::abs(seconds)}); }

/// If most of a change of "compute" is that exchanges slow its kernels more or less, says by how much; else "".
std::string slowed_compute(const Result& first, const Result& r, double change) {
  const auto slowed = [](const Result& result) {
    const auto found = result.critical_path.find("slow-down by exchanges");
    return found == result.critical_path.end() ? 0.0 : found->second;
  };
  const double more = slowed(r) - slowed(first);
  return more / change > 0.5 ? fmt::format(" (slow-down of kernels by exchanges {})", change_text(more)) : "";
}

/// Says which parts of the step are longer or shorter than those of the first scenario.
std::string reasons(const Comparison& comparison) {
  std::string text;
  const Result& first = comparison.results.front();
  for (std::size_t i = 1; i < comparison.results.size(); ++i) {
    const Result& r = comparison.results[i];
    std::vector<std::string> words;
    for (const auto& [part, seconds] : changed_parts(first, r))
      words.push_back(fmt::format("{} {}{}", part, change_text(seconds),
                                  part == "compute" ? slowed_compute(first, r, seconds) : ""));
    if (words.empty())
      words.emplace_back(comparison.change_of_step(i) ? "as long as the first" : "another kind of step than the first");
    text += wrapped(r.scenario + (r.post_training ? " (loop step): "
                                  : r.generation  ? " (slowest engine): "
                                                  : ": "),
                    words, ",");
  }
  return text;
}

/// Writes a price: four digits of a small one, "0.1173".
std::string price_text(double price) { return price >= 1000 ? with_commas(price) : fmt::format("{:.4g}", price); }

/// Shows the parts of owning each cluster for the years of depreciation beside each other. "": none is bought.
std::string owning_table(const Comparison& comparison) {
  TextTable table{"owning for all years of depreciation"};
  std::vector<std::vector<double>> columns;
  std::vector<std::string> names, notes, currencies{""}, years{"years"};
  for (const Result& r : comparison.results) {
    if (!r.money || !r.money->ownership) continue;
    const Ownership& o = *r.money->ownership;
    table.add_column(r.scenario);
    currencies.push_back(r.money->currency);
    years.push_back(fmt::format("{:.3g}", o.years));
    std::vector<double> parts;
    names.clear();
    for (const auto& [name, money] : o.parts_of_total()) {
      names.push_back(name);
      parts.push_back(money);
    }
    columns.push_back(rounded_parts(parts, 1));
    for (const std::string& part : o.left_out()) notes.push_back(r.scenario + ": " + part);
  }
  if (columns.empty()) return "";
  const auto cell = [](double money) { return money == 0 ? std::string("-") : with_commas(money); };
  table.rows = {currencies, years};
  std::vector<std::string> sums{"sum"};
  for (std::size_t part = 0; part < names.size(); ++part) {
    std::vector<std::string> row{"  " + names[part]};
    bool is_given = false;
    for (const std::vector<double>& column : columns) {
      row.push_back(cell(column[part]));
      is_given = is_given || column[part] != 0;
    }
    if (is_given) table.rows.push_back(row);
  }
  for (const std::vector<double>& column : columns) {
    double sum = 0;
    for (const double part : column) sum += part;
    sums.push_back(cell(sum));
  }
  table.rows.push_back(sums);
  return "\n" + table.text() + (notes.empty() ? "" : wrapped("not counted: ", notes, ";"));
}

/// Shows the prices at which two scenarios cost as much a token or a sample.
std::string break_even_table(const Comparison& comparison, std::size_t other) {
  const std::vector<Comparison::BreakEven>& points = comparison.break_evens[other];
  if (points.empty()) return "";
  const Money& money = *comparison.results[other].money;
  const auto words = [](const std::string& price) {
    return price == "node"       ? "price of a node"
           : price == "purchase" ? "price of the whole purchase"
           : price == "gpu_hour" ? "rent of a GPU hour"
                                 : "price of a kWh, both owned";
  };
  TextTable table{"price", "of", ">now, " + money.currency, ">then, " + money.currency};
  for (const Comparison::BreakEven& point : points)
    table.rows.push_back({words(point.price), point.scenario ? comparison.results[*point.scenario].scenario : "both",
                          price_text(point.value), point.equal ? price_text(*point.equal) : "at no price"});
  return "\n" +
         broken_lines(fmt::format("{} and {} cost as much a million {}, if one price changes:\n",
                                  comparison.results.front().scenario, comparison.results[other].scenario,
                                  money.of_tokens ? "tokens" : "samples")) +
         table.text("  ");
}

}  // namespace

ComparisonLabels labels_of(const Comparison& comparison) {
  bool any_loop = false, any_engines = false, any_step = false;
  std::string part;  // the part of the loops that trains
  for (const Result& r : comparison.results) {
    any_loop = any_loop || r.post_training;
    any_engines = any_engines || r.generation;
    any_step = any_step || (!r.post_training && !r.generation);
    if (r.post_training)
      part = part.empty() || part == r.post_training->training_part() ? r.post_training->training_part() : "training";
  }
  ComparisonLabels labels{"step", "", any_loop ? "optimizer step of the " + part : "",
                          any_engines ? "forward pass of the plan" : ""};
  if (any_loop && !any_engines && !any_step) {
    labels.time = "loop step";
    labels.of_pass = " of the " + part;
  } else if (any_engines && !any_loop && !any_step) {
    labels.time = "time until the last answer";
    labels.of_pass = " of a forward pass";
  } else {
    std::vector<std::string> times, passes;
    const auto add = [&](bool exists, const char* time, const std::string& pass) {
      if (!exists) return;
      times.emplace_back(time);
      passes.push_back(pass);
    };
    add(any_step, "step", "the step");
    add(any_loop, "loop step", "the " + part);
    add(any_engines, "time until the last answer", "a forward pass");
    labels.time = fmt::format("{}", fmt::join(times, " or "));
    if (passes.size() > 1) labels.of_pass = fmt::format(" of {}", fmt::join(passes, " or "));
  }
  return labels;
}

std::string comparison_screen(const Comparison& comparison) {
  ComparedFigures figures(comparison);
  add_steps(comparison, figures);
  add_engines(comparison, figures);
  figures.add("GPUs", [](const Result& r) { return fmt::format("{}", r.gpus()); });
  add_half(comparison, figures);
  add_costs(comparison, figures);
  for (const Comparison::Difference& difference : comparison.differences) {
    std::vector<std::string> row{difference.path};
    for (const std::optional<std::string>& value : difference.values) row.push_back(value.value_or("-"));
    figures.add_row(std::move(row));
  }
  std::string text = figures.text() + "\n" + reasons(comparison) + owning_table(comparison);
  for (std::size_t i = 1; i < comparison.results.size(); ++i) text += break_even_table(comparison, i);
  return text;
}

}  // namespace trainyard
