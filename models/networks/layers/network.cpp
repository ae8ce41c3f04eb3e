#include "models/networks/layers/network.hpp"

#include <utility>

#include "sim/error.hpp"

namespace trainyard {
namespace {

template <class Kernels>
Flops sum_flops(const Kernels& kernels) {
  Flops total;
  for (const auto& kernel : kernels) total += kernel.work.flops;
  return total;
}

}  // namespace

Bytes sum_bytes(const std::vector<KeptTensor>& kept) {
  Bytes total;
  for (const auto& tensor : kept) total += tensor.bytes;
  return total;
}

double Layer::parameter_elements() const {
  double total = 0;
  for (const auto& tensor : parameters) total += tensor.elements;
  return total;
}
double Layer::active_elements() const {
  double total = 0;
  for (const auto& tensor : parameters) total += tensor.elements * tensor.active_share;
  return total;
}
Bytes Layer::activations() const { return sum_bytes(saved_tensors); }
Flops Layer::forward_flops() const { return sum_flops(forward); }
Flops Layer::backward_flops() const { return sum_flops(backward); }

double Network::parameters() const {
  double total = 0;
  for (const auto& layer : layers) total += layer.parameter_elements();
  return total;
}
double Network::active_parameters() const {
  double total = 0;
  for (const auto& layer : layers) total += layer.active_elements();
  return total;
}
Flops Network::forward_flops() const {
  Flops total;
  for (const auto& layer : layers) total += layer.forward_flops();
  return total;
}
Flops Network::backward_flops() const {
  Flops total;
  for (const auto& layer : layers) total += layer.backward_flops();
  return total;
}
Bytes Network::activations() const {
  Bytes total;
  for (const auto& layer : layers) total += layer.activations();
  return total;
}
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

KernelCall gemm(std::string name, double m, double n, double k, Precision precision, double batch, bool in_turn) {
  KernelCall call = kernel_call(std::move(name), Kernel::gemm, Flops{2 * m * n * k * batch},
                                element_size(precision) * ((m * k + k * n + m * n) * batch), precision);
  call.work.kernel = kernel_of(GemmShape{m, n, k, batch, in_turn});
  return call;
}

KernelCall elementwise(std::string name, Bytes bytes, Precision precision) {
  return kernel_call(std::move(name), Kernel::elementwise, Flops{}, bytes, precision);
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
