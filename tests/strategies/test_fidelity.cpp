// Flows and modelled collectives compared with messages.

#include "models/fitted/nccl_cost.hpp"
#include "scenarios/src/collectives/collective_run.hpp"
#include "sim/error.hpp"
#include "strategies/collectives/library_model.hpp"
#include "tests/collective_options.hpp"
#include "tests/seeds/seed_case.hpp"
#include "tests/support.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace strategies_test_fidelity {

using namespace trainyard;
using namespace trainyard::test;

namespace {

CollectiveRun run(Operation operation, const std::string& algorithm, int n, double bytes, Fidelity fidelity,
                  const ClusterSpec& cluster, int channels = 1) {
  CollectiveRunOptions o = collective_options(operation, algorithm, n, Bytes{bytes});
  o.options.settings.fidelity = fidelity;
  o.options.settings.channels = channels;
  return run_collective(cluster, o);
}

/// A model that returns the given time.
class FixedModel : public CollectiveModel, public std::enable_shared_from_this<FixedModel> {
 public:
  ModelledCost cost(Operation, Bytes size, NodeSpread spread) const override {
    return {Seconds{3e-6}, size * (spread.ranks - 1) / spread.ranks, BytesPerSecond{5e8}, "fixed", LinkKind::hca};
  }
  std::shared_ptr<const CollectiveModel> model_for(const std::vector<int>&) const override {
    return shared_from_this();
  }
};

}  // namespace

TEST_CASE("on an idle machine of equal links flows take as long as messages, with the same bytes", "[collectives]") {
  for (const Operation operation :
       {Operation::all_reduce, Operation::reduce_scatter, Operation::all_gather, Operation::all_to_all})
    for (const std::string& algorithm : collectives(operation).names()) {
      const Collective& collective = collectives(operation).find(algorithm, {});
      if (!collective.steady || algorithm.starts_with("torus")) continue;  // each part uses links of its own
      for (const int n : {2, 3, 4, 8, 9}) {
        const bool is_power_of_two = (n & (n - 1)) == 0;
        if (!is_power_of_two && (algorithm.find("recursive") != std::string::npos || algorithm == "halving-doubling" ||
                                 algorithm == "pairwise-xor"))
          continue;  // some ranks wait while others continue
        CollectiveSettings plain;
        if (collective.refuses && !collective.refuses({0, n, &plain}).empty()) continue;
        CAPTURE(name_of(operation), algorithm, n);
        const ClusterSpec star = star_cluster(n, kRate, {1500000});
        const CollectiveRun messages = run(operation, algorithm, n, 7e6, Fidelity::messages, star);
        const CollectiveRun flows = run(operation, algorithm, n, 7e6, Fidelity::flows, star);
        CHECK(flows.time == near(messages.time));
        CHECK(flows.total == near(messages.total));
        for (std::size_t rank = 0; rank < flows.sent.size(); ++rank)
          CHECK(flows.sent[rank] == near(messages.sent[rank]));
        CHECK(flows.messages <= messages.messages);
      }
    }
}

TEST_CASE("two channels of a ring share a rank's port, in messages as in flows", "[collectives]") {
  const ClusterSpec star = star_cluster(4, kRate, {1000000});
  const double messages = run(Operation::all_reduce, "ring", 4, 8e6, Fidelity::messages, star, 2).time;
  CHECK(messages == near(2 * 3 * (1e-6 + 2e6 / 1e9)));
  CHECK(run(Operation::all_reduce, "ring", 4, 8e6, Fidelity::flows, star, 2).time == near(messages));
}

TEST_CASE("algorithms whose ranks wait for each other are refused as flows", "[collectives]") {
  CollectiveRunOptions o = collective_options(Operation::all_reduce, "chain", 4, Bytes{8e6});
  o.options.settings.fidelity = Fidelity::flows;
  CHECK_THROWS_WITH(run_collective(star_cluster(4, kRate), o),
                    "all-reduce: all-reduce by chain cannot be simulated as flows: its ranks wait for each other; take "
                    "fidelity messages");
  o.algorithm = "ring";
  o.values = contributor_values(4);
  CHECK_THROWS_WITH(run_collective(star_cluster(4, kRate), o), "fidelity flows moves no values; take messages");
}

TEST_CASE("a modelled collective takes the time of the model, and longer on links slower than the rate of the model",
          "[collectives]") {
  CollectiveRunOptions o;
  o.ranks = 4;
  o.options.size = Bytes{8e6};
  o.options.settings.fidelity = Fidelity::modelled;
  o.options.settings.model = std::make_shared<FixedModel>();
  const double model_time = 3e-6 + 6e6 / 5e8;
  // The latency of the model includes that of the path.
  CHECK(run_collective(star_cluster(4, kRate, {7000000}), o).time == near(model_time));
  // Links that are slower than the rate of the model decide the time.
  ClusterSpec slow = star_cluster(4, BytesPerSecond{2.5e8});
  CHECK(run_collective(slow, o).time == near(3e-6 + 6e6 / 2.5e8));
}

TEST_CASE("a rank that stays away is a deadlock that names those who wait", "[collectives]") {
  for (const Fidelity fidelity : {Fidelity::messages, Fidelity::flows}) {
    CollectiveOptions options;
    options.size = Bytes{1e6};
    options.settings.fidelity = fidelity;
    Names names;
    ClusterMachine machine(star_cluster(3, kRate), SoftwareStack{});
    const Collective& ring = collectives(Operation::all_reduce).find("ring", {});
    Simulation simulation(machine);
    for (int rank = 0; rank < 2; ++rank)
      simulation.add(rank, collective_program(ring, {rank, 3}, options, names, {0, 1, 2}));
    simulation.add(2, std::make_unique<ListProgram>(std::vector<Op>{}));
    std::string text;
    try {
      simulation.run();
    } catch (const Deadlock& deadlock) {
      text = deadlock.what();
    }
    if (fidelity == Fidelity::flows)
      CHECK_THAT(text, Catch::Contains("rank 0 (node0/gpu0) waits for 3 to meet (tag 1); arrived: rank 0 (node0/gpu0), "
                                       "rank 1 (node0/gpu1)"));
    else
      CHECK_THAT(text, Catch::Contains("rank 1 (node0/gpu1) sends to rank 2 (node0/gpu2)") &&
                           Catch::Contains("rank 0 (node0/gpu0) receives from rank 2 (node0/gpu2)"));
  }
}

TEST_CASE("concurrent groups meet under different tags", "[collectives]") {
  CollectiveOptions options;
  options.settings.fidelity = Fidelity::flows;
  Names names;
  const Collective& ring = collectives(Operation::all_reduce).find("ring", {});
  std::vector<Tag> tags;
  for (const Actor first : {0, 4}) {
    const auto program = collective_program(ring, {1, 2}, options, names, {first, first + 1});
    Op op;
    REQUIRE(OpReader(*program).next(op) == Pull::op);
    CHECK(op.kind == Kind::join);
    tags.push_back(op.message.tag);
  }
  CHECK(tags[0] != tags[1]);
}

TEST_CASE("the model of NCCL on a node gives the simulated time", "[collectives]") {
  const Catalog catalog;
  ClusterSpec cluster;
  cluster.node = read_node(catalog.resolve("node", Node::scalar_node("dgx-h100")), catalog);
  const LibraryModel library = library_model(cluster);
  CHECK(library.scaled.empty());
  for (const double size : {8.0, 65536.0, 4e6, 1e9}) {
    CollectiveRunOptions o;
    o.ranks = 8;
    o.options.size = Bytes{size};
    o.options.settings.fidelity = Fidelity::modelled;
    o.options.settings.model = library.model;
    NcclCall call;
    call.size = Bytes{size};
    call.gpus = 8;
    const double expected = nccl_cost(nccl_model_for(cluster.node.gpu, catalog), call).time.value;
    CHECK(run_collective(cluster, o).time == Approx(expected).epsilon(1e-6));  // start-up is in whole picoseconds
  }
}

TEST_CASE("concurrent groups without a common link do not slow each other, and a rank in two groups is refused",
          "[collectives]") {
  CollectiveRunOptions o;
  o.ranks = 2;
  o.options.size = Bytes{8e6};
  const ClusterSpec star = star_cluster(4, kRate);
  const double one_group_time = run_collective(star, o).time;
  o.groups = {{0, 1}, {2, 3}};
  CHECK(run_collective(star, o).time == near(one_group_time));  // no link in common
  o.groups = {{0, 1}, {1, 2}};
  CHECK_THROWS_WITH(run_collective(star, o),
                    "rank 1 (node0/gpu1) is in two groups: they would wait for each other on its one stream");
}

}  // namespace strategies_test_fidelity
