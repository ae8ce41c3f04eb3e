#include "scenarios/src/studies/job_study.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/planning/size.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "scenarios/src/studies/measured/step_doubt.hpp"
#include "sim/index.hpp"
#include "sim/process/parallel.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

JsonFields<JobAnswer> job_fields() {
  using J = JobAnswer;
  return JsonFields<J>()
      .value("name", "", &J::name, "name of the job")
      .value("nodes", "", &J::nodes, "numbers of its nodes")
      .value("leaves", "", &J::leaves, "number of leaf switches of its nodes")
      .value("packed_step_s", "s", &J::packed_step,
             "step of the job alone on the cluster, packed on the fewest leaf switches")
      .value("alone_step_s", "s", &J::alone_step, "step of the job alone on its own nodes")
      .value("placement_cost_share", "share", &J::placement_cost, "increase of the step by its placement")
      .value("step_s", "s", &J::step, "mean step while all jobs run")
      .value("shortest_step_s", "s", &J::shortest, "shortest of these steps")
      .value("longest_step_s", "s", &J::longest, "longest of these steps")
      .value("steps", "", &J::steps, "number of these steps")
      .value("slowdown_share", "share", &J::slowdown, "increase of the step by the other jobs")
      .value("alone_step_interval_s", "s", &J::alone_interval,
             "lower and upper end of the interval that holds the step of the real machine alone with a probability of "
             "80 %")
      .when(&J::alone_interval, "if the stack is one that can be measured")
      .value("tokens_per_J", "1/J", &J::per_joule,
             "tokens a joule of the site while all jobs run (samples without tokens)")
      .when(&J::per_joule, "with prices, if the power of the devices is stated")
      .value("money_per_million", "money", &J::per_million, "rent and electricity of a million of them")
      .when(&J::per_million, "with prices of rents")
      .value("alone_money_per_million", "money", &J::alone_per_million,
             "rent and electricity of a million of them if the job runs alone")
      .when(&J::per_million, "with prices of rents")
      .value("ownership_per_million", "money", &J::owned_per_million,
             "cost of a million of them on bought nodes that are always in use")
      .when(&J::owned_per_million, "with prices of a purchase");
}

const RegisterJsonReference sharing_reference{"share", "several jobs on one cluster", sharing_fields};

int count_of_leaves(const std::vector<int>& nodes, const std::vector<DeviceId>& leaves) {
  std::set<DeviceId> distinct;
  for (const int node : nodes) distinct.insert(leaves[position(node)]);
  return static_cast<int>(distinct.size());
}

std::vector<LeafSwitch> leaf_answers(const DeviceGraph& graph, const std::vector<DeviceId>& leaves,
                                     const std::vector<std::optional<std::string>>& job_of_node) {
  std::vector<LeafSwitch> answers;
  std::vector<DeviceId> seen_leaves;
  for (std::size_t node = 0; node < leaves.size(); ++node) {
    const auto found = std::ranges::find(seen_leaves, leaves[node]);
    const auto index = static_cast<std::size_t>(found - seen_leaves.begin());
    if (found == seen_leaves.end()) {
      seen_leaves.push_back(leaves[node]);
      answers.push_back({leaves[node] < 0 ? "no switch" : graph.devices()[position(leaves[node])].name, {}});
    }
    answers[index].jobs.push_back(job_of_node[node]);
  }
  return answers;
}

/// Pairs each job's name with its figure.
std::vector<std::pair<std::string, double>> by_job(const SharingAnswer& answer, const std::vector<double>& figures) {
  std::vector<std::pair<std::string, double>> named;
  for (std::size_t i = 0; i < figures.size(); ++i) named.emplace_back(answer.jobs[i].name, figures[i]);
  return named;
}

/// Marks the nodes that have lost an adapter, a cable or their leaf switch (cluster.taken_out).
std::vector<bool> damaged_nodes(const SharedCluster& shared, const std::vector<DeviceId>& leaves) {
  std::vector<bool> damaged(leaves.size(), false);
  for (const RemovedPart& out : shared.cluster.taken_out)
    for (std::size_t node = 0; node < leaves.size(); ++node) {
      const std::string prefix = fmt::format("node{}/", node);
      if (leaves[node] < 0 || out.name.starts_with(prefix) || out.name.find(" - " + prefix) != std::string::npos)
        damaged[node] = true;
    }
  return damaged;
}

/// Chooses free nodes, and marks them as taken: damaged ones only if the others are too few.
std::vector<int> choose_whole_nodes(int count, Placement placement, const std::vector<DeviceId>& leaves,
                                    const std::vector<bool>& damaged, std::vector<bool>& taken, std::uint64_t seed) {
  std::vector<bool> avoided = taken;
  for (std::size_t node = 0; node < damaged.size(); ++node) avoided[node] = avoided[node] || damaged[node];
  if (std::ranges::count(avoided, false) < count) return choose_nodes(count, placement, leaves, taken, seed);
  std::vector<int> nodes = choose_nodes(count, placement, leaves, avoided, seed);
  for (const int node : nodes) taken[position(node)] = true;
  return nodes;
}

}  // namespace

std::vector<std::vector<int>> place_jobs(const SharedCluster& shared, const std::vector<DeviceId>& leaves,
                                         std::uint64_t seed) {
  const std::vector<bool> damaged = damaged_nodes(shared, leaves);
  std::vector<bool> taken(leaves.size(), false);
  std::vector<std::vector<int>> nodes;
  for (const SharedJob& job : shared.jobs) {
    nodes.push_back(job.nodes);
    for (const int node : job.nodes) taken[position(node)] = true;
  }
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i].empty())
      nodes[i] =
          choose_whole_nodes(shared.jobs[i].node_count(), shared.jobs[i].placement, leaves, damaged, taken, seed + i);
  return nodes;
}

namespace {

/// Adds energy and costs of the tokens of a job, from its step alone. That step's power and rents are those of the step
/// beside other jobs, which takes longer.
void add_costs(Scenario s, const Prices& prices, JobAnswer& job) {
  s.prices = prices;
  const Result r = answer(s, {.simulation = {.critical_path = false}}).result;
  const double longer = job.step / r.step_time.value;
  const double units = r.tokens_per_s > 0 ? r.tokens_of_step() : r.samples_of_step();
  if (r.energy && r.energy->step() > 0) job.per_joule = units / r.energy->step() / longer;
  job.per_million = r.money->per_million * longer;
  if (r.money->ownership) job.owned_per_million = r.money->ownership->per_million * longer;
}

}  // namespace

SharingAnswer share_cluster(const SharedCluster& shared, const SharingQuestion& question) {
  const DeviceGraph graph = build_cluster(shared.cluster);
  const std::vector<DeviceId> leaves = leaf_of_nodes(graph, shared.cluster.nodes);
  const std::vector<bool> damaged = damaged_nodes(shared, leaves);
  const std::vector<std::vector<int>> nodes = place_jobs(shared, leaves, question.seed);
  std::vector<Plan> plans;
  std::vector<PlacedJob> jobs, packed;
  for (const SharedJob& job : shared.jobs) plans.push_back(plan(job.scenario));
  for (std::size_t i = 0; i < plans.size(); ++i) {
    std::vector<bool> taken(leaves.size(), false);
    const Scenario& s = shared.jobs[i].scenario;
    const int period = period_of_steps(s, plans[i].training), periods = (question.steps + period - 1) / period;
    const double steps = std::max(1, plans[i].warm_steps) + 1.0 * periods * period + 1.0;
    jobs.push_back({&s, &plans[i], nodes[i], Seconds{0}, steps, period});
    packed.push_back({&s, &plans[i], choose_whole_nodes(s.cluster.nodes, Placement::packed, leaves, damaged, taken, 0),
                      Seconds{0}, steps, period});
  }
  const SharedRunOptions options{question.steps, question.folding, kDefaultTransport, question.progress};
  // Each job runs alone twice: on its own nodes, and packed.
  const std::vector<SharedTimes> single_runs = all_in_parallel(2 * jobs.size(), processors(), [&](std::size_t i) {
    const std::size_t job = i / 2;
    return run_jobs(shared.cluster, {i % 2 == 0 ? jobs[job] : packed[job]}, options);
  });

  double longest = 0;  // time until all jobs have done their steps, if no job slows another
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].start = shared.jobs[i].start;
    longest = std::max(longest, jobs[i].start.value + jobs[i].steps * single_runs[2 * i].jobs.front().mean);
  }
  for (std::size_t i = 0; i < jobs.size(); ++i)
    jobs[i].steps = std::max(jobs[i].steps, (longest - jobs[i].start.value) / single_runs[2 * i].jobs.front().mean);
  const SharedTimes joint_run = run_jobs(shared.cluster, jobs, options);

  SharingAnswer sharing;
  sharing.name = shared.name;
  sharing.currency = shared.prices.currency;
  sharing.cluster = describe(shared.cluster);
  sharing.ranks = joint_run.ranks;
  sharing.simulated_ranks = joint_run.simulated_ranks;
  sharing.unfolded_reason = joint_run.unfolded_reason;
  std::vector<std::optional<std::string>> job_of_node(leaves.size());
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const JobSteps& steps = joint_run.jobs[i];
    JobAnswer job;
    job.name = jobs[i].scenario->name;
    job.nodes = nodes[i];
    job.leaves = count_of_leaves(nodes[i], leaves);
    job.alone_step = single_runs[2 * i].jobs.front().mean;
    if (const Scenario& s = *jobs[i].scenario; no_doubt_reason(s).empty())
      job.alone_interval = likely_step_times(job.alone_step, step_doubt(s, simulate(s, plans[i])));
    job.packed_step = single_runs[2 * i + 1].jobs.front().mean;
    job.step = steps.mean;
    job.shortest = steps.shortest;
    job.longest = steps.longest;
    job.steps = steps.steps;
    if (shared.prices.is_given()) add_costs(*jobs[i].scenario, shared.prices, job);
    sharing.jobs.push_back(std::move(job));
    for (const int node : nodes[i]) job_of_node[position(node)] = jobs[i].scenario->name;
  }
  sharing.leaves = leaf_answers(graph, leaves, job_of_node);
  for (const JobLink& link : joint_run.links)
    if (std::ranges::count_if(link.use_by_job, [](double use) { return use > 0; }) > 1)
      sharing.links.push_back({link.name, link.kind, link.links, link.use, by_job(sharing, link.use_by_job),
                               by_job(sharing, link.limits_job)});
  sort_stably(sharing.links, [](const ContendedLink& a, const ContendedLink& b) { return a.use > b.use; });
  return sharing;
}

const JsonFields<SharingAnswer>& sharing_fields() {
  using A = SharingAnswer;
  using L = ContendedLink;
  static const JsonFields<A> fields =
      JsonFields<A>()
          .value("name", "", &A::name, "name of the file")
          .value("cluster", "", &A::cluster, "the cluster in one line")
          .value("ranks", "", &A::ranks, "number of ranks of all jobs")
          .value("simulated_ranks", "", &A::simulated_ranks,
                 "number of ranks that were simulated; the others are identical to these")
          .list("jobs", &A::jobs, job_fields(), "the jobs that run at the same time")
          .list("links", &A::links,
                JsonFields<L>()
                    .value("name", "", &L::name, "name of the link, or of the first of several that are alike")
                    .value("kind", "", &L::kind, "kind of the link, for example network")
                    .value("links", "", &L::links, "number of links that are alike")
                    .value("use_share", "share", &L::use, "share of its rate that all jobs use")
                    .value("use_by_job_share", "share", &L::use_by_job, "share of its rate that each job uses")
                    .value("limits_job_share", "share", &L::limits_job,
                           "share of the measured time in which it sets the rate of a message of the job"),
                "links that more than one job uses, the fullest first")
          .list(
              "leaves", &A::leaves,
              JsonFields<LeafSwitch>()
                  .value("name", "", &LeafSwitch::name, "name of the switch")
                  .value("jobs", "", &LeafSwitch::jobs, "name of the job on each of its nodes; null: the node is free"),
              "the leaf switches, with the jobs on their nodes")
          .value("currency", "", &A::currency, "currency of the prices")
          .when(&A::currency, "with prices");
  return fields;
}

}  // namespace trainyard
