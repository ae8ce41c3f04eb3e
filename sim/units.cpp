#include "sim/units.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <utility>

#include "sim/error.hpp"

namespace trainyard {

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

namespace {

struct Unit {
  std::string_view name;
  double factor;  // to SI units
};

constexpr double kKi = 1024.0, kMi = kKi * 1024, kGi = kMi * 1024, kTi = kGi * 1024;

constexpr std::array kTime{Unit{"ps", 1e-12},     Unit{"ns", 1e-9},     Unit{"us", 1e-6},      Unit{"µs", 1e-6},
                           Unit{"ms", 1e-3},      Unit{"s", 1.0},       Unit{"min", 60.0},     Unit{"h", 3600.0},
                           Unit{"d", 86400.0},    Unit{"second", 1.0},  Unit{"seconds", 1.0},  Unit{"minute", 60.0},
                           Unit{"minutes", 60.0}, Unit{"hour", 3600.0}, Unit{"hours", 3600.0}, Unit{"day", 86400.0},
                           Unit{"days", 86400.0}};
constexpr std::array kData{
    Unit{"B", 1},          Unit{"kB", 1e3},        Unit{"MB", 1e6},         Unit{"GB", 1e9},
    Unit{"TB", 1e12},      Unit{"PB", 1e15},       Unit{"KiB", kKi},        Unit{"MiB", kMi},
    Unit{"GiB", kGi},      Unit{"TiB", kTi},       Unit{"PiB", kTi * 1024}, Unit{"bit", 1 / 8.0},
    Unit{"kbit", 1e3 / 8}, Unit{"Mbit", 1e6 / 8},  Unit{"Gbit", 1e9 / 8},   Unit{"Tbit", 1e12 / 8},
    Unit{"b", 1 / 8.0},    Unit{"kb", 1e3 / 8},    Unit{"Mb", 1e6 / 8},     Unit{"Gb", 1e9 / 8},
    Unit{"Tb", 1e12 / 8},  Unit{"Kibit", kKi / 8}, Unit{"Mibit", kMi / 8},  Unit{"Gibit", kGi / 8}};
constexpr std::array kFlops{Unit{"FLOP/s", 1},     Unit{"MFLOP/s", 1e6},  Unit{"GFLOP/s", 1e9},
                            Unit{"TFLOP/s", 1e12}, Unit{"PFLOP/s", 1e15}, Unit{"EFLOP/s", 1e18}};
constexpr std::array kFrequency{Unit{"Hz", 1}, Unit{"kHz", 1e3}, Unit{"MHz", 1e6}, Unit{"GHz", 1e9}};
constexpr std::array kPower{Unit{"W", 1}, Unit{"kW", 1e3}, Unit{"MW", 1e6}};

/// Reads the number at the front of `text`, which keeps the rest.
double take_number(std::string_view& text, std::string_view original, std::string_view expected) {
  double v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc{} || !std::isfinite(v)) throw UserError(fmt::format("\"{}\" is not {}", original, expected));
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return v;
}

double parse_with(std::string_view original, std::span<const Unit> units, bool per_second, std::string_view expected) {
  std::string_view text = trim(original);
  const double v = take_number(text, original, expected);
  text = trim(text);
  if (text.empty()) throw UserError(fmt::format("\"{}\" has no unit; expected {}", original, expected));
  if (per_second) {
    if (!text.ends_with("/s")) {
      if (text.ends_with("ps") && text.size() > 2)
        throw UserError(
            fmt::format("\"{}\": unknown unit \"{}\"; write {}/s", original, text, text.substr(0, text.size() - 2)));
      throw UserError(fmt::format("\"{}\": unknown unit \"{}\"; expected {}", original, text, expected));
    }
    text.remove_suffix(2);
  }
  for (const Unit& u : units)
    if (u.name == text) return v * u.factor;
  throw UserError(
      fmt::format("\"{}\": unknown unit \"{}{}\"; expected {}", original, text, per_second ? "/s" : "", expected));
}

std::string significant(double v) {
  if (v == 0) return "0";
  const double magnitude = std::abs(v);
  if (magnitude >= 99.95) return fmt::format("{:.0f}", v);
  if (magnitude >= 9.995) return fmt::format("{:.1f}", v);
  return fmt::format("{:.2f}", v);
}

std::string scaled(double v, std::span<const Unit> ascending, std::string_view suffix) {
  const Unit* best = &ascending.front();
  for (const Unit& u : ascending)
    if (std::abs(v) >= u.factor * 0.9995) best = &u;
  return fmt::format("{} {}{}", significant(v / best->factor), best->name, suffix);
}

constexpr std::array kShowTime{Unit{"ns", 1e-9}, Unit{"us", 1e-6}, Unit{"ms", 1e-3}, Unit{"s", 1.0}};
constexpr std::array kShowData{Unit{"B", 1}, Unit{"KiB", kKi}, Unit{"MiB", kMi}, Unit{"GiB", kGi}, Unit{"TiB", kTi}};
constexpr std::array kShowRate{Unit{"B", 1}, Unit{"kB", 1e3}, Unit{"MB", 1e6}, Unit{"GB", 1e9}, Unit{"TB", 1e12}};

}  // namespace

Picoseconds to_picoseconds(Seconds s) { return {std::llround(s.value * 1e12)}; }

Seconds parse_seconds(std::string_view t) {
  return Seconds{
      parse_with(t, kTime, false, "a time such as 1.5 us (ps, ns, us, ms, s, min, h, d, or in words: 3 days)")};
}
Bytes parse_bytes(std::string_view t) {
  return Bytes{parse_with(
      t, kData, false, "a size such as 80 GiB (B, kB, MB, GB, TB, PB; KiB, MiB, GiB, TiB, PiB; or bits: Mbit, Gbit)")};
}
BytesPerSecond parse_bandwidth(std::string_view t) {
  return BytesPerSecond{parse_with(t, kData, true, "a rate such as 400 Gbit/s or 25 GB/s")};
}
FlopsPerSecond parse_flops_rate(std::string_view t) {
  return FlopsPerSecond{parse_with(t, kFlops, false, "a rate such as 312 TFLOP/s")};
}
Hertz parse_frequency(std::string_view t) {
  return Hertz{parse_with(t, kFrequency, false, "a frequency such as 1410 MHz")};
}
Watts parse_power(std::string_view t) { return Watts{parse_with(t, kPower, false, "a power such as 400 W")}; }

double parse_number(std::string_view original) {
  std::string_view text = trim(original);
  const double v = take_number(text, original, "a number");
  if (!text.empty()) throw UserError(fmt::format("\"{}\" is not a number", original));
  return v;
}

std::int64_t parse_integer(std::string_view original) {
  const std::string_view text = trim(original);
  std::int64_t v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  const bool is_complete = end == text.data() + text.size() && !text.empty();
  if (is_complete && error == std::errc{}) return v;
  if (is_complete && error == std::errc::result_out_of_range)
    throw UserError(fmt::format("\"{}\" is too {}", original, text.front() == '-' ? "small" : "large"));
  constexpr double most = 9e15;  // doubles up to here are exact
  if (const auto number = find_number(text); number && std::abs(*number) <= most && *number == std::round(*number))
    throw UserError(fmt::format("\"{}\": whole numbers are written as digits; expected {:.0f}", original, *number));
  if (const auto number = find_number(text); number && std::abs(*number) > most)
    throw UserError(fmt::format("\"{}\" is too {}", original, *number < 0 ? "small" : "large"));
  throw UserError(fmt::format("\"{}\" is not a whole number", original));
}

std::optional<double> find_number(std::string_view text) {
  try {
    return parse_number(text);
  } catch (const UserError&) {
    return {};
  }
}

double factor_of_suffix(char letter) {
  for (const auto& [suffix, factor] :
       {std::pair{'k', 1e3}, {'K', 1e3}, {'M', 1e6}, {'B', 1e9}, {'G', 1e9}, {'T', 1e12}})
    if (letter == suffix) return factor;
  return 1;
}

std::optional<double> find_count(std::string_view original) {
  std::string_view text = trim(original);
  const double factor = text.empty() ? 1 : factor_of_suffix(text.back());
  if (factor > 1) text.remove_suffix(1);
  const std::optional<double> number = find_number(text);
  return number ? *number * factor : number;
}

std::optional<std::int64_t> find_integer(std::string_view text) {
  try {
    return parse_integer(text);
  } catch (const UserError&) {
    return {};
  }
}

std::string show(Seconds s) { return scaled(s.value, kShowTime, ""); }
std::string show(Bytes b) { return scaled(b.value, kShowData, ""); }
std::string show(BytesPerSecond r) { return scaled(r.value, kShowRate, "/s"); }
std::string show(FlopsPerSecond r) { return scaled(r.value, kFlops, ""); }
std::string show(Hertz f) { return scaled(f.value, kFrequency, ""); }
std::string show(Watts p) { return scaled(p.value, kPower, ""); }
std::string percent(double share, int decimals) {
  const std::string text = fmt::format("{:.{}f} %", share * 100, decimals);
  return text.starts_with('-') && text.find_first_of("123456789") == std::string::npos ? text.substr(1) : text;
}
std::string exact_percent(double share) { return fmt::format("{:.6g} %", share * 100); }
std::string percent_short_of(double share, double limit) {
  if (share >= limit || std::round(share * 100) / 100 < limit) return percent(share, 0);
  return percent(std::floor(share * 1000 + 1e-9) / 1000);
}
std::string signed_percent(double share, int decimals) {
  const std::string text = percent(share, decimals);
  const bool nothing = text.find_first_of("123456789") == std::string::npos;
  return nothing || text.starts_with('-') ? text : "+" + text;
}
std::string with_commas(double v) {
  std::string text = fmt::format("{:.0f}", v);
  for (std::size_t end = text.size(); end > 3 && text[end - 4] != '-'; end -= 3) text.insert(end - 3, ",");
  return text;
}
std::string counted_noun(std::int64_t count, std::string_view noun, std::string_view plural) {
  if (count == 1) return fmt::format("1 {}", noun);
  return plural.empty() ? fmt::format("{} {}s", count, noun) : fmt::format("{} {}", count, plural);
}
std::string exact(double v) { return fmt::format("{}", v); }

}  // namespace trainyard
