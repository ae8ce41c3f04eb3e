#include "strategies/values/layers/layer_shard.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/error.hpp"
#include "sim/index.hpp"

namespace trainyard::numeric {

Draw& Draw::operator<<(const std::string& text) {
  for (const char c : text) *this << static_cast<std::uint64_t>(c);
  return *this;
}

std::vector<Index> span(Index first, Index count) { return consecutive_numbers(first, count); }

std::vector<Index> part(Index count, int index, int parts) {
  if (count % parts != 0) throw InternalError(fmt::format("{} elements are cut into {} parts", count, parts));
  return span(count / parts * index, count / parts);
}

TensorShard TensorShard::cut(Index full_rows, const std::vector<Index>& rows, const std::vector<Index>& columns) {
  TensorShard shard;
  shard.rows = static_cast<Index>(rows.size());
  for (const Index column : columns)
    for (const Index row : rows) shard.numbers.push_back(row < full_rows ? column * full_rows + row : -1);
  return shard;
}

void TensorShard::add(const TensorShard& matrix, Index number, Index full_elements) {
  rows = matrix.rows;
  for (const Index element : matrix.numbers) numbers.push_back(number * full_elements + element);
}

LayerShard::LayerShard(const Layer& layer, const TensorShards& shards, std::uint64_t seed) {
  Index elements = 0;
  for (const ParameterTensor& tensor : layer.parameters) {
    const auto shard = shards.find(tensor.name);
    if (shard == shards.end())
      throw InternalError(fmt::format("{}: values have no tensor {}", layer.name, tensor.name));
    const auto size = static_cast<Index>(shard->second.numbers.size());
    if (size != static_cast<Index>(tensor.elements))
      throw InternalError(
          fmt::format("{}: {} has {} elements, but {} of values", layer.name, tensor.name, tensor.elements, size));
    tensors.push_back({tensor.name, shard->second, elements, tensor.partial});
    elements += size;
  }
  for (const auto& [name, shard] : shards)
    if (!has(name)) throw InternalError(fmt::format("{} has no tensor {}", layer.name, name));
  parameters.setZero(elements);
  gradient.setZero(elements);
  for (const Tensor& tensor : tensors) {
    const TensorShard& s = tensor.shard;
    Draw tensor_draw(seed);
    tensor_draw << s.drawn_as;
    for (std::size_t i = 0; i < s.numbers.size(); ++i)
      if (s.numbers[i] >= 0) {
        Draw draw = tensor_draw;
        draw << static_cast<std::uint64_t>(s.numbers[i]);
        parameters[tensor.first + static_cast<Index>(i)] = s.mean + s.spread * draw.uniform();
      }
  }
}

bool LayerShard::has(const std::string& name) const {
  return std::ranges::find(tensors, name, &Tensor::name) != tensors.end();
}

const LayerShard::Tensor& LayerShard::find(const std::string& name) const {
  const auto found = std::ranges::find(tensors, name, &Tensor::name);
  if (found == tensors.end()) throw InternalError("no tensor is called " + name);
  return *found;
}

Eigen::Map<const Matrix> LayerShard::matrix(const std::string& name, Index number, Index count) const {
  const Tensor& tensor = find(name);
  const Index elements = static_cast<Index>(tensor.shard.numbers.size()) / count;
  return {parameters.data() + tensor.first + number * elements, tensor.shard.rows, elements / tensor.shard.rows};
}

}  // namespace trainyard::numeric
