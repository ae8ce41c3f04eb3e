#include "tools/reports/report_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

#include "sim/stable_sort.hpp"

namespace trainyard {

std::string PartUnit::number(double seconds_of_part) const {
  return fmt::format("{:.{}f}", seconds_of_part / seconds, decimals);
}

PartUnit part_unit(const Result& r) {
  PartUnit unit = r.step_time.value >= 10     ? PartUnit{"s", 1, 0}
                  : r.step_time.value >= 1e-4 ? PartUnit{"ms", 1e-3, 0}
                                              : PartUnit{"us", 1e-6, 0};
  const double units = r.step_time.value / unit.seconds;
  unit.decimals = units >= 99.995 ? 1 : units >= 9.9995 ? 2 : 3;
  return unit;
}

std::vector<double> rounded_parts(const std::vector<double>& parts, double unit) {
  std::vector<double> rounded;
  std::vector<std::size_t> order;
  double sum = 0, floors = 0;
  for (const double part : parts) {
    sum += part / unit;
    rounded.push_back(std::floor(part / unit + 1e-9));
    floors += rounded.back();
    order.push_back(order.size());
  }
  const auto cut = [&](std::size_t i) { return parts[i] / unit - rounded[i]; };
  sort_stably(order, [&cut](std::size_t a, std::size_t b) { return cut(a) > cut(b); });
  const double missing = std::round(sum) - floors;
  for (std::size_t i = 0; i < order.size() && static_cast<double>(i) + 0.5 < missing; ++i) ++rounded[order[i]];
  for (double& part : rounded) part *= unit;
  return rounded;
}

MemoryUnit memory_unit(const Result& r) {
  constexpr double gibibyte = 1U << 30, mebibyte = 1U << 20;
  const double peak = r.memory.peak.value;
  return peak >= 0.05 * gibibyte ? MemoryUnit{"GiB", gibibyte}
         : peak >= mebibyte      ? MemoryUnit{"MiB", mebibyte}
                                 : MemoryUnit{"bytes", 1};
}

std::string MemoryUnit::number(double bytes, int digits) const {
  return size == 1 ? with_commas(bytes) : fmt::format("{:.{}f}", bytes / size, digits);
}

std::string parts_of_peak(const Result& r) {
  const std::vector<double> parts{r.memory.parameters.value, r.memory.gradients.value, r.memory.optimizer.value,
                                  r.memory.activations.value, r.memory.buffers.value};
  const MemoryUnit unit = memory_unit(r);
  const bool small = std::ranges::any_of(parts, [&](double part) { return part > 0 && part < 0.095 * unit.size; });
  const int digits = unit.size == 1 ? 0 : small ? 2 : 1;
  const std::vector<double> rounded = rounded_parts(parts, unit.size * std::pow(10.0, -digits));
  std::string text;
  const char* const names[] = {"parameters", "gradients", "optimizer", "activations", "buffers"};
  for (std::size_t i = 0; i < parts.size(); ++i)
    text += fmt::format("{}{} {}", i == 0 ? "" : " │ ", names[i], unit.number(rounded[i], digits));
  return text;
}

std::string part_of(const Result& r, double seconds) { return part_unit(r).number(seconds); }

std::string thousands(double v) {
  if (v < 10) return fmt::format("{:.2f}", v);
  if (v < 100) return fmt::format("{:.1f}", v);
  return with_commas(v);
}

std::string three_digits(double v) { return v < 0.1 ? fmt::format("{:.3g}", v) : thousands(v); }

std::string count_text(double v) {
  constexpr double many = 1e5;
  return !std::isfinite(v) ? "-" : v < many ? fmt::format("{:.0f}", v) : with_commas(v);
}
std::string counted(std::int64_t n) { return n < 1000 ? fmt::format("{}", n) : thousands(static_cast<double>(n)); }

std::string probability_text(double probability, double limit) {
  return probability > 0.995 ? "> 99 %" : probability < 0.005 ? "< 1 %" : percent_short_of(probability, limit);
}
std::string gib(double bytes) { return fmt::format("{:.1f}", bytes / (1U << 30)); }

std::string use_of_capacity(double peak, double capacity) {
  if (capacity == 0) return fmt::format("{} GiB (capacity not stated)", gib(peak));
  return fmt::format("{} of {} GiB{}", gib(peak), gib(capacity),
                     peak > capacity ? fmt::format(": DOES NOT FIT, {} GiB too much", gib(peak - capacity)) : "");
}

std::string number_ranges(const std::vector<int>& numbers, const char* separator) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : separator, numbers[i]);
    if (end > i + 1) text += fmt::format("-{}", numbers[end - 1]);
    i = end;
  }
  return text;
}

std::string network_in_words(const Scenario& s) {
  const Node* model = s.document.find("model");
  const bool is_map = model && model->kind == Node::Kind::map;
  const bool is_changed = is_map && model->find("base") && model->fields.size() > 1;
  if (!is_changed && !(is_map && model->find("mlp"))) return s.network.name;
  const double n = s.network.parameters(), unit = n >= 1e12 ? 1e12 : n >= 1e9 ? 1e9 : n >= 1e5 ? 1e6 : 1;
  return fmt::format("{} ({}{} parameters)", s.network.name, is_changed ? "changed: " : "",
                     unit == 1 ? with_commas(n)
                               : fmt::format("{:.3g} {}", n / unit,
                                             unit >= 1e12  ? "trillion"
                                             : unit >= 1e9 ? "billion"
                                                           : "million"));
}

std::string shards_in_words(const Result::Input& input, int replicas) {
  const double others = replicas - input.largest_shards;
  std::string text = fmt::format("a sampler deals {} samples of an epoch to {}", with_commas(input.largest_shard),
                                 counted_noun(std::llround(input.largest_shards), "replica"));
  if (others > 0) text += fmt::format(", {} to {}", with_commas(input.smallest_shard), others);
  return text;
}

std::string report_label(const char* name) { return fmt::format("{:<11}", name); }

std::string amount(double v) { return v >= 1000 ? with_commas(v) : fmt::format("{:.3g}", v); }

std::string joules(double j) {
  const double unit = j >= 1e9 ? 1e9 : j >= 1e6 ? 1e6 : j >= 1e3 ? 1e3 : 1;
  return fmt::format("{} {}J", three_digits(j / unit), unit >= 1e9 ? "G" : unit >= 1e6 ? "M" : unit >= 1e3 ? "k" : "");
}

namespace {

/// "GPU 61 % + CPU 20 % + rest of the node 19 %": the devices' shares of their energy.
std::string energy_shares(const Energy& e) {
  std::vector<std::pair<double, std::string>> parts;
  for (const auto& [name, joules_of_part] : e.parts)
    if (joules_of_part > 0) parts.emplace_back(joules_of_part / e.devices(), name);
  sort_stably(parts, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<double> shares;
  for (const auto& [share, name] : parts) shares.push_back(share);
  const std::vector<double> rounded = rounded_parts(shares, 0.01);
  std::vector<std::string> words;
  for (std::size_t i = 0; i < parts.size(); ++i)
    words.push_back(fmt::format("{} {}", parts[i].second, percent(rounded[i], 0)));
  return fmt::format("{}", fmt::join(words, " + "));
}

/// Says what the purchase of the cluster costs, and when it costs as much as renting.
std::string ownership_lines(const Result& r) {
  const Money& m = *r.money;
  const bool is_loop = r.post_training.has_value();
  if (!m.ownership) return "";
  const Ownership& o = *m.ownership;
  std::string text =
      fmt::format("{}{}\n{}a year {}\n{}{} a million {}", report_label("purchase"),
                  sum_in_parts(o.purchase_prices, m.currency), report_label(""), sum_in_parts(o.yearly, m.currency),
                  report_label(""), amount(o.per_million), m.of_tokens ? "tokens" : "samples");
  if (o.training > 0) text += fmt::format(" · {} {}", is_loop ? "all steps" : "training", amount(o.training));
  if (o.total() > 0) text += fmt::format(" · {} {} {}", years_words(o.years), amount(o.total()), m.currency);
  text += rent_or_buy(o) + "\n" + break_even_lines(o);
  text.pop_back();
  if (o.delivery > 0)
    text += fmt::format("\n{}all nodes are there after {}{}", report_label("delivery"), long_time(Seconds{o.delivery}),
                        r.whole_time().value > 0
                            ? fmt::format(": bought today, the training ends after {}, of which it takes {}",
                                          long_time(Seconds{o.delivery} + r.whole_time()), long_time(r.whole_time()))
                            : "");
  return text + "\n";
}

}  // namespace

std::string sum_in_parts(const std::map<std::string, double>& parts, const std::string& currency) {
  std::vector<double> money;
  for (const auto& [name, part] : parts) money.push_back(std::max(part, 0.0));
  const double sum = std::accumulate(money.begin(), money.end(), 0.0);
  constexpr double thousand = 1000;
  constexpr int digits = 4;
  const bool is_whole = sum >= thousand || sum <= 0;
  const double unit = is_whole ? 1 : std::pow(10, std::floor(std::log10(sum)) + 1 - digits);
  const auto in_digits = [&](double v) { return is_whole ? with_commas(v) : fmt::format("{:.4g}", v); };
  const std::vector<double> rounded = rounded_parts(money, unit);
  std::vector<std::string> words;
  for (std::size_t i = 0; const auto& [name, part] : parts) {
    if (part > 0) words.push_back(fmt::format("{} {}", name, in_digits(rounded[i])));
    ++i;
  }
  return fmt::format("{} {}{}{}", in_digits(std::accumulate(rounded.begin(), rounded.end(), 0.0)), currency,
                     words.empty() ? "" : ": ", fmt::join(words, " + "));
}

std::string rent_or_buy(const Ownership& o) {
  std::string text = o.whole_nodes.empty() ? "" : " · each node is bought whole: " + o.whole_nodes;
  for (const std::string& part : o.left_out()) text += " · not counted: " + part;
  const YearlyRent* least = least_rent(o);
  if (!least) return text;
  const auto point = break_even(o);
  const auto years = o.break_even_years();
  if (o.yearly.at("electricity") + o.yearly.at("cooling") >= least->used)
    text += fmt::format(" · electricity alone costs more than renting ({})", least->terms);
  else if (!point)
    text += fmt::format(" · renting ({}) costs less even at full use: {} a year{}", least->terms, amount(least->used),
                        years ? fmt::format("; buying would pay only after {:.2f} years", *years) : "");
  else
    text += fmt::format(
        " · buying costs as much as renting ({}) if it is in use {:.1f} % of the time{}", point->terms,
        point->use * 100,
        years ? fmt::format(" (always in use, as much as {} after {:.2f} years)", least->terms, *years) : "");
  return text + (o.spot_year > 0
                     ? fmt::format(" · spot, whose nodes are taken away, rents for {} a year", amount(o.spot_year))
                     : "");
}

std::string break_even_lines(const Ownership& o) {
  std::vector<std::string> words;
  for (const RentComparison& rent : compare_rents(o)) {
    std::vector<std::string> wins;
    if (rent.use) wins.push_back(*rent.use > 0 ? "from " + percent(*rent.use) + " use on" : "at any use");
    if (rent.months) wins.push_back(fmt::format("after {} months of full use", three_digits(*rent.months)));
    if (rent.price) wins.push_back(fmt::format("at a price below {}", amount(*rent.price)));
    words.push_back(fmt::format(
        "{}{} ({} a year) {}", words.empty() ? "buying costs less than " : "", rent.terms, amount(rent.year),
        wins.empty() ? "never, since its use alone costs more" : fmt::format("{}", fmt::join(wins, ", "))));
  }
  return words.empty() ? "" : broken_lines(report_label("break-even") + fmt::format("{}\n", fmt::join(words, "; ")));
}

std::string rent_lines(const std::vector<RentCost>& rents, const std::string& currency, double most_time) {
  if (rents.size() < 2) return "";
  std::vector<std::string> words;
  for (const RentCost& rent : rents)
    words.push_back(!rent.error.empty() ? fmt::format("{}: {}", rent.terms, rent.error)
                                        : fmt::format("{} {} {} in {}{}", rent.terms, amount(rent.training), currency,
                                                      long_time(Seconds{rent.time}),
                                                      rent.goodput < 1 ? " at goodput " + percent(rent.goodput) : ""));
  const RentCost* least = least_rent(rents, most_time);
  words.push_back(least ? fmt::format("least: {}", least->terms) : "none is in time");
  return wrapped(report_label("rent"), words, " ·");
}

std::string cost_lines(const Result& r) {
  const char* const step = r.post_training ? "a loop step" : "a step";
  std::string text;
  if (r.energy) {
    const Energy& e = *r.energy;
    const double things = r.tokens_per_s > 0 ? r.tokens_of_step() : r.samples_of_step();
    const std::string limits = e.gpu_power_least_limit < e.gpu_power_limit
                                   ? fmt::format("W a GPU on average, whose limits are {:.0f} to {:.0f} W",
                                                 e.gpu_power_least_limit, e.gpu_power_limit)
                                   : fmt::format("of {:.0f} W a GPU", e.gpu_power_limit);
    text += fmt::format("{}{} {}: {}, times a PUE of {:.3g} · {} {}/J · {:.0f} {}{}", report_label("energy"),
                        joules(e.step()), step, energy_shares(e), e.pue, three_digits(things / e.step()),
                        r.tokens_per_s > 0 ? "tokens" : "samples", e.gpu_power, limits,
                        r.idle_devices > 0 ? fmt::format(", the mean of all, {} of them idle", r.idle_devices) : "");
    if (const double kwh = r.training_energy() / kJoulesOfKwh; kwh > 0)
      text += fmt::format(" · {} {} {}", r.post_training ? "all steps" : "training",
                          kwh < 1000 ? fmt::format("{:.3g}", kwh) : amount(kwh / 1000), kwh < 1000 ? "kWh" : "MWh");
    text += e.not_stated.empty() ? "\n" : fmt::format(" · not counted, since no power is stated: {}\n", e.not_stated);
  }
  if (!r.money) return text;
  const Money& m = *r.money;
  const std::string before = text;
  text += fmt::format("{}{} {} a million {}", report_label("money"), amount(m.per_million), m.currency,
                      m.of_tokens ? "tokens" : "samples");
  if (r.post_training) text += fmt::format(" · {} {} a million answers", amount(m.per_million_answers), m.currency);
  text += fmt::format(" · {} {} {}{}", amount(m.step), m.currency, step,
                      r.failures && m.training > 0 ? ", with its share of failures and checkpoints" : "");
  if (m.training > 0)
    text += fmt::format(" · {} {} {}", r.post_training ? "all steps" : "training", amount(m.training), m.currency);
  if (m.step > 0) text += "\n";
  return (m.step > 0 ? text : before) + rent_lines(m.rents, m.currency, HUGE_VAL) + ownership_lines(r);
}

namespace {

/// The place behind `columns` columns of a line in UTF-8, or its end.
std::size_t place_behind(const std::string& line, std::size_t columns) {
  std::size_t place = 0;
  for (; place < line.size(); ++place)
    if ((static_cast<unsigned char>(line[place]) & 0xC0) != 0x80 && columns-- == 0) break;
  return place;
}

}  // namespace

std::string broken_lines(const std::string& text) {
  constexpr std::size_t width = 118;  // a separator that is kept takes the rest
  const std::string indent = report_label("");
  std::string result;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    for (std::size_t end = 0; (end = place_behind(line, width)) < line.size();) {
      std::size_t cut = std::string::npos;
      for (const char* separator : {" · ", " │ ", "   (", "; ", ", ", ": ", " "}) {
        const std::string between = separator;
        cut = line.rfind(between, end);
        while (cut != std::string::npos && line.compare(cut + between.size(), 1, "%") == 0)  // "0.5 %" stays together
          cut = line.rfind(between, cut - 1);
        if (cut != std::string::npos && (3 * cut > 2 * end || (between == " " && cut > indent.size()))) {
          cut += between.find_last_of(' ') == 0 ? 0 : between.find_last_of(' ');
          break;
        }
        cut = std::string::npos;
      }
      if (cut == std::string::npos) break;
      result += line.substr(0, line.find_last_not_of(' ', cut - 1) + 1) + "\n";
      line = indent + line.substr(line.find_first_not_of(' ', cut));
    }
    result += line + "\n";
  }
  return result;
}

std::string wrapped(const std::string& first, const std::vector<std::string>& words, const std::string& separator) {
  constexpr std::size_t width = 118;
  std::string text, line = first;
  bool fresh = true;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i] + (i + 1 < words.size() ? separator : "");
    if (!fresh && line.size() + word.size() > width) {
      text += line.erase(line.find_last_not_of(' ') + 1) + "\n";
      line = report_label("");
    }
    line += word + (word.ends_with(" ") ? "" : " ");
    fresh = false;
  }
  while (line.ends_with(" ")) line.pop_back();
  return text + line + "\n";
}

std::string expert_lines(const Result& r) {
  if (!r.expert_load) return "";
  const Result::ExpertLoad& load = *r.expert_load;
  return fmt::format(
      "{}the busiest rank has {:.3g} times the mean load, the least busy {:.3g}; in all-to-alls a rank waits {} "
      "{}\n{}for busier ones (mean; at most {})\n",
      report_label("experts"), load.most, load.least, part_of(r, load.mean_wait.value), part_unit(r).name,
      report_label(""), part_of(r, load.longest_wait.value));
}

std::string host_call_line(const Result& r) {
  if (!r.host_calls) return "";
  const Result::HostCalls& h = *r.host_calls;
  const auto number_of = [](double count, const char* thing, const char* things) {
    return fmt::format("{} {}", counted(std::llround(count)), count == 1 ? thing : things);
  };
  std::vector<std::string> parts{number_of(h.kernels, "kernel", "kernels")};
  if (h.exchanges > 0) parts.push_back(number_of(h.exchanges, "collective or message", "collectives and messages"));
  if (h.copies > 0) parts.push_back(number_of(h.copies, "copy", "copies"));
  return fmt::format("{}{} a step and GPU: {}{}\n", report_label("host"), number_of(h.all, "call", "calls"),
                     h.compiled ? "a compiled program of " : "", fmt::join(parts, ", "));
}

std::string traffic_line(const Result& r) {
  if (r.bytes_by_content.empty()) return "";
  std::vector<std::pair<double, std::string>> contents;
  for (const auto& [content, bytes] : r.bytes_by_content) contents.emplace_back(bytes, content);
  sort_stably(contents, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> words;
  const double most = contents.front().first, unit = most >= 1e10 ? 1e9 : most >= 1e5 ? 1e6 : 1e3;
  for (const auto& [bytes, content] : contents)
    words.push_back(fmt::format("{} {} {}", content, thousands(bytes / unit),
                                unit > 1e6    ? "GB"
                                : unit == 1e6 ? "MB"
                                              : "kB"));
  std::string text =
      fmt::format("{}{} a step, summed over all messages", report_label("traffic"), fmt::join(words, " │ "));
  if (r.all_reduce.algorithm.find("tree") != std::string::npos && r.all_reduce.fidelity == "modelled")
    text += "; trees count as rings with their bytes out of a node";
  if (const auto copies = r.busiest_link.find("CPU copies"); copies != r.busiest_link.end() && copies->second > 0)
    text += fmt::format(" · the busiest CPU copies in {} of the step", percent(copies->second, 0));
  return text + "\n";
}

}  // namespace trainyard
