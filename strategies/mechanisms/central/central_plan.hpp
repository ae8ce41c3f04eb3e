#pragma once
#include <memory>
#include <string>
#include <vector>

#include "sim/names.hpp"
#include "strategies/plan/training_calls.hpp"
#include "strategies/plan/training_plan.hpp"
#include "strategies/step/pass_table.hpp"

namespace trainyard {

/// Data parallelism in which one actor, the center, has the parameters: it gives them out, takes gradients in, adds them
/// up and updates. Replicas are actors 0 … replicas − 1.
struct CentralPlan {
  TrainingPlan step;    ///< of the replicas: passes, buckets and micro-batches; what each holds
  int replicas = 1;     ///< a master among them
  Actor center = 0;     ///< of a master: 0
  StaticMemory memory;  ///< what the center holds; a master holds this instead of what replicas do
  Work addition;        ///< of one element: a gradient is added to the sum
  // Of a master, and one micro-batch of one replica:
  Bytes input;                 ///< sent to it
  Bytes output;                ///< gathered from it
  bool loss_on_master = true;  ///< of all outputs, whose gradients are sent back; false: replicas return their losses

  bool has_master() const { return center < replicas; }
  std::vector<Actor> actors() const;  ///< 0 to the last one that takes part; others of these do nothing
};

/// Of replicas whose gradients nobody all-reduces (see `without_all_reduce`); the center and its memory are still to be
/// said.
CentralPlan central_plan(TrainingPlan replicas);

/// Takes everything from a plan that belongs to all-reducing its gradients: lanes, copies into buckets, ticks.
void without_all_reduce(TrainingPlan&);

/// Calls that a master's programs make besides those of training_calls.hpp, in the same manner.
enum class CentralCall : std::uint16_t {
  fill_output = 32,  ///< what the last layer gives into buffer `outputs`; a master's own is the first of all replicas'
  loss,              ///< the master: gradients by all `outputs` into `output_gradients`
};

/// Groups and names of their operations, in the order in which overlapping time is booked.
struct CentralWords {
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

  explicit CentralWords(Names& all) : names(all) {}
};

/// Streams of these programs, for traces.
std::vector<std::string> central_streams(const CentralPlan&);

// All steps of one actor. Everything must outlive the program; the tables are those of `CentralPlan::step`.

/// One GPU, the center, holds the model and hands out copies (PyTorch's DataParallel).
std::unique_ptr<Program> master_program(Actor, const CentralPlan&, const PassTables&, const CentralWords&);
/// A CPU, the center, holds the parameters (TensorFlow's CentralStorageStrategy).
std::unique_ptr<Program> storage_program(Actor, const CentralPlan&, const PassTables&, const CentralWords&);

}  // namespace trainyard
