#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "models/networks/cnn/cnn.hpp"

namespace trainyard {

struct CnnWord {
  const char* word;
  CnnKind kind;
};

std::span<const CnnWord> cnn_words();
const CnnWord* find_cnn_word(std::string_view);  ///< null where there is none

/// The largest size of one dimension: products of three fit into a double exactly enough.
constexpr std::int64_t kLargestSize = 1 << 24;
/// A field from `least` to that; required where `fallback` is null. Throws UserError with the place.
std::int64_t cnn_size(Fields&, const char* key, std::int64_t least, const std::int64_t* fallback = nullptr);

/// An operator without branches. `figures` is null where the word stands alone. Throws UserError with the place.
CnnOperator read_cnn_operator(const CnnWord&, const Node* figures, const Place&);

}  // namespace trainyard
