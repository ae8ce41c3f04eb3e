// TCP packet by packet, compared with links that are shared max–min fair.
#include <catch2/catch.hpp>

#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "scenarios/src/studies/packet_study.hpp"
#include "tests/tools/topo_shell.hpp"
#include "tests/user_errors.hpp"

namespace scenarios_test_packets {

using namespace trainyard;
using trainyard::test::TopoAnswer;
using trainyard::test::TopoFolder;

namespace {

/// If payload has this rate, ns-3's cables run at 10 Gbit/s, headers included.
constexpr BytesPerSecond kTenGigabit{1.25e9 * 1460 / 1502};
const std::vector<Picoseconds> kShortLatency{to_picoseconds(Seconds{5e-6})};

double last_arrival_on_star(int senders, double bytes, TransportKind transport = TransportKind::packets,
                            BytesPerSecond rate = kTenGigabit,
                            const std::vector<Picoseconds>& latencies = kShortLatency) {
  std::vector<StarMessage> messages;
  for (int sender = 1; sender <= senders; ++sender) messages.push_back({sender, 0, Bytes{bytes}});
  double last = 0;
  for (const Seconds time : star_arrivals(messages, rate, latencies, transport)) last = std::max(last, time.value);
  return last;
}

const std::string kServers = R"(cluster:
  nodes: 3
  node: {base: pcie-1, gpu: {type: t4}, cpu: xeon-e5-2698-v4, hca: {type: ethernet-10g, count: 1}}
  fabric: ethernet
model: mnist-cnn
plan:
  global_batch_size: 32
  micro_batch_size: 16
  precision: fp32
  optimizer: momentum
  steps: 1
  data_parallel: {mechanism: parameter-server, servers: {count: 1, place: dedicated, on: cpu}}
software: plain
)";

Result by_packets(const std::string& scenario, const Overrides& overrides = {}) {
  const Scenario s = read_scenario_text(scenario, "packets.yaml", overrides);
  return simulate_by_packets(s, plan(s), {});
}

std::string refusal_of(const std::string& scenario, const Overrides& overrides = {}) {
  return test::user_error([&] { by_packets(scenario, overrides); });
}

}  // namespace

TEST_CASE("the key `transport` chooses the transport of a step, as an option does", "[packets]") {
  const Scenario flow = read_scenario_text(kServers, "servers.yaml");
  const Scenario native = read_scenario_text(kServers, "servers.yaml", {{"transport", "native"}});
  const SimulateOptions by_option{.transport = TransportKind::native};
  const Result by_key = simulate(native);
  CHECK(by_key.step_time.value == simulate(flow, by_option).step_time.value);
  CHECK(by_key.step_time.value == Approx(simulate(flow).step_time.value).epsilon(1e-9));
  CHECK(by_key.unfolded_reason == "SimGrid's own communications stand for themselves");
  const Result packets = answer(read_scenario_text(kServers, "servers.yaml", {{"transport", "packets"}})).result;
  CHECK(packets.step_time.value == by_packets(kServers).step_time.value);
  CHECK(packets.flow_step_time == simulate(flow).step_time);
  CHECK_THROWS_WITH(read_scenario_text(kServers, "servers.yaml", {{"transport", "nativ"}}),
                    Catch::Contains("did you mean \"native\"?"));
}

TEST_CASE("messages on a star of 10 Gbit/s take the time of SimGrid's own runs of ns-3", "[packets]") {
  // SimGrid 3.32 with ns-3 3.37, on its own with actors and default settings, took 8.32 ms and 2.71 ms.
  CHECK(last_arrival_on_star(1, 1e7) == Approx(8.32e-3).epsilon(0.03));
  CHECK(last_arrival_on_star(32, 1e5) == Approx(2.71e-3).epsilon(0.03));
  // There 32 messages of 10 MB took 264 ms, 3.1 % more than their bytes divided by the rate. Fewer and smaller messages
  // exceed it as much.
  CHECK(last_arrival_on_star(4, 1e6) == Approx(4e6 / 1.25e9 * 264 / 256).epsilon(0.03));
}

TEST_CASE("a message of a segment takes a handshake and a round trip, however fast the link is", "[packets]") {
  for (const double latency : {25e-6, 100e-6}) {
    const double time =
        last_arrival_on_star(1, 100, TransportKind::packets, BytesPerSecond{1e11}, {to_picoseconds(Seconds{latency})});
    CHECK(time == Approx(2 * 4 * latency).epsilon(0.01));
    CHECK(last_arrival_on_star(1, 100, TransportKind::flow, BytesPerSecond{1e11}, {to_picoseconds(Seconds{latency})}) ==
          Approx(2 * latency).epsilon(0.01));
  }
}

TEST_CASE("slow start sends ten segments in its first round trip, and twice as many in each next one", "[packets]") {
  // Before the link is full, 10·(2^k − 1) segments take k round trips after the handshake.
  const std::vector<Picoseconds> long_latency{to_picoseconds(Seconds{500e-6})};
  const double round_trip = 4 * 500e-6;
  for (const int k : {1, 2, 3}) {
    const double bytes = 1460.0 * 10 * ((1 << k) - 1);
    CHECK(last_arrival_on_star(1, bytes, TransportKind::packets, BytesPerSecond{1e11}, long_latency) ==
          Approx((1 + k) * round_trip).epsilon(0.01));
  }
}

TEST_CASE("equal long flows share a port evenly, as with max-min, and flows from afar get less", "[packets]") {
  const std::vector<Seconds> arrivals =
      star_arrivals({{1, 0, Bytes{2e6}}, {2, 0, Bytes{2e6}}}, kTenGigabit, kShortLatency, TransportKind::packets);
  CHECK(arrivals[0].value == Approx(arrivals[1].value).epsilon(0.02));
  const std::vector<Picoseconds> unequal{to_picoseconds(Seconds{5e-6}), to_picoseconds(Seconds{5e-6}),
                                         to_picoseconds(Seconds{495e-6})};
  const std::vector<StarMessage> two_messages{{1, 0, Bytes{2e6}}, {2, 0, Bytes{2e6}}};
  const std::vector<Seconds> packet_arrivals =
      star_arrivals(two_messages, kTenGigabit, unequal, TransportKind::packets);
  const std::vector<Seconds> flow_arrivals = star_arrivals(two_messages, kTenGigabit, unequal, TransportKind::flow);
  CHECK(packet_arrivals[0] < flow_arrivals[0]);
  CHECK(packet_arrivals[1].value > 2 * flow_arrivals[1].value);
}

TEST_CASE("incast into a port with a small buffer waits for timeouts, which max-min does not have", "[packets]") {
  const std::vector<StarMessage> incast = [] {
    std::vector<StarMessage> messages;
    for (int sender = 1; sender <= 32; ++sender) messages.push_back({sender, 0, Bytes{64e3}});
    return messages;
  }();
  const auto last_arrival = [&incast](Bytes buffer) {
    double latest = 0;
    for (const Seconds time : star_arrivals(incast, kTenGigabit, kShortLatency, TransportKind::packets, buffer))
      latest = std::max(latest, time.value);
    return latest;
  };
  CHECK(last_arrival({}) == Approx(32 * 64e3 / kTenGigabit.value).epsilon(0.03));
  // A buffer of 4 MB holds all that is sent at once.
  CHECK(last_arrival(Bytes{4e6}) == Approx(last_arrival({})).epsilon(0.03));
  CHECK(last_arrival(Bytes{262144}) > 0.2);  // Linux's least timeout
}

TEST_CASE("packets change the simulated Ethernet of a step with servers, but not its PCIe", "[packets]") {
  const Result r = by_packets(kServers);
  CHECK(r.step_time > *r.flow_step_time);
  CHECK(r.step_time < 1.5 * *r.flow_step_time);
  CHECK(r.unfolded_reason == "each packet stands for itself");
  // Slow PCIe limits packets and flows alike.
  const Result over_slow_pcie = by_packets(kServers, {{"cluster.node.pcie", "{rate: 100 MB/s}"}});
  CHECK(over_slow_pcie.step_time.value == Approx(over_slow_pcie.flow_step_time->value).epsilon(0.02));
  // Equal input gives an equal step time.
  CHECK(by_packets(kServers).step_time.value == r.step_time.value);
}

TEST_CASE("packets are refused for networks without TCP, and for collectives without single messages", "[packets]") {
  CHECK(refusal_of(kServers, {{"cluster.node.hca.transport", "rdma"}}).find("carry RDMA (InfiniBand or RoCE)") !=
        std::string::npos);
  CHECK(refusal_of("cluster: {nodes: 1, node: dgx-a100}\nmodel: gpt2\nplan: {micro_batch_size: 4, precision: bf16}\n")
            .find("is one node: messages go over NVLink, PCIe or memory, which carry no TCP") != std::string::npos);
  CHECK(refusal_of(kServers, {{"cluster.fabric", "{base: ethernet, hub: true}"}}).find("shares its rate with others") !=
        std::string::npos);
  CHECK(refusal_of(kServers, {{"plan.data_parallel", "{all_reduce: {algorithm: ring, fidelity: flows}}"},
                              {"plan.global_batch_size", "48"}})
            .find("gradients are all-reduced as flows here") != std::string::npos);
  CHECK(refusal_of(kServers, {{"faults.links", "[{link: node0/hca0 - switch, factor: 0.5}]"}})
            .find("would change its rate or fail during the run") != std::string::npos);
  CHECK(refusal_of(kServers, {{"cluster.fabric", "{base: leaf-spine-ecmp, levels: [{down: 2}]}"}})
            .find("more than one path between two adapters") != std::string::npos);
}

TEST_CASE("bench and run take --transport packets", "[packets][bench]") {
  const TopoFolder shell;
  shell.write("servers.yaml", kServers);
  const std::string ring = "bench all_reduce --on servers.yaml --algorithm ring -b 64K -e 64K ";
  const TopoAnswer once = shell.trainyard(ring + "--transport packets --json -");
  INFO(once.err);
  REQUIRE(once.exit == 0);
  CHECK(once.out.find("\"flow_us\"") != std::string::npos);
  CHECK(once.out.find("\"wrong\": 0") != std::string::npos);
  CHECK(shell.trainyard(ring + "--transport packets --json -").out == once.out);
  CHECK(shell.trainyard(ring + "--json -").out.find("flow_us") == std::string::npos);
  const TopoAnswer modelled =
      shell.trainyard("bench all_reduce --on dgx-a100 --nodes 2 --fabric nonblocking --transport packets");
  CHECK(modelled.exit == 2);
  CHECK(modelled.err.find("add --algorithm") != std::string::npos);
  const TopoAnswer rdma = shell.trainyard(
      "bench all_reduce --on dgx-a100 --nodes 2 --fabric nonblocking --algorithm ring --transport packets");
  CHECK(rdma.exit == 2);
  CHECK(rdma.err.find("the adapters of dgx-a100 carry RDMA") != std::string::npos);
  CHECK(shell.trainyard("run servers.yaml --transport packet").exit == 2);
  CHECK(shell.trainyard(ring + "--transport packets --port-buffer 1MiB --json -").exit == 0);
  CHECK(shell.trainyard(ring + "--transport native --json -").exit == 0);
  CHECK(shell.trainyard(ring + "--port-buffer 1MiB").err ==
        "--port-buffer: only with --transport packets; other transports have no queues\n");
  CHECK(shell.trainyard(ring + "--transport packets --port-buffer 10").exit == 2);
}

}  // namespace scenarios_test_packets
