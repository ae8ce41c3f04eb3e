// The rate that arrives in networks that lose frames. Also gRPC, which copies in user space as well.
#include <fmt/format.h>

#include <random>

#include "models/hardware/adapter_rate.hpp"
#include "scenarios/src/reading/read_cluster.hpp"
#include "strategies/collectives/library_model.hpp"
#include "tests/seeds/transfers.hpp"
#include "tests/support.hpp"
#include "topologies/machines/cluster_machine.hpp"
#include "topologies/machines/tcp_network.hpp"

namespace topologies_test_frame_loss {

using namespace trainyard;
using namespace trainyard::test;

namespace {

ClusterSpec hosts_with(const std::string& hca, const std::string& fabric = "") {
  return cluster_of(2,
                    "interconnect: pcie\npcie: {rate: 16 GB/s, latency: 0 us}\nstaging_chunk: 1 MB\n"
                    "hca: {count: 2, rate: 5 GB/s, latency: 1 us" +
                        hca + "}\ncpu: {copy_rate: 8 GB/s}\n",
                    2, fabric);
}

double rate_of(const std::string& hca, const std::string& fabric = "") {
  return adapter_rate(hosts_with(hca, fabric).node).value;
}

std::string lossy(double share, const std::string& more = "") {
  return fmt::format(", flow_control: none, loss: {}{}", share, more);
}

}  // namespace

TEST_CASE("what follows a loss is refused without one", "[loss]") {
  for (const char* key : {", recovery: selective-repeat", ", frame: 4 KiB"}) {
    CHECK_THROWS_WITH(rate_of(key), Catch::Contains("with loss only"));
    CHECK_NOTHROW(rate_of(lossy(0, key)));
  }
}

TEST_CASE("go-back-N sends again all frames that are under way", "[loss]") {
  // 5 GB/s and a round trip of 4 us: 20 kB, or 19.53 frames of 1 KiB, behind the lost one.
  const double p = 0.01, window = 1 + 5e9 * 4e-6 / 1024;
  CHECK(rate_of(lossy(p)) == near(5e9 * (1 - p) / (1 - p + p * window)));
  CHECK(rate_of(lossy(p, ", recovery: selective-repeat")) == near(5e9 * (1 - p)));
  // Frames of 4 KiB: a quarter as many are under way.
  CHECK(rate_of(lossy(p, ", frame: 4 KiB")) == near(5e9 * (1 - p) / (1 - p + p * (1 + 5e9 * 4e-6 / 4096))));
  // A longer way has more frames under way: 100 km are 500 us one way.
  const double far = 1 + 5e9 * (4e-6 + 1e-3 + 2 * 0.5e-6) / 1024;
  CHECK(rate_of(lossy(p), "{type: nonblocking, switch_latency: 0.5 us, distance: 100 km}") ==
        near(5e9 * (1 - p) / (1 - p + p * far)));
  // The way over a leaf, a spine and a leaf passes three switches.
  const std::string clos = "{type: folded-clos, switch_latency: 0.5 us, levels: [{down: 2}]}";
  CHECK(hosts_with("", clos).node.network.fabric_latency == to_picoseconds(Seconds{1.5e-6}));
}

TEST_CASE("TCP halves its window at a loss, each connection its own", "[loss]") {
  const double p = 1e-3, one = 1460 / 4e-6 * std::sqrt(1.5 / p);
  CHECK(rate_of(", transport: tcp, loss: 0.4") == near(1460 / 4e-6 * std::sqrt(1.5 / 0.4)));
  CHECK(one > 5e9);
  CHECK(rate_of(", transport: tcp, loss: 0.001") == near(5e9 * (1 - p)));  // the window is no limit on so short a way
  const std::string far = "{type: nonblocking, switch_latency: 0 us, distance: 1000 km}";
  const double slow = 1460 / (4e-6 + 1e-2) * std::sqrt(1.5 / p);
  CHECK(rate_of(", transport: tcp, loss: 0.001", far) == near(slow));
  CHECK(rate_of(", transport: tcp, loss: 0.001, connections: 8", far) == near(8 * slow));
}

TEST_CASE("no loss changes nothing, and more loss is never faster", "[loss][property]") {
  std::mt19937 bits(39);
  const auto pick = [&bits](double from, double to) { return std::uniform_real_distribution<>(from, to)(bits); };
  for (int i = 0; i < 300; ++i) {
    FrameLoss loss;
    loss.recovery = i % 3 == 0 ? LossRecovery::go_back_n : LossRecovery::selective_repeat;
    loss.tcp_connections = i % 3 == 2 ? 1 + i % 8 : 0;
    loss.frame = Bytes{pick(64, 9000)};
    const BytesPerSecond rate{pick(1e6, 1e11)};
    const Seconds round_trip{pick(0, 1e-2)};
    CHECK(delivered_rate(rate, loss, round_trip) == rate);
    BytesPerSecond before = rate;
    for (loss.share = 1e-8; loss.share < 0.5; loss.share *= 3) {
      const BytesPerSecond now = delivered_rate(rate, loss, round_trip);
      CHECK(now < before);
      CHECK(now.value > 0);
      FrameLoss repeats_all = loss, repeats_one = loss;
      repeats_all.recovery = LossRecovery::go_back_n;
      repeats_one.recovery = LossRecovery::selective_repeat;
      repeats_one.tcp_connections = 0;
      CHECK(delivered_rate(rate, repeats_all, round_trip) <=
            delivered_rate(rate, repeats_one, round_trip) * (1 + 1e-12));
      before = now;
    }
  }
  const ClusterSpec today = hosts_with(""), stated = hosts_with(", flow_control: none, loss: 0");
  CHECK(transfer_ms(today, {{0, 2, Bytes{1e7}}}) == transfer_ms(stated, {{0, 2, Bytes{1e7}}}));
}

TEST_CASE("messages and NCCL run at the rate that arrives", "[loss]") {
  const double rate = rate_of(lossy(0.01));
  CHECK(rate < 4.5e9);
  CHECK(transfer_ms(hosts_with(lossy(0.01)), {{0, 2, Bytes{1e7}}}) == near((2e-6 + 1e7 / rate) * 1e3));
  const auto nccl = [](const std::string& hca) {
    const Catalog catalog;
    const ClusterSpec cluster = read_cluster(
        parse_document("{nodes: 2, node: dgx-a100, fabric: nonblocking, hca: {" + hca + "}}", "c.yaml"), catalog);
    return library_model(cluster, {}).model->cost(Operation::all_reduce, Bytes{1e9}, {16, 2, 8}).rate.value;
  };
  CHECK(nccl("flow_control: none, loss: 0.05") < 0.9 * nccl("flow_control: none"));
  CHECK(nccl("flow_control: none") == nccl("flow_control: credits"));
  CHECK(describe(hosts_with(lossy(0.01))).find("loses 0.01 of the frames and delivers 33.1") != std::string::npos);
}

TEST_CASE("ns-3 loses frames in its own queues, not by a stated share", "[loss]") {
  const ClusterMachine machine(hosts_with(", transport: tcp, loss: 0.001"), {});
  CHECK_THROWS_WITH(tcp_network(machine), Catch::Contains("leave cluster.hca.loss out"));
}

TEST_CASE("TensorFlow's gRPC copies five times, more often than TCP", "[routing]") {
  const ClusterSpec grpc = hosts_with(", transport: grpc"), five = hosts_with(", transport: tcp, copies: 5");
  const ClusterMachine m(grpc, {});
  CHECK(std::string(m.route(0, 2, PathClass::automatic).name) == "NET, gRPC");
  CHECK(transfer_ms(grpc, {{0, 2, Bytes{1e7}}}) == transfer_ms(five, {{0, 2, Bytes{1e7}}}));
  CHECK(transfer_ms(grpc, {{0, 2, Bytes{1e7}}}) >
        1.2 * transfer_ms(hosts_with(", transport: tcp"), {{0, 2, Bytes{1e7}}}));
  CHECK(describe(grpc).find("HCA (gRPC)") != std::string::npos);
  CHECK_THROWS_WITH(library_model(grpc, {}), Catch::Contains("NCCL opens sockets of its own"));
}

}  // namespace topologies_test_frame_loss
