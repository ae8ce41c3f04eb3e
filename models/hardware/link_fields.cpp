#include "models/hardware/link_fields.hpp"

#include <fmt/format.h>

namespace trainyard {

BytesPerSecond pcie_rate(int generation, int lanes) {
  // Transfers per second and lane, and what of them is data: 128b/130b, from generation 6 on 242 of the 256 bytes of a
  // flit (unverified: the rest is error correction).
  if (generation < 3 || generation > 6) throw InternalError(fmt::format("PCIe of generation {}", generation));
  const double transfers = 8e9 * static_cast<double>(1 << (generation - 3));
  const double data = generation < 6 ? 128.0 / 130 : 242.0 / 256;
  return BytesPerSecond{transfers * data / 8 * lanes};
}

Picoseconds read_latency(Fields& fields, std::string_view key) {
  constexpr Seconds most{10};
  const Seconds s = fields.seconds(key);
  if (s > most) fail(fields.place_of(key), fmt::format("{}.{}: more than {}", fields.what(), key, show(most)));
  return to_picoseconds(s);
}

int require_lanes(const Fields& fields, std::string_view key, std::int64_t lanes, const char* expected) {
  if (lanes > kFullWidth || (lanes & (lanes - 1)) != 0)
    fail(fields.place_of(key), fmt::format("{}.{}: {} lanes; {}", fields.what(), key, lanes, expected));
  return static_cast<int>(lanes);
}

int number_below(const Node& node, int count, const std::string& what) {
  std::int64_t v = -1;
  try {
    v = parse_integer(node.scalar);
  } catch (const UserError& e) {
    fail(node.place, fmt::format("{}: {}", what, e.what()));
  }
  if (v < 0 || v >= count)
    fail(node.place, count > 0 ? fmt::format("{}: {}, expected 0 to {}", what, v, count - 1)
                               : fmt::format("{}: {}, but the node has none", what, v));
  return static_cast<int>(v);
}

bool read_half_duplex(Fields& fields) { return fields.choice("duplex", {"full", "half"}, "full") == "half"; }

}  // namespace trainyard
