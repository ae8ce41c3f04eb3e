#include "models/hardware/hca.hpp"

#include <fmt/format.h>

#include "models/hardware/link_fields.hpp"

namespace trainyard {

double read_hca_efficiency(Fields& fields) {
  constexpr double least = 1e-3;
  return fields.number("efficiency", least, 1, 1);
}

const std::vector<std::string>& transport_names() {
  static const std::vector<std::string> names{"rdma", "tcp", "grpc"};
  return names;
}

Hca read_hca(const Node& entry) {
  const std::string what = entry_title("hca", entry, "custom-hca");
  Fields fields(entry, what);
  Hca hca;
  hca.name = read_entry_name(fields, "custom-hca");
  hca.rate = fields.bandwidth("rate");
  hca.efficiency = read_hca_efficiency(fields);
  hca.latency = read_latency(fields, "latency");
  const std::string transport = fields.choice("transport", transport_names(), "rdma");
  hca.grpc = transport == "grpc";
  hca.tcp = hca.grpc || transport == "tcp";
  hca.nccl_network = fields.text("nccl_network", "");
  hca.power = read_power(fields, what);
  if (const Node* node = fields.child("pcie"); node && node->kind != Node::Kind::null) {
    Fields pcie(*node, what + ": pcie");
    constexpr std::int64_t oldest = 3, newest = 6;  // the range of `pcie_rate`
    const std::int64_t generation = pcie.integer("generation", oldest), lanes = pcie.integer("lanes", 1);
    if (generation > newest) pcie.refuse("generation", fmt::format("{}; {} to {}", generation, oldest, newest));
    if (lanes > kFullWidth || (lanes & (lanes - 1)) != 0)
      pcie.refuse("lanes", fmt::format("{} lanes; 1, 2, 4, 8 or 16", lanes));
    hca.generation = static_cast<int>(generation);
    hca.lanes = static_cast<int>(lanes);
    pcie.finish();
  }
  fields.finish();
  hca.sources = figure_sources(entry, what);
  return hca;
}

}  // namespace trainyard
