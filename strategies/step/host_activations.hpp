#pragma once
#include <deque>
#include <map>
#include <utility>

#include "strategies/step/host_offload.hpp"

namespace trainyard {

/// Keeps activations in host memory between a layer's forward and backward pass. They are copied to the host once the
/// forward pass of the layer is over, and return during the backward pass of the following layer.
class HostActivations {
 public:
  HostActivations(StepContext&, HostOffload&);

  /// Makes the layer's forward pass wait until fewer than kLeavingLayers layers wait for their copies.
  void begin_forward(int layer);
  /// Copies the layer's activations to the host. They take memory on the GPU until the copy is complete.
  Ops end_forward(int layer, int micro_batch);
  /// Begins to copy back the activations of the layer, for which its backward pass waits, and of the next layers of
  /// the chunk. They take memory on the GPU from then on.
  Ops begin_backward(const std::vector<int>& chunk, int layer, int micro_batch);

 private:
  using Key = std::pair<int, int>;  // layer, micro-batch
  StepContext& step_;
  HostOffload& host_;
  const ActivationOffload& choice_;
  std::deque<Dep> leaving_;       // the last copies to the host
  std::map<Key, Dep> left_;       // ends of copies to the host, until the copy back begins
  std::map<Key, Dep> returning_;  // ends of copies from the host, until the backward pass waits for them

  Ops fetch(Key);
  Ops copy(HostWay, Key, Dep after_copy);
};

}  // namespace trainyard
