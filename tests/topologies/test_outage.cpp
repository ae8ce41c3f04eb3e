// A switch fails and comes back, and so do all its wires.
#include "tests/seeds/transfers.hpp"
#include "tests/support.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace topologies_test_outage {

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// The outage of a switch: all its wires, in both directions, fail at `from` and come back at `to`.
std::vector<LinkChange> outage(const DeviceGraph& graph, DeviceId device, Seconds from, Seconds to) {
  std::vector<LinkChange> changes;
  for (const std::vector<LinkId>& wires : {graph.links_from(device), graph.links_to(device)})
    for (const LinkId wire : wires) {
      changes.push_back({from, wire, BytesPerSecond{0}});
      changes.push_back({to, wire, graph.links()[wire].capacity});
    }
  return changes;
}

/// Host 0 of eight on two leaves sends 1 GB at 10 GB/s to host 7. The named switch is down from 40 to 70 ms. Returns the
/// time of arrival in ms.
double with_outage_ms(const std::string& name) {
  const ClusterSpec spec =
      hosts_of(8, "rate: 10 GB/s", "{type: folded-clos, switch_latency: 0 us, levels: [{down: 4}], routing: ecmp}");
  ClusterMachine m(spec, SoftwareStack{});
  Simulation simulation(m);
  for (Actor a = 0; a < spec.nodes; ++a)
    simulation.add(a, std::make_unique<ListProgram>(a == 0   ? std::vector<Op>{send(1e9)}
                                                    : a == 7 ? std::vector<Op>{recv()}
                                                             : std::vector<Op>{},
                                                    std::vector<Actor>{a == 0 ? 7 : 0}));
  for (const DeviceId id : m.graph().devices_of_kind(DeviceKind::network_switch)) {
    if (m.graph().devices()[static_cast<std::size_t>(id)].name != name) continue;
    for (const LinkChange& change : outage(m.graph(), id, Seconds{0.04}, Seconds{0.07})) simulation.change(change);
  }
  return simulation.run().end.value * 1e3;
}

}  // namespace

TEST_CASE("messages take another spine if theirs fails, and wait for a failed leaf until it is back", "[failures]") {
  for (const char* spine : {"spine0", "spine1", "spine2", "spine3"}) CHECK(with_outage_ms(spine) == near(100));
  CHECK(with_outage_ms("leaf1") == near(130));
}

}  // namespace topologies_test_outage
