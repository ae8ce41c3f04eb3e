#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "tools/reports/table.hpp"

namespace trainyard {

/// The unit and the number of decimals in which a time and its parts are printed.
struct PartUnit {
  const char* name;  ///< "s", "ms" or "us"
  double seconds;    ///< length of the unit
  int decimals;
  std::string number(double seconds_of_part) const;
};
/// Returns the unit of the parts of a step, by the step time.
PartUnit part_unit(const Result&);
/// Rounds parts to multiples of `unit` that sum to the rounded sum of the parts: the largest remainders are rounded up.
std::vector<double> rounded_parts(const std::vector<double>& parts, double unit);
/// The unit in which the memory of a step is printed.
struct MemoryUnit {
  const char* name;  ///< "GiB", "MiB" or "bytes"
  double size;       ///< bytes
  /// A number of the unit with so many digits after the point; bytes are whole.
  std::string number(double bytes, int digits) const;
};
/// Returns the unit of the memory of a step, by the peak of the fullest rank.
MemoryUnit memory_unit(const Result&);
/// The parts of the memory of the fullest rank in that unit, which sum to its peak as printed. Parts below a tenth of the
/// unit give all parts two digits.
std::string parts_of_peak(const Result&);
std::string part_of(const Result&, double seconds);
/// A number with at least three digits and separators: "4.25", "16,384".
std::string thousands(double);
/// Three digits even if the last ones are zeros: "1.00", "17.9", "0.0123".
std::string three_digits(double);
/// A number of steps or samples, rounded: "9728", from 100,000 on with separators: "2,548,000". "-": it is not finite.
std::string count_text(double);
/// A whole number with separators: "8", "16,384".
std::string counted(std::int64_t);
std::string gib(double bytes);
/// "12.0 of 32.0 GiB", and whether that is too much; capacity 0: it is not stated.
std::string use_of_capacity(double peak, double capacity);
/// Writes an energy with its unit: "105 kJ".
std::string joules(double);
/// Writes money or another amount: whole from a thousand on, else with three digits.
std::string amount(double);
/// Increasing numbers with ranges: "0-3, 8".
std::string number_ranges(const std::vector<int>&, const char* separator = ", ");
/// Returns a probability in per cent: "84 %", but "> 99 %" and "< 1 %". `limit`: a value that the text reaches only if the
/// probability does; 0: none.
std::string probability_text(double, double limit = 0);
/// The name of the network: "gpt2-xl". If the scenario changes a network: "gpt2-xl (changed: 1.2 billion parameters)". If
/// it describes a perceptron: "mlp (539 parameters)".
std::string network_in_words(const Scenario&);
/// The shards of an epoch: "a sampler deals 160,146 samples of an epoch to 7 replicas, 160,145 to 1".
std::string shards_in_words(const Result::Input&, int replicas);
/// "step       ": where a line of the one-screen answer begins.
std::string report_label(const char* name);
/// A line with the energy of a step, and lines with its cost if prices are given; "" if neither is known.
std::string cost_lines(const Result&);
/// Expert ranks with unlike loads, and how long the others wait for the busiest ones; "" if loads are equal.
std::string expert_lines(const Result&);
/// "host       1 call a step: …": what the host of a rank starts; "" if calls were not counted.
std::string host_call_line(const Result&);
/// A sum of money with its parts, rounded so that they sum to it: "12,345 USD: cables 345 + nodes 12,000".
std::string sum_in_parts(const std::map<std::string, double>& parts, const std::string& currency);
/// " · buying costs as much as renting (reserved 12 months) if …", or "" without rents.
std::string rent_or_buy(const Ownership&);
/// A line that says for each rent from which use, after which time and below which price buying costs less; "" without
/// rents.
std::string break_even_lines(const Ownership&);
/// Lines with the training by each kind of rent, and the one that costs least within `most_time` s; "" if there is only
/// one.
std::string rent_lines(const std::vector<RentCost>&, const std::string& currency, double most_time);
/// Breaks lines of more than 120 columns at a separator or a space. The rest continues under the label.
std::string broken_lines(const std::string& text);
/// Words joined by `separator`, in lines of the screen's width that continue under the label.
std::string wrapped(const std::string& first, const std::vector<std::string>& words, const std::string& separator);

/// The bytes of a step by what they carry, and with TCP the work of the CPUs; "" without messages.
std::string traffic_line(const Result&);

}  // namespace trainyard
