#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "sim/op.hpp"
#include "sim/program.hpp"

namespace trainyard {

/// The place of a part of the model's states between its uses: the GPU, the memory of its CPU socket (Ren et al. 2021,
/// ZeRO-Offload, arXiv:2101.06840), or the NVMe drives of its node (Rajbhandari et al. 2021, ZeRO-Infinity,
/// arXiv:2104.07857).
enum class OffloadDevice : std::uint8_t { none, cpu, nvme };
const char* name_of(OffloadDevice);

/// Kinds of transfers between a rank's GPU, its host's memory and the drives of its node. Each has a stream of its
/// own. in_host: the bytes that the CPU reads and writes, modelled as half as many bytes from its memory to its
/// memory. The drives of a node are striped: each has an equal part of everything.
enum class HostTransfer : std::uint8_t { to_host, in_host, from_host, drive_read, drive_write };
constexpr int kHostWays = 5;
const char* name_of(HostTransfer);

/// Activations that stay in the memory of the GPU's CPU socket between a layer's forward and backward pass: those that
/// the layer keeps, or its input alone if it is recomputed (TransformerEngine's cpu_offload; MaxText's remat_policy,
/// whose tensors may be "offload"; DeepSpeed's cpu_checkpointing).
struct ActivationOffload {
  /// By the layer's number in the network: 1 if its activations are offloaded; empty: none are.
  std::vector<char> layers;
  /// Number of layers whose activations return while the backward pass of a later layer runs.
  int ahead = 1;

  bool is_used() const { return !layers.empty(); }
  bool holds(int layer) const { return is_used() && layers[layer] != 0; }
};

/// Number of layers whose activations may be on their way from the GPU to the host: the next forward pass waits until
/// there are fewer. TransformerEngine's AsyncDoubleBufferGroupOffloadHandler has two buffers.
constexpr std::size_t kLeavingLayers = 2;

/// Offload of the rank's share of each bucket.
struct OffloadPlan {
  /// Optimizer states and fp32 parameters; gradients then go to the host.
  OffloadDevice optimizer = OffloadDevice::none;
  OffloadDevice parameters = OffloadDevice::none;  ///< parameters in the network's precision; ZeRO stage 3 only
  /// Number of buckets in host memory at a time, if optimizer states move between drives and CPU: one is read, one
  /// updated and one written back.
  int buffers = 3;
  // Bytes that one element takes:
  Bytes update;    ///< bytes that the CPU's update reads and writes
  Bytes addition;  ///< bytes that adding the gradient of one more micro-batch reads and writes
  Bytes states;    ///< bytes of the optimizer's states
  ActivationOffload activations;
  /// The flows of each kind of transfer, by rank, between actors of the Machine; empty if nothing is simulated.
  std::vector<std::array<GroupFlow, kHostWays>> ways;

  bool is_used() const { return optimizer != OffloadDevice::none; }
  /// Returns true if data move between the GPU and its host.
  bool copies() const { return is_used() || activations.is_used(); }
  bool drives() const { return optimizer == OffloadDevice::nvme || parameters == OffloadDevice::nvme; }
};

}  // namespace trainyard
