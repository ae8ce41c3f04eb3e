// Parameter servers: learned parameters against one device and against a replay, times against closed forms.
#include "tests/places.hpp"
#include "tests/strategies/server_training.hpp"
#include "tests/support.hpp"
#include "topologies/machines/straggler_machine.hpp"

namespace strategies_test_servers {

using namespace trainyard;
using namespace trainyard::test;

TEST_CASE("synchronous parameter servers learn the same as a single device", "[servers]") {
  for (const int workers : {1, 2, 3, 7})
    for (const int servers : {1, 2, 5}) check_equal({.workers = workers, .servers = servers});
  check_equal({.micro_batches = 4});
  check_equal({.overlap = false, .bucket = 4});
  check_equal({.servers = 3, .jitter = 0.5});
  check_equal({.workers = 4, .servers = 4, .colocated = true});
  check_equal({.servers = 1, .bucket = 1e6});
}

TEST_CASE("asynchronous servers apply each gradient at the weights that its worker had", "[servers]") {
  for (const std::uint64_t seed : {1U, 2U, 3U})
    for (const int servers : {1, 3}) {
      const ServerOutcome out = check_replay({.workers = 4,
                                              .servers = servers,
                                              .steps = 8,
                                              .consistency = Consistency::asynchronous,
                                              .jitter = 0.5,
                                              .seed = seed});
      CHECK(out.staleness.size() > 1);  // pushes differ in staleness
    }
}

TEST_CASE("asynchronous servers go on without a worker that dies", "[servers][failures]") {
  for (const int servers : {1, 3})
    for (const int workers : {2, 5}) {
      ServerTraining s{
          .workers = workers, .servers = servers, .steps = 8, .consistency = Consistency::asynchronous, .jitter = 0.5};
      const double end = train_servers(s).end;
      s.dies = 1;
      for (const double share : {0.0, 0.2, 0.5, 0.8}) {
        CAPTURE(workers, servers, share);
        s.dies_s = share * end;
        const ServerOutcome out = check_replay(s);
        const std::vector<int>& steps = out.steps_applied;
        for (std::size_t w = 0; w < steps.size(); ++w) CHECK((w == 1 ? steps[w] < 8 : steps[w] == 8));
        if (share > 0.4) CHECK(steps[1] > 0);
      }
    }
  // Synchronous workers wait forever for a worker that has died.
  CHECK_THROWS_WITH(train_servers({.workers = 3, .dies = 1, .dies_s = 1e-3}), Catch::Contains("which failed at"));
}

TEST_CASE("servers of bounded staleness equal a replay, and no gradient exceeds the bound", "[servers]") {
  for (const int staleness : {1, 3}) {
    const ServerOutcome out = check_replay({.workers = 4,
                                            .servers = 2,
                                            .steps = 8,
                                            .consistency = Consistency::stale,
                                            .staleness = staleness,
                                            .jitter = 0.7});
    // Between a pull and its push, each of the three other workers makes at most 2 * `staleness` + 1 updates.
    for (const auto& [updates_missed, count] : out.staleness)
      CHECK(static_cast<int>(updates_missed) <= 3 * (2 * staleness + 1));
  }
}

TEST_CASE("servers with staleness 0 are synchronous", "[servers]") {
  check_equal({.workers = 4, .servers = 2, .steps = 8, .consistency = Consistency::stale, .jitter = 0.7});
}

TEST_CASE("with backup workers the last gradients of a step are dropped", "[servers]") {
  const ServerTraining slow{.workers = 5, .servers = 2, .steps = 8, .jitter = 0.7};
  ServerTraining backup_training = slow;
  backup_training.backups = 2;
  const ServerOutcome with_backups = check_replay(backup_training), all_workers = train_servers(slow);
  CHECK(with_backups.dropped_pushes > 0);
  CHECK(with_backups.end < all_workers.end);
  for (const std::uint64_t seed : {2U, 3U, 4U, 5U}) {
    backup_training.seed = seed;
    backup_training.servers = 1 + static_cast<int>(seed) % 4;
    check_replay(backup_training);
  }
}

TEST_CASE("every worker's weights are mixed with its own share", "[servers]") {
  check_replay({.workers = 3,
                .servers = 2,
                .steps = 6,
                .consistency = Consistency::asynchronous,
                .jitter = 0.5,
                .lambdas = {0.5, 0.25, 0.8}});
}

TEST_CASE("keys with a part on every server are learned like whole ones", "[servers]") {
  GradientBucket key;
  key.parts = {{3, 1, 7, 2}, {2, 0, 4, 0}};
  key.elements = 11;
  key.layer = 2;
  const std::vector<GradientBucket> parts = split_keys({key}, 3);
  REQUIRE(parts.size() == 3);
  const auto matches = [](const GradientBucket::Part& part, int layer, int tensor, double elements, double first) {
    return part.layer == layer && part.tensor == tensor && part.elements == elements && part.first == first;
  };
  CHECK(parts[0].elements == 3);
  CHECK(matches(parts[0].parts.at(0), 3, 1, 3, 2));
  CHECK(matches(parts[1].parts.at(0), 3, 1, 4, 5));
  CHECK(parts[1].parts.size() == 1);
  CHECK(matches(parts[2].parts.at(0), 2, 0, 4, 0));
  CHECK(parts[2].layer == 2);
  check_equal({.servers = 4, .sharding = KeySharding::split});
  check_replay({.workers = 3,
                .servers = 2,
                .steps = 4,
                .consistency = Consistency::asynchronous,
                .jitter = 0.5,
                .sharding = KeySharding::split});
}

TEST_CASE("keys are distributed in turn, or by their size", "[servers]") {
  std::vector<GradientBucket> keys(5);
  const double sizes[] = {10, 70, 20, 30, 30};
  for (std::size_t k = 0; k < keys.size(); ++k) keys[k].elements = sizes[k];
  CHECK(share_keys(keys, 2, KeySharding::round_robin) == std::vector<int>{0, 1, 0, 1, 0});
  CHECK(share_keys(keys, 2, KeySharding::balanced) == std::vector<int>{0, 0, 1, 1, 1});
  const ServerLabel label = parse_server_label("12W3PS", nowhere());
  CHECK(label.workers == 12);
  CHECK(label.servers == 3);
  for (const char* wrong : {"8W", "W2PS", "8W2PSx", "0W1PS", "8w2ps", ""})
    CHECK_THROWS_AS(parse_server_label(wrong, nowhere()), UserError);
}

TEST_CASE("random times of stragglers do not depend on order and have the stated mean", "[servers]") {
  Straggler s;
  const auto mean_of = [&s] {
    double sum = 0;
    for (std::uint32_t step = 0; step < 40000; ++step) sum += slowdown(s, 3, step);
    return sum / 40000;
  };
  s.kind = StragglerKind::lognormal;
  s.sigma = 0.4;
  CHECK(slowdown(s, 3, 17) == slowdown(s, 3, 17));
  CHECK(slowdown(s, 3, 17) != slowdown(s, 4, 17));
  CHECK(mean_of() == Approx(1).epsilon(0.01));
  s.kind = StragglerKind::exponential_tail;
  s.mean = 0.5;
  CHECK(mean_of() == Approx(1.5).epsilon(0.01));
  s.kind = StragglerKind::uniform;
  s.spread = 0.2;
  CHECK(mean_of() == Approx(1).epsilon(0.01));
  s.kind = StragglerKind::periodic;
  s.factor = 3;
  s.period = 4;
  s.busy = 1;
  CHECK(mean_of() == Approx(1.5));
  s.kind = StragglerKind::one_slow;
  s.slow = {false, true};
  CHECK(slowdown(s, 1, 0) == 3);
  CHECK(slowdown(s, 0, 0) == 1);
  CHECK(slowdown(s, 2, 0) == 1);
}

}  // namespace strategies_test_servers
