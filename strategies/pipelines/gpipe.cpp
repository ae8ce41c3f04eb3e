#include "strategies/pipelines/orders.hpp"

namespace trainyard {
namespace {

/// All forward passes, then all backward passes, last in first out, as in the paper's Figure 2. A stage idles for
/// (stages − 1)(F + B), and keeps the activations of all micro-batches.
std::vector<PipelineTask> gpipe_tasks(int, const PipelineShape& shape) {
  std::vector<PipelineTask> tasks;
  for (int i = 0; i < shape.micro_batches; ++i) tasks.push_back({PipelineTask::Pass::forward, i});
  for (int i = shape.micro_batches; i-- > 0;) tasks.push_back({PipelineTask::Pass::backward, i});
  return tasks;
}

const RegisterPipelineSchedule registered_gpipe{
    {"gpipe", "all micro-batches forward, then all backward (Huang et al. 2019, GPipe)", "(p - 1) * (F + B + W)", "m",
     gpipe_tasks, nullptr, refuse_chunks}};

}  // namespace
}  // namespace trainyard
