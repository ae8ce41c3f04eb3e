#include "scenarios/src/reading/read_jobs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "scenarios/src/reading/read_cluster.hpp"
#include "sim/folding/joint_source.hpp"
#include "strategies/mechanisms/mechanism.hpp"

namespace trainyard {
namespace {

/// Keys of a job that are no keys of a scenario.
constexpr const char* kJobKeys[] = {"nodes", "placement", "start", "scenario"};

/// Returns the scenario of a job: the file that it names, if any, with its own keys laid on it, on `nodes` nodes of the
/// shared cluster.
Node job_document(const Node& root, const Node& job, const std::string& file, int nodes) {
  Node keys = job;
  std::erase_if(keys.fields,
                [](const auto& field) { return std::ranges::find(kJobKeys, field.first) != std::end(kJobKeys); });
  const Node* named = job.find("scenario");
  Node document = named ? read_document(file_named(file, named->place, "jobs.scenario")) : Node::empty_map(job.place);
  if (const Node* name = document.find("name"); name && keys.find("name"))
    std::erase_if(document.fields, [](const auto& field) { return field.first == "name"; });
  document = merge_nodes(document, keys);
  Node cluster = *root.find("cluster");
  std::erase_if(cluster.fields,
                [](const auto& field) { return field.first == "taken_out" || field.first == "preflight"; });
  set_field(cluster, "nodes", Node::scalar_node(fmt::format("{}", nodes), job.place));
  set_field(document, "cluster", std::move(cluster));
  if (const Node* software = root.find("software"); software && !document.find("software"))
    set_field(document, "software", *software);
  return document;
}

std::vector<int> listed_nodes(const Node& list, int most) {
  std::vector<int> nodes;
  for (const Node& item : list.items) nodes.push_back(static_cast<int>(whole_number(item, "jobs.nodes", 0, most - 1)));
  if (nodes.empty()) fail(list.place, "jobs.nodes: at least one node expected");
  std::ranges::sort(nodes);
  const auto twice = std::ranges::adjacent_find(nodes);
  if (twice != nodes.end()) fail(list.place, fmt::format("jobs.nodes: node {} stands there twice", *twice));
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
    job.nodes = listed_nodes(where, most);
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
  job.scenario = read_scenario(job_document(root, node, file, count), fmt::format("job{}", number));
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
    fail(shared.place,
         fmt::format("jobs: {} nodes, but the cluster has {}; jobs share no node", nodes, shared.cluster.nodes));
}

}  // namespace

SharedCluster read_shared_cluster(Node document, const std::string& name, const Overrides& overrides) {
  for (const auto& [path, value] : overrides) set_field(document, path, value);
  Fields root(document, "the scenario");
  SharedCluster shared;
  shared.name = root.text({"name"}, name);
  root.require_all({"cluster"});
  const Node& cluster = root.required_child({"cluster"});
  root.child({"software"});
  const std::vector<Node>* jobs =
      root.list({"jobs",
                 "Trainings that run on the cluster at the same time (`trainyard share`): a list of maps with nodes, "
                 "placement, start and the keys of a scenario. Default: one training, that of the scenario."});
  if (!jobs) fail(document.place, "the scenario: missing key \"jobs\", the list of trainings that share the cluster");
  root.finish();
  shared.place = root.place_of("jobs");
  shared.cluster = read_cluster(cluster, Catalog());
  if (cluster.kind != Node::Kind::map || !shared.cluster.others.empty())
    root.refuse("cluster", "nodes of several types are not modelled for jobs that share them; expected one type");
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

}  // namespace trainyard
