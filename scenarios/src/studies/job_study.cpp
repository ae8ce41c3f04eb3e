#include "scenarios/src/studies/job_study.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "scenarios/src/studies/measured/step_doubt.hpp"
#include "sim/index.hpp"
#include "sim/process/parallel.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

std::vector<FieldRow> sharing_rows() {
  return {
      {"name", "text", "name of the file", ""},
      {"cluster", "text", "the cluster in one line", ""},
      {"ranks", "number", "number of ranks of all jobs", ""},
      {"simulated_ranks", "number", "number of ranks that were simulated; the others are identical to these", ""},
      {"jobs", "list", "the jobs that run at the same time", ""},
      {"jobs[].name", "text", "name of the job", ""},
      {"jobs[].nodes", "list", "numbers of its nodes", ""},
      {"jobs[].leaves", "number", "number of leaf switches of its nodes", ""},
      {"jobs[].packed_step_s", "s", "step of the job alone on the cluster, packed on the fewest leaf switches", ""},
      {"jobs[].alone_step_s", "s", "step of the job alone on its own nodes", ""},
      {"jobs[].alone_step_interval_s", "s",
       "lower and upper end of the interval that holds the step of the real machine alone with a probability of 80 %",
       "if the stack is one that can be measured"},
      {"jobs[].placement_cost_share", "share", "increase of the step by its placement", ""},
      {"jobs[].step_s", "s", "mean step while all jobs run", ""},
      {"jobs[].shortest_step_s", "s", "shortest of these steps", ""},
      {"jobs[].longest_step_s", "s", "longest of these steps", ""},
      {"jobs[].steps", "number", "number of these steps", ""},
      {"jobs[].tokens_per_J", "1/J", "tokens a joule of the site while all jobs run (samples without tokens)",
       "with prices, if the power of the devices is stated"},
      {"jobs[].money_per_million", "money", "rent and electricity of a million of them", "with prices of rents"},
      {"jobs[].alone_money_per_million", "money", "rent and electricity of a million of them if the job runs alone",
       "with prices of rents"},
      {"jobs[].ownership_per_million", "money", "cost of a million of them on bought nodes that are always in use",
       "with prices of a purchase"},
      {"jobs[].slowdown_share", "share", "increase of the step by the other jobs", ""},
      {"currency", "text", "currency of the prices", "with prices"},
      {"links", "list", "links that more than one job uses, the fullest first", ""},
      {"links[].name", "text", "name of the link, or of the first of several that are alike", ""},
      {"links[].kind", "text", "kind of the link, for example network", ""},
      {"links[].links", "number", "number of links that are alike", ""},
      {"links[].use_share", "share", "share of its rate that all jobs use", ""},
      {"links[].use_by_job_share", "{job: share}", "share of its rate that each job uses", ""},
      {"links[].limits_job_share", "{job: share}",
       "time in which it sets the rate of a message of the job: sum over the messages, as a share of the run", ""},
      {"leaves", "list", "the leaf switches, with the jobs on their nodes", ""},
      {"leaves[].name", "text", "name of the switch", ""},
      {"leaves[].jobs", "list", "name of the job on each of its nodes; null: the node is free", ""},
  };
}

const RegisterJsonReference sharing_reference{"share", "several jobs on one cluster", sharing_rows};

int count_of_leaves(const std::vector<int>& nodes, const std::vector<DeviceId>& leaves) {
  std::set<DeviceId> distinct;
  for (const int node : nodes) distinct.insert(leaves[position(node)]);
  return static_cast<int>(distinct.size());
}

std::vector<LeafSwitch> leaf_answers(const DeviceGraph& graph, const std::vector<DeviceId>& leaves,
                                     const std::vector<std::string>& job_of_node) {
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

}  // namespace

std::vector<std::vector<int>> place_jobs(const SharedCluster& shared, const std::vector<DeviceId>& leaves,
                                         std::uint64_t seed) {
  std::vector<bool> taken(leaves.size(), false);
  std::vector<std::vector<int>> nodes;
  for (const SharedJob& job : shared.jobs) {
    nodes.push_back(job.nodes);
    for (const int node : job.nodes) taken[position(node)] = true;
  }
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i].empty())
      nodes[i] = choose_nodes(shared.jobs[i].node_count(), shared.jobs[i].placement, leaves, taken, seed + i);
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
  const std::vector<std::vector<int>> nodes = place_jobs(shared, leaves, question.seed);
  std::vector<Plan> plans;
  std::vector<PlacedJob> jobs, packed;
  for (const SharedJob& job : shared.jobs) plans.push_back(plan(job.scenario));
  for (std::size_t i = 0; i < plans.size(); ++i) {
    std::vector<bool> taken(leaves.size(), false);
    const Scenario& s = shared.jobs[i].scenario;
    const double steps = std::max(1, plans[i].warm_steps) + question.steps + 1.0;
    jobs.push_back({&s, &plans[i], nodes[i], Seconds{0}, steps});
    packed.push_back(
        {&s, &plans[i], choose_nodes(s.cluster.nodes, Placement::packed, leaves, taken, 0), Seconds{0}, steps});
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
  std::vector<std::string> job_of_node(leaves.size());
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
      sharing.links.push_back({link.name, link.kind, link.links, link.use, link.use_by_job, link.limits_job});
  sort_stably(sharing.links, [](const ContendedLink& a, const ContendedLink& b) { return a.use > b.use; });
  return sharing;
}

nlohmann::ordered_json sharing_json(const SharingAnswer& answer) {
  using nlohmann::ordered_json;
  ordered_json jobs = ordered_json::array(), links = ordered_json::array(), leaves = ordered_json::array();
  for (const JobAnswer& job : answer.jobs) {
    jobs.push_back({{"name", job.name},
                    {"nodes", job.nodes},
                    {"leaves", job.leaves},
                    {"packed_step_s", job.packed_step},
                    {"alone_step_s", job.alone_step},
                    {"placement_cost_share", job.placement_cost()},
                    {"step_s", job.step},
                    {"shortest_step_s", job.shortest},
                    {"longest_step_s", job.longest},
                    {"steps", job.steps},
                    {"slowdown_share", job.slowdown()}});
    if (job.alone_interval) jobs.back()["alone_step_interval_s"] = *job.alone_interval;
    const auto add_figure = [&jobs](const char* key, double figure) {
      if (figure > 0) jobs.back()[key] = figure;
    };
    add_figure("tokens_per_J", job.per_joule);
    add_figure("money_per_million", job.per_million);
    add_figure("alone_money_per_million", job.per_million / (1 + job.slowdown()));
    add_figure("ownership_per_million", job.owned_per_million);
  }
  for (const ContendedLink& link : answer.links) {
    ordered_json use = ordered_json::object(), limits = ordered_json::object();
    for (std::size_t i = 0; i < answer.jobs.size(); ++i) {
      use[answer.jobs[i].name] = link.use_by_job[i];
      limits[answer.jobs[i].name] = link.limits_job[i];
    }
    links.push_back({{"name", link.name},
                     {"kind", link.kind},
                     {"links", link.links},
                     {"use_share", link.use},
                     {"use_by_job_share", use},
                     {"limits_job_share", limits}});
  }
  for (const LeafSwitch& leaf : answer.leaves) {
    ordered_json names = ordered_json::array();
    for (const std::string& name : leaf.jobs) names.push_back(name.empty() ? ordered_json() : ordered_json(name));
    leaves.push_back({{"name", leaf.name}, {"jobs", names}});
  }
  ordered_json all{{"name", answer.name},   {"cluster", answer.cluster},
                   {"ranks", answer.ranks}, {"simulated_ranks", answer.simulated_ranks},
                   {"jobs", jobs},          {"links", links},
                   {"leaves", leaves}};
  if (!answer.currency.empty()) all["currency"] = answer.currency;
  return all;
}

}  // namespace trainyard
