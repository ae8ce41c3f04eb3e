#include "models/networks/layers/fp8_products.hpp"

#include "models/reading/document.hpp"

namespace trainyard {

const std::vector<std::string>& fp8_scalings() {
  static const std::vector<std::string> words{"delayed", "current", "row", "block"};
  return words;
}

Fp8Scaling parse_fp8_scaling(const std::string& word) {
  return static_cast<Fp8Scaling>(place_of_word("scaling of fp8", word, fp8_scalings()));
}

Precision format_of(Fp8Scaling scaling) {
  switch (scaling) {
    case Fp8Scaling::mxfp6:
      return Precision::fp6;
    case Fp8Scaling::mxfp4:
    case Fp8Scaling::nvfp4:
      return Precision::fp4;
    default:
      return Precision::fp8;
  }
}

std::string narrower_than_fp8(Fp8Scaling scaling) {
  if (scaling == Fp8Scaling::nvfp4) return "nvfp4";
  if (scaling == Fp8Scaling::mxfp4) return "mxfp4";
  return scaling == Fp8Scaling::mxfp6 ? "mxfp6" : "";
}

Bytes Fp8Products::element() const {
  const Bytes bare = element_size(format()), scale{1};
  if (format() == Precision::fp8) return bare;
  return bare + scale / (scaling == Fp8Scaling::nvfp4 ? 16.0 : 32.0);
}

Bytes Fp8Products::scales() const { return is_used && scaling == Fp8Scaling::block ? Bytes{1.0 / 32} : Bytes{}; }

Bytes Fp8Products::weight_copies() const { return is_used && format() != Precision::fp8 ? element() * 2 : Bytes{}; }

Bytes Fp8Products::cast_traffic(double elements, Bytes source, bool both) const {
  const Bytes written = element() * elements;
  if (!both) return source + written;
  switch (scaling) {
    case Fp8Scaling::row:  // columns have other scales than rows: a second pass
      return (source + written) * 2;
    case Fp8Scaling::block:
    case Fp8Scaling::mxfp6:
    case Fp8Scaling::mxfp4:
    case Fp8Scaling::nvfp4:  // blocks along both dimensions are written in one pass over a tile
      return source + written * 2;
    default:
      return any_layout ? source + written : source + written * 2;
  }
}

Bytes Fp8Products::transpose_traffic(double elements) const {
  const bool one_copy = any_layout && (scaling == Fp8Scaling::delayed || scaling == Fp8Scaling::current);
  return one_copy ? Bytes{} : element() * (2 * elements);
}

}  // namespace trainyard
