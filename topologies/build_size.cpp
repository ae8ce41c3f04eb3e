#include "topologies/build_size.hpp"

#include <fmt/format.h>

namespace trainyard {

void require_buildable(const BuildSize& size, const std::string& what, const Place& place) {
  constexpr double most_devices = 1 << 21, most_cables = 1 << 22;  // about 2 GB each
  if (size.devices <= most_devices && size.cables <= most_cables) return;
  fail(place, fmt::format("{} of {:.6g} devices and {:.6g} cables is too large to build; at most {:.6g} and {:.6g}",
                          what, size.devices, size.cables, most_devices, most_cables));
}

}  // namespace trainyard
