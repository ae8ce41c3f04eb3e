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

// Whole numbers from `least` to the largest size of one dimension. Both throw UserError with the place.
/// A field; required where `fallback` is null.
std::int64_t cnn_size(Fields&, const char* key, std::int64_t least, const std::int64_t* fallback = nullptr);
std::int64_t cnn_size_of(const Node&, const std::string& what, std::int64_t least);

/// An operator without branches. `figures` is null where the word stands alone. Throws UserError with the place.
CnnOperator read_cnn_operator(const CnnWord&, const Node* figures, const Place&);

}  // namespace trainyard
