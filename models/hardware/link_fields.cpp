#include "models/hardware/link_fields.hpp"

#include <fmt/format.h>
#include <array>
#include <cstddef>

namespace trainyard {

BytesPerSecond pcie_rate(int generation, int lanes) {
  // Transfers per second and lane, and the share of them that is data: 128b/130b; from generation 6 on 242 of the 256
  // bytes of a flit (unverified: the rest is error correction).
  if (generation < 3 || generation > 6) throw InternalError(fmt::format("PCIe of generation {}", generation));
  const double transfers = 8e9 * static_cast<double>(1 << (generation - 3));
  const double data = generation < 6 ? 128.0 / 130 : 242.0 / 256;
  return BytesPerSecond{transfers * data / 8 * lanes};
}

int read_lanes(Fields& fields, Key key, std::optional<int> fallback) {
  const std::int64_t lanes = fields.integer(key, fallback == 0 ? 0 : 1, fallback);
  if (lanes > kFullWidth || (lanes & (lanes - 1)) != 0)
    fields.refuse(key, fmt::format("{} lanes; PCIe links have 1, 2, 4, 8 or {}", lanes, kFullWidth));
  return static_cast<int>(lanes);
}

Picoseconds read_latency(Fields& fields, Key key) {
  constexpr Seconds most{10};
  const Seconds s = fields.seconds(key);
  if (s > most) fields.refuse(key, fmt::format("more than {}", show(most)));
  return to_picoseconds(s);
}

bool read_half_duplex(Fields& fields) {
  return fields.choice({"duplex", "Directions of a link at a time; half: both share the rate."}, {"full", "half"},
                       "full") == "half";
}

namespace {

/// Words of each LinkKind, in the order of the enumeration.
constexpr std::array<LinkKindWords, 14> kWords{{
    {"NVLink", "NVLink rate", LinkScope::nvlink},
    {"ICI", "ICI rate", LinkScope::fabric, "ICI"},
    {"PCIe", "PCIe rate", LinkScope::pcie},
    {"socket", "socket rate", LinkScope::socket},
    {"NVMe", "NVMe rate", LinkScope::pcie},
    {"host memory", "host memory rate", LinkScope::shared},
    {"CPU copies", "CPU copies rate", LinkScope::shared},
    {"HCA", "HCA rate", LinkScope::fabric, "network"},
    {"uplink", "uplinks between switches", LinkScope::fabric, "network"},
    {"Ethernet", "Ethernet rate", LinkScope::shared},
    {"storage", "storage rate", LinkScope::shared},
    {"storage requests", "storage requests rate", LinkScope::shared},
    {"storage port", "storage port rate", LinkScope::shared},
    {"file latency", "file latency rate", LinkScope::shared},
}};
static_assert(kWords.size() == static_cast<std::size_t>(LinkKind::file_latency) + 1);

}  // namespace

std::span<const LinkKind> all_link_kinds() {
  static const auto kinds = [] {
    std::array<LinkKind, kWords.size()> all{};
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<LinkKind>(i);
    return all;
  }();
  return kinds;
}

const LinkKindWords& words_of(LinkKind kind) { return kWords[static_cast<std::size_t>(kind)]; }

}  // namespace trainyard
