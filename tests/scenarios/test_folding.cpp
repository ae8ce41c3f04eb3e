// Ranks that are alike are simulated once, with the same times and amounts as a run rank by rank.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "scenarios/src/pictures/views.hpp"
#include "scenarios/src/running/faster_fields.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/running/step_run.hpp"
#include "scenarios/src/studies/fold_check.hpp"
#include "sim/error.hpp"
#include "tests/scenarios/random_scenarios.hpp"

namespace scenarios_test_folding {

using namespace trainyard;

namespace {

/// Draws plans over strategies, meshes and machines; faults or uneven loads break the symmetry of some.
class FoldedScenarios : test::RandomDraws {
 public:
  using RandomDraws::RandomDraws;

  std::string next() {
    const int nodes = 1 << below(5);
    std::string text = "cluster: {nodes: " + std::to_string(nodes);
    if (nodes > 2 && below(6) == 0)
      text = "cluster: {nodes: [{count: " + std::to_string(nodes / 2) +
             ", node: dgx-a100}, {count: " + std::to_string(nodes / 2) + ", node: dgx-h100}]";
    else
      text += ", node: " + one_of({"dgx-a100", "dgx-h100", "dgx-1v", "pcie-4", "p3.16xlarge", "l40s-8x", "dgx-2"});
    if (nodes > 1)
      text += ", fabric: " + one_of({"nonblocking", "rail-optimized", "leaf-spine", "{base: leaf-spine, routing: ecmp}",
                                     "{base: leaf-spine, levels: [{down: 4, oversubscription: 2}]}", "torus-2d",
                                     "{base: rail-optimized, levels: [{down: 4}, {down: 2}]}"});
    text += "}\nmodel: " + one_of({"{base: gpt2, n_layer: 4}", "{base: bert-base, num_hidden_layers: 4}", "resnet50",
                                   "{base: mixtral-8x7b, num_hidden_layers: 4}"});
    text += "\nsoftware: " + one_of({"plain", "pytorch-ddp", "megatron-core"});
    text += "\nplan:\n  global_batch_size: 256\n  micro_batch_size: " + one_of({"1", "2", "4"});
    text += "\n  precision: bf16";
    if (below(3) == 0) text += "\n  seq_length: 512";
    if (below(2) == 0) text += "\n  tensor_parallel: " + std::to_string(1 << below(4));
    if (below(4) == 0) text += "\n  sequence_parallel: true";
    if (below(4) == 0) text += "\n  context_parallel: 2";
    if (below(4) == 0)
      text += "\n  expert_parallel: " +
              one_of({"2", "4", "{size: 4, tensor: 1}", "{size: 2, tensor: 2}",
                      "{size: 4, load: [1, 2, 1, 2, 1, 1, 1, 1]}", "{size: 2, load: {kind: lognormal, sigma: 0.3}}"});
    if (below(2) == 0) {
      text += "\n  pipeline_parallel: " + std::to_string(2 << below(2));
      text += "\n  pipeline: {schedule: " + one_of({"1f1b", "gpipe", "zero-bubble-h1", "interleaved-1f1b, chunks: 2"}) +
              "}";
    }
    if (below(4) == 0)
      text += "\n  mesh_order: " + one_of({"[tensor, data, pipeline, context]", "[data, tensor, context, pipeline]"});
    text += "\n  collectives: " + one_of({"modelled", "messages", "flows"});
    text += "\n  data_parallel: " +
            one_of({"{}", "{}", "{overlap: false}", "{zero_stage: 1}", "{zero_stage: 2}", "{zero_stage: 3}",
                    "{all_reduce: ring}", "{all_reduce: {algorithm: ring, channels: 4}}", "{all_reduce: hierarchical}",
                    "{all_reduce: halving-doubling}", "{all_reduce: binary-tree}", "{mechanism: delayed}",
                    "{mechanism: local-sgd}", "{mechanism: gossip}"});
    if (below(4) == 0)
      text += "\nfaults: {stragglers: [" +
              one_of({"{kind: one-slow, rank: 3, factor: 1.5}", "{kind: constant, ranks: [0, 1], factor: 2}",
                      "{kind: lognormal, sigma: 0.1}"}) +
              "]}";
    return text + "\n";
  }
};

struct CaseCounts {
  int folded = 0, unfolded = 0, refused = 0;
};

CaseCounts check_random(unsigned seed, int target, int most_ranks) {
  FoldedScenarios scenarios(seed);
  CaseCounts count;
  for (int i = 0; count.folded < target && i < 40 * target; ++i) {
    const std::string text = scenarios.next();
    CAPTURE(i, text);
    try {
      const Scenario s = read_scenario_text(text, "random.yaml");
      if (s.ranks() > most_ranks) continue;
      const FoldCheck check = check_folding(s, plan(s));
      if (!check.rounding_decides()) CHECK(check.difference == "");
      ++(check.unfolded_reason.empty() ? count.folded : count.unfolded);
    } catch (const UserError&) {
      ++count.refused;
    }
  }
  return count;
}

std::string shipped(const std::string& name) { return std::string(TRAINYARD_SOURCE_DIR) + "/scenarios/" + name; }

}  // namespace

TEST_CASE("folded runs and runs rank by rank agree, over random scenarios", "[folding][scenarios]") {
  const CaseCounts count = check_random(17, 12, 32);
  CHECK(count.folded == 12);
}

// Two test cases share 2,000 scenarios, so that they can run in parallel.
TEST_CASE("folded runs and runs rank by rank agree in a thousand random scenarios", "[folding][.deep]") {
  const CaseCounts count = check_random(1717, 1000, 32);
  CHECK(count.folded == 1000);
  CHECK(count.unfolded > 20);
}

TEST_CASE("folded runs and runs rank by rank agree in another thousand random scenarios", "[folding][.deep]") {
  const CaseCounts count = check_random(1718, 1000, 48);
  CHECK(count.folded == 1000);
  CHECK(count.unfolded > 20);
}

TEST_CASE("groups that exchange heads fold, and their least and greatest sizes are a ring and an all-to-all",
          "[folding][usp]") {
  const auto scenario_of = [](const std::string& context, const std::string& collectives) {
    return read_scenario_text(
        "cluster: {nodes: 2, node: dgx-h100, fabric: rail-optimized}\n"
        "model: {base: llama-3-8b, num_hidden_layers: 2}\n"
        "software: plain\n"
        "plan:\n"
        "  global_batch_size: 2\n"
        "  micro_batch_size: 1\n"
        "  precision: bf16\n"
        "  seq_length: 8192\n"
        "  flash_attention: true\n"
        "  collectives: " +
            collectives + "\n  context_parallel: {size: 8, " + context + "}\n",
        "context.yaml");
  };
  for (const char* collectives : {"modelled", "messages", "flows"}) {
    CAPTURE(collectives);
    const auto seconds = [&](const std::string& context) {
      return simulate(scenario_of(context, collectives)).step_time.value;
    };
    CHECK(seconds("ulysses: 1") == seconds("exchange: ring"));
    CHECK(seconds("ulysses: 8") == seconds("exchange: all-to-all"));
    for (const int ulysses : {2, 4}) {
      const Scenario s = scenario_of("ulysses: " + std::to_string(ulysses), collectives);
      CHECK(check_folding(s, plan(s)).difference == "");
      const RankView view = rank_view(s, plan(s), 5);
      const auto members = [&view](const std::string& what) {
        for (const RankView::Group& group : view.groups)
          if (group.what == what) return group.members;
        return std::vector<int>{};
      };
      CHECK(members("ulysses") == (ulysses == 2 ? std::vector{4, 5} : std::vector{4, 5, 6, 7}));
      CHECK(members("context") == (ulysses == 2 ? std::vector{1, 3, 5, 7} : std::vector{1, 5}));
    }
  }
}

// Regression: of two operations that end at the same moment, rounding decided which one the critical path follows.
TEST_CASE("the critical path is the same folded and rank by rank, even if many operations end at the same moment",
          "[folding]") {
  const Scenario s = read_scenario_text(R"(
cluster: {nodes: 4, node: l40s-8x, fabric: {base: rail-optimized, levels: [{down: 4}, {down: 2}]}}
model: {base: gpt2, n_layer: 4}
software: megatron-core
plan:
  global_batch_size: 256
  micro_batch_size: 4
  precision: bf16
  tensor_parallel: 4
  pipeline_parallel: 2
  pipeline: {schedule: interleaved-1f1b, chunks: 2}
  collectives: flows
  data_parallel: {all_reduce: ring}
)",
                                        "ties.yaml");
  CHECK(check_folding(s, plan(s)).difference == "");
  const SimulateOptions no_folding{.folding = Folding::off};
  const Result folded = simulate(s), rank_by_rank = simulate(s, no_folding);
  CHECK(folded.unfolded_reason == "");
  CHECK(folded.bottleneck == rank_by_rank.bottleneck);
  REQUIRE(folded.critical_path.size() == rank_by_rank.critical_path.size());
  for (const auto& [resource, seconds] : folded.critical_path) {
    CAPTURE(resource);
    CHECK(rank_by_rank.critical_path.at(resource) == Approx(seconds).margin(1e-6 * folded.step_time.value));
  }
}

TEST_CASE("shipped plans fold to their stages, with the same answer", "[folding][scenarios]") {
  const Scenario s = read_scenario(shipped("llama3-70b-tp8-pp4.yaml"), {});
  const FoldCheck check = check_folding(s, plan(s));
  CHECK(check.difference == "");
  CHECK(check.ranks == 64);
  CHECK(check.classes == 4);
}

TEST_CASE("a slow GPU makes its ranks unlike, and the run says so", "[folding][scenarios]") {
  const std::string text =
      "cluster: {nodes: 4, node: dgx-a100, fabric: nonblocking}\nmodel: {base: gpt2, n_layer: 2}\n"
      "plan: {global_batch_size: 32, micro_batch_size: 1, collectives: messages, data_parallel: {all_reduce: ring}}\n";
  const auto run = [&](const std::string& more) {
    const Scenario s = read_scenario_text(text + more, "slow.yaml");
    const StepRun step_run(s, plan(s), {});
    return std::to_string(step_run.simulated_ranks()) + " " + step_run.unfolded_reason;
  };
  CHECK(run("") == "8 ");
  const std::string slow = run("faults: {stragglers: [{kind: one-slow, rank: 3, factor: 2}]}\n");
  CHECK(slow.starts_with("32 "));
  CHECK(slow.find("rank 3") != std::string::npos);
}

// Two trees of gradients share links message by message: a difference of 1e-16 doubles every millisecond, until the
// step time differs. Any run that sums its rates in another order has another step time as well.
TEST_CASE("if rounding decides about a step, the check of a fold says so", "[folding][scenarios]") {
  const Scenario s = read_scenario_text(R"(
model: {base: mixtral-8x7b, num_hidden_layers: 2}
cluster: {node: dgx-h100, nodes: 4, fabric: rail-optimized}
plan:
  tensor_parallel: 2
  mesh_order: [data, tensor, context, pipeline]
  global_batch_size: 16
  micro_batch_size: 1
  collectives: messages
  data_parallel: {all_reduce: binary-tree}
)",
                                        "unstable.yaml");
  const FoldCheck check = check_folding(s, plan(s));
  CHECK(check.classes == 16);
  CHECK(check.worst > 1e-9);
  REQUIRE(check.first_difference);
  REQUIRE(check.first_by_rounding);
  CHECK(*check.first_by_rounding < *check.first_difference);
  CHECK(check.good());
}

// Regression: the check compared the largest difference, here one of the critical path, with ten times the change of
// the step time that rounding makes, and called this fold wrong. Two exchanges of four rings each share lanes message by
// message. The folded step is 1.3e-7 longer than that of every rank, which is 8e-6 longer with a rate that is 5e-14
// higher.
TEST_CASE("rounding decides about two exchanges of four rings, and a fold is not blamed for it",
          "[folding][scenarios]") {
  const Scenario s = read_scenario_text(R"(
cluster: {nodes: 2, node: l40s-8x, fabric: {base: rail-optimized, levels: [{down: 4}, {down: 2}]}}
model: {base: mixtral-8x7b, num_hidden_layers: 4}
software: megatron-core
plan:
  global_batch_size: 256
  micro_batch_size: 1
  precision: bf16
  seq_length: 512
  expert_parallel: 2
  mesh_order: [data, tensor, context, pipeline]
  collectives: flows
  data_parallel: {all_reduce: {algorithm: ring, channels: 4}}
)",
                                        "rings.yaml");
  const FoldCheck check = check_folding(s, plan(s));
  CHECK(check.difference != "");
  CHECK(check.rounding_decides());
  CHECK(check.good());
}

// Regression: a what-if without stragglers counted as a change of rounding, so that any difference was excused.
TEST_CASE("a change of rounding removes no stragglers", "[folding][scenarios]") {
  const Scenario s = read_scenario_text(
      "cluster: {nodes: 2, node: dgx-a100, fabric: nonblocking}\nmodel: {base: gpt2, n_layer: 2}\n"
      "plan: {global_batch_size: 16, micro_batch_size: 1, data_parallel: {all_reduce: ring}}\n"
      "faults: {stragglers: [{kind: one-slow, rank: 3, factor: 2}]}\n",
      "slow.yaml");
  const double step = simulate(s).step_time.value;
  const std::vector<Scenario> all = barely_faster(s);
  CHECK(all.size() > 3);
  for (const Scenario& faster : all) CHECK(simulate(faster).step_time.value == Approx(step).epsilon(1e-12));
}

TEST_CASE("the view of any rank of a folded run shows its class, groups, peers and timeline", "[folding][scenarios]") {
  const Scenario s = read_scenario(shipped("llama3-70b-tp8-pp4.yaml"), {});
  const Plan step_plan = plan(s);
  const RankView view = rank_view(s, step_plan, 45);
  CHECK(view.simulated != 45);
  CHECK(view.class_size == 16);
  CHECK(view.place.device == "node5/gpu5");
  REQUIRE_FALSE(view.groups.empty());
  for (const RankView::Group& group : view.groups) CHECK(std::ranges::count(group.members, 45) == 1);
  REQUIRE_FALSE(view.peers.empty());
  for (const RouteView& peer : view.peers) CHECK(peer.from == 45);
  const RankTimeline timeline = rank_timeline(s, step_plan, 45),
                     class_timeline = rank_timeline(s, step_plan, view.simulated);
  REQUIRE(timeline.rows.size() == class_timeline.rows.size());
  CHECK(timeline.rows.back().end == class_timeline.rows.back().end);
  double last = 0;
  for (const RankTimeline::Row& row : timeline.rows) last = std::max(last, row.end);
  CHECK(last <= simulate(s, step_plan, {.critical_path = false}).step_time.value * (1 + 1e-12));
  CHECK_THROWS_WITH(rank_view(s, step_plan, 64), "--rank 64: the scenario has ranks 0 to 63");
}

TEST_CASE("a step too large to compare rank by rank is refused with its size and a smaller plan",
          "[folding][scenarios]") {
  const Scenario s = read_scenario(shipped("llama3-405b-16k-h100.yaml"), {{"plan.global_batch_size", "65536"}});
  CHECK_THROWS_WITH(check_folding(s, plan(s)), Catch::Contains("operations of 16384 ranks") &&
                                                   Catch::Contains("at most 1e+08") &&
                                                   Catch::Contains("--set plan.data_parallel.size="));
}

TEST_CASE("a run whose ranks form too many classes is refused as soon as that many are found, with a reason",
          "[folding][scenarios]") {
  const auto refusal = [](const Overrides& sets) {
    const Scenario s = read_scenario(shipped("ddp-100k.yaml"), sets);
    return [s] { simulate(s, plan(s), {.last_pod = LastPod::as_it_is}); };
  };
  // The last pod is not full, so its ranks differ from the others.
  CHECK_THROWS_WITH(refusal({{"cluster.nodes", "12500"}, {"plan.global_batch_size", "400000"}})(),
                    Catch::Contains("more than 1e+08 operations") &&
                        Catch::Contains("of 100000 ranks differ from each other") &&
                        Catch::Contains("rank 8 (node1/gpu0)"));
  CHECK_THROWS_WITH(refusal({{"transport", "native"}})(), Catch::Contains("SimGrid's own communications"));
}

TEST_CASE("ranks that stay unfolded have the reason: hashed routes, drawn steps, or a link that is dead",
          "[folding][scenarios]") {
  const auto reason = [](const std::string& fabric, const std::string& more) {
    const Scenario s =
        read_scenario_text("cluster: {nodes: 16, node: dgx-h100, fabric: " + fabric +
                               "}\nmodel: {base: gpt2, n_layer: 2}\nplan: {micro_batch_size: 8, precision: "
                               "bf16, data_parallel: {all_reduce: ring}}\n" +
                               more,
                           "reason.yaml");
    return simulate(s, plan(s), {.critical_path = false}).unfolded_reason;
  };
  const std::string clos = "{base: leaf-spine, levels: [{down: 16}], routing: ";
  CHECK(reason(clos + "spray}", "") == "");
  CHECK_THAT(reason(clos + "ecmp}", ""),
             Catch::Contains("ranks differ from each other; hashed routes meet on other uplinks for each of them; "
                             "routing: spray in cluster.fabric folds more ranks"));
  CHECK_THAT(reason("nonblocking", "faults: {links: [{link: node0/hca0 - fabric, factor: 0, to: 2 s}]}\n"),
             Catch::Contains("messages take other paths while a link is dead, over another adapter of the node"));
  CHECK_THAT(reason("nonblocking", "faults: {stragglers: {kind: lognormal, sigma: 0.1}}\n"),
             Catch::Contains("steps differ, and ranks that are alike in one are not in the next"));
}

TEST_CASE("where a last pod that is not full counts as full, the step is that of every rank", "[folding][pods]") {
  const std::string exchange =
      GENERATE("{algorithm: hierarchical, fidelity: messages}", "{algorithm: ring}",
               "{algorithm: ring, fidelity: flows}", "{algorithm: hierarchical, fidelity: flows}");
  // Pods of four nodes, or leaves of two.
  const std::string levels =
      GENERATE("[{down: 16}, {down: 2}]", "[{down: 16}, {down: 2, oversubscription: 4}]", "[{down: 16}]");
  const int nodes = GENERATE(9, 14);
  if (levels == "[{down: 16}]" && nodes == 14) return;  // all leaves are full
  CAPTURE(exchange, levels, nodes);
  const Scenario s =
      read_scenario(shipped("ddp-100k.yaml"), {{"cluster.nodes", std::to_string(nodes)},
                                               {"cluster.fabric", "{base: fat-tree, levels: " + levels + "}"},
                                               {"plan.global_batch_size", std::to_string(nodes * 8 * 4)},
                                               {"plan.data_parallel.all_reduce", exchange}});
  const FoldCheck check = check_folding(s, plan(s));
  CAPTURE(check.full_pods, check.pods_time, check.difference, check.unfolded_reason);
  CHECK_THAT(check.full_pods, Catch::Contains("counts as full; the step may be"));
  CHECK(check.most_of_pods > 0);
  CHECK(std::abs(check.pods_time) <= 1e-9);
  CHECK(check.good());
}

TEST_CASE("a small run simulates its last pod as it is, and full pods are no approximation", "[folding][pods]") {
  const auto result = [](const char* nodes, const char* batch, LastPod last_pod) {
    const Scenario s = read_scenario(shipped("ddp-100k.yaml"),
                                     {{"cluster.nodes", nodes},
                                      {"cluster.fabric", "{base: fat-tree, levels: [{down: 16}, {down: 2}]}"},
                                      {"plan.global_batch_size", batch}});
    return simulate(s, plan(s), {.last_pod = last_pod});
  };
  CHECK(result("14", "448", LastPod::automatic).full_pods == "");
  CHECK(result("14", "448", LastPod::as_full).full_pods != "");
  CHECK(result("16", "512", LastPod::as_full).full_pods == "");
  CHECK(result("3", "96", LastPod::as_full).full_pods != "");  // two leaves are in one pod
}

TEST_CASE("100,000 GPUs whose last pod is not full fold to the places of a pod", "[folding][pods]") {
  const Scenario s =
      read_scenario(shipped("ddp-100k.yaml"), {{"cluster.nodes", "12500"}, {"plan.global_batch_size", "400000"}});
  const Result r = simulate(s, plan(s));
  CHECK(r.bottleneck == "framework");  // the software of 12,500 messages between nodes, as with full pods
  CHECK(r.ranks == 100000);
  CHECK(r.simulated_ranks == 128);
  CHECK(r.full_pods == "the last pod, 84 of 128 nodes, counts as full; the step may be up to 0.36 % off");
  CHECK(r.unfolded_reason == "");
}

TEST_CASE("a large folded run has its critical path, with consecutive kernels as one operation",
          "[folding][scenarios]") {
  const auto [file, batch, nodes] = GENERATE(table<const char*, const char*, const char*>({
      {"gpt3-175b-1024xa100.yaml", "768", "128"},
      {"llama3-70b-tp8-pp4.yaml", "2048", "64"},  // a host that would wait for routing, if there were experts
  }));
  const Scenario s = read_scenario(shipped(file), {{"plan.global_batch_size", batch}, {"cluster.nodes", nodes}});
  const Plan step_plan = plan(s);
  SimulateOptions no_fusion;
  no_fusion.path_pieces = true;  // keeps every operation, so that none is fused
  const Result r = simulate(s, step_plan), unfused = simulate(s, step_plan, no_fusion);
  CHECK(r.operations > 10000000);
  CHECK(r.operations == unfused.operations);
  CHECK(r.step_time.value == Approx(unfused.step_time.value).epsilon(1e-12));
  CHECK(r.memory.peak.value == unfused.memory.peak.value);
  CHECK(r.bottleneck == "GPU compute");
  double sum = 0;
  REQUIRE(r.critical_path.size() == unfused.critical_path.size());
  for (const auto& [resource, seconds] : r.critical_path) {
    CAPTURE(resource);
    sum += seconds;
    // Fused kernels share a slow-down evenly.
    CHECK(std::abs(seconds - unfused.critical_path.at(resource)) < 1e-3 * r.step_time.value);
  }
  CHECK(sum == Approx(r.step_time.value).epsilon(1e-9));
}

}  // namespace scenarios_test_folding
