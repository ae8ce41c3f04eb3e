#include "models/hardware/hca.hpp"

#include <fmt/format.h>

#include "models/hardware/link_fields.hpp"

namespace trainyard {

Hca read_hca(const Node& entry) {
  EntryFields fields(entry, "hca");
  Hca hca;
  hca.name = fields.name();
  hca.rate = fields.bandwidth("rate");
  hca.latency = read_latency(fields, "latency");
  hca.tcp = fields.choice("transport", {"rdma", "tcp"}, "rdma") == "tcp";
  hca.nccl_network = fields.text("nccl_network", "");
  hca.power = read_power(fields, fields.what());
  if (const Node* node = fields.child("pcie"); node && node->kind != Node::Kind::null) {
    Fields pcie(*node, fields.what() + ": pcie");
    constexpr std::int64_t oldest = 3, newest = 6;  // as `pcie_rate`
    const std::int64_t generation = pcie.integer("generation", oldest), lanes = pcie.integer("lanes", 1);
    if (generation > newest)
      fail(pcie.place_of("generation"),
           fmt::format("{}.generation: {}; {} to {}", pcie.what(), generation, oldest, newest));
    hca.generation = static_cast<int>(generation);
    hca.lanes = require_lanes(pcie, "lanes", lanes);
    pcie.finish();
  }
  hca.sources = fields.finish();
  return hca;
}

}  // namespace trainyard
