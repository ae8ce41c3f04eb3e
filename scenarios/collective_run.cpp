#include "scenarios/collective_run.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/child.hpp"
#include "sim/list_program.hpp"
#include "sim/simulation.hpp"
#include "sim/traffic.hpp"
#include "sim/values.hpp"
#include "topologies/cluster_machine.hpp"

namespace trainyard {
namespace {

using nlohmann::json;

SoftwareStack no_software() {
  SoftwareStack stack;
  stack.name = "plain";
  return stack;
}

std::vector<double> contents(const Eigen::VectorXd& v) { return {v.data(), v.data() + v.size()}; }

/// Keeps each rank's buffer after each of its receives.
class Snapshots {
 public:
  Snapshots(Values& values, CollectiveRun& run, int ranks) : received_(static_cast<std::size_t>(ranks), 0) {
    values.on_change([this, &values, &run](Actor actor, const Op& op) {
      auto& count = received_[static_cast<std::size_t>(actor)];
      if (op.kind == Kind::recv) ++count;
      if (run.steps.size() < count) run.steps.resize(count, std::vector<std::vector<double>>(received_.size()));
      run.steps[count - 1][static_cast<std::size_t>(actor)] = contents(values.buffer(actor, 0));
    });
  }

 private:
  std::vector<std::size_t> received_;
};

std::string busiest_device(const ClusterMachine& machine, const Traffic& traffic) {
  LinkId most = 0;
  for (LinkId link = 1; link < static_cast<LinkId>(machine.graph().wires().size()); ++link)
    if (traffic.on_link(link) > traffic.on_link(most)) most = link;
  const DeviceGraph::End end = machine.graph().ends(most);
  const auto devices = machine.graph().devices();
  const Device& from = devices[static_cast<std::size_t>(end.from)];
  return from.kind == DeviceKind::gpu ? from.name : devices[static_cast<std::size_t>(end.to)].name;
}

json to_json(const CollectiveRun& run) {
  return {{"time", run.time},       {"sent", run.sent},         {"received", run.received},
          {"total", run.total},     {"values", run.values},     {"steps", run.steps},
          {"hazards", run.hazards}, {"messages", run.messages}, {"busiest", run.busiest_device}};
}

}  // namespace

CollectiveRun run_collective_here(const ClusterSpec& cluster, const CollectiveRunOptions& o) {
  Names names;
  ClusterMachine machine(cluster, no_software());
  Place place;
  place.file = std::make_shared<const std::string>("all-reduce");
  const Collective& collective = collectives(Operation::all_reduce).find(o.algorithm, place);
  CollectiveRun run;
  Simulation simulation(machine);
  std::vector<Actor> members = o.members;
  for (int rank = 0; o.members.empty() && rank < o.ranks; ++rank) members.push_back(rank);
  for (Actor actor = 0; actor <= *std::max_element(members.begin(), members.end()); ++actor) {
    const auto at = std::find(members.begin(), members.end(), actor);
    if (at == members.end())
      simulation.add(actor, std::make_unique<ListProgram>(std::vector<Op>{}));
    else
      simulation.add(actor, collective_program(collective, {static_cast<int>(at - members.begin()), o.ranks}, o.options,
                                               names, members));
  }
  Traffic traffic(machine.links());
  Values values;
  Snapshots snapshots(values, run, o.ranks);
  for (std::size_t rank = 0; rank < o.values.size(); ++rank)
    values.buffer(members[rank], 0) =
        Eigen::Map<const Eigen::VectorXd>(o.values[rank].data(), static_cast<Eigen::Index>(o.values[rank].size()));
  simulation.observe(traffic);
  if (!o.values.empty()) simulation.observe(values);
  const SimulationResult end = simulation.run();
  traffic.check(end.end);
  run.time = end.end.value;
  run.messages = end.transfers;
  run.total = traffic.total().value;
  for (const Actor member : members) {
    run.sent.push_back(traffic.sent(member).value);
    run.received.push_back(traffic.received(member).value);
    if (!o.values.empty()) run.values.push_back(contents(values.buffer(member, 0)));
  }
  run.hazards = values.hazards();
  run.busiest_device = busiest_device(machine, traffic);
  return run;
}

CollectiveRun run_collective(const ClusterSpec& cluster, const CollectiveRunOptions& options) {
  const json j = json::parse(in_child([&] { return to_json(run_collective_here(cluster, options)).dump(); }));
  CollectiveRun run;
  run.time = j.at("time");
  run.sent = j.at("sent").get<std::vector<double>>();
  run.received = j.at("received").get<std::vector<double>>();
  run.total = j.at("total");
  run.values = j.at("values").get<std::vector<std::vector<double>>>();
  run.steps = j.at("steps").get<std::vector<std::vector<std::vector<double>>>>();
  run.hazards = j.at("hazards").get<std::vector<std::string>>();
  run.messages = j.at("messages");
  run.busiest_device = j.at("busiest");
  return run;
}

}  // namespace trainyard
