#include "models/fitted/nccl_model.hpp"

#include <fmt/format.h>

#include "models/reading/document.hpp"

namespace trainyard {
namespace {

constexpr std::array<const char*, 3> kHops{"hop_ll", "hop_ll128", "hop_simple"};

/// The shares with their keys.
constexpr std::array<std::pair<const char*, double NcclNetwork::*>, 5> kShares{
    {{"share_ll", &NcclNetwork::share_ll},
     {"share_ll128", &NcclNetwork::share_ll128},
     {"share_ring", &NcclNetwork::share_ring},
     {"share_tree", &NcclNetwork::share_tree},
     {"share_pairs", &NcclNetwork::share_pairs}}};

constexpr std::array<const char*, kNcclOperations> kNcclNames{
    "all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "reduce", "sendrecv", "gather", "scatter"};

}  // namespace

NcclNetwork read_nccl_network(const Node& entry) {
  return read_entry<NcclNetwork>("nccl-network", entry, [](NcclNetwork& network, Fields& fields) {
    network.own_adapters = fields.text("own_adapters", "");
    network.without_gpudirect = fields.text("without_gpudirect", "");
    network.wires = fields.seconds("wires", Seconds{0});
    for (std::size_t p = 0; p < kHops.size(); ++p) {
      network.hop[p] = fields.seconds(kHops[p]);
      if (network.wires > network.hop[p])
        fields.refuse("wires", fmt::format("more than {}, which includes them", kHops[p]));
    }
    network.peer = fields.seconds("peer", Seconds{0});
    network.chunk_time = fields.seconds("chunk_time", Seconds{0});
    for (const auto& [key, share] : kShares) network.*share = fields.number(key, 1e-4, 1);
    fields.read_map("left_out_error", [&network](Fields& errors) {
      network.median_error = errors.number("median", 0, 1e6);
      network.p90_error = errors.number("p90", 0, 1e6);
      network.large_error = errors.number("large", 0, 1e6);
    });
    network.systems = fields.integer_within<int>("systems", 0, 1'000'000, 0);
  });
}

std::string nccl_network_text(const NcclNetwork& network, const std::string& head, const std::string& fit,
                              const std::string& errors) {
  std::string text = fmt::format("# {}\ndescription: \"{}\"\nsources:\n  fit: \"{}\"\n  errors: \"{}\"\n", head,
                                 network.name, fit, errors);
  const auto time = [&text](const char* key, Seconds value) {
    text += fmt::format("{}: {{value: {:.4g} us, source: fit}}\n", key, value.value * 1e6);
  };
  if (!network.own_adapters.empty()) text += fmt::format("own_adapters: {}\n", network.own_adapters);
  if (!network.without_gpudirect.empty()) text += fmt::format("without_gpudirect: {}\n", network.without_gpudirect);
  for (std::size_t p = 0; p < kHops.size(); ++p) time(kHops[p], network.hop[p]);
  time("wires", network.wires);
  time("peer", network.peer);
  time("chunk_time", network.chunk_time);
  for (const auto& [key, share] : kShares)
    text += fmt::format("{}: {{value: {:.4g}, source: fit}}\n", key, network.*share);
  text += fmt::format("systems: {{value: {}, source: fit}}\n", network.systems);
  if (network.median_error > 0)
    text += fmt::format(
        "left_out_error:\n  median: {{value: {:.4f}, source: errors}}\n  p90: {{value: {:.4f}, source: errors}}\n  "
        "large: {{value: {:.4f}, source: errors}}\n",
        network.median_error, network.p90_error, network.large_error);
  return text;
}

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
