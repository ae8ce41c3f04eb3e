#include "models/training_memory.hpp"

#include <utility>

#include "models/network.hpp"

namespace trainyard {
namespace {

/// Of the states, the master weights and the update.
Precision update_precision(Precision training) {
  return training == Precision::fp64 ? Precision::fp64 : Precision::fp32;
}

Work memory_bound(Kernel kernel, Bytes bytes, Precision precision) {
  return kernel_call({}, kernel, Flops{}, bytes, precision).work;
}

}  // namespace

const char* name_of(MemoryClass memory_class) {
  switch (memory_class) {
    case MemoryClass::parameters:
      return "parameters";
    case MemoryClass::gradients:
      return "gradients";
    case MemoryClass::optimizer:
      return "optimizer";
    case MemoryClass::activations:
      return "activations";
    case MemoryClass::buffers:
      return "buffers";
  }
  throw InternalError("unknown memory class");
}

const std::vector<Optimizer>& optimizers() {
  static const std::vector<Optimizer> known = {{"adam", 2}, {"adamw", 2}, {"momentum", 1}, {"sgd", 0}};
  return known;
}

const Optimizer& find_optimizer(const std::string& name, const Place& where) {
  std::vector<std::string> names;
  for (const Optimizer& optimizer : optimizers()) {
    if (optimizer.name == name) return optimizer;
    names.push_back(optimizer.name);
  }
  fail(where, "unknown optimizer \"" + name + "\"" + hint(name, names));
}

bool has_master_weights(Precision precision) {
  require_training_precision(precision);
  return precision == Precision::fp16 || precision == Precision::bf16;
}

Bytes optimizer_state_size(const Optimizer& optimizer, Precision precision) {
  const int master = has_master_weights(precision) ? 1 : 0;
  return element_size(update_precision(precision)) * (optimizer.states + master);
}

Bytes optimizer_traffic(const Optimizer& optimizer, Precision precision) {
  const Bytes gradient = element_size(precision);
  const Bytes updated = element_size(update_precision(precision)) * (2 * (1 + optimizer.states));
  return gradient + updated + (has_master_weights(precision) ? element_size(precision) : Bytes{});
}

Work optimizer_work(double parameters, Precision precision, const Optimizer& optimizer) {
  return memory_bound(Kernel::optimizer, optimizer_traffic(optimizer, precision) * parameters,
                      update_precision(precision));
}

Work gradient_accumulation_work(double parameters, Precision precision) {
  require_training_precision(precision);
  return memory_bound(Kernel::elementwise, element_size(precision) * (3 * parameters), precision);
}

StaticMemory static_memory(const HeldElements& held, Precision precision, const Optimizer& optimizer,
                           const SoftwareStack& stack) {
  StaticMemory memory;
  const auto hold = [&](Bytes& sum, MemoryClass memory_class, std::string name, Bytes bytes) {
    if (bytes.value == 0) return;
    sum += bytes;
    memory.parts.push_back({std::move(name), memory_class, bytes});
  };
  const Bytes state = element_size(update_precision(precision));
  hold(memory.parameters, MemoryClass::parameters, "parameters", element_size(precision) * held.parameters);
  hold(memory.gradients, MemoryClass::gradients, "gradients", element_size(precision) * held.gradients);
  if (has_master_weights(precision))
    hold(memory.optimizer, MemoryClass::optimizer, "master weights", state * held.optimizer);
  hold(memory.optimizer, MemoryClass::optimizer, optimizer.name + " states",
       state * (optimizer.states * held.optimizer));
  if (stack.gradient_bucket_copy)
    hold(memory.buffers, MemoryClass::buffers, "gradient buckets", element_size(precision) * held.gradients);
  hold(memory.buffers, MemoryClass::buffers, "workspace", stack.workspace);
  return memory;
}

StaticMemory static_memory(double parameters, Precision precision, const Optimizer& optimizer,
                           const SoftwareStack& stack) {
  return static_memory(HeldElements{parameters, parameters, parameters}, precision, optimizer, stack);
}

}  // namespace trainyard
