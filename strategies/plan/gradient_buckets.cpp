#include "strategies/plan/gradient_buckets.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <ranges>

#include "sim/index.hpp"

namespace trainyard {
namespace {

/// Fills buckets: one of routed experts' tensors and one of all others are open at a time.
class BucketFiller {
 public:
  BucketFiller(Bytes element, const BucketChoice& choice) : element_(element), choice_(choice) {}

  void add(int layer, int kernel, int tensor, const ParameterTensor& parameter) {
    GradientBucket& open = open_[parameter.expert ? 1 : 0];
    for (double done = 0; done < parameter.elements;) {
      const double take =
          choice_.whole_tensors ? parameter.elements : std::min(parameter.elements - done, limit() - open.elements);
      open.parts.push_back({layer, tensor, take, done});
      open.elements += take;
      open.layer = layer;
      open.kernel = kernel;
      open.experts = parameter.expert;
      done += take;
      if (open.elements >= limit()) close(open);
    }
  }
  std::vector<GradientBucket> finish() && {
    const auto earlier = [](const GradientBucket& a, const GradientBucket& b) {
      return a.layer != b.layer ? a.layer > b.layer : a.kernel < b.kernel;
    };
    if (earlier(open_[1], open_[0])) std::swap(open_[0], open_[1]);
    for (GradientBucket& open : open_)
      if (open.elements > 0) close(open);
    return std::move(buckets_);
  }

 private:
  Bytes element_;
  BucketChoice choice_;
  std::vector<GradientBucket> buckets_;
  std::array<GradientBucket, 2> open_;

  double limit() const {
    return std::max(1.0, std::floor((buckets_.empty() ? choice_.first : choice_.rest) / element_));
  }
  void close(GradientBucket& open) {
    buckets_.push_back(std::move(open));
    open = {};
  }
};

/// Adds the frozen tensors of a layer to its buckets.
void add_frozen(std::vector<GradientBucket>& buckets, const Network& network, int number) {
  const std::vector<ParameterTensor>& tensors = network.layers[number].parameters;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const ParameterTensor& tensor = tensors[t];
    if (!tensor.frozen) continue;
    auto bucket = std::ranges::find_if(buckets, [&](const GradientBucket& b) { return b.experts == tensor.expert; });
    if (bucket == buckets.end()) {
      bucket = buckets.insert(buckets.end(), GradientBucket{});
      bucket->layer = number;
      bucket->experts = tensor.expert;
    }
    bucket->parts.push_back({number, static_cast<int>(t), 0, 0});
    bucket->frozen += gathered_elements(tensor, network.precision);
  }
}

}  // namespace

std::vector<GradientBucket> gradient_buckets(const Network& network, const std::vector<int>& layers, Bytes element,
                                             Bytes first, Bytes rest, bool whole_tensors) {
  BucketFiller filler(element, {first, rest, whole_tensors});
  for (const int number : layers | std::views::reverse) {
    const Layer& layer = network.layers[number];
    for (int kernel = 0; kernel < static_cast<int>(layer.backward.size()); ++kernel)
      for (const int tensor : layer.backward[kernel].gradients_ready)
        filler.add(number, kernel, tensor, layer.parameters[tensor]);
  }
  return std::move(filler).finish();
}

std::vector<GradientBucket> gradient_buckets(const Network& network, Bytes element, Bytes first, Bytes rest,
                                             bool whole_tensors) {
  return gradient_buckets(network, consecutive_numbers(0, network.layers.size()), element, first, rest, whole_tensors);
}

double gathered_elements(const ParameterTensor& tensor, Precision precision) {
  return tensor.elements * (tensor.stored.value > 0 ? tensor.stored / element_size(precision) : 1);
}

double gather_widening(const Network& network, const Layer& layer, const ParameterTensor& tensor,
                       Bytes parameter_element) {
  const Bytes wide = element_size(network.precision);
  if (tensor.frozen || parameter_element.value <= 0 || parameter_element >= wide) return 0;
  const auto is_narrow = [&](const KernelCall& call) {
    return call.work.flops.value > 0 && element_size(static_cast<Precision>(call.work.precision)) < wide;
  };
  if (tensor.in > 0 && std::ranges::any_of(layer.forward, is_narrow)) return 0;
  return tensor.elements * (wide / parameter_element - 1);
}

void widen_gathers(std::vector<GradientBucket>& buckets, const Network& network, Bytes parameter_element) {
  for (GradientBucket& bucket : buckets) {
    bucket.widening = 0;
    for (const GradientBucket::Part& part : bucket.parts) {
      const Layer& layer = network.layers[part.layer];
      const ParameterTensor& tensor = layer.parameters[part.tensor];
      if (part.elements > 0)
        bucket.widening +=
            gather_widening(network, layer, tensor, parameter_element) * (part.elements / tensor.elements);
    }
  }
}

std::vector<GradientBucket> layer_buckets(const Network& network, const std::vector<int>& layers) {
  std::vector<GradientBucket> buckets;
  for (const int number : layers | std::views::reverse) {
    std::vector<GradientBucket> added = gradient_buckets(network, {number}, Bytes{1}, Bytes{1e300}, Bytes{1e300}, true);
    add_frozen(added, network, number);
    std::ranges::move(added, std::back_inserter(buckets));
  }
  return buckets;
}

}  // namespace trainyard
