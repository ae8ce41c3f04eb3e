#include "scenarios/studies/training_phases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "scenarios/collectives/collective_run.hpp"
#include "scenarios/running/simulate.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/json_text.hpp"
#include "sim/list_program.hpp"
#include "sim/process/child.hpp"
#include "topologies/machines/placed_machine.hpp"

namespace trainyard {
namespace {

/// From the socket of the first rank to its GPU; nothing where it hangs at none.
double copy_to_gpu(const Scenario& s, Bytes bytes) {
  return parse_json(in_child([&] {
           ClusterMachine cluster(s.cluster, s.software);
           const DeviceId socket = cluster.socket_of(0);
           if (socket < 0) return std::string("0");
           PlacedMachine machine(cluster, {{cluster.actor(socket), ""}, {0, ""}});
           Op op;
           op.message.bytes = bytes;
           op.message.mode = Mode::put;
           op.kind = Kind::send;
           Programs programs;
           programs.push_back(std::make_unique<ListProgram>(std::vector<Op>{op}, std::vector<Actor>{1}));
           op.actor = 1;
           op.kind = Kind::recv;
           programs.push_back(std::make_unique<ListProgram>(std::vector<Op>{op}, std::vector<Actor>{0}));
           return json_text(nlohmann::json(run_programs(machine, std::move(programs)).end.value));
         }))
      .get<double>();
}

double hand_out_weights(const Scenario& s) {
  const Bytes bytes = element_size(s.precision) * s.network.parameters();
  double time = copy_to_gpu(s, bytes);
  if (s.ranks() == 1) return time;
  CollectiveRunOptions o;
  o.ranks = s.ranks();
  o.operation = Operation::broadcast;
  o.algorithm = default_collective(Operation::broadcast).name;
  o.options.size = bytes;
  o.options.settings.fidelity = Fidelity::messages;
  o.software = s.software;
  return time + run_collective(s.cluster, o).time;
}

/// Forward passes of one evaluation.
double evaluate(const Scenario& s) {
  const TrainingEnds& ends = s.training.ends;
  const std::int64_t micro = ends.micro_batch_size > 0 ? ends.micro_batch_size : s.micro_batch_size;
  const std::int64_t batch = micro * s.plan.mesh.data;
  Overrides changes{{"plan.mode", "inference"},
                    {"plan.micro_batch_size", std::to_string(micro)},
                    {"plan.global_batch_size", std::to_string(batch)}};
  for (const char* key : {"plan.optimizer", "plan.training", "plan.measured_step", "plan.step_time", "plan.recompute",
                          "learn", "faults", "input"})
    changes.emplace_back(key, "null");
  if (!ends.precision.empty()) changes.emplace_back("plan.precision", ends.precision);
  try {
    SimulateOptions options;
    options.critical_path = false;
    const Scenario forward = read_again(s, changes);
    return std::ceil(ends.samples / static_cast<double>(batch)) * simulate(forward, plan(forward), options).step_time;
  } catch (const UserError& e) {
    fail(ends.evaluate_place, fmt::format("plan.training.evaluate: {}", e.what()));
  }
}

}  // namespace

void book_phases(const Scenario& s, Result& r) {
  const TrainingEnds& ends = s.training.ends;
  if (ends.start.value > 0) r.phases.push_back({"start", ends.start.value});
  Seconds configured;  // all FPGAs at the same time
  for (const NodeType* type : s.cluster.types()) configured = std::max(configured, type->gpu.reconfigure);
  if (configured.value > 0) r.phases.push_back({"configuring the FPGAs", configured.value});
  if (ends.weights) r.phases.push_back({"weights to all GPUs", hand_out_weights(s)});
  if (ends.samples > 0) r.phases.push_back({"evaluation", evaluate(s), ends.evaluations(r.training_steps)});
  for (const Result::Phase& phase : r.phases) r.training_time += phase.time * phase.times;
}

}  // namespace trainyard
