#include "scenarios/src/studies/failures/training_phases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scenarios/src/collectives/collective_run.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/program.hpp"
#include "strategies/failures/checkpoint_transfer.hpp"
#include "strategies/mechanisms/mechanism.hpp"
#include "topologies/machines/ideal_machine.hpp"
#include "topologies/machines/placed_machine.hpp"
#include "topologies/machines/storage_machine.hpp"

namespace trainyard {
namespace {

/// Returns the time of a copy from the first rank's socket to its GPU, s; 0 if the GPU has no socket.
double copy_to_gpu(const Scenario& s, Bytes bytes) {
  ClusterMachine cluster(s.cluster, s.software);
  const DeviceId socket = cluster.socket_of(0);
  if (socket < 0) return 0;
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
  return run_programs(machine, std::move(programs)).end.value;
}

/// Returns the time in which the first sockets of all nodes pull the image, s. They share the rate of the registry.
double pull_image(const Scenario& s) {
  ClusterMachine cluster(s.cluster, s.software);
  StorageMachine storage(cluster, *s.training.ends.registry);
  std::vector<PlacedMachine::PlacedActor> places;
  Programs programs;
  int node = 0;
  for (std::size_t i = 0; i < storage.sockets().size(); ++i) {
    if (cluster.graph().devices()[cluster.device(storage.sockets()[i])].node != node) continue;
    ++node;
    const auto puller = static_cast<Actor>(places.size());
    places.push_back({storage.sockets()[i], ""});
    places.push_back({storage.door(i), ""});
    Op op;
    op.message.bytes = s.training.ends.image;
    op.message.mode = Mode::put;
    op.kind = Kind::recv;
    programs.push_back(std::make_unique<ListProgram>(std::vector<Op>{op}, std::vector<Actor>{puller + 1}));
    op.kind = Kind::send;
    programs.push_back(std::make_unique<ListProgram>(std::vector<Op>{op}, std::vector<Actor>{puller}));
  }
  PlacedMachine machine(storage, std::move(places));
  return run_programs(machine, std::move(programs)).end.value;
}

Bytes weights_of(const Scenario& s) { return element_size(s.precision) * s.network.parameters(); }

/// Returns the time for which rank 0 works alone after each interval, s. It does its own work, and may write the
/// weights to the store, with the optimizer states or without them.
double work_alone(const Scenario& s) {
  const TrainingEnds::RankZeroWork& work = *s.training.ends.rank_zero_work;
  if (!work.writes) return work.time.value;
  try {
    const Bytes bytes = work.states ? weights_of(s) * (1.0 + s.optimizer.states) : weights_of(s);
    const CheckpointPlan plan{{{0, bytes}}, work.store};
    return work.time.value + simulate_checkpoint_write(s.cluster, s.software, plan).write.value;
  } catch (const UserError& e) {
    fail(work.place, fmt::format("plan.training.rank_0: {}", e.what()));
  }
}

/// Returns the time in which rank 0 writes one line of the log, s.
double line_time(const TrainingEnds::RankZeroWork& work) {
  return work.log ? work.log->latency.seconds().value + (work.line / work.log->write).value : 0;
}

/// Times of the work that rank 0 does alone, s. The training has `times` intervals; the steps of one take `steps`. In
/// each interval, rank 0 writes lines of a log during the steps (`lines`); after the last step it writes one more
/// (`last_line`) and does its other work (`after`). `end` is its work at the end of the training.
struct AloneTimes {
  double steps = 0, lines = 0, last_line = 0, after = 0, end = 0, times = 1;
};

/// Returns the times at which rank 0 and the other ranks end. `is_synchronous`: all ranks meet in each step, so the
/// others wait for all work of rank 0 but the last.
std::pair<double, double> ends_of_ranks(const AloneTimes& t, bool is_synchronous) {
  IdealMachine machine("rank");
  class Ends : public Observer {
   public:
    void finished(const OpRun& run) override { ends[run.op->actor == 0 ? 0 : 1] = run.ended.value; }
    double ends[2] = {0, 0};
  } observer;
  Programs programs;
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<Op> ops;
    for (double i = 0; i < t.times; ++i) {
      Op op;
      op.kind = Kind::compute;
      op.work.flops = Flops{t.steps + (is_synchronous || rank == 0 ? t.lines : 0)};
      ops.push_back(op);
      op = {};
      op.kind = Kind::join;
      op.message.steps = 2;
      op.message.tag = static_cast<Tag>(i);
      if (is_synchronous) ops.push_back(op);
      op = {};
      op.kind = Kind::compute;
      op.work.flops = Flops{t.last_line + t.after + (i + 1 >= t.times ? t.end : 0)};
      if (rank == 0) ops.push_back(op);
    }
    programs.push_back(std::make_unique<ListProgram>(std::move(ops)));
  }
  run_programs(machine, std::move(programs), {{&observer}});
  return {observer.ends[0], observer.ends[1]};
}

double evaluation_time(const Scenario&, double samples, std::int64_t micro, bool all_ranks, Overrides changes,
                       const std::string& key, const Place&);

/// Returns the time of rank 0's evaluation on its own device, s.
double evaluation_alone(const Scenario& s) {
  const TrainingEnds::RankZeroWork& work = *s.training.ends.rank_zero_work;
  if (work.samples == 0) return 0;
  if (s.plan.splits_model())
    fail(work.place,
         "plan.training.rank_0.evaluate: rank 0 holds a part of the model; expected plan.training.evaluate");
  return evaluation_time(s, work.samples, work.micro_batch_size, false, {}, "plan.training.rank_0.evaluate",
                         work.place);
}

void book_work_alone(const Scenario& s, Result& r) {
  constexpr double most = 100'000;
  const TrainingEnds& ends = s.training.ends;
  const double alone_time = work_alone(s), times = ends.times_alone(r.training_steps);
  if (times > most)
    fail(ends.rank_zero_work->place,
         fmt::format("plan.training.rank_0: {:.0f} times in this training; at most {:.0f}", times, most));
  const double steps = r.training_steps / times, line = line_time(*ends.rank_zero_work);
  const double lines = std::floor(steps / ends.rank_zero_work->line_every);  // number of lines in an interval
  AloneTimes t{.steps = steps * r.step_time.value, .after = alone_time, .end = evaluation_alone(s), .times = times};
  if (line > 0 && lines >= 1) {
    t.last_line = line;
    t.lines = (lines - 1) * line;
    r.phases.push_back({"log of rank 0", Seconds{lines * line}, times});
  }
  const auto [first_end, other_end] = ends_of_ranks(t, s.plan.mechanism->stops_together());
  if (alone_time > 0) r.phases.push_back({"rank 0 alone", Seconds{alone_time}, times});
  if (t.end > 0) r.phases.push_back({"evaluation by rank 0", Seconds{t.end}});
  r.alone_time.value = first_end - other_end;
}

double hand_out_weights(const Scenario& s) {
  const Bytes bytes = weights_of(s);
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

/// Returns the time of the forward passes of an evaluation, s. `all_ranks`: the replicas share the samples; otherwise
/// one device evaluates them all. `key`: name of the key in errors.
double evaluation_time(const Scenario& s, double samples, std::int64_t micro, bool all_ranks, Overrides changes,
                       const std::string& key, const Place& place) {
  const std::int64_t batch = micro * s.plan.mesh.data;
  changes.insert(changes.end(), {{"plan.mode", "inference"},
                                 {"plan.micro_batch_size", std::to_string(micro)},
                                 {"plan.global_batch_size", std::to_string(batch)}});
  for (const char* removed_key : {"plan.optimizer", "plan.training", "plan.measured_step", "plan.step_time",
                                  "plan.recompute", "learn", "faults", "input"})
    changes.emplace_back(removed_key, "null");
  try {
    const Scenario forward = read_again(s, changes);
    return std::ceil(samples / static_cast<double>(all_ranks ? batch : micro)) *
           simulate(forward, plan(forward), {.critical_path = false}).step_time.value;
  } catch (const UserError& e) {
    fail(place, fmt::format("{}: {}", key, e.what()));
  }
}

double evaluation_of_all(const Scenario& s) {
  const TrainingEnds& ends = s.training.ends;
  Overrides changes;
  if (ends.precision) changes.emplace_back("plan.precision", *ends.precision);
  return evaluation_time(s, ends.samples, ends.micro_batch_size.value_or(s.micro_batch_size), true, std::move(changes),
                         "plan.training.evaluate", ends.evaluate_place);
}

}  // namespace

void book_phases(const Scenario& s, Result& r) {
  const TrainingEnds& ends = s.training.ends;
  if (ends.image.value > 0) r.phases.push_back({"image to all nodes", Seconds{pull_image(s)}});
  if (ends.start.value > 0) r.phases.push_back({"start", ends.start});
  Seconds configuration;  // all FPGAs are configured at the same time
  for (const NodeType* type : s.cluster.types()) configuration = std::max(configuration, type->gpu.reconfigure);
  if (configuration.value > 0) r.phases.push_back({"configuring the FPGAs", configuration});
  if (ends.weights) {
    r.phases.push_back({"weights to all GPUs", Seconds{hand_out_weights(s)}});
    r.host_memory.weights = weights_of(s);
    r.host_memory.weights_capacity = s.cluster.type_of_gpu(0).host_memory;
    r.fits = r.fits && r.host_memory.holds_weights();
  }
  if (ends.samples > 0)
    r.phases.push_back({"evaluation", Seconds{evaluation_of_all(s)}, ends.evaluations(r.training_steps)});
  if (ends.rank_zero_work) book_work_alone(s, r);
  for (const Result::Phase& phase : r.phases) r.training_time.value += phase.time.value * phase.times;
}

}  // namespace trainyard
