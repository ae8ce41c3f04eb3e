#include "models/networks/layers/network.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <type_traits>
#include <utility>

#include "sim/error.hpp"

namespace trainyard {
namespace {

/// Returns the sum of an amount of all items: of a member, or of what a function returns for an item.
template <class Items, class Amount>
auto sum_of(const Items& items, const Amount& amount) {
  std::remove_cvref_t<std::invoke_result_t<const Amount&, const typename Items::value_type&>> total{};
  for (const auto& item : items) total += std::invoke(amount, item);
  return total;
}

template <class Kernels>
Flops sum_flops(const Kernels& kernels) {
  return sum_of(kernels, [](const auto& kernel) { return kernel.work.flops; });
}

}  // namespace

void spread_launches(const std::vector<KernelCall*>& kernels, double launches) {
  const double most = std::numeric_limits<decltype(Work::launches)>::max();
  double planned = 0, shared_out = 0;  // whole numbers whose sum is as near as possible to the planned number
  for (KernelCall* kernel : kernels) {
    planned += launches / static_cast<double>(kernels.size());
    const double share = std::clamp(std::round(planned - shared_out), 1.0, most);
    kernel->work.launches = static_cast<decltype(Work::launches)>(share);
    shared_out += share;
  }
}

Bytes sum_bytes(const std::vector<KeptTensor>& kept) { return sum_of(kept, &KeptTensor::bytes); }

double Layer::parameter_elements() const { return sum_of(parameters, &ParameterTensor::elements); }
double Layer::active_elements() const {
  return sum_of(parameters, [](const ParameterTensor& tensor) { return tensor.elements * tensor.active_share; });
}
Bytes Layer::activations() const { return sum_bytes(saved_tensors); }
Flops Layer::forward_flops() const { return sum_flops(forward); }
Flops Layer::backward_flops() const { return sum_flops(backward); }

double Network::parameters() const { return sum_of(layers, &Layer::parameter_elements); }
double Network::active_parameters() const { return sum_of(layers, &Layer::active_elements); }
Flops Network::forward_flops() const { return sum_of(layers, &Layer::forward_flops); }
Flops Network::backward_flops() const { return sum_of(layers, &Layer::backward_flops); }
Bytes Network::activations() const { return sum_of(layers, &Layer::activations); }
double Network::frozen_active_parameters() const {
  double total = 0;
  for (const auto& layer : layers)
    for (const auto& tensor : layer.parameters)
      if (tensor.frozen) total += tensor.elements * tensor.active_share;
  return total;
}
Flops Network::model_flops_per_token() const {
  return weights_reused ? forward_flops() * (3.0 / static_cast<double>(tokens()))
                        : Flops{6 * active_parameters() - 2 * frozen_active_parameters()};
}

Flops Network::attention_flops_per_token() const {
  Flops forward;
  for (const Layer& layer : layers) forward += layer.attention;
  return forward * (3.0 / static_cast<double>(tokens()));
}

KernelCall kernel_call(std::string name, Kernel kernel, Flops flops, Bytes bytes, Precision precision) {
  KernelCall call;
  call.name = std::move(name);
  call.work.flops = flops;
  call.work.bytes = bytes;
  call.work.kernel = static_cast<std::uint16_t>(kernel);
  call.work.precision = static_cast<std::uint8_t>(precision);
  return call;
}

KernelCall gemm(std::string name, double m, double n, double k, Precision precision, double batch, bool in_turn,
                bool in_blocks) {
  KernelCall call = kernel_call(std::move(name), Kernel::gemm, Flops{2 * m * n * k * batch},
                                element_size(precision) * ((m * k + k * n + m * n) * batch), precision);
  call.work.kernel = kernel_of(GemmShape{m, n, k, batch, in_turn, in_blocks});
  return call;
}

KernelCall elementwise(std::string name, Bytes bytes, Precision precision) {
  return kernel_call(std::move(name), Kernel::elementwise, Flops{}, bytes, precision);
}

KernelCall strided_elementwise(std::string name, Bytes bytes, Precision precision) {
  return kernel_call(std::move(name), Kernel::strided, Flops{}, bytes, precision);
}

void require_training_precision(Precision precision) {
  switch (precision) {
    case Precision::fp64:
    case Precision::fp32:
    case Precision::tf32:
    case Precision::fp16:
    case Precision::bf16:
      return;
    case Precision::fp8:
    case Precision::fp6:
    case Precision::fp4:
    case Precision::int8:
      break;
  }
  throw UserError(std::string("precision: training in ") + name_of(precision) +
                  " is not modelled; expected fp64, fp32, tf32, fp16 or bf16");
}

}  // namespace trainyard
