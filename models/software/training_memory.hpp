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

/// Classes of a device's memory. `Op::memory_class` holds one.
enum class MemoryClass : std::uint8_t { parameters, gradients, optimizer, activations, buffers };
const char* name_of(MemoryClass);

/// Modes in which tensor ranks make the momentum of a matrix orthogonal of which each has a part (Megatron-LM's
/// muon_tp_mode; emerging_optimizers, muon_utils.py, newton_schulz_tp): each its part alone; each the whole matrix, which
/// they gather first; or together, with a sum of products over the ranks in each iteration.
enum class MatrixSplit : std::uint8_t { blockwise, duplicated, distributed };

/// The costs of an optimizer. States are kept, and the update is computed, in fp32 (fp64 for fp64 training).
struct Optimizer {
  std::string name;
  int states = 0;            ///< number of state tensors of the parameters' size: momentum, second moment
  Bytes state_element = {};  ///< size of an element of a state; 0: that of the update
  int gradient_passes = 1;   ///< number of times that an update reads the gradient
  /// Number of Newton-Schulz iterations that make the momentum of a matrix orthogonal (Jordan et al. 2024, Muon). Only
  /// the matrices of linear layers inside the network are updated so, the other tensors by Adam. 0: none are.
  int orthogonal_steps = 0;
  /// Each side of such a matrix, up to 10,000 rows or columns, has two square factors: the mean of the gradient's
  /// products with itself, and its root (Gupta et al. 2018, Shampoo) or its eigenvectors (Vyas et al. 2024, SOAP,
  /// algorithm 3). Number of products of a side in an update; 0: there are no such factors.
  int side_products = 0;
  /// FLOPs, for each cube of a side, that compute the second factor anew in every tenth update.
  double renewal = 0;
  /// Parameters in 16 bits have a copy in fp32, which the update changes (Micikevicius et al. 2018). false: the update
  /// changes the 16-bit parameters themselves.
  bool keeps_master = true;

  MatrixSplit matrix_split = MatrixSplit::blockwise;  ///< mode of optimizers that make momenta orthogonal

  bool multiplies_matrices() const { return orthogonal_steps > 0 || side_products > 0; }
};

/// Returns all optimizers: adafactor (Shazeer & Stern 2018, whose factors of the second moment count as nothing), adam,
/// adamw (Kingma & Ba 2015; Loshchilov & Hutter 2019), adam8bit, adamw8bit (Dettmers et al. 2022: an fp32 scale for 256
/// elements), lamb, lars (You et al. 2020, 2017), momentum, muon, nesterov, sgd, shampoo (with Adam's second moment for
/// the size of its steps: Shi et al. 2023), soap.
const std::vector<Optimizer>& optimizers();
/// Throws UserError at `where` naming the nearest or the known ones.
const Optimizer& find_optimizer(const std::string& name, const Place& where);

/// Are parameters and gradients in 16 bits beside fp32 master weights (Micikevicius et al. 2018)? Throws UserError for
/// a precision that is not modelled (see `require_training_precision`).
bool has_master_weights(Precision);
/// Are there fp32 master weights, and does the optimizer keep them? Throws UserError as the function above.
bool has_master_weights(Precision, const Optimizer&);

/// Returns the precision of an optimizer's states, of master weights and of the update.
Precision update_precision(Precision training);

/// Returns the bytes of an optimizer's states for each parameter.
Bytes states_size(const Optimizer&, Precision);
/// Returns the bytes that the optimizer keeps for each parameter: its states, and the master weight if there is one.
Bytes optimizer_state_size(const Optimizer&, Precision);
/// Returns the bytes that one update reads and writes for each parameter: the gradient is read; the master weight (or
/// parameter) and the states are read and written; the 16-bit parameter is written.
Bytes optimizer_traffic(const Optimizer&, Precision);

/// Returns the bytes that one update reads and writes for each parameter, with the stack's precision of gradients, or
/// `SoftwareStack::optimizer_traffic` if it is stated.
Bytes optimizer_traffic(const Optimizer&, Precision, const SoftwareStack&);

/// One update of `parameters` elements in fused kernels. It is bound by memory, so it has bytes and no FLOPs.
Work optimizer_work(double parameters, Precision, const Optimizer&);
Work optimizer_work(double parameters, Precision, const Optimizer&, const SoftwareStack&);
/// Adds the gradients of a micro-batch to those of the ones before: two tensors are read, one is written.
Work gradient_accumulation_work(double parameters, Precision);
/// Returns the work of adding gradients up in the stack's precision of gradients. `parameters` counts only those whose
/// gradients are not added by the kernels that make them (`ParameterTensor::accumulated`).
Work gradient_accumulation_work(double parameters, Precision, const SoftwareStack&);
/// Returns the size of one element of the gradients that are summed over micro-batches and replicas.
Bytes gradient_size(Precision, const SoftwareStack&);

struct MemoryPart {
  std::string name;
  MemoryClass memory_class = MemoryClass::buffers;
  Bytes bytes;
};

/// Memory that a device holds throughout a step.
struct StaticMemory {
  Bytes parameters, gradients, optimizer, buffers;
  std::vector<MemoryPart> parts;  ///< the four sums in detail
  Bytes total() const { return parameters + gradients + optimizer + buffers; }
};

/// Numbers of elements of each kind that one device holds: all of them if replicated, fewer if ZeRO shards them.
struct HeldElements {
  double parameters = 0, gradients = 0, optimizer = 0;
  double by_adam = 0;       ///< part of `optimizer` that Adam updates if the optimizer makes matrices orthogonal
  double narrow = 0;        ///< parameters with an element size of their own (`ParameterTensor::stored`)
  Bytes narrow_bytes = {};  ///< size of the narrow parameters
  Bytes scales = {};        ///< scales of the parameters' blocks (`ParameterTensor::scales`)
  double side_factors = 0;  ///< elements of the factors of matrices' sides (`Optimizer::side_products`)
};

/// Numbers of replicas over which each kind of state is sharded (Rajbhandari et al. 2020, ZeRO); 1: each replica has
/// all.
struct ZeroShares {
  double parameters = 1, gradients = 1, optimizer = 1;
};
/// Returns the part of `elements` that one rank holds.
HeldElements held_elements(double elements, const ZeroShares&);
/// Returns the part of some layers that one rank holds. Tensors of routed experts have their own shares.
/// `tied_elsewhere`: the layer that lists a tied weight is on another stage of the pipeline, so that this stage has a
/// copy.
HeldElements held_elements(const std::vector<const Layer*>&, const ZeroShares& dense, const ZeroShares& experts,
                           bool tied_elsewhere = false);

/// Collectives over tensor ranks in an update: numbers of all-gathers and all-reduces, and the bytes of one of mean size.
struct UpdateExchanges {
  int gathers = 0, sums = 0;
  Bytes gathered = {}, summed = {};
};

/// Adds the products of an optimizer that multiplies matrices: the iterations that make the momenta of those layers'
/// matrices orthogonal, and the bytes that Adam moves for the other tensors; or the products with the factors of the
/// sides, and their memory. Replicas divide the matrices as they divide the optimizer's states, but each matrix stays
/// whole: the busiest replica has no fewer FLOPs and states than the largest matrix. The factors of sides are divided
/// evenly. Adds nothing for other optimizers. `one_rank`: the same layers as a single tensor rank would have them, which
/// tell the side of a matrix that tensor ranks split; empty, or `MatrixSplit::blockwise`: they update their parts alone.
/// Experts' matrices are always updated so. Returns the exchanges of tensor ranks.
UpdateExchanges add_matrix_updates(Work&, HeldElements&, const std::vector<const Layer*>&, const ZeroShares& dense,
                                   const ZeroShares& experts, const Optimizer&, Precision,
                                   const std::vector<const Layer*>& one_rank = {});

/// Returns the memory of parameters (in fp32 if the stack has no others), of gradients in the stack's precision or
/// `precision`, of the optimizer's states, of gradient buckets if the stack copies gradients into separate buffers, and
/// of the libraries' workspace.
StaticMemory static_memory(const HeldElements&, Precision, const Optimizer&, const SoftwareStack&);
/// Returns the memory of parameters, gradients and optimizer states, without workspace and gradient buckets.
StaticMemory model_states(const HeldElements&, Precision, const Optimizer&);
/// Adds the memory that the stack's libraries hold for these layers from the first step on: tables and buffers, a
/// weight gradient of each shape (see `SoftwareStack::dummy_weight_gradients`; one for all experts), workspaces.
/// `last`: the last layer of the network is among the layers. `gradient_sent`: bytes of the last gradient that a
/// pipeline's schedule sent to the previous stage.
void add_library_buffers(StaticMemory&, const Network&, const std::vector<const Layer*>&, bool last,
                         Bytes gradient_sent, const SoftwareStack&);
/// Returns the static memory of `parameters` elements that are all replicated.
StaticMemory static_memory(double parameters, Precision, const Optimizer&, const SoftwareStack&);

/// Contents of a checkpoint: everything that training needs to continue exactly.
struct CheckpointState {
  struct Part {
    std::string name;
    Bytes bytes;
  };
  std::vector<Part> parts;
  Bytes total() const;
};

/// Returns the checkpoint of the whole model, with each parameter once: the weights in the precision of the
/// computation, the optimizer's states with its fp32 master weights (see `static_memory` for both), the learning rate,
/// the epoch and the step.
CheckpointState checkpoint_state(double parameters, Precision, const Optimizer&, const SoftwareStack&);

}  // namespace trainyard
