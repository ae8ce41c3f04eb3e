#include "strategies/pipelines/orders.hpp"

namespace trainyard {
namespace {

/// One stage works at a time: a micro-batch goes through all of them and back before the next one starts.
std::vector<PipelineTask> naive_tasks(int, const PipelineShape& shape) {
  TaskOrder order;
  for (int i = 0; i < shape.micro_batches; ++i) {
    order.forward();
    order.backward();
  }
  return order.take();
}

const RegisterPipelineSchedule registered_naive{
    {"naive", "one micro-batch forward and back at a time: one stage works, the others wait",
     "m * (p - 1) * (F + B + W)", "1", naive_tasks, nullptr, refuse_chunks}};

}  // namespace
}  // namespace trainyard
