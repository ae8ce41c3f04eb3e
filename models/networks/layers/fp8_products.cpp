#include "models/networks/layers/fp8_products.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/hardware/gpu.hpp"
#include "models/reading/document.hpp"
#include "sim/error.hpp"

namespace trainyard {

const std::vector<std::string>& fp8_scalings() {
  static const std::vector<std::string> words{"delayed", "current", "row", "block"};
  return words;
}

Fp8Scaling parse_fp8_scaling(const std::string& word) {
  return static_cast<Fp8Scaling>(place_of_word("scaling of fp8", word, fp8_scalings()));
}

Bytes Fp8Products::cast_traffic(double elements, Bytes source, bool both) const {
  const Bytes written = element_size(Precision::fp8) * elements;
  if (!both) return source + written;
  switch (scaling) {
    case Fp8Scaling::row:  // columns have other scales than rows: a second pass
      return (source + written) * 2;
    case Fp8Scaling::block:  // blocks along both dimensions are written in one pass over a tile
      return source + written * 2;
    default:
      return any_layout ? source + written : source + written * 2;
  }
}

Bytes Fp8Products::transpose_traffic(double elements) const {
  const bool one_copy = any_layout && (scaling == Fp8Scaling::delayed || scaling == Fp8Scaling::current);
  return one_copy ? Bytes{} : element_size(Precision::fp8) * (2 * elements);
}

}  // namespace trainyard
