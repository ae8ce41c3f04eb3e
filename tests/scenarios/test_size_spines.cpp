// `trainyard size --network choose`: the clusters and numbers of spines that are compared, and plans for other networks.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/sizing/size_answer.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "tests/network_questions.hpp"
#include "topologies/analysis/network_design.hpp"

namespace scenarios_test_size_spines {

using namespace trainyard;
using test::networks_of;
using test::options_of;
using test::question;
using test::row_of;

namespace {}  // namespace

TEST_CASE("choose tries numbers of spines, and searches a plan for a network that loses time", "[size]") {
  const std::string prices =
      "prices: {currency: EUR, purchase: {node: {dgx-h100: 300000}, switch: 30000, switch_ports: 16, cable: 1000}}\n";
  SizeOptions options = options_of(128);
  options.purchase = true;
  options.networks = {"nonblocking", "16:1"};
  const SizeNetworks plain = networks_of(prices, options);
  const SizeNetwork &full = row_of(plain, "nonblocking"), &thin = row_of(plain, "16:1");
  CHECK(full.spines + full.cables / 16 / 2 > 0);
  CHECK(thin.spines < full.spines);
  CHECK(full.switches > full.spines);
  // A deadline between both: numbers of spines between them are tried, and the fewest in time are taken.
  REQUIRE(thin.days > full.days);
  options.days = full.days + 0.5 * (thin.days - full.days);
  options.tries_spines = true;
  const SizeAnswer answer = size_clusters(question(prices), "small", options);
  REQUIRE(answer.networks);
  const SizeNetworks& all = *answer.networks;
  CHECK(all.rows.size() > 2);
  const SizeNetwork* choice = all.choice();
  REQUIRE(choice);
  CHECK(choice->days <= options.days);
  CHECK(choice->spines <= full.spines);
  for (const SizeNetwork& row : all.rows) {
    CAPTURE(row.network, row.spines, row.days);
    REQUIRE(row.good());
    if (row.missed.empty()) CHECK(*choice->cost <= *row.cost);
    if (row.has_own_plan) CHECK(row.plan != full.plan);
  }
  const Result r =
      trainyard::answer(read_scenario(answer.cheapest->document, "small"), {.simulation = {.critical_path = false}})
          .result;
  CHECK(r.step_time.value == Approx(choice->step_time).epsilon(1e-9));
}

TEST_CASE("networks are compared on every cluster that could cost least by its price", "[size]") {
  SizeOptions options = options_of(64);
  options.purchase = true;
  options.networks = {"nonblocking", "2:1"};
  options.node_types = {"dgx-a100", "dgx-h100", "dgx-b200", "dgx-h200", "hgx-h20"};
  const SizeAnswer answer = size_clusters(
      question(
          "prices: {currency: EUR, purchase: {gpu: {a100-sxm4-80gb: 30000, h100-sxm5-80gb: 30100, b200-sxm-180gb: "
          "30200, h200-sxm-141gb: 30300, h20-sxm-96gb: 30400}, switch: 300000, switch_ports: 16, cable: 10000}}\n"),
      "small", options);
  REQUIRE(answer.networks);
  const SizeNetwork* choice = answer.networks->choice();
  REQUIRE(choice);
  std::set<std::string> compared;
  for (const SizeNetwork& row : answer.networks->rows) compared.insert(row.node);
  CHECK(compared.size() >= 3);
  for (const SizeRow& row : answer.rows) {
    CAPTURE(row.node, row.nodes);
    if (row.good() && meets_deadline(answer, row) && !compared.contains(row.node))
      CHECK(size_cost(answer, row) >= *choice->cost);
  }
}

}  // namespace scenarios_test_size_spines
