// Batch norms, alone or fused with the operators around them, as in cuDNN's kernels for NHWC.
#include "models/networks/cnn/cnn_layer.hpp"

namespace trainyard {

std::size_t CnnLayerBuilder::fused_operators(const std::vector<CnnOperator>& operators, std::size_t i) const {
  const bool sums = operators[i].kind == CnnKind::residual;
  if (!fuses_norms() || (operators[i].kind != CnnKind::batch_norm && !sums)) return 1;
  return i + 1 < operators.size() && operators[i + 1].word == "relu" ? 2 : 1;
}

CnnFeature CnnLayerBuilder::add(const std::vector<CnnOperator>& operators, std::size_t i, CnnFeature in, bool summed) {
  const CnnOperator& op = operators[i];
  const std::size_t next = i + fused_operators(operators, i);
  const bool activates = next - i == 2;
  if (op.kind == CnnKind::residual) return residual(op, in, activates);
  if (op.kind != CnnKind::batch_norm || !fuses_norms()) return add(op, in);
  const bool convolved = fusions_.batch_norm == BatchNormFusion::convolution && next < operators.size() &&
                         operators[next].kind == CnnKind::conv;
  const bool ends = summed && next == operators.size() && !activates;
  return batch_norm(op, in, activates,
                    ends        ? NormApplied::by_sum
                    : convolved ? NormApplied::by_convolution
                                : NormApplied::by_itself);
}

/// No cache holds a channel of the whole micro-batch: it is read for its statistics, then read again to be normalized.
/// Backward it is read twice, for its sums and for the gradient of the input. If the next convolution applies
/// the norm, the sign for the ReLU is computed again from the input.
CnnFeature CnnLayerBuilder::batch_norm(const CnnOperator& op, CnnFeature in, bool activates, NormApplied applied) {
  const std::string name = name_of(op);
  const double channels = static_cast<double>(op.in.channels);
  const Bytes x = bytes(in.width), statistics = element_size(Precision::fp32) * (2 * channels);
  const std::vector<int> gradients = {b_.parameter(name + ".weight", channels), b_.parameter(name + ".bias", channels)};
  const bool writes_output = applied == NormApplied::by_itself;
  const Bytes mask = writes_output && activates ? bits(in.width) : Bytes{};
  Bytes moved = writes_output ? x * 2 + mask : statistics;
  const bool sums_statistics =
      fusions_.batch_norm == BatchNormFusion::none || fusions_.batch_norm == BatchNormFusion::activation;
  if (sums_statistics) moved += x;
  Operator o;
  o.forward.push_back(moves(name, moved + statistics));
  keep(o, in, name + ".input");
  o.saved_tensors.push_back({name + ".statistics", statistics});
  if (mask.value > 0) o.saved_tensors.push_back({name + ".mask", mask});
  if (applied == NormApplied::by_sum) {
    summed_norms_.insert(summed_norms_.end(), gradients.begin(), gradients.end());
    b_.add(std::move(o));
    return {in.width, in.store, true, false};
  }
  o.backward.push_back({moves(name + ".backward", x * 5 + mask * 2 + statistics), gradients});
  if (writes_output) o.forward_live = x;
  o.backward_live = x * 2;
  b_.add(std::move(o));
  const CnnFeature out = fresh(in.width, true);
  if (!writes_output) kept_[out.store] = true;  // the output is not stored: its readers read the input
  return out;
}

void CnnLayerBuilder::sum_backward(Operator& o, const std::string& name, Bytes output, Bytes mask, std::size_t norms) {
  if (norms == 0 && mask.value == 0) return;
  const std::size_t weights = 2 * norms;
  const std::vector<int> gradients(summed_norms_.end() - static_cast<std::ptrdiff_t>(weights), summed_norms_.end());
  summed_norms_.resize(summed_norms_.size() - weights);
  // The gradient of the output and the input of each norm are read twice; a gradient is written for each branch.
  const double passes = norms == 0 ? 2 : 2 + 2 * static_cast<double>(norms) + 2;
  o.backward.push_back({moves(name + ".backward", output * passes + mask * (norms == 0 ? 1 : 2)), gradients});
  if (mask.value > 0) o.saved_tensors.push_back({name + ".mask", mask});
  o.backward_live = output * 3;
}

}  // namespace trainyard
