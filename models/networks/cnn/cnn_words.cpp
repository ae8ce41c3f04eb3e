// The words of a CNN, and the figures of each.
#include "models/networks/cnn/cnn_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace trainyard {
namespace {

constexpr CnnWord kCnnWords[] = {{"conv", CnnKind::conv},
                                 {"batch_norm", CnnKind::batch_norm},
                                 {"relu", CnnKind::activation},
                                 {"sigmoid", CnnKind::activation},
                                 {"tanh", CnnKind::activation},
                                 {"gelu", CnnKind::activation},
                                 {"silu", CnnKind::activation},
                                 {"max_pool", CnnKind::max_pool},
                                 {"avg_pool", CnnKind::avg_pool},
                                 {"adaptive_pool", CnnKind::adaptive_pool},
                                 {"global_pool", CnnKind::global_pool},
                                 {"flatten", CnnKind::flatten},
                                 {"linear", CnnKind::linear},
                                 {"dropout", CnnKind::dropout},
                                 {"local_response_norm", CnnKind::local_response_norm},
                                 {"softmax_cross_entropy", CnnKind::softmax_cross_entropy},
                                 {"residual", CnnKind::residual},
                                 {"concat", CnnKind::concat},
                                 {"auxiliary", CnnKind::auxiliary}};

/// Reads one number for both, or [height, width].
std::array<std::int64_t, 2> height_width(const Node& node, const std::string& what, std::int64_t least) {
  if (node.kind != Node::Kind::list) {
    const std::int64_t both = whole_number(node, what, least, kLargestSize);
    return {both, both};
  }
  if (node.items.size() != 2) fail(node.place, what + ": expected one number, or [height, width]");
  return {whole_number(node.items[0], what, least, kLargestSize),
          whole_number(node.items[1], what, least, kLargestSize)};
}

}  // namespace

std::span<const CnnWord> cnn_words() { return kCnnWords; }

const CnnWord* find_cnn_word(std::string_view word) {
  const auto entry = std::find_if(std::begin(kCnnWords), std::end(kCnnWords),
                                  [&](const CnnWord& w) { return same_name(w.word, word); });
  return entry == std::end(kCnnWords) ? nullptr : entry;
}

std::int64_t cnn_size(Fields& fields, const char* key, std::int64_t least, const std::int64_t* fallback) {
  const std::int64_t value = fallback ? fields.integer(key, least, *fallback) : fields.integer(key, least);
  if (value > kLargestSize) fields.refuse(key, fmt::format("{} is too large; the most is {}", value, kLargestSize));
  return value;
}

CnnOperator read_cnn_operator(const CnnWord& word, const Node* figures, const Place& place) {
  static const Node none;
  Fields fields(figures ? *figures : none, fmt::format("cnn.{}", word.word));
  const auto pair = [&fields](const char* key, std::int64_t least) {
    return height_width(fields.required_child(key), fields.what() + "." + key, least);
  };
  CnnOperator op;
  op.kind = word.kind;
  op.word = word.word;
  op.place = place;
  const std::int64_t one_group = 1;
  if (op.kind == CnnKind::conv || op.kind == CnnKind::linear) {
    if (!figures) fail(place, fmt::format("cnn.{}: missing key \"out\"", word.word));
    op.out = cnn_size(fields, "out", 1);
    op.bias = fields.boolean("bias", true);
  }
  if (op.kind == CnnKind::conv) op.groups = cnn_size(fields, "groups", 1, &one_group);
  if (op.kind == CnnKind::adaptive_pool) op.kernel = pair("out", 1);
  if (op.kind == CnnKind::conv || op.kind == CnnKind::max_pool || op.kind == CnnKind::avg_pool) {
    op.kernel = pair("kernel", 1);
    if (fields.has("stride"))
      op.stride = pair("stride", 1);
    else  // the default stride of pooling is its window
      op.stride = op.kind == CnnKind::conv ? std::array<std::int64_t, 2>{1, 1} : op.kernel;
    const Node* padding = fields.child("padding");
    if (padding && padding->scalar == "same")
      op.pad = {(op.kernel[0] - 1) / 2, (op.kernel[1] - 1) / 2};
    else if (padding)
      op.pad = pair("padding", 0);
  }
  if (op.kind == CnnKind::dropout) op.probability = fields.number("probability", 0, 1, 0.5);
  if (op.kind == CnnKind::local_response_norm)
    cnn_size(fields, "size", 1);  // unused: the summed channels are in the cache
  fields.finish();
  return op;
}

}  // namespace trainyard
