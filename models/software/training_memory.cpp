#include "models/software/training_memory.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace trainyard {
namespace {

void add(StaticMemory& memory, Bytes& sum, MemoryClass memory_class, std::string name, Bytes bytes) {
  if (bytes.value == 0) return;
  sum += bytes;
  memory.parts.push_back({std::move(name), memory_class, bytes});
}

/// Returns the bytes of an update of one parameter: the gradient is read; the master weight (or parameter) and the
/// states are read and written; the 16-bit copy of a master weight is written.
Bytes traffic(const Optimizer& optimizer, Precision precision, Bytes gradient) {
  const bool master = has_master_weights(precision, optimizer);
  const Bytes parameter = element_size(optimizer.keeps_master ? update_precision(precision) : precision);
  const Bytes updated = (parameter + states_size(optimizer, precision)) * 2;
  return gradient * optimizer.gradient_passes + updated + (master ? element_size(precision) : Bytes{});
}

/// Is the tensor a matrix of a linear layer inside the network, whose momentum is made orthogonal?
bool is_inner_matrix(const Layer& layer, const ParameterTensor& tensor) {
  return !tensor.frozen && tensor.in > 1 && tensor.out > 1 && layer.name != "head" && layer.name != "embedding";
}

/// FLOPs of the iterations on a matrix with `side` rows: X is the matrix, A = X X', B = b A + c A A, X = a X + B X.
double orthogonal_flops(const Optimizer& optimizer, double side, double other) {
  return optimizer.orthogonal_steps * (4 * side * side * other + 2 * side * side * side);
}

const ParameterTensor* find_tensor(const Layer& layer, const std::string& name) {
  const auto tensor = std::ranges::find(layer.parameters, name, &ParameterTensor::name);
  return tensor == layer.parameters.end() ? nullptr : &*tensor;
}

Work memory_bound(Kernel kernel, Bytes bytes, Precision precision) {
  return kernel_call({}, kernel, Flops{}, bytes, precision).work;
}

}  // namespace

const char* name_of(MemoryClass memory_class) {
  static constexpr const char* names[] = {"parameters", "gradients", "optimizer", "activations", "buffers"};
  return names[static_cast<std::size_t>(memory_class)];
}

const std::vector<Optimizer>& optimizers() {
  constexpr Bytes in_8_bits{1 + 4.0 / 256};
  // FLOPs for each cube of a side. A symmetric matrix: its eigenvectors (Golub & Van Loan 2013, §8.3), and the product
  // of a root with them. A QR decomposition with its orthogonal factor (§5.2), and the product before it.
  constexpr double kEigenvectors = 9, kRootFromVectors = 2, kOrthogonalFactor = 8.0 / 3, kPowerStep = 2;
  static const std::vector<Optimizer> all = {{"adafactor", 0, {}, 3},
                                             {"adam", 2},
                                             {"adam8bit", 2, in_8_bits},
                                             {"adamw", 2},
                                             {"adamw8bit", 2, in_8_bits},
                                             {"lamb", 2},
                                             {"lars", 1},
                                             {"momentum", 1},
                                             {"muon", 1, {}, 1, 5},
                                             {"nesterov", 1},
                                             {"sgd", 0},
                                             {"shampoo", 2, {}, 1, 0, 2, kEigenvectors + kRootFromVectors},
                                             {"soap", 2, {}, 1, 0, 4, kPowerStep + kOrthogonalFactor}};
  return all;
}

const Optimizer& find_optimizer(const std::string& name, const Place& where) {
  return row_named(optimizers(), name, where, "unknown optimizer");
}

bool has_master_weights(Precision precision) {
  require_training_precision(precision);
  return precision == Precision::fp16 || precision == Precision::bf16;
}

bool has_master_weights(Precision precision, const Optimizer& optimizer) {
  return has_master_weights(precision) && optimizer.keeps_master;
}

Precision update_precision(Precision training) {
  return training == Precision::fp64 ? Precision::fp64 : Precision::fp32;
}

Bytes states_size(const Optimizer& optimizer, Precision precision) {
  const Bytes element =
      optimizer.state_element.value > 0 ? optimizer.state_element : element_size(update_precision(precision));
  return element * optimizer.states;
}

Bytes optimizer_state_size(const Optimizer& optimizer, Precision precision) {
  const Bytes master = has_master_weights(precision, optimizer) ? element_size(update_precision(precision)) : Bytes{};
  return states_size(optimizer, precision) + master;
}

Bytes optimizer_traffic(const Optimizer& optimizer, Precision precision) {
  return traffic(optimizer, precision, element_size(precision));
}

Bytes optimizer_traffic(const Optimizer& optimizer, Precision precision, const SoftwareStack& stack) {
  if (stack.optimizer_traffic.value > 0) {
    const Bytes gradient = gradient_size(precision, stack);  // the stack states what Adam moves
    return stack.optimizer_traffic + traffic(optimizer, precision, gradient) -
           traffic(find_optimizer("adam", Place{}), precision, gradient);
  }
  const Bytes copy = stack.master_parameters ? element_size(precision) : Bytes{};
  return traffic(optimizer, precision, gradient_size(precision, stack)) -
         (has_master_weights(precision, optimizer) ? copy : Bytes{});
}

Bytes gradient_size(Precision precision, const SoftwareStack& stack) {
  return element_size(stack.gradient_precision.value_or(precision));
}
Work optimizer_work(double parameters, Precision precision, const Optimizer& optimizer) {
  return memory_bound(Kernel::optimizer, optimizer_traffic(optimizer, precision) * parameters,
                      update_precision(precision));
}

Work optimizer_work(double parameters, Precision precision, const Optimizer& optimizer, const SoftwareStack& stack) {
  return memory_bound(Kernel::optimizer, optimizer_traffic(optimizer, precision, stack) * parameters,
                      update_precision(precision));
}

Work gradient_accumulation_work(double parameters, Precision precision) {
  require_training_precision(precision);
  return memory_bound(Kernel::elementwise, element_size(precision) * (3 * parameters), precision);
}

Work gradient_accumulation_work(double parameters, Precision precision, const SoftwareStack& stack) {
  require_training_precision(precision);
  const Bytes sum = gradient_size(precision, stack);
  const bool copies = stack.cast_accumulation && sum > element_size(precision);  // the copy is written and read
  const Bytes added = stack.autocast ? sum : element_size(precision);            // autograd has cast it
  const Bytes moved = added + sum * (copies ? 4 : 2);
  return memory_bound(Kernel::elementwise, moved * parameters, precision);
}

HeldElements held_elements(double elements, const ZeroShares& shares) {
  return {elements / shares.parameters, elements / shares.gradients, elements / shares.optimizer};
}

HeldElements held_elements(const std::vector<const Layer*>& layers, const ZeroShares& dense, const ZeroShares& experts,
                           bool tied_elsewhere) {
  HeldElements held;
  const auto hold = [&held](double elements, const ZeroShares& shares) {
    const HeldElements part = held_elements(elements, shares);
    held.parameters += part.parameters;
    held.gradients += part.gradients;
    held.optimizer += part.optimizer;
  };
  for (const Layer* layer : layers) {
    for (const ParameterTensor& tensor : layer->parameters) {
      const ZeroShares& shares = tensor.expert ? experts : dense;
      held.scales += tensor.scales * (tensor.elements / shares.parameters);
      if (!tensor.frozen) {
        hold(tensor.elements, shares);
        continue;
      }
      const double elements = tensor.elements / shares.parameters;
      held.parameters += elements;
      if (tensor.stored.value > 0) held.narrow += elements;
      held.narrow_bytes += tensor.stored * elements;
    }
    if (tied_elsewhere) hold(layer->tied_elements, dense);
  }
  return held;
}

UpdateExchanges add_matrix_updates(Work& work, HeldElements& held, const std::vector<const Layer*>& layers,
                                   const ZeroShares& dense, const ZeroShares& experts, const Optimizer& optimizer,
                                   Precision precision, const std::vector<const Layer*>& one_rank) {
  if (!optimizer.multiplies_matrices()) return {};
  // Defaults of the authors' code (soap.py: precondition_frequency, max_precond_dim).
  constexpr double renewal_interval = 10, longest_side = 10000;
  double others = 0, squares = 0;
  // Dense matrices and those of experts: a rank has whole ones, so that the busiest has no less than the largest.
  struct Share {
    double flops = 0, largest = 0, elements = 0;
    double of_busiest(double shares) const { return std::max(flops / shares, largest); }
  } dense_share, expert_share;
  UpdateExchanges exchanges;
  double gathers = 0, sums = 0;  // those of a replica, if replicas divided each matrix evenly
  Bytes gathered, summed, largest_gathered, largest_sum;
  for (std::size_t k = 0; k < layers.size(); ++k)
    for (const Layer* layer = layers[k]; const ParameterTensor& tensor : layer->parameters) {
      const double shares = (tensor.expert ? experts : dense).optimizer;
      if (!is_inner_matrix(*layer, tensor)) {
        others += tensor.frozen ? 0 : tensor.elements / shares;
        continue;
      }
      const double m = std::min(tensor.in, tensor.out), n = std::max(tensor.in, tensor.out);
      const double count = tensor.elements / (m * n);
      double flops = orthogonal_flops(optimizer, m, n);
      const ParameterTensor* all = k < one_rank.size() && !tensor.expert ? find_tensor(*one_rank[k], tensor.name)
                                                                         : nullptr;  // split over tensor ranks
      if (all && all->in * all->out > tensor.in * tensor.out) {
        if (optimizer.matrix_split == MatrixSplit::duplicated) {
          flops = orthogonal_flops(optimizer, std::min(all->in, all->out), std::max(all->in, all->out));
          const Bytes bytes = element_size(update_precision(precision)) * (all->in * all->out);
          gathered += bytes * count;
          largest_gathered = std::max(largest_gathered, bytes);
          gathers += count / shares;
        } else if (optimizer.matrix_split == MatrixSplit::distributed) {
          // The products are those along the side that is not split, also if it is the longer one.
          const double side = all->in == tensor.in ? tensor.in : tensor.out;
          flops = orthogonal_flops(optimizer, side, tensor.in * tensor.out / side);
          const Bytes bytes = element_size(precision) * (side * side * optimizer.orthogonal_steps);
          summed += bytes * count;
          largest_sum = std::max(largest_sum, bytes);
          sums += optimizer.orthogonal_steps * count / shares;
        }
      }
      for (const double side : {m, n}) {
        if (optimizer.side_products == 0 || side > longest_side) continue;
        flops += 2 * optimizer.side_products * side * m * n + optimizer.renewal * side * side * side / renewal_interval;
        squares += side * side * count / shares;
      }
      Share& share = tensor.expert ? expert_share : dense_share;
      share.flops += flops * count;
      share.largest = std::max(share.largest, flops);
      share.elements = std::max(share.elements, m * n);
    }
  const bool orthogonal = optimizer.orthogonal_steps > 0;
  const Precision updates = update_precision(precision);
  if (held.optimizer > 0) held.optimizer = std::max({held.optimizer, dense_share.elements, expert_share.elements});
  if (orthogonal) held.by_adam = std::min(others, held.optimizer);
  if (held.optimizer > 0) held.side_factors = 2 * squares;
  work.bytes += element_size(updates) * (2 * held.by_adam);
  // The mean of the products is read and written, and each other product reads the second factor.
  work.bytes += element_size(updates) * ((optimizer.side_products + 1) * squares);
  work.flops += Flops{dense_share.of_busiest(dense.optimizer) + expert_share.of_busiest(experts.optimizer)};
  work.kernel = static_cast<std::uint16_t>(Kernel::gemm);
  work.precision = static_cast<std::uint8_t>(orthogonal ? precision : updates);
  // The busiest replica has whole matrices, so that it exchanges no less than the largest one needs.
  const auto settle = [&](int& times, Bytes& mean, double even, Bytes all, Bytes largest, double least) {
    if (even == 0) return;
    times = static_cast<int>(std::ceil(std::max(even, least)));
    mean = std::max(all / dense.optimizer, largest) / times;
  };
  settle(exchanges.gathers, exchanges.gathered, gathers, gathered, largest_gathered, 1);
  settle(exchanges.sums, exchanges.summed, sums, summed, largest_sum, optimizer.orthogonal_steps);
  return exchanges;
}

StaticMemory static_memory(const HeldElements& held, Precision precision, const Optimizer& optimizer,
                           const SoftwareStack& stack) {
  StaticMemory memory;
  const auto hold = [&](Bytes& sum, MemoryClass memory_class, std::string name, Bytes bytes) {
    add(memory, sum, memory_class, std::move(name), bytes);
  };
  const Bytes state = element_size(update_precision(precision)), gradient = gradient_size(precision, stack);
  // With `master_parameters` they are in fp32 only. But if the optimizer's shards are smaller than the parameters,
  // there is a copy of all parameters in the network's precision too.
  // Autocast's copies belong to the layers.
  const bool wide = stack.master_parameters && optimizer.keeps_master;
  const bool copied = !wide || (held.optimizer < held.parameters && !stack.autocast);
  hold(memory.parameters, MemoryClass::parameters, "parameters",
       (copied ? element_size(precision) : state) * (held.parameters - held.narrow));
  hold(memory.parameters, MemoryClass::parameters, "parameters in formats of their own", held.narrow_bytes);
  hold(memory.parameters, MemoryClass::parameters, "scales of the parameters' blocks", held.scales);
  if (wide && copied && has_master_weights(precision))
    hold(memory.parameters, MemoryClass::parameters, "fp32 parameters", state * held.optimizer);
  hold(memory.gradients, MemoryClass::gradients, "gradients", gradient * held.gradients);
  if (has_master_weights(precision, optimizer) && !wide)
    hold(memory.optimizer, MemoryClass::optimizer, "master weights", state * held.optimizer);
  hold(memory.optimizer, MemoryClass::optimizer, optimizer.name + " states",
       states_size(optimizer, precision) * held.optimizer);
  hold(memory.optimizer, MemoryClass::optimizer, "second moments of Adam", state * held.by_adam);
  hold(memory.optimizer, MemoryClass::optimizer, "factors of sides", state * held.side_factors);
  if (stack.gradient_bucket_copy)
    hold(memory.buffers, MemoryClass::buffers, "gradient buckets",
         stack.bucket_buffers > 0 ? std::min(gradient * held.gradients, stack.bucket * stack.bucket_buffers)
                                  : gradient * held.gradients);
  hold(memory.buffers, MemoryClass::buffers, "workspace", stack.workspace);
  return memory;
}

StaticMemory model_states(const HeldElements& held, Precision precision, const Optimizer& optimizer) {
  SoftwareStack stack;
  stack.gradient_bucket_copy = false;
  return static_memory(held, precision, optimizer, stack);
}

void add_library_buffers(StaticMemory& memory, const Network& network, const std::vector<const Layer*>& layers,
                         bool last, Bytes gradient_sent, const SoftwareStack& stack) {
  std::set<std::pair<double, double>> shapes;
  Bytes lasting, weights;
  bool experts = false;
  for (const Layer* layer : layers) {
    lasting += layer->lasting;
    weights += element_size(network.precision) * layer->tied_elements;
    for (const ParameterTensor& tensor : layer->parameters) {
      experts = experts || tensor.expert;
      if (tensor.accumulated && shapes.emplace(tensor.in, tensor.out).second)
        weights += element_size(network.precision) * (tensor.in * tensor.out);
    }
  }
  const auto hold = [&memory](const char* name, Bytes bytes) {
    add(memory, memory.buffers, MemoryClass::buffers, name, bytes);
  };
  hold("tables", network.tables);
  hold("gather buffer", lasting);
  if (stack.dummy_weight_gradients) hold("weight gradients in passing", weights);
  if (stack.keeps_stage_gradient) hold("gradient sent last", gradient_sent);
  if (last || experts) hold("workspace of the last layer and experts", stack.head_workspace);
  if (experts) hold("workspace of experts", stack.expert_workspace);
}

StaticMemory static_memory(double parameters, Precision precision, const Optimizer& optimizer,
                           const SoftwareStack& stack) {
  return static_memory(HeldElements{parameters, parameters, parameters}, precision, optimizer, stack);
}

CheckpointState checkpoint_state(double parameters, Precision precision, const Optimizer& optimizer,
                                 const SoftwareStack& stack) {
  const StaticMemory memory = static_memory(parameters, precision, optimizer, stack);
  constexpr Bytes number{8};
  return {{{"weights", memory.parameters},
           {"learning rate", number},
           {"epoch/step", 2 * number},
           {"optimizer state", memory.optimizer}}};
}

Bytes CheckpointState::total() const {
  Bytes sum;
  for (const Part& part : parts) sum += part.bytes;
  return sum;
}

}  // namespace trainyard
