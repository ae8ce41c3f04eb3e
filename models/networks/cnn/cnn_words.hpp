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
const CnnWord* find_cnn_word(std::string_view);  ///< null if there is none

/// Largest size of one dimension: a double holds products of three such sizes precisely enough.
constexpr std::int64_t kLargestSize = 1 << 24;
/// Reads a size from `least` to `kLargestSize`. It is required if `fallback` is null. Throws UserError with the place.
std::int64_t cnn_size(Fields&, const char* key, std::int64_t least, const std::int64_t* fallback = nullptr);

/// Reads an operator without branches. `figures` is null for a word without figures. Throws UserError with the place.
CnnOperator read_cnn_operator(const CnnWord&, const Node* figures, const Place&);

}  // namespace trainyard
