// `trainyard size --network` beside owned nodes that keep a fabric of their own.
#include <catch2/catch.hpp>

#include "models/reading/document_text.hpp"
#include "scenarios/src/sizing/size_networks.hpp"
#include "scenarios/src/sizing/size_nodes.hpp"
#include "tests/scenarios/owned_islands.hpp"

namespace scenarios_test_size_network_islands {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;

TEST_CASE("a network is chosen for bought nodes beside owned ones that keep their fabric, and only what is new is paid",
          "[size][islands]") {
  const std::string owned_ring =
      ", owned: {dgx-a100: {nodes: 1, fabric: ring, links: {count: 6, rate: 200 Gbit/s, latency: 1 us}}}";
  const double alone = way_of(island_answer(owned_ring, 30), IslandKind::owned_alone)->days;
  for (const std::string bought : {"dgx-h100", "dgx-b200"}) {  // behind the owned nodes, and before them
    Node training = island_training(owned_ring);
    set_field(training, "prices.purchase.node.dgx-b200", "400");
    set_field(training, "prices.purchase.switch_ports", "6");
    SizeOptions options;
    options.days = alone * 0.75;  // one bought node alone is in time, too, and needs no network
    options.purchase = true;
    options.node_types = {bought};
    options.work = 2e5;
    options.networks = network_kinds();
    options.tries_spines = true;
    const SizeAnswer answer = size_clusters(training, "islands", options);
    REQUIRE(answer.networks);
    int simulated = 0, without_top = 0;
    for (const SizeNetwork& row : answer.networks->rows) {
      CAPTURE(bought, row.network, row.nodes, row.beside, row.error);
      CHECK(row.node != "dgx-a100");  // the owned nodes alone have a network
      if (row.beside.empty() || !row.good()) continue;
      const int borders = row.network == "rail-only" ? 2 : 1;
      without_top += borders - 1;
      CHECK(row.cables >= 8 * row.nodes + 6 * borders);
      std::int64_t cables = 0;
      for (const SizeCables& each : row.by_length) cables += each.count;
      CHECK(cables == row.cables);
      CHECK(6 * row.switches >= row.ports);
      CHECK(*row.network_cost == 10.0 * static_cast<double>(row.switches) + static_cast<double>(row.cables));
      CHECK(*row.cost == Approx((bought == "dgx-h100" ? 300 : 400) * row.nodes + 50 + *row.network_cost));
      const SizeNetwork* full = answer.networks->find(
          *std::ranges::find_if(answer.rows, [&](const SizeRow& each) { return each.has_nodes_of(row); }),
          "nonblocking");
      if (full && row.loss) CHECK(*row.loss == Approx(row.step_time / full->step_time - 1).margin(1e-12));
      if (row.has_own_plan) continue;
      Node document =
          std::ranges::find_if(answer.rows, [&](const SizeRow& each) { return each.has_nodes_of(row); })->document;
      set_field(document, path_of_fabric(document, bought), row.fabric);
      const std::string written = yaml_text(document);
      CHECK_THAT(written, Contains("ring") && Contains("count: 6"));  // the owned fabric and its cables stay
      const Answer run = run_of(written);
      CHECK(run.result.step_time.value == Approx(row.step_time));
      const auto& parts = run.result.money->ownership->purchase_prices;
      CHECK(parts.at("switches") == 10.0 * static_cast<double>(row.switches));
      CHECK(parts.at("cables") == static_cast<double>(row.cables));
      ++simulated;
    }
    CHECK(simulated >= 3);
    CHECK(without_top >= 1);
    REQUIRE_FALSE(answer.counted_network.empty());
    CHECK_THAT(answer.networks->reason, Contains("; the 1 x dgx-a100 that are owned keep their fabric, which 6 cables "
                                                 "join with that of the bought nodes"));
    const SizeIsland *owned = way_of(answer, IslandKind::owned_alone), *one_job = way_of(answer, IslandKind::one_job),
                     *two_jobs = way_of(answer, IslandKind::two_jobs);
    REQUIRE((owned && one_job && two_jobs && one_job->good() && two_jobs->good()));
    CHECK(owned->cost == 0);
    CHECK(run_of(one_job->scenarios.front()).result.step_time.value == Approx(one_job->step_time));
    for (const std::string& job : two_jobs->scenarios) CHECK(run_of(job).result.step_time.value > 0);
    CHECK(run_of(two_jobs->scenarios.back()).result.step_time.value == Approx(two_jobs->step_time));
    CHECK(run_of(two_jobs->scenarios.back()).result.money->ownership->price() == Approx(two_jobs->cost));
  }
}

}  // namespace scenarios_test_size_network_islands
