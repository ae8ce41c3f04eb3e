#include "strategies/compression/compressor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainyard {
namespace {

constexpr const char* kWhat = "plan.data_parallel.compression";

/// A key that another compressor has is named so.
void refuse_keys_of_others(const Node& map, const CompressorKind& kind) {
  for (const auto& [key, value] : map.fields) {
    if (key == "name" || std::find(kind.keys.begin(), kind.keys.end(), key) != kind.keys.end()) continue;
    std::vector<std::string> owners;
    for (const std::string& name : compressors().names()) {
      const std::vector<std::string>& keys = compressors().find(name, {}).keys;
      if (std::find(keys.begin(), keys.end(), key) != keys.end()) owners.push_back(name);
    }
    if (!owners.empty())
      fail(value.key_place, fmt::format("{}.{}: not of {}, but of {}", kWhat, key, kind.name, fmt::join(owners, ", ")));
  }
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
  Node map = node;
  if (node.kind == Node::Kind::scalar) {
    map = Node::empty_map(node.place);
    map.fields.emplace_back("name", node);
  }
  Fields fields(map, kWhat);
  const std::string name = fields.text("name");
  const CompressorKind& kind = compressors().find(name, fields.place_of("name"));
  refuse_keys_of_others(map, kind);
  std::shared_ptr<const Compressor> compressor = kind.read(fields);
  fields.finish();
  return compressor;
}

std::vector<double> compressed_sum(const Compressor& compressor, const GradientShape& shape,
                                   std::span<const std::unique_ptr<GradientCodec>> of_ranks,
                                   std::span<const std::vector<double>> gradients) {
  const std::vector<CompressionRound> rounds = compressor.compress(shape).rounds;
  std::vector<double> left;
  for (int round = 0; round < static_cast<int>(rounds.size()); ++round) {
    std::vector<double> all;
    for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
      const std::vector<double> own = of_ranks[rank]->encode(round, round == 0 ? gradients[rank] : left);
      if (rounds[static_cast<std::size_t>(round)].operation == Operation::all_gather)
        all.insert(all.end(), own.begin(), own.end());
      else if (rank == 0)
        all = own;
      else
        std::transform(all.begin(), all.end(), own.begin(), all.begin(), std::plus<>());
    }
    left = std::move(all);
  }
  std::vector<double> sum;
  for (const auto& codec : of_ranks) sum = codec->decode(left);
  return sum;
}

std::string share_in_words(double share) { return fmt::format("{:.4g} %", share * 100); }

double read_density(Fields& fields) {
  const double density = fields.number("density", 0, 1);
  if (density == 0)
    fail(fields.place_of("density"), fmt::format("{}.density: 0 sends nothing; over 0, up to 1", kWhat));
  return density;
}

double chosen_elements(double density, double elements) {
  return std::clamp(std::round(density * elements), std::min(1.0, elements), elements);
}

KernelCall moves(std::string name, double bytes) { return elementwise(std::move(name), Bytes{bytes}, Precision::fp32); }

KernelCall add_residual(const GradientShape& shape) {
  return moves("add residual", shape.elements() * (shape.element.value + 2 * kResidualBytes));
}

}  // namespace trainyard
