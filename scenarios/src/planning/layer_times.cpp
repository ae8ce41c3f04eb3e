#include "scenarios/src/planning/layer_times.hpp"

#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {

Seconds layer_time(const Layer& layer, const NodeType& node, const SoftwareStack& stack) {
  Seconds sum;
  for (const KernelCall& call : layer.forward) sum += kernel_cost(node, stack, call.work);
  for (const BackwardKernel& call : layer.backward) sum += kernel_cost(node, stack, call.work);
  return sum;
}

Seconds launch_time(const Layer& layer, const NodeType& node, const SoftwareStack& stack) {
  if (!stack.host.runs_ahead || stack.host.cuda_graphs) return {};
  int launches = 0;
  for (const KernelCall& call : layer.forward) launches += call.work.launches;
  for (const BackwardKernel& call : layer.backward) launches += call.work.launches;
  return dispatch_time(node, stack) * launches;
}

Seconds accumulation_time(const Layer& layer, const Work& element_work, const NodeType& node,
                          const SoftwareStack& stack) {
  Seconds time;
  for (const BackwardKernel& call : layer.backward) {
    double elements = 0;
    for (const int tensor : call.gradients_ready)
      if (const ParameterTensor& p = layer.parameters[static_cast<std::size_t>(tensor)]; !p.accumulated)
        elements += p.elements;
    Work sum = element_work;
    sum.bytes = sum.bytes * elements;
    if (elements > 0) time += kernel_cost(node, stack, sum);
  }
  return time;
}

}  // namespace trainyard
