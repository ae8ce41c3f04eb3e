#pragma once
#include <set>
#include <string>
#include <vector>

#include "models/networks/transformers/layout.hpp"
#include "models/networks/transformers/operator_lists.hpp"

namespace trainyard::transformers {

/// Facts that the layers of a listed network have in common.
struct ListedNetwork {
  const TransformerLayout& layout;
  TransformerOptions local;  ///< the options without context ranks and sequence parallelism: every rank has these rows
  SizeValues sizes;
};

/// Builds one layer from its operators, with the parts of the built-in families. With sequence parallelism, operators
/// between two products with `split` (columns, then rows), and those after `gather`, have the tokens of all tensor ranks;
/// all others have the rank's own, so that the gradients of their weights are summands.
class ListedLayerBuilder {
 public:
  ListedLayerBuilder(const ListedNetwork&, const ListedLayer&, const std::string& name);

  /// `input`: bytes of the layer's input.
  Layer build(Bytes input) &&;

 private:
  using Operators = std::vector<ListedOperator>;

  const ListedNetwork& network_;
  const TransformerLayout& l_;
  const ListedLayer& layer_;
  LayerBuilder b_;
  TransformerConfig config_;  ///< that of the current branch; its hidden size is that of the current operator
  bool is_gathered_ = false;  ///< after `gather`, before the next product with split: rows
  Readers readers_ = Readers::products;           ///< readers of the input of the newest product by columns
  bool is_last_ = false;                          ///< the current operator is the last one of a residual
  std::set<const ListedOperator*> feed_forward_;  ///< operators of feed-forward parts between tensor ranks' exchanges

  double value(const std::string& formula, const Place&) const;
  double size(const ListedOperator& op, std::string_view key) const {
    return value(op.sizes.find(key)->second, op.place);
  }
  double size(const ListedOperator& op, std::string_view key, double fallback) const {
    return op.states(key) ? size(op, key) : fallback;
  }
  double rows_of_sample(const ListedOperator& op) const { return size(op, "rows", network_.sizes.at("tokens")); }
  /// Number of ranks that divide a size of the operator.
  double shares(const ListedOperator& op) const { return op.split == "columns" ? l_.tensor() : 1; }
  bool is_block() const { return layer_.repeat > 0; }
  /// Layout of an operator's rows, of `hidden` elements. It refers to `config_`.
  TransformerLayout layout_of(const ListedOperator&, double hidden);
  TransformerLayout layout_of(const ListedOperator& op) { return layout_of(op, size(op, "width", 0)); }

  void set_rows(const ListedOperator&, bool has_all_tokens);
  Bytes output();
  void find_feed_forward(const Operators&);
  void add_all(const Operators&, bool is_branch);
  void add(const Operators&, std::size_t& index);
  void residual(const ListedOperator&);
  void hyper_connection(const ListedOperator&);

  // Products and what stands between them (listed_products.cpp).
  void linear(const Operators&, std::size_t& index);
  void norm(const Operators&, std::size_t index);
  void activate(const ListedOperator&);
  void attend(const ListedOperator&);
  void embed(const ListedOperator&);
  void concatenate_gradients(const std::string& name, double width);

  // Operators of one or a few kernels.
  void add_kernels(const ListedOperator&, Bytes forward, std::vector<BackwardKernel> backward,
                   std::vector<KeptTensor> kept_tensors, Bytes live);
  BackwardKernel gradient(const std::string& name, Bytes moved) const {
    return {elementwise(name, moved, l_.precision), {}};
  }
  void plain_norm(const ListedOperator&);
  void scale(const ListedOperator&);
  void multiply(const ListedOperator&);
  void learned(const ListedOperator&);
  void tables(const ListedOperator&);
  void interaction(const ListedOperator&);
  void mean_squared_error(const ListedOperator&);
};

/// Do all context and tensor ranks have the rows of the operator?
bool is_on_every_rank(const ListedOperator&);
/// Is the operator a norm of whole rows?
bool is_norm(const ListedOperator&);
bool is_after_norm(const std::vector<ListedOperator>&, std::size_t index);

}  // namespace trainyard::transformers
