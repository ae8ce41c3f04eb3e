// Reads a CNN from YAML: words, blocks with arguments, repetition.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>

#include "models/networks/cnn/cnn.hpp"

namespace trainyard {
namespace {

struct CnnWord {
  const char* word;
  CnnKind kind;
};

/// Largest size of one dimension: a double holds products of three such sizes precisely enough.
constexpr std::int64_t kLargestSize = 1 << 24;

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

/// Returns null if there is no such word.
const CnnWord* find_cnn_word(std::string_view word) {
  const auto entry = std::find_if(std::begin(kCnnWords), std::end(kCnnWords),
                                  [&](const CnnWord& w) { return same_name(w.word, word); });
  return entry == std::end(kCnnWords) ? nullptr : entry;
}

/// Reads an operator without branches. `figures` is null for a word without figures. Throws UserError with the place.
CnnOperator read_cnn_operator(const CnnWord& word, const Node* figures, const Place& place) {
  static const Node none;
  Fields fields(figures ? *figures : none, fmt::format("cnn.{}", word.word));
  const auto pair = [&fields](const char* key, std::int64_t least) {
    return height_width(fields.required_child(key), fields.path(key), least);
  };
  CnnOperator op;
  op.kind = word.kind;
  op.word = word.word;
  op.place = place;
  if (op.kind == CnnKind::conv || op.kind == CnnKind::linear) {
    if (!figures) fail(place, fmt::format("cnn.{}: missing key \"out\"", word.word));
    op.out = fields.integer_within("out", 1, kLargestSize);
    op.bias = fields.boolean("bias", true);
  }
  if (op.kind == CnnKind::conv) op.groups = fields.integer_within("groups", 1, kLargestSize, 1);
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
    fields.integer_within("size", 1, kLargestSize);  // checked only: the cache has the summed channels already
  fields.finish();
  return op;
}

constexpr std::size_t kMostOperators = 100000;  // all are expanded, and a typing error must not fill the memory
constexpr int kDeepestBlocks = 32;              // deeper nesting of blocks is a cycle

/// Replaces `$name` by the argument of that name, everywhere below `node`.
void substitute(Node& node, const std::vector<std::pair<std::string, Node>>& arguments) {
  if (node.kind == Node::Kind::scalar && node.scalar.starts_with('$')) {
    const std::string name = node.scalar.substr(1);
    for (const auto& [argument, value] : arguments)
      if (same_name(argument, name)) {
        node = value;
        return;
      }
    std::vector<std::string> names;
    for (const auto& argument : arguments) names.push_back(argument.first);
    fail(node.place, fmt::format("no argument \"{}\" here{}", name, names.empty() ? "" : hint(name, names)));
  }
  for (Node& item : node.items) substitute(item, arguments);
  for (auto& field : node.fields) substitute(field.second, arguments);
}

bool mentions(const Node& node, std::string_view argument) {
  if (node.kind == Node::Kind::scalar)
    return node.scalar.starts_with('$') && same_name(node.scalar.substr(1), argument);
  return std::ranges::any_of(node.items, [&](const Node& item) { return mentions(item, argument); }) ||
         std::ranges::any_of(node.fields, [&](const auto& field) { return mentions(field.second, argument); });
}

/// Splits a layer into its word and its figures, which are null if it has none.
std::pair<std::string, const Node*> word_of(const Node& item) {
  if (item.kind == Node::Kind::scalar) return {item.scalar, nullptr};
  if (item.kind == Node::Kind::map && item.fields.size() == 1) return {item.fields[0].first, &item.fields[0].second};
  fail(item.place, "cnn: expected a layer, such as relu or conv: {out: 64, kernel: 3}");
}

class CnnReader {
 public:
  CnnReader(const Node* blocks, bool auxiliary) : auxiliary_(auxiliary) {
    if (!blocks || blocks->kind == Node::Kind::null) return;
    if (blocks->kind != Node::Kind::map) fail(blocks->place, "cnn.blocks: expected a map of blocks by their names");
    for (const auto& [name, node] : blocks->fields) {
      if (find_cnn_word(name)) fail(node.key_place, fmt::format("cnn.blocks: \"{}\" is the name of a layer", name));
      Fields fields(node, "cnn.blocks." + name);
      const Node* arguments = fields.child("arguments");
      if (arguments && arguments->kind != Node::Kind::map)
        fail(arguments->place,
             fmt::format("cnn.blocks.{}.arguments: expected names, such as {{out, stride: 1}}", name));
      if (arguments && arguments->find("repeat"))
        fail(arguments->find("repeat")->key_place,
             "cnn.blocks: every block has \"repeat\", so no argument is called so");
      blocks_.emplace_back(name, Block{arguments, &fields.required_child("layers")});
      fields.finish();
      if (!arguments) continue;
      for (const auto& [argument, fallback] : arguments->fields) {
        if (fallback.kind == Node::Kind::map)
          fail(fallback.place,
               fmt::format("cnn.blocks.{}: argument \"{}\": expected a value or a list", name, argument));
        if (!mentions(*blocks_.back().second.layers, argument))
          fail(fallback.key_place, fmt::format("cnn.blocks.{}: nothing uses the argument \"{}\"", name, argument));
      }
    }
  }

  std::vector<CnnLayer> layers(const Node& list) {
    if (list.kind != Node::Kind::list) fail(list.place, "cnn.layers: expected a list of layers");
    std::vector<CnnLayer> layers;
    std::vector<std::pair<std::string, int>> counts;  // number of layers that each word has begun
    const auto begin = [&](const std::string& word) {
      auto count = std::ranges::find_if(counts, [&](const auto& c) { return c.first == word; });
      if (count == counts.end()) count = counts.insert(counts.end(), {word, 0});
      layers.push_back({fmt::format("{} {}", word, ++count->second), {}});
    };
    for (Node item : list.items) {
      substitute(item, {});
      const auto [word, figures] = word_of(item);
      const Block* block = find_block(word);
      Node one_use = item;
      std::int64_t repeat = 1;
      if (block && figures && figures->find("repeat")) {  // each repetition is a separate layer
        repeat = whole_number(*figures->find("repeat"), "cnn." + word + ".repeat", 1, kLargestSize);
        std::erase_if(one_use.fields[0].second.fields, [](const auto& field) { return field.first == "repeat"; });
      }
      const CnnWord* cnn_word = block ? nullptr : find_cnn_word(word);
      const bool begins =
          block || (cnn_word && (cnn_word->kind == CnnKind::conv || cnn_word->kind == CnnKind::linear ||
                                 cnn_word->kind == CnnKind::residual || cnn_word->kind == CnnKind::concat));
      const bool auxiliary = cnn_word && cnn_word->kind == CnnKind::auxiliary;
      for (std::int64_t i = 0; i < repeat; ++i) {
        if (begins || (auxiliary && auxiliary_) || layers.empty()) begin(word);
        append(layers.back().operators, one_use, 0);
      }
    }
    return layers;
  }

 private:
  struct Block {
    const Node* arguments;  ///< may be null
    const Node* layers;
  };

  void count_operator(const Node& item) {
    if (++operators_ > kMostOperators)
      fail(item.place, fmt::format("cnn: with its blocks laid out it has over {} layers", kMostOperators));
  }

  const Block* find_block(const std::string& word) const {
    for (const auto& [name, block] : blocks_)
      if (same_name(name, word)) return &block;
    return nullptr;
  }

  std::vector<CnnOperator> list_of(const Node& list, const std::string& what, int depth) {
    if (list.kind != Node::Kind::list) fail(list.place, fmt::format("{}: expected a list of layers", what));
    std::vector<CnnOperator> operators;
    for (const Node& item : list.items) append(operators, item, depth);
    return operators;
  }

  void append(std::vector<CnnOperator>& operators, const Node& item, int depth) {
    const auto [word, figures] = word_of(item);
    count_operator(item);
    if (const Block* block = find_block(word)) return append_block(operators, word, *block, figures, item, depth);
    const CnnWord* cnn_word = find_cnn_word(word);
    if (!cnn_word) {
      std::vector<std::string> names;
      for (const CnnWord& w : kCnnWords) names.emplace_back(w.word);
      for (const auto& block : blocks_) names.push_back(block.first);
      fail(item.place, fmt::format("cnn: unknown layer \"{}\"{}", word, hint(word, names)));
    }
    if (cnn_word->kind == CnnKind::auxiliary && !auxiliary_) return;
    if (cnn_word->kind != CnnKind::residual && cnn_word->kind != CnnKind::concat &&
        cnn_word->kind != CnnKind::auxiliary) {
      operators.push_back(read_cnn_operator(*cnn_word, figures, item.place));
      return;
    }
    CnnOperator op;
    op.kind = cnn_word->kind;
    op.word = cnn_word->word;
    op.place = item.place;
    branches(op, figures, depth);
    operators.push_back(std::move(op));
  }

  void append_block(std::vector<CnnOperator>& operators, const std::string& word, const Block& block,
                    const Node* figures, const Node& item, int depth) {
    if (depth >= kDeepestBlocks) fail(item.place, fmt::format("cnn: block {} is used in itself", word));
    static const Node none;
    Fields fields(figures ? *figures : none, "cnn." + word);
    const std::int64_t repeat = fields.integer_within("repeat", 1, kLargestSize, 1);
    std::vector<std::pair<std::string, Node>> arguments;
    if (block.arguments)
      for (const auto& [name, fallback] : block.arguments->fields) {
        const Node* value = fields.child(name);
        if (!value && fallback.kind == Node::Kind::null)
          fail(item.place, fmt::format("cnn.{}: missing argument \"{}\"", word, name));
        arguments.emplace_back(name, value ? *value : fallback);
      }
    fields.finish();
    Node layers = *block.layers;
    substitute(layers, arguments);
    for (std::int64_t i = 0; i < repeat; ++i) {
      count_operator(item);  // a block may have no layers
      for (CnnOperator& op : list_of(layers, "cnn.blocks." + word, depth + 1)) operators.push_back(std::move(op));
    }
  }

  void branches(CnnOperator& op, const Node* figures, int depth) {
    const std::string what = "cnn." + op.word;
    if (!figures) fail(op.place, what + ": expected its layers");
    if (op.kind == CnnKind::residual && figures->kind == Node::Kind::map) {
      Fields fields(*figures, what);
      op.branches = {list_of(fields.required_child("layers"), what + ".layers", depth), {}};
      if (fields.has("shortcut")) op.branches[1] = list_of(*fields.child("shortcut"), what + ".shortcut", depth);
      fields.finish();
    } else if (op.kind == CnnKind::residual) {
      op.branches = {list_of(*figures, what, depth), {}};
    } else if (op.kind == CnnKind::auxiliary) {
      op.branches = {list_of(*figures, what, depth)};
    } else {
      if (figures->kind != Node::Kind::list) fail(figures->place, what + ": expected a list of branches");
      for (const Node& branch : figures->items) op.branches.push_back(list_of(branch, what, depth));
      if (op.branches.size() < 2) fail(figures->place, what + ": expected two branches or more");
    }
    if (op.kind != CnnKind::concat && op.branches[0].empty()) fail(figures->place, what + ": expected a layer or more");
  }

  std::vector<std::pair<std::string, Block>> blocks_;
  bool auxiliary_;
  std::size_t operators_ = 0;
};

}  // namespace

Cnn read_cnn(const Node& node, std::string name, std::string source) {
  Fields fields(node, "cnn");
  Cnn cnn;
  cnn.name = std::move(name);
  cnn.source = std::move(source);
  const Node& input = fields.required_child("input");
  if (input.kind != Node::Kind::list || input.items.size() != 3)
    fail(input.place, "cnn.input: expected [channels, height, width]");
  cnn.input.channels = whole_number(input.items[0], "cnn.input", 1, kLargestSize);
  cnn.input.height = whole_number(input.items[1], "cnn.input", 1, kLargestSize);
  cnn.input.width = whole_number(input.items[2], "cnn.input", 1, kLargestSize);
  if (cnn.input.elements() > kMostCnnElements) fail(input.place, "cnn.input: too many elements");
  const Node* blocks = fields.child("blocks");
  const bool auxiliary = fields.boolean("auxiliary", true);
  const Node& layers = fields.required_child("layers");
  fields.finish();
  cnn.layers = CnnReader(blocks, auxiliary).layers(layers);
  if (cnn.layers.empty() || cnn.layers.back().operators.empty() ||
      cnn.layers.back().operators.back().kind != CnnKind::softmax_cross_entropy)
    fail(layers.place, "cnn.layers: expected softmax_cross_entropy, the loss, as the last layer");
  infer_shapes(cnn);
  return cnn;
}

}  // namespace trainyard
