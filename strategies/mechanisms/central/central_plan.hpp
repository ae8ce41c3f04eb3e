#pragma once
#include <memory>
#include <string>
#include <vector>

#include "sim/names.hpp"
#include "strategies/plan/training_calls.hpp"
#include "strategies/plan/training_plan.hpp"
#include "strategies/step/pass_table.hpp"

namespace trainyard {

/// Data parallelism in which one actor, the center, holds the parameters: it sends them to the replicas, receives and
/// sums gradients, and updates. Replicas are actors 0 … replicas − 1. A center that is also a replica is a master.
struct CentralPlan {
  TrainingPlan step;    ///< plan of the replicas: passes, buckets, micro-batches, and the memory of each
  int replicas = 1;     ///< number of replicas, including a master
  Actor center = 0;     ///< a master is actor 0
  StaticMemory memory;  ///< static memory of the center, for a master in place of that of a replica
  Work addition;        ///< work to add one element of a gradient to the sum
  // For a master: sizes for one micro-batch of one replica.
  Bytes input;   ///< size of the input that is sent to it
  Bytes output;  ///< size of the output that is gathered from it
  /// The master computes the losses of all outputs and sends their gradients back. False: replicas return their losses.
  bool loss_on_master = true;

  bool has_master() const { return center < replicas; }
  std::vector<Actor> actors() const;  ///< 0 up to the last actor that takes part; those between may be idle
};

/// The plan for replicas without an all-reduce (see `without_all_reduce`). The caller sets the center and its memory.
CentralPlan central_plan(TrainingPlan replicas);

/// Removes the all-reduce of gradients from a plan: lanes, copies into buckets, waits for a coordinator.
void without_all_reduce(TrainingPlan&);

/// Calls of a master's programs in addition to those of training_calls.hpp.
enum class CentralCall : std::uint16_t {
  fill_output = 32,  ///< copies the last layer's output to buffer `outputs`; a master's own output comes first in it
  loss,              ///< the master computes the gradients of the loss by all `outputs` into `output_gradients`
};

/// Groups and names of the operations. Overlapping time is booked in the order of the groups.
struct CentralNames {
  Names& names;
  GroupId compute = names.group(kComputeGroup, Role::work);
  GroupId optimizer = names.group("optimizer", Role::work);
  GroupId framework = names.group("framework", Role::work);
  GroupId parameters = names.group("parameters", Role::point_to_point);
  GroupId gradients = names.group("gradients", Role::point_to_point);
  GroupId data = names.group("inputs and outputs", Role::point_to_point);
  NameId setup = names.intern("set-up");
  NameId overhead = names.intern("framework");
  NameId wait_for_messages = names.intern("wait for messages");
  NameId call = names.intern("values");
  NameId input = names.intern("scatter inputs");
  NameId output = names.intern("gather outputs");
  NameId output_gradient = names.intern("scatter gradients of outputs");
  NameId give = names.intern("give parameters");
  NameId take = names.intern("take parameters");
  NameId push = names.intern("push gradients");
  NameId collect = names.intern("collect gradients");
  NameId copy = names.intern("copy to another server");
  NameId local_reduce = names.intern("reduce in the node");
  NameId up = names.intern("GPU to aggregator");
  NameId down = names.intern("aggregator to GPU");
  NameId local_broadcast = names.intern("broadcast in the node");
  NameId add = names.intern("add gradients");
  NameId update = names.intern("optimizer step");
  NameId over = names.intern("step is over");
  NameId step_over = names.intern(kStepOver);

  explicit CentralNames(Names& all) : names(all) {}
};

/// Names of the streams of these programs, for traces.
std::vector<std::string> central_streams(const CentralPlan&);

// Programs of all steps of one actor. The arguments must outlive the program; the tables are those of
// `CentralPlan::step`.

/// A program for a center that is a GPU: it holds the model and sends copies (PyTorch's DataParallel).
std::unique_ptr<Program> master_program(Actor, const CentralPlan&, const PassTables&, const CentralNames&);
/// A program for a center that is a CPU and holds the parameters (TensorFlow's CentralStorageStrategy).
std::unique_ptr<Program> storage_program(Actor, const CentralPlan&, const PassTables&, const CentralNames&);

}  // namespace trainyard
