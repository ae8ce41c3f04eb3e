#include "strategies/compression/compressor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "models/reading/document.hpp"

namespace trainyard {
namespace {

constexpr const char* kWhat = "plan.data_parallel.compression";

/// Refuses keys of other compressors. The error names the compressors that have the key.
void refuse_keys_of_others(const Node& map, const CompressorKind& kind) {
  for (const auto& [key, value] : map.fields) {
    if (key == "name" || std::ranges::find(kind.keys, key) != kind.keys.end()) continue;
    std::vector<std::string> owners;
    for (const std::string& name : compressors().names()) {
      const std::vector<std::string>& keys = compressors().find(name, {}).keys;
      if (std::ranges::find(keys, key) != keys.end()) owners.push_back(name);
    }
    if (!owners.empty())
      fail(value.key_place,
           fmt::format("{}.{}: a key of {}, not of {}", kWhat, key, fmt::join(owners, ", "), kind.name));
  }
}

/// Returns the result of the exchange on each rank.
std::vector<std::vector<double>> exchange_results(Operation operation,
                                                  const std::vector<std::vector<double>>& payloads) {
  std::vector<double> all;
  std::vector<std::vector<double>> results(payloads.size());
  if (operation == Operation::all_to_all) {
    const std::size_t block = payloads.front().size() / payloads.size();
    for (std::size_t to = 0; to < results.size(); ++to)
      for (const std::vector<double>& payload : payloads)
        results[to].insert(results[to].end(), payload.begin() + static_cast<std::ptrdiff_t>(to * block),
                           payload.begin() + static_cast<std::ptrdiff_t>((to + 1) * block));
    return results;
  }
  for (const std::vector<double>& payload : payloads)
    if (operation == Operation::all_gather || all.empty())
      all.insert(all.end(), payload.begin(), payload.end());
    else
      std::transform(all.begin(), all.end(), payload.begin(), all.begin(), std::plus<>());
  results.assign(payloads.size(), all);
  return results;
}

}  // namespace

double GradientShape::elements() const {
  double sum = 0;
  for (const GradientMatrix& part : parts) sum += part.elements();
  return sum;
}

Registry<CompressorKind>& compressors() {
  static Registry<CompressorKind> all("compressor");
  return all;
}

std::shared_ptr<const Compressor> read_compressor(const Node& node) {
  const Node map = long_form(&node, "name", node.place);
  Fields fields(map, kWhat);
  const std::string name =
      fields.text({"name", "Name of the compressor of gradients, for example top-k (trainyard list compressors)."});
  const CompressorKind& kind = compressors().find(name, fields.place_of("name"));
  refuse_keys_of_others(map, kind);
  std::shared_ptr<const Compressor> compressor = kind.read(fields);
  fields.finish();
  return compressor;
}

std::vector<double> compressed_sum(const Compressor& compressor, const GradientShape& shape,
                                   std::span<const std::unique_ptr<GradientCodec>> codecs,
                                   std::span<const std::vector<double>> gradients) {
  std::vector<std::vector<double>> results(gradients.begin(), gradients.end());
  int number = 0;
  for (const CompressionRound& round : compressor.compress(shape).rounds) {
    std::vector<std::vector<double>> payloads;
    for (std::size_t rank = 0; rank < codecs.size(); ++rank)
      payloads.push_back(codecs[rank]->encode(number, results[rank]));
    results = exchange_results(round.operation, payloads);
    ++number;
  }
  std::vector<double> sum;
  for (std::size_t rank = 0; rank < codecs.size(); ++rank) sum = codecs[rank]->decode(results[rank]);
  return sum;
}

std::string share_in_words(double share) { return fmt::format("{:.4g} %", share * 100); }

bool read_error_feedback(Fields& fields) {
  return fields.boolean(
      {"error_feedback", "Whether each rank adds what it did not send to its next gradient. Default: true."}, true);
}

double read_density(Fields& fields) {
  const double density = fields.number(
      {"density", "Fraction of the gradient elements that each rank sends, above 0 and up to 1, for example 0.001."}, 0,
      1);
  if (density == 0)
    fail(fields.place_of("density"),
         fmt::format("{}.density: 0 sends nothing; expected a number above 0, up to 1", kWhat));
  return density;
}

double chosen_elements(double density, double elements) {
  return std::clamp(std::round(density * elements), std::min(1.0, elements), elements);
}

KernelCall moves(std::string name, double bytes) { return elementwise(std::move(name), Bytes{bytes}, Precision::fp32); }

Bytes residual_size(const GradientShape& shape, bool feedback) {
  return Bytes{feedback ? shape.elements() * kResidualBytes : 0};
}

const char* feedback_in_words(bool feedback) { return feedback ? "error feedback" : "no error feedback"; }

std::vector<double> zeros(const GradientShape& shape) {
  return std::vector<double>(static_cast<std::size_t>(shape.elements()), 0.0);
}

KernelCall add_residual(const GradientShape& shape) {
  return moves("add residual", shape.elements() * (shape.element.value + 2 * kResidualBytes));
}

}  // namespace trainyard
