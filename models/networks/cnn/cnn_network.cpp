// Builds the layers of a CNN as kernels.
#include "models/networks/cnn/cnn_layer.hpp"
#include "models/networks/layers/sharding_error.hpp"

namespace trainyard {

Network cnn_network(const Cnn& cnn, std::int64_t micro_batch_size, Precision precision, const Fusions& fusions,
                    const Sharding& sharding) {
  require_tensor_alone(sharding, "a convolutional network");
  check_micro_batch_size(micro_batch_size);
  Network network;
  network.name = cnn.name;
  network.source = cnn.source;
  network.precision = precision;
  network.samples = micro_batch_size;
  network.weights_reused = true;
  std::vector<bool> kept{false};
  CnnFeature feature{cnn.input.elements(), 0, false, false};
  for (const CnnLayer& layer : cnn.layers) {
    CnnLayerBuilder builder(layer.name, static_cast<double>(micro_batch_size), precision, fusions, sharding, kept);
    const Bytes input = builder.bytes(feature.width);
    feature = builder.run(layer.operators, feature);
    const bool last = &layer == &cnn.layers.back();
    const Bytes output = last ? Bytes{} : builder.bytes(feature.width);
    network.layers.push_back(std::move(builder).build(output, input));
  }
  return network;
}

}  // namespace trainyard
