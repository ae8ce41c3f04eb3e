// Several trainings on one cluster: they take as long as alone if they share no link, and slow each other if they do.
#include <fmt/format.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/job_study.hpp"
#include "tests/scenarios/explained_keys.hpp"
#include "tests/scenarios/random_scenarios.hpp"
#include "tests/user_errors.hpp"

namespace scenarios_test_jobs {

using namespace trainyard;

namespace {

/// Two nodes on each leaf switch, which has an eighth of their rate towards the spines.
constexpr const char* kCluster =
    "cluster: {nodes: 4, node: dgx-a100, fabric: {base: leaf-spine, levels: [{down: 16, oversubscription: 8}]}}\n";
constexpr const char* kTraining =
    "model: {base: gpt2, n_layer: 4}, software: plain, plan: {micro_batch_size: 4, precision: bf16, data_parallel: "
    "{overlap: false}}";

std::string two_jobs(const std::string& first, const std::string& second) {
  return fmt::format("{}jobs:\n- {{name: a, {}, {}}}\n- {{name: b, {}, {}}}\n", kCluster, first, kTraining, second,
                     kTraining);
}

SharedCluster read_jobs(const std::string& text) {
  return read_shared_cluster(parse_document(text, "jobs.yaml"), "jobs");
}

SharingAnswer answer_to(const std::string& text, Folding folding = Folding::automatic) {
  return share_cluster(read_jobs(text), {.steps = 4, .folding = folding});
}

/// Two or three jobs of several kinds on a small cluster.
class RandomJobs : test::RandomDraws {
 public:
  using RandomDraws::RandomDraws;
  std::string next() {
    std::string text =
        "cluster: {nodes: 6, node: h100-nvl-2x, fabric: " +
        one_of({"nonblocking", "{base: leaf-spine, levels: [{down: 2, oversubscription: 2}]}",
                "{base: leaf-spine, levels: [{down: 3}]}", "{base: leaf-spine, routing: ecmp, levels: [{down: 2}]}"}) +
        "}\njobs:\n";
    const int jobs = 2 + below(2);
    for (int job = 0; job < jobs; ++job) {
      text += "- {nodes: " + one_of({"1", "2", "2"}) + ", placement: " + one_of({"packed", "spread", "fragmented"});
      if (below(2) == 0) text += ", start: " + std::to_string(1 + below(20)) + " ms";
      text += ", model: " + one_of({"{base: gpt2, n_layer: 2}", "{base: bert-base, num_hidden_layers: 2}"});
      text += ", software: " + one_of({"plain", "pytorch-ddp"});
      text +=
          ", plan: {micro_batch_size: 1, precision: bf16, collectives: " + one_of({"modelled", "flows", "messages"}) +
          ", data_parallel: " +
          one_of({"{}", "{overlap: false}", "{zero_stage: 1}", "{zero_stage: 3}", "{all_reduce: ring}"});
      if (below(3) == 0) text += ", tensor_parallel: 2";
      text += "}}\n";
    }
    return text;
  }
};

/// Checks that folded and unfolded runs give the same steps; the unfolded ones use SimGrid's solver if
/// `uses_simgrid`. Returns the number of checked clusters.
int check_random_jobs(unsigned seed, int target, bool uses_simgrid) {
  RandomJobs random(seed);
  int checked = 0;
  for (int i = 0; checked < target && i < 20 * target; ++i) {
    const std::string text = random.next();
    CAPTURE(i, text);
    SharedCluster shared;
    std::vector<Plan> plans;
    try {
      shared = read_jobs(text);
      for (const SharedJob& job : shared.jobs) plans.push_back(plan(job.scenario));
    } catch (const UserError&) {  // ranks and batches do not fit
      continue;
    }
    const std::vector<DeviceId> leaves = leaf_of_nodes(build_cluster(shared.cluster), shared.cluster.nodes);
    const std::vector<std::vector<int>> nodes = place_jobs(shared, leaves, 1);
    std::vector<PlacedJob> jobs;
    for (std::size_t j = 0; j < plans.size(); ++j)
      jobs.push_back({&shared.jobs[j].scenario, &plans[j], nodes[j], shared.jobs[j].start, 1000});
    const SharedTimes folded = run_jobs(shared.cluster, jobs, {.steps = 2});
    const SharedTimes unfolded = run_jobs(
        shared.cluster, jobs,
        {.steps = 2, .folding = Folding::off, .transport = uses_simgrid ? TransportKind::native : TransportKind::flow});
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      CAPTURE(j, folded.unfolded_reason, folded.simulated_ranks, folded.ranks);
      const std::vector<double>&ends = folded.jobs[j].ends, &unfolded_ends = unfolded.jobs[j].ends;
      // The run may end before or after a step that ends at the same moment.
      const std::size_t steps = std::min(ends.size(), unfolded_ends.size());
      CHECK(steps >= 3);
      CHECK(std::max(ends.size(), unfolded_ends.size()) <= steps + 1);
      for (std::size_t step = 0; step < steps; ++step)
        CHECK(ends[step] == Approx(unfolded_ends[step]).epsilon(uses_simgrid ? 1e-5 : 1e-6));
    }
    ++checked;
  }
  return checked;
}

}  // namespace

TEST_CASE("jobs that share no link take as long as alone, and as long as a simulation of each job", "[jobs]") {
  const std::string text = two_jobs("nodes: 2", "nodes: 2, start: 3 ms");
  const SharingAnswer answer = answer_to(text);
  REQUIRE(answer.jobs.size() == 2);
  CHECK(answer.links.empty());
  for (const JobAnswer& job : answer.jobs) {
    CAPTURE(job.name, job.alone_step, job.step);
    CHECK_FALSE(job.alone_interval);  // the stack is the ideal one
    CHECK(job.leaves == 1);
    CHECK(job.placement_cost() == Approx(0).margin(1e-6));
    CHECK(job.slowdown() == Approx(0).margin(1e-6));
    CHECK(job.steps >= 4);
  }
  CHECK(answer.jobs[0].nodes == std::vector<int>{0, 1});
  CHECK(answer.jobs[1].nodes == std::vector<int>{2, 3});
  // A run alone begins cold, so a few hundredths may differ.
  const Scenario scenario = read_jobs(text).jobs.front().scenario;
  CHECK(answer.jobs[0].alone_step == Approx(simulate(scenario).step_time.value).epsilon(0.03));
}

TEST_CASE("the step of a job is the mean over whole periods of its steps, as that of a run", "[jobs]") {
  const std::string text =
      "cluster: {nodes: 2, node: {base: dgx-a100, gpu: {count: 1}, hca: {count: 1}}, fabric: nonblocking}\njobs:\n- "
      "{name: a, nodes: 2, model: {base: gpt2, n_layer: 2}, software: plain, ";
  const std::pair<int, const char*> periods[] = {
      {10, "plan: {micro_batch_size: 4, precision: bf16, data_parallel: {mechanism: local-sgd, local_steps: 10}}"},
      {12,
       "plan: {micro_batch_size: 4, precision: bf16}, faults: {stragglers: {kind: periodic, factor: 3, period: 12, "
       "busy: 4}}"}};
  for (const auto& [period, rest] : periods) {
    CAPTURE(rest);
    const SharedCluster shared = read_jobs(text + rest + "}\n");
    const JobAnswer job = share_cluster(shared, {.steps = 4}).jobs.front();
    const Result run = simulate(shared.jobs.front().scenario);
    CHECK(job.steps % period == 0);
    CHECK(job.alone_step == Approx(run.step_time.value).epsilon(0.005));
    CHECK(job.step == Approx(job.alone_step));
  }
}

TEST_CASE("background traffic on uplinks is named on the whole cluster, which a job alone may not have", "[jobs]") {
  const std::string text =
      "cluster: {nodes: 6, node: dgx-a100, fabric: {base: leaf-spine, levels: [{down: 16, oversubscription: 8}]}";
  const std::string jobs = fmt::format(
      "}}\njobs:\n- {{name: a, nodes: 2, placement: spread, {}}}\n- {{name: b, nodes: 2, {}}}\n", kTraining, kTraining);
  const SharingAnswer free = answer_to(text + jobs),
                      loaded = answer_to(text + ", background: {links: uplinks, share: 0.5}" + jobs);
  CHECK(loaded.jobs[0].step > 1.05 * free.jobs[0].step);
}

TEST_CASE("jobs share a torus with the lengths of the whole cluster", "[jobs]") {
  const auto steps_on = [](const std::string& fabric) {
    const SharingAnswer answer = answer_to(
        fmt::format("cluster: {{nodes: 8, node: dgx-a100, fabric: {}}}\njobs:\n- {{name: a, nodes: [0, 5], {}}}\n"
                    "- {{name: b, nodes: [1, 4], {}}}\n",
                    fabric, kTraining, kTraining));
    return std::pair(answer.jobs[0].step, answer.jobs[1].step);
  };
  // Without lengths, eight nodes are a torus of 2 x 4.
  CHECK(steps_on("{base: torus-2d, dims: [2, 4]}") == steps_on("torus-2d"));
  CHECK(steps_on("{type: torus, dims: [2, 4], switch_latency: 130 ns}") == steps_on("torus-2d"));
}

TEST_CASE("jobs take damaged nodes only if the others are too few", "[jobs]") {
  const std::string text =
      "cluster: {nodes: 4, node: dgx-a100, fabric: {base: leaf-spine, levels: [{down: 16, oversubscription: 8}]}, "
      "taken_out: ";
  const auto nodes_of = [&text](const std::string& taken_out, int nodes) {
    const SharingAnswer answer =
        answer_to(fmt::format("{}[{}]}}\njobs:\n- {{name: a, nodes: {}, {}}}\n", text, taken_out, nodes, kTraining));
    CHECK(answer.jobs[0].alone_step == Approx(answer.jobs[0].packed_step));
    return answer.jobs[0].nodes;
  };
  CHECK(nodes_of("leaf1", 2) == std::vector<int>{0, 1});
  CHECK(nodes_of("node0/hca3 - leaf0", 2) == std::vector<int>{2, 3});
  CHECK(nodes_of("node0/hca3 - leaf0", 3) == std::vector<int>{1, 2, 3});
  CHECK(nodes_of("node0/hca3", 4) == std::vector<int>{0, 1, 2, 3});
}

TEST_CASE("the step of a job alone has the interval of its stack", "[jobs][coverage]") {
  std::string text = two_jobs("nodes: 2", "nodes: 2");
  constexpr std::string_view kPlain = "software: plain";
  for (std::size_t at = text.find(kPlain); at != std::string::npos; at = text.find(kPlain))
    text.replace(at, kPlain.size(), "software: pytorch-ddp");
  const SharingAnswer answer = answer_to(text);
  const nlohmann::ordered_json j = sharing_fields().json(answer);
  for (std::size_t i = 0; i < answer.jobs.size(); ++i) {
    const JobAnswer& job = answer.jobs[i];
    REQUIRE(job.alone_interval);
    const auto [low, high] = *job.alone_interval;
    CHECK((low < job.alone_step && job.alone_step < high));
    CHECK(j["jobs"][i]["alone_step_interval_s"] == nlohmann::ordered_json({low, high}));
  }
}

TEST_CASE("jobs on the same uplinks slow each other alike, at most by their exchange, and a shift helps", "[jobs]") {
  const SharingAnswer answer = answer_to(two_jobs("nodes: 2, placement: spread", "nodes: 2, placement: spread"));
  REQUIRE(answer.jobs.size() == 2);
  const JobAnswer &a = answer.jobs[0], &b = answer.jobs[1];
  CAPTURE(a.packed_step, a.alone_step, a.step, b.step);
  CHECK(a.leaves == 2);
  CHECK(a.nodes == std::vector<int>{0, 2});
  CHECK(b.nodes == std::vector<int>{1, 3});
  CHECK(a.placement_cost() > 0.01);
  CHECK(a.slowdown() > 0.01);
  CHECK(a.slowdown() <= 1 + 1e-9);
  CHECK(a.step == Approx(b.step).epsilon(1e-6));
  REQUIRE_FALSE(answer.links.empty());
  for (const ContendedLink& link : answer.links) {
    CAPTURE(link.name);
    CHECK(link.use <= 1 + 1e-6);
    CHECK(link.use == Approx(link.use_by_job[0].second + link.use_by_job[1].second));
    for (const auto& [job, share] : link.limits_job) {  // it is full for as long as it limits a job
      CHECK(share > 0.9 * answer.links.front().use);
      CHECK(share <= 1 + 1e-9);
    }
  }
  // Both jobs exchange at the same time, so each has half of the uplinks. A job alone takes as long on leaves of one
  // node with half as many uplinks.
  const SharingAnswer half_rate =
      answer_to(fmt::format("cluster: {{nodes: 2, node: dgx-a100, fabric: {{base: leaf-spine, levels: [{{down: 8, "
                            "oversubscription: 8}}]}}}}\n"
                            "jobs: [{{nodes: 2, {}}}]\n",
                            kTraining));
  CHECK(a.step == Approx(half_rate.jobs[0].alone_step).epsilon(1e-4));
  CHECK(answer.leaves.size() == 2);
  CHECK(answer.leaves.front().jobs == std::vector<std::optional<std::string>>{"a", "b"});
  // The other job's exchange falls into the computation of the first (CASSINI: Rajasekaran et al. 2024).
  const SharingAnswer shifted = answer_to(two_jobs(
      "nodes: 2, placement: spread", fmt::format("nodes: 2, placement: spread, start: {} s", a.alone_step / 2)));
  CHECK(shifted.jobs[0].slowdown() < a.slowdown() / 2);
}

TEST_CASE("background traffic on the uplinks slows jobs that cross them as a lower rate of the uplinks does",
          "[jobs]") {
  const std::string text = two_jobs("nodes: 2, placement: spread", "nodes: 2, placement: spread");
  const auto with = [&text](const std::string& fabric_and_more) {
    std::string changed = text;
    const std::string fabric = "fabric: {base: leaf-spine, levels: [{down: 16, oversubscription: 8}]}";
    return answer_to(changed.replace(changed.find(fabric), fabric.size(), fabric_and_more)).jobs.front().step;
  };
  const double slow = with("fabric: {base: leaf-spine, levels: [{down: 16, oversubscription: 16}]}");
  const double shared = with(
      "fabric: {base: leaf-spine, levels: [{down: 16, oversubscription: 8}]}, background: {links: uplinks, share: "
      "0.5}");
  CHECK(shared == Approx(slow).epsilon(1e-9));
  CHECK(shared > 1.05 * answer_to(text).jobs.front().step);
}

TEST_CASE("folded jobs take the steps of jobs simulated rank by rank, and those of SimGrid's solver",
          "[jobs][folding]") {
  CHECK(check_random_jobs(3, 6, false) == 6);
  CHECK(check_random_jobs(4, 3, true) == 3);
}

TEST_CASE("three hundred random clusters with jobs take the steps of SimGrid's solver", "[jobs][folding][.deep]") {
  CHECK(check_random_jobs(5, 300, false) == 300);
  CHECK(check_random_jobs(6, 300, true) == 300);
}

TEST_CASE("jobs that do not fit on the cluster, or cannot share it, are refused", "[jobs]") {
  const auto error_of = [](const std::string& text) { return test::user_error([&] { read_jobs(text); }); };
  CHECK_THAT(error_of(two_jobs("nodes: 3", "nodes: 2")), Catch::Contains("jobs: 5 nodes, but the cluster has 4"));
  CHECK_THAT(error_of(two_jobs("nodes: [0, 1]", "nodes: [1, 2]")),
             Catch::Contains("node 1 belongs to another job too"));
  CHECK_THAT(error_of(two_jobs("nodes: [0, 4]", "nodes: 1")), Catch::Contains("jobs.nodes"));
  CHECK_THAT(error_of(two_jobs("nodes: [0, 0]", "nodes: 1")), Catch::Contains("node 0 stands there twice"));
  CHECK_THAT(error_of(two_jobs("nodes: [0], placement: spread", "nodes: 1")), Catch::Contains("jobs.placement"));
  CHECK_THAT(error_of(kCluster), Catch::Contains("missing key \"jobs\""));
  for (const std::string own : {"cluster: 3", "cluster: {node: nonsense, foo: 7}"})
    CHECK_THAT(error_of(two_jobs("nodes: 1, " + own, "nodes: 1")),
               Catch::Contains("jobs.cluster: jobs share the cluster of the file; expected `nodes` here"));
  CHECK_THAT(error_of(two_jobs("nodes: 1, clustr: 3", "nodes: 1")),
             Catch::Contains("unknown key \"clustr\" in jobs") && !Catch::Contains("\"cluster\""));
  CHECK_THAT(error_of(std::string(kCluster) + "jobs: [{nodes: 2, model: gpt2, plan: {micro_batch_size: 1, "
                                              "data_parallel: {mechanism: parameter-server, servers: {count: 1}}}}]\n"),
             Catch::Contains("not modelled beside other jobs"));
  CHECK_THAT(test::user_error([&] { read_scenario_text(two_jobs("nodes: 1", "nodes: 1"), "jobs.yaml"); }),
             Catch::Contains("trainyard share FILE"));
}

TEST_CASE("a run of jobs that is too large is refused before it begins, with a way out", "[jobs]") {
  const SharedCluster shared = read_jobs(two_jobs("nodes: 2", "nodes: 2"));
  const Plan plan_of_job = plan(shared.jobs[0].scenario);
  const std::string error = test::user_error([&] {
    run_jobs(shared.cluster, {{&shared.jobs[0].scenario, &plan_of_job, {0, 1}, Seconds{0}, 1e9}}, {});
  });
  CHECK_THAT(error, Catch::Contains("fewer --steps"));
}

TEST_CASE("the JSON of jobs has every explained key", "[jobs]") {
  SharingAnswer answer = answer_to(two_jobs("nodes: [0, 2]", "nodes: [1, 3]"));
  CHECK_FALSE(sharing_fields().json(answer).contains("currency"));
  answer.currency = "EUR";
  for (JobAnswer& job : answer.jobs) job.alone_interval = {1, 2};
  for (JobAnswer& job : answer.jobs) job.per_million = job.owned_per_million = job.per_joule = 1;
  test::check_explained_keys(sharing_fields().json(answer), "share");
}

}  // namespace scenarios_test_jobs
