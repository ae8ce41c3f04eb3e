#include "models/hardware/link_kind.hpp"

#include <array>
#include <cstddef>

namespace trainyard {
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
