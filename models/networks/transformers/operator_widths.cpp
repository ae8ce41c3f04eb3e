// Compares the widths of rows between the operators of a network that is written as data.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "models/networks/transformers/operator_lists.hpp"

namespace trainyard {
namespace {

/// The tensors that operators give to the next one.
struct Flow {
  double rows = 0;            ///< rows of a sample
  std::vector<double> parts;  ///< elements in a row of each tensor; empty: not known
  bool split = false;         ///< a tensor rank has a part of each row
  std::string from;           ///< name of the operator that gave them
  double shared = 0;          ///< elements of the input that later products with `shares_input` read; 0: not known

  double width() const { return std::accumulate(parts.begin(), parts.end(), 0.0); }
  std::string text() const {
    return parts.size() > 1 ? fmt::format("{:.10g} ({:.10g})", width(), fmt::join(parts, " + "))
                            : fmt::format("{:.10g}", width());
  }
};

/// Follows the rows through lists of operators.
class WidthCheck {
 public:
  explicit WidthCheck(const SizeValues& sizes) : sizes_(sizes) {}

  void pass_layer(const ListedLayer& layer) {
    for (const ListedOperator& op : layer.operators) pass(op);
    const double rows = value(layer.rows, layer.place);
    if (layer.width.empty()) return give(rows, {}, layer.name);
    const double width = value(layer.width, layer.place);
    if (rows == flow_.rows && !flow_.parts.empty() && flow_.width() != width)
      fail(layer.place, fmt::format("model.layers: the width of layer {} is {:.10g}, and {} at its end gives {}",
                                    layer.name, width, flow_.from, flow_.text()));
    give(rows, {width}, "layer " + layer.name);
  }

 private:
  const SizeValues& sizes_;
  Flow flow_;

  double value(const std::string& formula, const Place& place) const {
    return size_value(formula, sizes_, place, "model.layers");
  }
  double size(const ListedOperator& op, std::string_view key) const {
    return value(op.sizes.find(key)->second, op.place);
  }
  double size(const ListedOperator& op, std::string_view key, double fallback) const {
    return op.states(key) ? size(op, key) : fallback;
  }
  void give(double rows, std::vector<double> parts, const std::string& from, bool split = false) {
    flow_ = {rows, std::move(parts), split, from, 0};
  }
  void give(const ListedOperator& op, std::vector<double> parts) {
    give(flow_.rows, std::move(parts), op.name, op.split == "columns");
  }

  [[noreturn]] void refuse(const ListedOperator& op, double width, const std::string& what) const {
    fail(op.place, fmt::format("model.layers: {} reads rows of {:.10g} elements ({}), and {} before it gives {}",
                               op.name, width, what, flow_.from, flow_.text()));
  }
  std::string stated(const ListedOperator& op, std::string_view key) const {
    return fmt::format("{}: {}", key, op.sizes.find(key)->second);
  }

  /// Checks that a tensor rank has a part of the rows, or whole rows.
  void require_split(const ListedOperator& op, bool split) const {
    if (flow_.parts.empty() || flow_.split == split) return;
    const char *part = "a tensor rank's part of a row", *rows = "whole rows";
    fail(op.place, fmt::format("model.layers: {} reads {}, and {} before it gives {}; expected {}", op.name,
                               split ? part : rows, flow_.from, split ? rows : part,
                               split                 ? "split: columns before it"
                               : op.word == "linear" ? "split: rows"
                                                     : "split: columns, or a product with split: rows before it"));
  }

  void require(const ListedOperator& op, std::string_view key) const {
    if (const double width = size(op, key); !flow_.parts.empty() && flow_.width() != width)
      refuse(op, width, stated(op, key));
  }

  /// The operator reads all tensors or one of them, and `out` elements take the place of what it reads.
  void replace(const ListedOperator& op, double in, double out, const std::string& what) {
    if (flow_.parts.empty()) return;
    const double half = in / 2;  // two tensors of equal width, such as a gate and its factor
    if (flow_.width() == in) return give(op, {out});
    if (const auto part = std::ranges::find(flow_.parts, in); part != flow_.parts.end()) {
      *part = out;
    } else if (std::ranges::count(flow_.parts, half) > 1 && out == half) {
      flow_.parts.erase(std::ranges::find(flow_.parts, half));
    } else {
      refuse(op, in, what);
    }
  }
  void replace(const ListedOperator& op) {
    require_split(op, op.split == "columns");
    replace(op, size(op, "width"), size(op, "width"), stated(op, "width"));
  }

  void linear(const ListedOperator& op) {
    const double in = size(op, "in"), out = size(op, "out");
    if (op.is("shares_input")) {
      if (flow_.shared > 0 && flow_.shared != in)
        fail(op.place, fmt::format("model.layers: {} reads rows of {:.10g} elements ({}), and the product whose input "
                                   "it shares reads {:.10g}",
                                   op.name, in, stated(op, "in"), flow_.shared));
      if (flow_.parts.empty()) return;
      flow_.parts.push_back(out);
      flow_.from = op.name;
      return;
    }
    std::vector<double> parts;
    if (!op.is("first")) {
      const auto part = std::ranges::find(flow_.parts, in);
      if (flow_.parts.size() > 1 && part != flow_.parts.end() && flow_.width() != in) {  // through a low rank
        flow_.parts.erase(part);
        parts = flow_.parts;
      } else {
        require_split(op, op.split == "rows" || (op.split == "columns" && op.states("groups")));
        require(op, "in");
      }
    }
    parts.push_back(out);
    give(op, std::move(parts));
    flow_.shared = in;
  }

  void attention(const ListedOperator& op) {
    const double width = size(op, "width"), heads = size(op, "heads"),
                 key_value_heads = size(op, "key_value_heads", heads), value_width = size(op, "value", width);
    const double keys = op.states("keys") ? 0 : key_value_heads * (width + value_width);
    const double read = heads * (width + (op.is("gate") ? value_width : 0)) + keys;
    const bool split = flow_.split;
    if (flow_.parts.empty()) return;
    if (flow_.width() < read || (flow_.parts.size() == 3 && flow_.width() != read))
      refuse(op, read,
             fmt::format("{:.10g} heads of queries{} and {:.10g} of keys and values, of {:.10g}", heads,
                         op.is("gate") ? " with their gates" : "", op.states("keys") ? 0 : key_value_heads, width));
    std::vector<double> parts{heads * value_width};
    if (flow_.width() > read) parts.push_back(flow_.width() - read);
    give(flow_.rows, std::move(parts), op.name, split);
  }

  void residual(const ListedOperator& op) {
    require(op, "width");
    require_split(op, false);
    const double width = size(op, "width"), rows = flow_.rows;
    if (flow_.parts.empty()) give(rows, {width}, op.name);
    for (const ListedOperator& inner : op.operators) pass(inner);
    if (flow_.rows == rows && !flow_.parts.empty() && flow_.width() != width)
      fail(op.place,
           fmt::format(
               "model.layers: the branch of {} is added to rows of {:.10g} elements ({}), and {} at its end gives {}",
               op.name, width, stated(op, "width"), flow_.from, flow_.text()));
    give(rows, {width}, op.name);
  }

  void hyper_connection(const ListedOperator& op) {
    const double width = size(op, "width"), streams = size(op, "streams"), rows = flow_.rows;
    require_split(op, false);
    if (!flow_.parts.empty() && flow_.width() != streams * width)
      refuse(op, streams * width, stated(op, "streams") + " x " + stated(op, "width"));
    give(rows, {width}, op.name);
    for (const ListedOperator& inner : op.operators) pass(inner);
    if (flow_.rows == rows && !flow_.parts.empty() && flow_.width() != width)
      fail(op.place,
           fmt::format("model.layers: the branch of {} gives rows of {:.10g} elements ({}) to the streams, and "
                       "{} at its end gives {}",
                       op.name, width, stated(op, "width"), flow_.from, flow_.text()));
    give(rows, {streams * width}, op.name);
  }

  void norm(const ListedOperator& op) {
    const double heads = size(op, "heads", 1), read = heads * size(op, "width");
    if (heads == 1) return replace(op);
    require_split(op, op.split == "columns");
    if (!flow_.parts.empty() && read > flow_.width()) refuse(op, read, fmt::format("{:.10g} heads", heads));
  }

  void pass(const ListedOperator& op) {
    if (const double rows = size(op, "rows", sizes_.at("tokens")); rows != flow_.rows) give(rows, {}, "");
    const std::string& word = op.word;
    if (word == "linear") return linear(op);
    if (word == "layer_norm" || word == "rms_norm") return norm(op);
    if (word == "attention") return attention(op);
    if (word == "residual") return residual(op);
    if (word == "hyper_connection") return hyper_connection(op);
    if (word == "indexer") return;  // its keys and queries stand beside what attention reads
    if (word == "convolution_2d") {
      require_split(op, false);
      require(op, "in");
      return give(op, {size(op, "out")});
    }
    if (word == "activation" && op.is("gated")) {
      require_split(op, op.split == "columns");
      return replace(op, 2 * size(op, "width"), size(op, "width"), "2 x " + stated(op, "width"));
    }
    if (word == "rotary") {
      require_split(op, op.split == "columns");
      if (!flow_.parts.empty() && size(op, "width") > flow_.width()) refuse(op, size(op, "width"), stated(op, "width"));
      return;
    }
    if (word == "move" || word == "kernel") {
      require_split(op, op.split == "columns");
      if (op.states("in")) require(op, "in");
      return give(op, op.states("out") ? std::vector<double>{size(op, "out")} : std::vector<double>{});
    }
    if (word == "embedding") return give(flow_.rows, {size(op, "width")}, op.name);
    if (word == "cross_entropy") return require(op, "classes");
    if (word == "tables") {
      for (const ListedOperator& inner : op.operators) pass(inner);
      return give(op, {});
    }
    if (word == "interaction" || word == "exchange") return give(op, {});
    if (op.states("width")) replace(op);
  }
};

}  // namespace

void check_widths(const OperatorLists& lists, const SizeValues& sizes) {
  WidthCheck check(sizes);
  for (const ListedLayer& layer : lists.layers)
    for (std::int64_t i = 0; i < std::clamp<std::int64_t>(layer.repeat, 1, 2); ++i) check.pass_layer(layer);
}

}  // namespace trainyard
