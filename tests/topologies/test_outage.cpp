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
  Programs all(position(spec.nodes));
  all[0] = std::make_unique<ListProgram>(std::vector<Op>{send(1e9)}, std::vector<Actor>{7});
  all[7] = std::make_unique<ListProgram>(std::vector<Op>{recv()}, std::vector<Actor>{0});
  RunSetup setup;
  for (const DeviceId id : m.graph().devices_of_kind(DeviceKind::network_switch))
    if (m.graph().devices()[static_cast<std::size_t>(id)].name == name)
      setup.link_changes = outage(m.graph(), id, Seconds{0.04}, Seconds{0.07});
  return run_programs(m, std::move(all), std::move(setup)).end.value * 1e3;
}

}  // namespace

TEST_CASE("messages take another spine if theirs fails, and wait for a failed leaf until it is back", "[failures]") {
  for (const char* spine : {"spine0", "spine1", "spine2", "spine3"}) CHECK(with_outage_ms(spine) == near(100));
  CHECK(with_outage_ms("leaf1") == near(130));
}

}  // namespace topologies_test_outage
