#include "models/fitted/nccl_model.hpp"

#include <fmt/format.h>

#include <array>

#include "models/reading/document.hpp"

namespace trainyard {
namespace {

constexpr std::array<const char*, kNcclOperations> kNcclNames{
    "all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "reduce", "sendrecv", "gather", "scatter"};

}  // namespace

const char* name_of(NcclOperation o) { return kNcclNames.at(static_cast<std::size_t>(o)); }

NcclOperation parse_nccl_operation(const std::string& name) {
  for (std::size_t i = 0; i < kNcclNames.size(); ++i)
    if (same_name(name, kNcclNames[i])) return static_cast<NcclOperation>(i);
  if (same_name(name, "all-to-all")) return NcclOperation::alltoall;
  throw UserError(fmt::format("unknown operation \"{}\"{}", name, hint(name, {kNcclNames.begin(), kNcclNames.end()})));
}

Bytes nccl_wire(NcclOperation operation, Bytes size, int gpus) {
  const double others = static_cast<double>(gpus - 1) / gpus;
  switch (operation) {
    case NcclOperation::all_reduce:
      return size * (2 * others);
    case NcclOperation::broadcast:
    case NcclOperation::reduce:
    case NcclOperation::sendrecv:
      return gpus > 1 ? size : Bytes{0};
    default:
      return size * others;
  }
}

Bytes nccl_in_switch_wire(Bytes size, int gpus) { return size * (1 + 1.0 / gpus); }

BytesPerSecond nccl_bus_bandwidth(NcclOperation operation, Bytes size, int gpus, Seconds time) {
  return nccl_wire(operation, size, gpus) / time;
}

}  // namespace trainyard
