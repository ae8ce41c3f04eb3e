// Variants of parameter servers: split keys, local aggregation, workers that update, copies of keys. Learned parameters
// are compared with those of one device, times with closed forms on a star of devices.
#include "scenarios/src/running/server_cell.hpp"
#include "tests/strategies/server_training.hpp"
#include "tests/support.hpp"
#include "topologies/machines/ideal_machine.hpp"

namespace strategies_test_server_ways {

using namespace trainyard;
using namespace trainyard::test;

namespace {

constexpr double kBytes = 24e6, kRate = 1e9, kWhole = kBytes / kRate;  // a gradient over one link: 24 ms
constexpr Picoseconds kHop{1000000};

/// Returns the latency between two devices.
double latency() {
  const ClusterMachine star(star_cluster(2, BytesPerSecond{kRate}, kHop), SoftwareStack{});
  return star.route(0, 1, PathClass::automatic).latency.seconds().value;
}

/// Returns the time of one step without computation, until all messages have arrived.
double seconds_of(ServerCell cell, const std::function<void(ServerPlan&)>& change, int devices) {
  cell.gradient = Bytes{kBytes};
  cell.change = change;
  cell.cluster = star_cluster(devices, BytesPerSecond{kRate}, kHop);
  for (Actor device = 0; device < devices; ++device) cell.places.push_back(device);
  ServerCellRun run(cell);
  run.run();
  return run.end().value;
}

ServerRule rule_named(const std::string& name) {
  for (const ServerRule& rule : server_rules())
    if (rule.name == name) return rule;
  throw InternalError(name);
}

/// Lets two nodes of two workers each sum their gradients.
void aggregate(ServerPlan& plan, bool on_cpu) {
  plan.local.groups = {{{0, 1}}, {{2, 3}}};
  plan.local.on_cpu = on_cpu;
  plan.local.reduce = &collectives(Operation::reduce).find("sequential", {});
  plan.local.broadcast = &collectives(Operation::broadcast).find("sequential", {});
}

}  // namespace

TEST_CASE("MXNet slices large keys over all servers, BytePS cuts all keys into parts", "[servers]") {
  std::vector<GradientBucket> keys(3);
  const double sizes[] = {10, 999, 1001};
  for (std::size_t k = 0; k < keys.size(); ++k) {
    keys[k].parts = {{static_cast<int>(k), 0, sizes[k], 0}};
    keys[k].elements = sizes[k];
    keys[k].layer = static_cast<int>(k);
  }
  const auto sizes_of = [](const SharedKeys& shared) {
    std::vector<double> all;
    for (const GradientBucket& key : shared.keys) all.push_back(key.elements);
    return all;
  };
  const SharedKeys mxnet = share_out(keys, 4, KeySharding::balanced, {.bigarray_bound = 999}, Bytes{4});
  CHECK(sizes_of(mxnet) == std::vector<double>{10, 249, 250, 250, 250, 250, 250, 250, 251});
  CHECK(mxnet.server_of == std::vector<int>{0, 0, 1, 2, 3, 0, 1, 2, 3});  // small keys go to the least loaded server
  const SharedKeys byteps =
      share_out(keys, 4, KeySharding::round_robin, {.partition_bytes = Bytes{1603}}, Bytes{4});  // 400 elements
  CHECK(sizes_of(byteps) == std::vector<double>{10, 400, 400, 199, 400, 400, 201});
  CHECK(byteps.server_of == std::vector<int>{0, 1, 2, 3, 0, 1, 2});
  CHECK(byteps.keys[5].parts.front().first == 400);
  CHECK(byteps.keys[5].layer == 2);
  CHECK(sizes_of(share_out(keys, 4, KeySharding::balanced, {}, Bytes{4})) == std::vector<double>{10, 999, 1001});
  CHECK(named_splits().at(1).split.bigarray_bound == 1e6);
  CHECK(named_splits().at(2).split.partition_bytes.value == 4096000);
}

TEST_CASE("split keys are learned like whole ones", "[servers]") {
  for (const KeySplit& split : {KeySplit{.bigarray_bound = 8}, KeySplit{.partition_bytes = Bytes{24}}})
    for (const int servers : {2, 5, 40})  // 40: more servers than keys
      check_equal({.servers = servers, .bucket = 80, .split = split});
  ServerTraining backup_training{.workers = 4, .servers = 40, .backups = 1, .jitter = 0.7};
  backup_training.split.bigarray_bound = 1000;  // no key is split, so many servers have no key
  check_replay(backup_training);
}

TEST_CASE("workers that update with the sum or mean of all gradients learn the same as one device", "[servers]") {
  for (const char* rule : {"sum", "mean"}) {
    for (const int workers : {1, 2, 3, 7})
      for (const int servers : {1, 3}) check_equal({.workers = workers, .servers = servers, .rule = rule});
    check_equal({.micro_batches = 4, .rule = rule});
    check_equal({.overlap = false, .bucket = 4, .rule = rule});
    check_equal({.servers = 3, .jitter = 0.5, .rule = rule});
  }
}

TEST_CASE("nodes with local aggregation learn the same as one device", "[servers]") {
  for (const bool on_cpu : {false, true})
    for (const std::vector<int>& nodes : {std::vector<int>{4}, {2, 2}, {1, 1, 1, 1}, {3, 1}})
      check_equal({.workers = 4, .servers = 2, .nodes = nodes, .aggregator_on_cpu = on_cpu});
  for (const char* algorithm : {"sequential", "chain", "binary-tree"})
    check_equal({.workers = 8, .nodes = {5, 3}, .reduce = algorithm, .broadcast = algorithm});
  check_equal({.workers = 8, .nodes = {5, 3}, .broadcast = "scatter-all-gather"});
  check_equal({.workers = 6, .servers = 3, .jitter = 0.5, .rule = "sum", .nodes = {2, 4}});
  check_equal({.workers = 6, .servers = 3, .micro_batches = 2, .rule = "mean", .nodes = {3, 3}});
}

TEST_CASE("a key is cut into parts before its node sums it, and sliced after that", "[servers]") {
  for (const char* rule : {"optimizer", "sum"})
    for (const KeySplit& split : {KeySplit{.bigarray_bound = 8}, KeySplit{.partition_bytes = Bytes{24}}})
      check_equal({.workers = 6,
                   .servers = 3,
                   .bucket = 80,
                   .split = split,
                   .rule = rule,
                   .nodes = {4, 2},
                   .broadcast = "scatter-all-gather"});
  check_equal({.workers = 4, .servers = 4, .sharding = KeySharding::split, .nodes = {2, 2}, .copies = 2});
}

TEST_CASE("nodes with local aggregation may be asynchronous or stale", "[servers]") {
  for (const Consistency consistency : {Consistency::asynchronous, Consistency::stale}) {
    const ServerOutcome out = train_servers({.workers = 6,
                                             .servers = 2,
                                             .steps = 8,
                                             .consistency = consistency,
                                             .staleness = 1,
                                             .jitter = 0.7,
                                             .nodes = {3, 3}});
    CHECK(out.is_finite);
    CHECK_FALSE(out.has_hazards);
    CHECK(out.to_one_device > 1e-6);
    // Between a pull and its push only the other node makes updates, each for all of its workers.
    for (const auto& [staleness, count] : out.staleness)
      CHECK((consistency == Consistency::asynchronous || staleness <= 3));
  }
}

TEST_CASE("copies of keys equal the original, and do not change what is learned", "[servers]") {
  for (const Replication::Forward forward : {Replication::Forward::chain, Replication::Forward::parallel})
    for (const int copies : {2, 3, 5}) {
      check_equal({.servers = 5, .copies = copies, .forward = forward});
      check_equal({.workers = 4, .servers = 5, .rule = "sum", .nodes = {2, 2}, .copies = copies, .forward = forward});
      check_replay({.workers = 4,
                    .servers = 5,
                    .steps = 6,
                    .consistency = Consistency::asynchronous,
                    .jitter = 0.5,
                    .copies = copies,
                    .forward = forward});
      check_replay(
          {.workers = 4, .servers = 5, .steps = 6, .backups = 1, .jitter = 0.7, .copies = copies, .forward = forward});
    }
}

TEST_CASE("sums go to the server and back, and every worker updates", "[servers]") {
  const double l = latency();
  ServerCell cell;
  cell.workers = 3;
  cell.apply = Seconds{5e-3};
  const auto time = [&cell](const std::string& rule) {
    return seconds_of(
        cell, [&rule](ServerPlan& plan) { plan.rule = rule_named(rule); }, 4);
  };
  const double one_way = 3 * kWhole + l;
  CHECK(time("optimizer") == near(2 * one_way + 5e-3 + l));  // pull of the first weights, push, and confirmation
  CHECK(time("sum") == near(2 * one_way + 5e-3));
  CHECK(time("mean") == near(2 * one_way + 5e-3 + 2 * kBytes / 1e15));
}

TEST_CASE("a step through aggregators is the sum of its stages", "[servers]") {
  const double l = latency();
  ServerCell cell;
  cell.workers = 4;
  for (const bool on_cpu : {false, true}) {
    CAPTURE(on_cpu);
    const double copies = on_cpu ? 2 * kWhole : 0;  // copies to the CPU and back
    // Stages: reduce, push (two nodes to one server), pull, broadcast.
    const double stages = kWhole + 2 * kWhole + 2 * kWhole + kWhole + copies + 6 * l;
    CHECK(seconds_of(
              cell, [on_cpu](ServerPlan& plan) { aggregate(plan, on_cpu); }, 7) == near(stages + l));
    CHECK(seconds_of(
              cell,
              [on_cpu](ServerPlan& plan) {
                aggregate(plan, on_cpu);
                plan.rule = rule_named("sum");
              },
              7) == near(stages));
  }
}

TEST_CASE("servers answer workers after the copies have arrived", "[servers]") {
  const double l = latency(), part = kWhole / 3;
  ServerCell cell;
  cell.workers = cell.servers = cell.keys = 3;
  const auto time = [&cell](int copies, Replication::Forward forward, double state = 0) {
    return seconds_of(
        cell,
        [&](ServerPlan& plan) {
          plan.replication = {copies, forward, Bytes{state}};
        },
        6);
  };
  const double plain = 2 * (kWhole + l) + l;
  CHECK(time(1, Replication::Forward::chain) == near(plain));
  for (const int copies : {2, 3}) {
    // Every server forwards as much as it receives; the last one confirms to the first.
    CHECK(time(copies, Replication::Forward::chain) == near(plain + (copies - 1) * (part + l) + l));
    CHECK(time(copies, Replication::Forward::parallel) == near(plain + (copies - 1) * part + l + l));
    CHECK(time(copies, Replication::Forward::chain, 8) == near(plain + (copies - 1) * (3 * part + l) + l));
  }
}

}  // namespace strategies_test_server_ways
