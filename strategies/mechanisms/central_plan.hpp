#pragma once
#include <memory>
#include <string>
#include <vector>

#include "sim/names.hpp"
#include "strategies/step/data_parallel.hpp"

namespace trainyard {

class PassTables;

/// How replicas of a whole model come to one sum of gradients. all_reduce: among themselves. master: one process drives
/// all GPUs of a node, of which the first has the only lasting parameters (PyTorch's DataParallel). central_storage: the
/// parameters lie in the memory of a node's CPU, which adds and updates (TensorFlow's CentralStorageStrategy).
/// parameter_server: the same for workers of several nodes, in step (TensorFlow's ParameterServerStrategy with
/// SyncReplicasOptimizer; Li et al. 2014 with full consistency).
enum class Mechanism : std::uint8_t { all_reduce, master, central_storage, parameter_server };
const char* name_of(Mechanism);
const std::vector<std::string>& mechanism_names();
Mechanism parse_mechanism(const std::string&);  ///< one of `mechanism_names()`

/// Data parallelism in which one actor, the center, has the parameters: it gives them out, takes gradients in, adds them
/// up and updates. Replicas are actors 0 … replicas − 1.
struct CentralPlan {
  Mechanism mechanism = Mechanism::all_reduce;
  TrainingPlan step;    ///< one replica's passes, buckets and micro-batches; what it holds
  int replicas = 1;     ///< the master among them
  Actor center = 0;     ///< of a master: 0
  StaticMemory memory;  ///< what the center holds; a master holds this instead of what replicas do
  Work addition;        ///< of one element: a gradient is added to the sum
  // Of a master, and one micro-batch of one replica:
  Bytes input;                 ///< sent to it
  Bytes output;                ///< gathered from it
  bool loss_on_master = true;  ///< of all outputs, whose gradients are sent back; false: replicas return their losses

  bool used() const { return mechanism != Mechanism::all_reduce; }
  bool has_server() const { return used() && mechanism != Mechanism::master; }
  std::vector<Actor> actors() const;  ///< 0 to the last one that takes part; others of these do nothing
};

/// The plan of a network's replicas, whose centers and memory are still to be said; what is computed comes from `plan`.
CentralPlan central_plan(Mechanism, const Network&, const DataParallelPlan& plan);

/// Calls that a master's programs make besides those of training_calls.hpp, in the same manner.
enum class CentralCall : std::uint16_t {
  fill_output = 32,  ///< what the last layer gives into buffer `outputs`; a master's own is the first of all replicas'
  loss,              ///< the master: gradients by all `outputs` into `output_gradients`
};

/// Groups and names of their operations, in the order in which overlapping time is booked.
struct CentralWords {
  GroupId compute, optimizer, framework, parameters, gradients, data;
  NameId setup, overhead, wait_for_messages, call, input, output, output_gradient, give, take, push, collect, add,
      update, over, step_over;
  explicit CentralWords(Names&);
};

/// Streams of these programs, for traces.
std::vector<std::string> central_streams(const CentralPlan&);

/// All steps of one actor. Everything must outlive the program; the tables are those of `CentralPlan::step`.
std::unique_ptr<Program> central_program(Actor, const CentralPlan&, const PassTables&, const CentralWords&);

}  // namespace trainyard
