#include "scenarios/src/reading/read_jobs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "models/energy/price_names.hpp"
#include "scenarios/src/reading/read_cluster.hpp"
#include "sim/folding/joint_source.hpp"
#include "strategies/mechanisms/mechanism.hpp"

namespace trainyard {
namespace {

/// A list of trainings on one cluster.
struct JobList {
  const char* name;
  std::vector<std::string> own_keys;  ///< keys of an item that are no keys of a scenario
  std::vector<std::string> defaults;  ///< sections of the document for trainings that have none
  bool shares_links;                  ///< the trainings run at the same time, on the links of the whole cluster
};
const JobList kJobList{"jobs", {"nodes", "placement", "start", "scenario"}, {"software"}, true};
const JobList kTrainingList{"trainings",
                            {"nodes", "priority", "arrival", "every", "mean_interval", "count", "deadline", "scenario"},
                            {"software", "faults", "site"},
                            false};

/// Keys of the cluster that name its links and parts, which the nodes of a job alone may not have.
constexpr std::array<std::string_view, 3> kKeysOfWholeCluster{"taken_out", "preflight", "background"};

/// Returns the scenario of a job: the file that it names, if any, with its own keys laid on it, on `nodes` nodes of the
/// shared cluster.
Node job_document(const JobList& list, const Node& root, const Node& job, const std::string& file, int nodes) {
  Node keys = job;
  std::erase_if(keys.fields, [&](const auto& field) { return std::ranges::count(list.own_keys, field.first) > 0; });
  const Node* named = job.find("scenario");
  Node document = named ? read_document(file_named(file, named->place, std::string(list.name) + ".scenario"))
                        : Node::empty_map(job.place);
  if (const Node* name = document.find("name"); name && keys.find("name"))
    std::erase_if(document.fields, [](const auto& field) { return field.first == "name"; });
  document = merge_nodes(document, keys);
  Node cluster = *root.find("cluster");
  std::erase_if(cluster.fields,
                [](const auto& field) { return std::ranges::count(kKeysOfWholeCluster, field.first) > 0; });
  // The lengths of a torus are those of the whole cluster, whose links the jobs share.
  if (Node* fabric = cluster.find("fabric"); list.shares_links && fabric)
    std::erase_if(fabric->fields, [](const auto& field) { return field.first == "dims"; });
  set_field(cluster, "nodes", Node::scalar_node(fmt::format("{}", nodes), job.place));
  set_field(document, "cluster", std::move(cluster));
  for (const std::string& key : list.defaults)
    if (const Node* section = root.find(key); section && !document.find(key)) set_field(document, key, *section);
  return document;
}

/// Throws UserError if a training has a cluster of its own: all trainings of a file share the file's.
void refuse_own_cluster(const JobList& list, const Node& job) {
  for (const auto& [key, value] : job.fields)
    if (key == "cluster" && value.kind != Node::Kind::null)
      fail(value.key_place.line > 0 ? value.key_place : value.place,
           fmt::format("{}.cluster: {} share the cluster of the file; expected `nodes` here, and all else of the "
                       "cluster beside `{}`",
                       list.name, list.name, list.name));
}

/// Names the keys that a training has besides those of a scenario, if an error is about a key that it does not have.
void refuse_unknown_key(const JobList& list, const Node& job, const UserError& error) {
  for (const auto& [key, value] : job.fields)
    if (std::string_view(error.what()).find(fmt::format("unknown key \"{}\" in the scenario", key)) !=
        std::string_view::npos)
      fail(value.key_place.line > 0 ? value.key_place : value.place,
           fmt::format("unknown key \"{}\" in {}{}", key, list.name, hint(key, list.own_keys)));
}

std::vector<int> listed_nodes(const Node& list, const std::string& key, const char* noun, int least, int most) {
  std::vector<int> nodes;
  for (const Node& item : list.items) nodes.push_back(static_cast<int>(whole_number(item, key, least, most)));
  if (nodes.empty()) fail(list.place, key + ": at least one number expected");
  std::ranges::sort(nodes);
  const auto twice = std::ranges::adjacent_find(nodes);
  if (twice != nodes.end()) fail(list.place, fmt::format("{}: {} {} stands there twice", key, noun, *twice));
  return nodes;
}

/// Throws UserError for a job that cannot run beside others.
void require_shareable(const SharedJob& job) {
  const Scenario& s = job.scenario;
  const auto refuse = [&](const char* what, const char* expected) {
    fail(job.place,
         fmt::format("jobs: {} has {}, which is not modelled beside other jobs; {}", s.name, what, expected));
  };
  if (!s.plan.mechanism->ranks_alike())
    refuse(s.plan.mechanism_name.c_str(), "expected a mechanism whose ranks all run the training, such as all-reduce");
  if (s.input.is_used()) refuse("an input pipeline", "leave `input` out");
  if (!s.slow.links.empty()) refuse("faults of links", "leave `faults.links` out");
  if (s.prescribed_step.exists()) refuse("a step time that is given", "leave `plan.step_time` out");
  if (s.cluster.sharp) refuse("a fabric that sums (SHARP)", "set cluster.fabric.sharp: false");
  if (s.post_training) refuse("post_training", "expected one of its halves as a job");
  if (s.transport != TransportKind::flow) refuse("a transport of its own", "leave `transport` out");
}

SharedJob read_job(const Node& root, const Node& node, int most, std::size_t number) {
  Fields fields(node, "jobs");
  const Node& where = fields.required_child(
      {"nodes", "Number of nodes of the job, for example 4, or the numbers of its nodes, for example [0, 1, 8]."});
  SharedJob job;
  job.place = node.place;
  int count = 0;
  if (where.kind == Node::Kind::list) {
    job.nodes = listed_nodes(where, "jobs.nodes", "node", 0, most - 1);
    count = static_cast<int>(job.nodes.size());
  } else {
    count = fields.integer_within<int>({"nodes"}, 1, most);
  }
  job.placement = fields.one_of<Placement>({"placement",
                                            "How the nodes are chosen: packed (on the fewest leaf switches), spread "
                                            "(over all leaf switches) or fragmented (free nodes drawn at random)."},
                                           placement_names(), Placement::packed);
  if (!job.nodes.empty() && fields.has("placement"))
    fields.refuse("placement", "the numbers of the nodes are given; leave one of them out");
  job.start = fields.seconds({"start", "Time at which the job begins, for example 20 ms."}, Seconds{0});
  const std::string file = fields.text({"scenario",
                                        "File of a scenario whose model, software and plan the job has, for example "
                                        "gpt2.yaml. Default: none, and the job has these keys itself."},
                                       "");
  refuse_own_cluster(kJobList, node);
  try {
    job.scenario = read_scenario(job_document(kJobList, root, node, file, count), fmt::format("job{}", number));
  } catch (const UserError& e) {
    refuse_unknown_key(kJobList, node, e);
    throw;
  }
  if (job.node_count() != count) fail(node.place, "jobs: cluster.nodes of a job is its `nodes`");
  require_shareable(job);
  return job;
}

/// Throws UserError for more nodes than there are, for a node of two jobs, and for jobs of one name.
void require_enough_nodes(const SharedCluster& shared) {
  std::set<std::string> names;
  std::set<int> taken;
  int nodes = 0;
  for (const SharedJob& job : shared.jobs) {
    if (!names.insert(job.scenario.name).second)
      fail(job.place, fmt::format("jobs: two jobs have the name {}; expected a `name` of its own", job.scenario.name));
    for (const int node : job.nodes)
      if (!taken.insert(node).second)
        fail(job.place, fmt::format("jobs.nodes: node {} belongs to another job too; jobs share no node", node));
    nodes += job.node_count();
  }
  if (nodes > shared.cluster.nodes)
    fail(shared.place, fmt::format("jobs: {}, but the cluster has {}; jobs share no node", counted_noun(nodes, "node"),
                                   shared.cluster.nodes));
}

/// Reads the cluster of the document, whose nodes are all alike and joined by switches.
ClusterSpec read_common_cluster(Fields& root, const char* users) {
  root.require_all({"cluster"});
  const Node& node = root.required_child({"cluster"});
  ClusterSpec cluster = read_cluster(node, Catalog());
  if (node.kind != Node::Kind::map || !cluster.others.empty())
    root.refuse("cluster", fmt::format("nodes of several types are not modelled for {}; expected one type", users));
  return cluster;
}

/// Reads the site of a cluster; an average one if the document has none.
Site read_common_site(const Node& document) {
  const Node* site = document.find("site");
  const bool has_site = site && site->kind != Node::Kind::null;
  return read_site(Catalog().resolve("site", has_site ? *site : Node::scalar_node("average", document.place)));
}

/// Reads the prices of all trainings on a cluster.
Prices read_common_prices(const Node& document, Fields& root) {
  const Node* prices = root.child_unless_null("prices");
  if (!prices) return {};
  const Node entry = Catalog().resolve("price", *prices);
  check_price_names(entry, Catalog(), names_in_section(&document));
  return read_prices(entry, read_common_site(document).kwh);
}

SharedCluster read_jobs(const Node& document, const std::string& name) {
  Fields root(document, "the scenario");
  SharedCluster shared;
  shared.name = root.text({"name"}, name);
  shared.cluster = read_common_cluster(root, "jobs that share them");
  root.child({"software"});
  shared.prices = read_common_prices(document, root);
  const std::vector<Node>* jobs =
      root.list({"jobs",
                 "Trainings that run on the cluster at the same time (`trainyard share`): a list of maps with nodes, "
                 "placement, start and the keys of a scenario. Default: one training, that of the scenario."});
  if (!jobs) fail(document.place, "the scenario: missing key \"jobs\", the list of trainings that share the cluster");
  root.finish();
  shared.place = root.place_of("jobs");
  if (shared.cluster.joins_chips())
    root.refuse("cluster", "jobs on slices of a pod share no links; expected a fabric of switches");
  if (jobs->size() > JointSource::kMost)
    fail(shared.place,
         fmt::format("jobs: {} jobs; at most {} run beside each other", jobs->size(), JointSource::kMost));
  for (const Node& job : *jobs)
    shared.jobs.push_back(read_job(document, job, shared.cluster.nodes, shared.jobs.size() + 1));
  require_enough_nodes(shared);
  return shared;
}

constexpr int kMostFleetNodes = 1 << 20;
constexpr int kMostRangeNodes = 64;  ///< numbers of nodes in a range: each is simulated

/// Reads the possible numbers of nodes: a number, a list, or a range.
void read_possible_nodes(FleetTraining& training, Fields& fields) {
  const Node& where = fields.required_child(
      {"nodes",
       "Number of nodes of the training, for example 2; a list of possible numbers, for example [2, 4, 8]; or a range "
       "{from: 2, to: 8}, without the numbers on which the plan does not run."});
  if (where.kind == Node::Kind::list) {
    training.nodes = listed_nodes(where, "trainings.nodes", "the number", 1, kMostFleetNodes);
  } else if (where.kind == Node::Kind::map) {
    Fields range(where, "trainings.nodes");
    const int first = range.integer_within({"from", "Least number of nodes, for example 1."}, 1, kMostFleetNodes);
    const int last = range.integer_within({"to", "Largest number of nodes, for example 8."}, 1, kMostFleetNodes);
    range.finish();
    if (last < first || last - first >= kMostRangeNodes)
      range.refuse("to", fmt::format("{}; expected {} to {}", last, first, first + kMostRangeNodes - 1));
    for (int nodes = first; nodes <= last; ++nodes) training.nodes.push_back(nodes);
    training.is_range = true;
  } else {
    training.nodes = {fields.integer_within<int>({"nodes"}, 1, kMostFleetNodes)};
  }
}

void read_arrivals(FleetTraining& training, Fields& fields) {
  constexpr int most = 10000;
  training.priority = fields.integer_within<int>(
      {"priority", "Priority of the training, for example 10: higher ones start first. Default: 0."}, 0, 1 << 20, 0);
  training.arrival =
      fields.seconds({"arrival", "Time at which the training arrives, for example 30 d. Default: 0 s."}, Seconds{0});
  training.interval = fields.seconds(
      {"every", "Time between arrivals of such trainings, for example 7 d. Default: they arrive at the same time."},
      Seconds{0});
  training.mean_interval = fields.seconds(
      {"mean_interval",
       "Mean time between arrivals that are random (a Poisson process), for example 7 d. Default: they are not."},
      Seconds{0});
  for (const auto& [key, interval] : {std::pair{"every", training.interval}, {"mean_interval", training.mean_interval}})
    if (fields.has(key) && interval.value <= 0) fields.refuse(key, "more than 0 expected");
  if (training.interval.value > 0 && training.mean_interval.value > 0)
    fields.refuse("mean_interval", "the time between arrivals is given by every; leave one of them out");
  const bool is_stream = training.interval.value > 0 || training.mean_interval.value > 0;
  training.count = fields.integer_within<int>({"count",
                                               "Number of such trainings, for example 3. Default: 1; with every or "
                                               "mean_interval, all that arrive within the horizon."},
                                              1, most, is_stream ? most : 1);
  if (is_stream && !fields.has("count")) training.count = 0;
  if (fields.has({"deadline",
                  "Time after its arrival in which a training must end, for example 14 d. Default: it must end within "
                  "the horizon."})) {
    training.deadline = fields.seconds("deadline");
    if (training.deadline->value <= 0) fields.refuse("deadline", "more than 0 expected");
  }
}

/// Throws UserError for a training whose interruptions are not modelled.
void require_queueable(const Scenario& s, const Place& place) {
  const auto refuse = [&](const std::string& why) { fail(place, fmt::format("trainings: {}: {}", s.name, why)); };
  if (s.post_training) refuse("post_training is not modelled in a fleet; expected one of its halves");
  if (s.prices.is_given()) refuse("prices are those of the whole fleet; expected them beside cluster");
  if (s.training.steps <= 0)
    refuse("the work of the training is needed; expected plan.training: {steps}, {tokens} or {epochs, samples}");
  const FailureChoice& faults = s.failures;
  if (!faults.failures.empty()) refuse("failures at given times are not modelled in a fleet; expected mtbf");
  if (faults.recovery.spares || faults.recovery.elastic)
    refuse("faults.restart has spares or elastic; expected fleet.spares, and several numbers of nodes");
  if (!faults.parts.empty() && s.plan.mechanism->goes_on_without_some())
    refuse("failures of asynchronous workers are not modelled in a fleet; expected replicas that sum gradients");
  if (!faults.recovery.repair && std::ranges::any_of(faults.parts, &FailingParts::takes_node))
    refuse("failures take nodes away; expected faults.restart.repair, the time until such a node is back");
}

/// Reads the training on each number of nodes. Numbers of a range on which it does not run are left out.
void read_on_nodes(FleetTraining& training, const Node& root, const Node& node, const std::string& file,
                   const std::string& name) {
  std::vector<int> possible;
  for (const int nodes : training.nodes) {
    try {
      training.scenarios.push_back(read_scenario(job_document(kTrainingList, root, node, file, nodes), name));
      possible.push_back(nodes);
    } catch (const UserError& e) {
      refuse_unknown_key(kTrainingList, node, e);
      if (!training.is_range && training.nodes.size() == 1) throw;
      const std::string why = fmt::format("{} (on {})", e.what(), counted_noun(nodes, "node"));
      if (!training.is_range) throw UserError(why);
      training.left_out = why;
      training.left_out_nodes.push_back(nodes);
    }
  }
  if (possible.empty())
    fail(training.place,
         fmt::format("trainings.nodes: the plan runs on no number of the range: {}", training.left_out));
  training.nodes = std::move(possible);
}

FleetTraining read_fleet_training(const Node& root, const Node& node, std::size_t number) {
  Fields fields(node, "trainings");
  FleetTraining training;
  training.place = node.place;
  read_possible_nodes(training, fields);
  read_arrivals(training, fields);
  const std::string file =
      fields.text({"scenario",
                   "File of a scenario whose model, software, plan and faults the training has, for example gpt2.yaml. "
                   "Default: none, and the training has these keys itself."},
                  "");
  refuse_own_cluster(kTrainingList, node);
  read_on_nodes(training, root, node, file, fmt::format("training{}", number));
  training.name = training.scenarios.front().name;
  for (std::size_t i = 0; i < training.nodes.size(); ++i) {
    const Scenario& s = training.scenarios[i];
    if (s.cluster.nodes != training.nodes[i]) fail(node.place, "trainings: cluster.nodes of a training is its `nodes`");
    require_queueable(s, node.place);
    if (s.global_batch_size != training.scenarios.front().global_batch_size)
      fail(node.place,
           fmt::format("trainings: {} has {} samples a step on {} and {} on {}; expected plan.global_batch_size, as "
                       "its nodes vary",
                       training.name, training.scenarios.front().global_batch_size,
                       counted_noun(training.nodes.front(), "node"), s.global_batch_size, training.nodes[i]));
  }
  return training;
}

void read_rules(FleetFile& fleet, Fields& fields) {
  constexpr int most_runs = 1000, default_runs = 20;
  fleet.horizon = fields.seconds({"horizon", "Time that is simulated, for example 90 d. Default: 365 d."},
                                 Seconds{kHoursOfYear * 3600});
  if (fleet.horizon.value <= 0) fields.refuse("horizon", "more than 0 expected");
  fleet.spares = fields.integer_within<int>(
      {"spares", "Nodes of the cluster that only replace failed ones, for example 1. Default: 0."}, 0, kMostFleetNodes,
      0);
  fleet.policy = fields.one_of<QueuePolicy>(
      {"policy",
       "Order of waiting trainings: fifo (by arrival), priority (by priority, then arrival) or preemptive (the same, "
       "and trainings of lower priority are stopped for others). Default: fifo."},
      {"fifo", "priority", "preemptive"}, QueuePolicy::fifo);
  fleet.backfill = fields.boolean(
      {"backfill", "Whether trainings overtake the first of the queue if that does not delay it. Default: false."},
      false);
  fleet.grace =
      fields.seconds({"grace_time",
                      "Time that a training keeps its nodes after another one wants them, for example 5 min: it writes "
                      "a checkpoint before preemption if that ends in time. Default: 0 s; it stops at once."},
                     Seconds{0});
  fields.require_condition("grace_time", fleet.policy == QueuePolicy::preemptive, "with policy preemptive");
  fleet.seed = fields.integer<std::uint64_t>({"seed", "Seed of failures and random arrivals, for example 2."}, 0, 1);
  fleet.runs = fields.integer_within<int>(
      {"runs", "Number of runs with other random failures and arrivals, for example 50. Default: 20."}, 1, most_runs,
      default_runs);
}

FleetFile read_trainings(const Node& document, const std::string& name) {
  Fields root(document, "the scenario");
  FleetFile fleet;
  fleet.name = root.text({"name"}, name);
  fleet.cluster = read_common_cluster(root, "a fleet");
  for (const std::string& key : kTrainingList.defaults) root.child(key);
  fleet.site = read_common_site(document);
  fleet.prices = read_common_prices(document, root);
  const Node* rules = root.child_unless_null("fleet");
  const Node no_rules = Node::empty_map(document.place);
  Fields rule_fields(rules ? *rules : no_rules, "fleet");
  read_rules(fleet, rule_fields);
  rule_fields.finish();
  const std::vector<Node>* trainings = root.list(
      {"trainings",
       "Trainings that arrive on the cluster over time (`trainyard fleet`): a list of maps with nodes, priority, "
       "arrival, every, count, deadline and the keys of a scenario. Default: one training, that of the scenario."});
  if (!trainings) fail(document.place, "the scenario: missing key \"trainings\", the list of trainings of the fleet");
  root.finish();
  for (const Node& training : *trainings) {
    fleet.trainings.push_back(read_fleet_training(document, training, fleet.trainings.size() + 1));
    for (std::size_t i = 0; i + 1 < fleet.trainings.size(); ++i)
      if (fleet.trainings[i].name == fleet.trainings.back().name)
        fail(training.place, fmt::format("trainings: two trainings have the name {}; expected a `name` of its own",
                                         fleet.trainings[i].name));
  }
  return fleet;
}

}  // namespace

SharedCluster read_shared_cluster(const Node& document, const std::string& name, const Overrides& overrides) {
  SharedCluster shared;
  read_overridden(document, overrides, [&](const Node& changed) { shared = read_jobs(changed, name); });
  return shared;
}

FleetFile read_fleet(const Node& document, const std::string& name, const Overrides& overrides) {
  FleetFile fleet;
  read_overridden(document, overrides, [&](const Node& changed) { fleet = read_trainings(changed, name); });
  return fleet;
}

}  // namespace trainyard
