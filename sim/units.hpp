#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trainyard {

/// A physical quantity in SI base units (seconds, bytes, FLOP, joules). Its dimension is part of the type: bytes cannot
/// be added to seconds, and a size divided by a rate *is* a time. Boost.Units does the same with more dimensions, but
/// triples the compile time of every file that prints a duration; therefore these four exponents are ours.
template <int Time, int Data, int Flop, int Energy = 0>
struct Quantity {
  double value = 0;

  constexpr Quantity() = default;
  explicit constexpr Quantity(double v) : value(v) {}

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity operator+(Quantity o) const { return Quantity{value + o.value}; }
  constexpr Quantity operator-(Quantity o) const { return Quantity{value - o.value}; }
  constexpr Quantity operator-() const { return Quantity{-value}; }
  constexpr Quantity& operator+=(Quantity o) {
    value += o.value;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity o) {
    value -= o.value;
    return *this;
  }
  constexpr Quantity operator*(double f) const { return Quantity{value * f}; }
  constexpr Quantity operator/(double f) const { return Quantity{value / f}; }
  friend constexpr Quantity operator*(double f, Quantity q) { return q * f; }
};

template <int T1, int D1, int F1, int E1, int T2, int D2, int F2, int E2>
constexpr auto operator*(Quantity<T1, D1, F1, E1> a, Quantity<T2, D2, F2, E2> b) {
  if constexpr (T1 + T2 == 0 && D1 + D2 == 0 && F1 + F2 == 0 && E1 + E2 == 0)
    return a.value * b.value;
  else
    return Quantity<T1 + T2, D1 + D2, F1 + F2, E1 + E2>{a.value * b.value};
}
template <int T1, int D1, int F1, int E1, int T2, int D2, int F2, int E2>
constexpr auto operator/(Quantity<T1, D1, F1, E1> a, Quantity<T2, D2, F2, E2> b) {
  if constexpr (T1 == T2 && D1 == D2 && F1 == F2 && E1 == E2)
    return a.value / b.value;
  else
    return Quantity<T1 - T2, D1 - D2, F1 - F2, E1 - E2>{a.value / b.value};
}

using Seconds = Quantity<1, 0, 0>;
using Bytes = Quantity<0, 1, 0>;
using Flops = Quantity<0, 0, 1>;  ///< floating-point operations (an amount of work)
using BytesPerSecond = Quantity<-1, 1, 0>;
using FlopsPerSecond = Quantity<-1, 0, 1>;
using Hertz = Quantity<-1, 0, 0>;
using Watts = Quantity<-1, 0, 0, 1>;

/// A latency as an integer number of picoseconds: sums are exact in any order.
struct Picoseconds {
  std::int64_t count = 0;
  constexpr auto operator<=>(const Picoseconds&) const = default;
  constexpr Picoseconds operator+(Picoseconds o) const { return {count + o.count}; }
  constexpr Picoseconds& operator+=(Picoseconds o) {
    count += o.count;
    return *this;
  }
  constexpr Picoseconds operator*(std::int64_t n) const { return {count * n}; }
  /// The only conversion to seconds, so that equal latencies are equal times.
  constexpr Seconds seconds() const { return Seconds{static_cast<double>(count) * 1e-12}; }
};
/// Rounds to the nearest picosecond (a cast would truncate 1 ns steps wrongly in a third of cases).
Picoseconds to_picoseconds(Seconds);

/// Reads a quantity with its unit ("400 Gbit/s", "80 GiB", "1.5 us", "312 TFLOP/s"). SI prefixes are powers of 1000;
/// `Ki Mi Gi Ti` are powers of 1024; `b`/`bit` is a bit, `B` a byte. Throws UserError, which names the expected units.
Seconds parse_seconds(std::string_view);
Bytes parse_bytes(std::string_view);
BytesPerSecond parse_bandwidth(std::string_view);
FlopsPerSecond parse_flops_rate(std::string_view);
Hertz parse_frequency(std::string_view);
Watts parse_power(std::string_view);
/// Removes the spaces at both ends.
std::string_view trim(std::string_view);
/// Reads a finite number without a unit; the whole text must be the number. Throws UserError.
double parse_number(std::string_view);
std::int64_t parse_integer(std::string_view);
/// Do the same, but return no value for a text that is no such number.
std::optional<double> find_number(std::string_view);
std::optional<std::int64_t> find_integer(std::string_view);
/// The factor of a count's last letter: k or K, M, B or G, T are thousands to trillions; 1 for every other letter.
double factor_of_suffix(char letter);
/// Reads a number that may end in such a letter: "300B" are 300 billion. No value: the text is no such number.
std::optional<double> find_count(std::string_view);

/// Text for people: three significant digits and a fitting prefix ("860 ms", "52.4 GiB", "300 GB/s").
std::string show(Seconds);
std::string show(Bytes);
std::string show(BytesPerSecond);
std::string show(FlopsPerSecond);
std::string show(Hertz);
std::string show(Watts);
/// A share as a percentage, "27.1 %". A share that rounds to zero has no sign.
std::string percent(double share, int decimals = 1);
/// A share in per cent with the digits that it has, at most six: "95 %", "92.5 %".
std::string exact_percent(double share);
/// A share in whole per cent. If it is below `limit` but rounding would reach it, its tenths are cut, not rounded: 0.9496
/// is "94.9 %" for a limit of 0.95.
std::string percent_short_of(double share, double limit);
/// Returns a share in per cent with an explicit sign in both directions: "+2.3 %", but "0.0 %".
std::string signed_percent(double share, int decimals = 1);
/// A whole number with all digits, in groups of three: "1,234,567".
std::string with_commas(double);
/// Writes a count with its noun: "1 step", "3 steps". No `plural`: it is the noun with an "s".
std::string counted_noun(std::int64_t count, std::string_view noun, std::string_view plural = "");
/// The shortest text that reads back as the same double.
std::string exact(double);

}  // namespace trainyard
