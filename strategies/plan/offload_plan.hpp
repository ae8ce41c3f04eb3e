#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "sim/op.hpp"
#include "sim/program.hpp"

namespace trainyard {

/// Where a part of the model's states lies between its uses: on the GPU, in the memory of its CPU socket (Ren et al.
/// 2021, ZeRO-Offload, arXiv:2101.06840), or on the NVMe drives of its node (Rajbhandari et al. 2021, ZeRO-Infinity,
/// arXiv:2104.07857).
enum class OffloadDevice : std::uint8_t { none, cpu, nvme };
const char* name_of(OffloadDevice);

/// What moves between a rank's GPU, its host's memory and the drives of its node, each on a stream of its own. in_host:
/// what the CPU reads and writes, as half as many bytes from its memory to its memory. The drives of a node are striped:
/// each has an even part of everything.
enum class HostWay : std::uint8_t { to_host, in_host, from_host, drive_read, drive_write };
constexpr int kHostWays = 5;
const char* name_of(HostWay);

/// Activations that lie in the memory of the GPU's CPU socket between a layer's forward and its backward pass: those that
/// the layer keeps, or its input alone where it is computed again (TransformerEngine's cpu_offload; MaxText's
/// remat_policy, whose tensors may say "offload"; DeepSpeed's cpu_checkpointing).
struct ActivationOffload {
  std::vector<char> layers;  ///< by the layer's number in the network: 1, its activations do; empty: none
  int ahead = 1;             ///< layers whose activations come back while the backward pass of a later one goes on

  bool used() const { return !layers.empty(); }
  bool holds(int layer) const { return used() && layers[static_cast<std::size_t>(layer)] != 0; }
};

/// Layers that may wait for the copies of their activations to leave the GPU: the next forward pass waits until fewer do.
/// TransformerEngine's AsyncDoubleBufferGroupOffloadHandler has two buffers.
constexpr std::size_t kLeavingLayers = 2;

/// Offload of what a rank answers for: its share of each bucket.
struct OffloadPlan {
  OffloadDevice optimizer = OffloadDevice::none;   ///< its states and the fp32 parameters; gradients go to the host
  OffloadDevice parameters = OffloadDevice::none;  ///< those in the network's precision; ZeRO stage 3 only
  /// Of optimizer states that go between drives and CPU, so many buckets are in host memory at one time: one is read,
  /// one updated and one written back.
  int buffers = 3;
  // Of one element:
  Bytes update;    ///< read and written by the CPU's update
  Bytes addition;  ///< the same, by adding the gradient of one more micro-batch
  Bytes states;    ///< kept by the optimizer
  ActivationOffload activations;
  /// By rank, in the Machine's actors; empty where nothing is simulated.
  std::vector<std::array<GroupFlow, kHostWays>> ways;

  bool used() const { return optimizer != OffloadDevice::none; }
  /// Does anything go to and fro between a GPU and its host?
  bool copies() const { return used() || activations.used(); }
  bool drives() const { return optimizer == OffloadDevice::nvme || parameters == OffloadDevice::nvme; }
};

}  // namespace trainyard
