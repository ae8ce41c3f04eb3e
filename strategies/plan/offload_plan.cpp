#include "strategies/plan/offload_plan.hpp"

namespace trainyard {

const char* name_of(OffloadDevice device) {
  static constexpr const char* names[] = {"none", "cpu", "nvme"};
  return names[static_cast<std::size_t>(device)];
}

const char* name_of(HostTransfer way) {
  static constexpr const char* names[] = {"copy to host", "CPU", "copy from host", "read from drive", "write to drive"};
  return names[static_cast<std::size_t>(way)];
}

}  // namespace trainyard
