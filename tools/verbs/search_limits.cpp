#include "tools/verbs/search_limits.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

#include "sim/error.hpp"

namespace trainyard {

double parse_amount(const std::string& flag, const std::string& text, double fallback) {
  if (text.empty()) return fallback;
  const double value = find_count(text).value_or(-1);
  if (!(value > 0) || !std::isfinite(value))
    throw UserError(fmt::format("{} {}: a number above 0 expected, such as {}", flag, text,
                                flag == "--tokens"   ? "300B or 1.5e13"
                                : flag == "--budget" ? "500k or 20M"
                                                     : "30"));
  return value;
}

double parse_share(const std::string& flag, const std::string& text) {
  if (text.empty()) return 0;
  const bool percent = text.back() == '%';
  const double share =
      find_number(percent ? text.substr(0, text.size() - 1) : text).value_or(-1) * (percent ? 0.01 : 1);
  if (!(share >= 0) || share >= 1)
    throw UserError(fmt::format("{} {}: {}", flag, text,
                                flag == "--confidence" ? "a probability expected, such as 90% or 0.9"
                                                       : "a share below 100 % expected, such as 10%"));
  return share;
}

void SearchLimits::declare(Arguments& arguments, const std::string& flag, const std::string& search,
                           const std::string& fallback) {
  seconds_flag = flag;
  arguments.option(
      "--work", work, "N",
      fmt::format("end {} after N simulated operations, once a plan is found that fits ({}); simulations that "
                  "have begun are finished; gives the same answer on every machine",
                  search, fallback));
  arguments.option(
      flag, seconds, "TIME",
      fmt::format("or end {} after this wall time, for example 10 min, whatever is found; the answer is not repeatable",
                  search));
}

double SearchLimits::wall_seconds() const {
  if (seconds.empty()) return 0;
  if (!work.empty()) throw UserError(fmt::format("--work and {}: one limit expected", seconds_flag));
  const double time = read_flag(seconds_flag, seconds, parse_seconds).value;
  if (!(time > 0)) throw UserError(fmt::format("{} {}: more than 0 expected", seconds_flag, seconds));
  return time;
}

TransportKind parse_transport(const std::string& name) {
  const auto* const found = std::ranges::find(kTransportNames, name);
  if (found == kTransportNames.end())
    throw UserError(
        fmt::format("--transport: unknown transport \"{}\"; known: {}", name, fmt::join(kTransportNames, ", ")));
  return static_cast<TransportKind>(found - kTransportNames.begin());
}

Bytes read_port_buffer(const std::string& text, TransportKind transport) {
  if (text.empty()) return {};
  if (transport != TransportKind::packets)
    throw UserError("--port-buffer: only with --transport packets; other transports have no queues");
  constexpr Bytes kFrame{1500}, kMost{1e9};
  const Bytes size = read_flag("--port-buffer", text, parse_bytes);
  if (size < kFrame || size > kMost)
    throw UserError(
        fmt::format("--port-buffer {}: {} to {} expected: a frame at least", text, show(kFrame), show(kMost)));
  return size;
}

}  // namespace trainyard
