#include "strategies/plan/offload_plan.hpp"

#include "sim/error.hpp"

namespace trainyard {

const char* name_of(OffloadDevice device) {
  switch (device) {
    case OffloadDevice::none:
      return "none";
    case OffloadDevice::cpu:
      return "cpu";
    case OffloadDevice::nvme:
      return "nvme";
  }
  throw InternalError("an unknown offload device");
}

const char* name_of(HostWay way) {
  switch (way) {
    case HostWay::to_host:
      return "copy to host";
    case HostWay::in_host:
      return "CPU";
    case HostWay::from_host:
      return "copy from host";
    case HostWay::drive_read:
      return "read from drive";
    case HostWay::drive_write:
      return "write to drive";
  }
  throw InternalError("an unknown transfer between GPU, host and drives");
}

}  // namespace trainyard
