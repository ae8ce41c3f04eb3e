#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "models/hardware/gpu.hpp"
#include "models/networks/layers/network.hpp"
#include "models/reading/document.hpp"
#include "models/software/stack.hpp"
#include "sim/op.hpp"

namespace trainyard {

/// What memory of a device is booked under; `Op::memory_class` holds one.
enum class MemoryClass : std::uint8_t { parameters, gradients, optimizer, activations, buffers };
constexpr int kMemoryClasses = 5;
const char* name_of(MemoryClass);

/// An optimizer, by what it costs. States are kept, and the update computed, in fp32 (fp64 for fp64 training).
struct Optimizer {
  std::string name;
  int states = 0;  ///< tensors of the size of the parameters: momentum, second moment
};

/// Known optimizers: adam, adamw (Kingma & Ba 2015; Loshchilov & Hutter 2019), lamb, lars (You et al. 2020, 2017),
/// momentum, nesterov, sgd.
const std::vector<Optimizer>& optimizers();
/// Throws UserError at `where` naming the nearest or the known ones.
const Optimizer& find_optimizer(const std::string& name, const Place& where);

/// Are parameters and gradients in 16 bits beside fp32 master weights (Micikevicius et al. 2018)? Throws UserError for a
/// precision that is not modelled (see `require_training_precision`).
bool has_master_weights(Precision);

/// Of an optimizer's states, of master weights and of the update.
Precision update_precision(Precision training);

/// Bytes a parameter that the optimizer keeps: its states, and the master weight where there is one.
Bytes optimizer_state_size(const Optimizer&, Precision);
/// Bytes a parameter that one update reads and writes: the gradient read; master weight (or parameter) and states read
/// and written; the 16-bit parameter written.
Bytes optimizer_traffic(const Optimizer&, Precision);

/// The same with the gradients of a stack, or what the stack says.
Bytes optimizer_traffic(const Optimizer&, Precision, const SoftwareStack&);

/// One update of `parameters` elements in fused kernels; bound by memory, so it has bytes and no FLOPs.
Work optimizer_work(double parameters, Precision, const Optimizer&);
Work optimizer_work(double parameters, Precision, const Optimizer&, const SoftwareStack&);
/// Adds the gradients of one more micro-batch to those of the ones before: two tensors read, one written.
Work gradient_accumulation_work(double parameters, Precision);
/// The same where those before are in the precision that the stack keeps gradients in. `parameters` are those whose
/// gradients are not added by the kernels that make them (`ParameterTensor::accumulated`).
Work gradient_accumulation_work(double parameters, Precision, const SoftwareStack&);
/// Of one element of the gradients that are summed over micro-batches and replicas.
Bytes gradient_size(Precision, const SoftwareStack&);

struct MemoryPart {
  std::string name;
  MemoryClass memory_class = MemoryClass::buffers;
  Bytes bytes;
};

/// What a device holds throughout a step.
struct StaticMemory {
  Bytes parameters, gradients, optimizer, buffers;
  std::vector<MemoryPart> parts;  ///< their sum is the sum of the four
  Bytes total() const { return parameters + gradients + optimizer + buffers; }
};

/// How many elements of each kind one device holds: all the same when replicated, fewer where ZeRO shards them.
struct HeldElements {
  double parameters = 0, gradients = 0, optimizer = 0;
  double narrow = 0;        ///< of the parameters, those that have a size of their own (`ParameterTensor::stored`)
  Bytes narrow_bytes = {};  ///< of these
};

/// Over how many replicas something is shared out (Rajbhandari et al. 2020, ZeRO); 1: each has all.
struct ZeroShares {
  double parameters = 1, gradients = 1, optimizer = 1;
};
/// What one rank holds of so many elements.
HeldElements held_elements(double elements, const ZeroShares&);
/// What one rank holds of some layers: tensors of routed experts have replicas of their own. `tied_elsewhere`: the layer
/// that lists a tied weight is on another stage of the pipeline, so that this one has a copy.
HeldElements held_elements(const std::vector<const Layer*>&, const ZeroShares& dense, const ZeroShares& experts,
                           bool tied_elsewhere = false);

/// Parameters (fp32 where the stack has no others) and gradients in `precision` or the stack's, the optimizer's state, the gradient buckets where the stack copies gradients
/// into buffers of their own, and the libraries' workspace.
StaticMemory static_memory(const HeldElements&, Precision, const Optimizer&, const SoftwareStack&);
/// The three kinds of state alone: no workspace, no copies of gradients.
StaticMemory model_states(const HeldElements&, Precision, const Optimizer&);
/// What the stack's libraries hold for these layers besides, from the first step on: tables and buffers, a weight's
/// gradient of each shape (see `SoftwareStack::dummy_weight_gradients`; one for all experts), workspaces. `last`: the
/// last layer of the network is among them. `gradient_sent`: bytes that a pipeline's schedule sent back last.
void add_library_buffers(StaticMemory&, const Network&, const std::vector<const Layer*>&, bool last,
                         Bytes gradient_sent, const SoftwareStack&);
/// Everything replicated.
StaticMemory static_memory(double parameters, Precision, const Optimizer&, const SoftwareStack&);

}  // namespace trainyard
