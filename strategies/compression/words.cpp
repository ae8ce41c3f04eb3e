#include "strategies/compression/words.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include "sim/error.hpp"

namespace trainyard {
namespace {

struct Format {
  int exponent_bits, fraction_bits;
  bool infinite;  // the format has an infinity: the highest exponent represents no numbers
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int bits() const { return 1 + exponent_bits + fraction_bits; }
  double most() const {
    // The highest exponent of E4M3 represents numbers, except for the last fraction, which is NaN.
    const int highest = (1 << exponent_bits) - (infinite ? 2 : 1) - bias();
    return std::ldexp(2 - std::ldexp(infinite ? 1 : 2, -fraction_bits), highest);
  }
};

Format format_of(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return {8, 23, true};
    case Precision::fp16:
      return {5, 10, true};
    case Precision::bf16:
      return {8, 7, true};
    case Precision::fp8:
      return {4, 3, false};
    default:
      throw InternalError(std::string("no numbers are cast to ") + name_of(precision));
  }
}

}  // namespace

void WordWriter::bits(std::uint32_t value, int count) {
  open_ |= (std::uint64_t{value} & ((std::uint64_t{1} << count) - 1)) << count_;
  count_ += count;
  if (count_ < 32) return;
  words_.push_back(static_cast<double>(open_ & 0xffffffffU));
  open_ >>= 32;
  count_ -= 32;
}

void WordWriter::number(float value) { bits(std::bit_cast<std::uint32_t>(value), 32); }

void WordWriter::number(Precision precision, double value) {
  if (precision != Precision::fp64)
    return bits(bits_of(precision, value), static_cast<int>(8 * element_size(precision).value));
  const auto all = std::bit_cast<std::uint64_t>(value);
  bits(static_cast<std::uint32_t>(all), 32);
  bits(static_cast<std::uint32_t>(all >> 32U), 32);
}

std::vector<double> WordWriter::words() && {
  if (count_ > 0) words_.push_back(static_cast<double>(open_ & 0xffffffffU));
  return std::move(words_);
}

std::uint32_t WordReader::bits(int count) {
  if (count_ < count) {
    if (next_ == words_.size()) throw InternalError("a payload ends too early");
    open_ |= static_cast<std::uint64_t>(words_[next_++]) << count_;
    count_ += 32;
  }
  const auto value = static_cast<std::uint32_t>(open_ & ((std::uint64_t{1} << count) - 1));
  open_ >>= count;
  count_ -= count;
  return value;
}

float WordReader::number() { return std::bit_cast<float>(bits(32)); }

double WordReader::number(Precision precision) {
  if (precision != Precision::fp64)
    return number_of_bits(precision, bits(static_cast<int>(8 * element_size(precision).value)));
  const std::uint64_t low = bits(32), high = bits(32);
  return std::bit_cast<double>(high << 32U | low);
}

double rounded_to(Precision precision, double value) {
  if (value == 0 || !std::isfinite(value) || precision == Precision::fp64) return value;
  if (precision == Precision::fp32) return static_cast<double>(static_cast<float>(value));
  const Format format = format_of(precision);
  const int exponent = std::max(std::ilogb(value), 1 - format.bias());  // numbers below are subnormal
  const double unit = std::ldexp(1, exponent - format.fraction_bits);
  const double nearest = std::nearbyint(value / unit) * unit;  // ties to even
  if (std::abs(nearest) <= format.most()) return nearest;
  return std::copysign(format.infinite ? std::numeric_limits<double>::infinity() : format.most(), value);
}

std::uint32_t bits_of(Precision precision, double value) {
  const Format format = format_of(precision);
  const std::uint32_t sign = std::signbit(value) ? 1U << (format.bits() - 1) : 0;
  const double size = std::abs(value);
  if (size == 0) return sign;
  const auto top = static_cast<std::uint32_t>((1 << format.exponent_bits) - 1) << format.fraction_bits;
  if (!std::isfinite(size))
    return sign | top | (std::isnan(size) || !format.infinite ? (1U << format.fraction_bits) - 1 : 0);
  const int exponent = std::max(std::ilogb(size), 1 - format.bias());
  const auto fraction = static_cast<std::uint32_t>(std::ldexp(size, format.fraction_bits - exponent));
  const std::uint32_t hidden = 1U << format.fraction_bits;
  if (fraction < hidden) return sign | fraction;  // subnormal
  return sign | static_cast<std::uint32_t>(exponent + format.bias()) << format.fraction_bits | (fraction - hidden);
}

double number_of_bits(Precision precision, std::uint32_t bits) {
  const Format format = format_of(precision);
  const double sign = bits >> (format.bits() - 1) & 1U ? -1 : 1;
  const auto fraction = static_cast<double>(bits & ((1U << format.fraction_bits) - 1));
  const auto exponent = static_cast<int>(bits >> format.fraction_bits & ((1U << format.exponent_bits) - 1));
  if (format.infinite && exponent == (1 << format.exponent_bits) - 1)
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  if (!format.infinite && (bits & ((1U << (format.bits() - 1)) - 1)) == (1U << (format.bits() - 1)) - 1)
    return std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - format.bias() - format.fraction_bits);
  return sign * std::ldexp(1 + std::ldexp(fraction, -format.fraction_bits), exponent - format.bias());
}

}  // namespace trainyard
