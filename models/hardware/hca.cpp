#include "models/hardware/hca.hpp"

#include "models/hardware/link_fields.hpp"

namespace trainyard {

void read_hca_figures(Hca& hca, Fields& fields) {
  constexpr double least_efficiency = 1e-3;
  hca.efficiency =
      fields.number({"efficiency", "Share of the rate of an adapter that messages reach."}, least_efficiency, 1, 1);
  hca.rate = fields.bandwidth({"rate", "Rate of an adapter, in one direction."});
  hca.latency = read_latency(fields, "latency");
  const std::string transport =
      fields.choice({"transport", "Protocol of an adapter."}, {"rdma", "tcp", "grpc"}, "rdma");
  hca.grpc = transport == "grpc";
  hca.tcp = hca.grpc || transport == "tcp";
  hca.nccl_network = fields.text("nccl_network", "");
  hca.power = read_power(fields);
}

Hca read_hca(const Node& entry) {
  return read_entry<Hca>("hca", entry, [](Hca& hca, Fields& fields) {
    read_hca_figures(hca, fields);
    fields.read_map("pcie", [&hca](Fields& pcie) {
      constexpr int oldest = 3, newest = 6;  // the range of `pcie_rate`
      hca.generation = pcie.integer_within("generation", oldest, newest);
      hca.lanes = read_lanes(pcie, "lanes");
    });
  });
}

}  // namespace trainyard
