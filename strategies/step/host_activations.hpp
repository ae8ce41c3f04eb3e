#pragma once
#include <deque>
#include <map>
#include <utility>

#include "strategies/step/host_offload.hpp"

namespace trainyard {

/// Activations that lie in host memory between a layer's forward and its backward pass. Each layer's are copied to the
/// host once its forward pass is over, and come back while the backward pass of the layer after it goes on.
class HostActivations {
 public:
  HostActivations(StepContext&, HostOffload&);

  /// The layer's forward pass waits until fewer than kLeavingLayers wait for their copies.
  void begin_forward(int layer);
  /// The layer's activations leave. They take memory on the GPU until their copy is over.
  Ops end_forward(int layer, int micro_batch);
  /// The activations of the layer, which its backward pass waits for, and of the next ones of the chunk begin to come back.
  /// They take memory on the GPU from then on.
  Ops begin_backward(const std::vector<int>& chunk, int layer, int micro_batch);

 private:
  using Key = std::pair<int, int>;  // layer, micro-batch
  StepContext& step_;
  HostOffload& host_;
  const ActivationOffload& choice_;
  std::deque<Dep> leaving_;       // the last copies to the host
  std::map<Key, Dep> left_;       // whose copies to the host have begun
  std::map<Key, Dep> returning_;  // whose copies from the host have begun

  Ops fetch(Key);
  Ops copy(HostWay, Key, Dep after_copy);
};

}  // namespace trainyard
