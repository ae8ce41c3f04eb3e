#pragma once
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/reading/document.hpp"

namespace trainyard {

/// Values of the named sizes of a network, for one length of its sequences.
using SizeValues = std::map<std::string, double, std::less<>>;

/// An operator of a network that is written as data, with the expressions of its sizes.
struct ListedOperator {
  std::string word;   ///< kind: "linear", "attention"
  std::string name;   ///< name of its kernels and tensors
  std::string split;  ///< "columns" or "rows": the part of a tensor rank; "": the rank has all of it
  Place place;
  std::map<std::string, std::string, std::less<>> sizes;  ///< stated sizes by key
  std::set<std::string, std::less<>> flags;               ///< keys whose value is true
  std::map<std::string, std::string> words;               ///< chosen words by key
  std::vector<ListedOperator> operators;  ///< the branch of a residual, or those beside the exchange of tables

  bool states(std::string_view key) const { return sizes.find(key) != sizes.end(); }
  bool is(std::string_view flag) const { return flags.find(flag) != flags.end(); }
};

/// Operators between two places at which the network can be cut.
struct ListedLayer {
  std::string name;
  Place place;
  std::int64_t repeat = 0;  ///< number of equal layers in a row, the blocks; 0: a single layer, which is no block
  std::string width, rows;  ///< elements in a row of the output, and rows of a sample; width "": the loss
  std::vector<ListedOperator> operators;
};

/// A size that a network names.
struct NamedSize {
  std::string name, formula;
  Place place;
};

/// A network that is written as data: sizes, and layers of operators. Sizes are formulas of numbers, of earlier sizes, of
/// `tokens` (the sequence length) and of `sample` (1: one row for each sample). Conditions and flags of a group's layers may
/// also read `block`, the number of the block, from 0.
struct OperatorLists {
  std::vector<NamedSize> sizes;
  std::vector<ListedLayer> layers;

  /// Returns the sizes for sequences of this length. Throws UserError if one is no formula. A size may be 0 if only
  /// conditions and flags read it.
  SizeValues values(double tokens) const;
};

/// Throws UserError if an operator, or the end of a residual or of a layer, reads rows of another width than those that the
/// operator before it gives, or a tensor rank's part of them where it reads whole rows. Rows that follow rows of another
/// number are not compared, because any operator may have given them.
void check_widths(const OperatorLists&, const SizeValues&);

/// Is the operator a product with the table of the embedding that begins the network?
bool ties_table(const ListedOperator&, const OperatorLists&);

/// Reads `sizes` and `layers`, and computes each size once for sequences of `tokens`. Throws UserError with the place.
OperatorLists read_operator_lists(Fields&, double tokens);

/// Returns the named sizes that none of these parts of a network reads, and no other size. A null part is left out. Texts
/// that a condition leaves out count as readers.
std::vector<std::string> unread_sizes(const Node& sizes, std::initializer_list<const Node*> readers);

/// Returns the entry of the catalog whose section `hugging_face` is for a config, with the sizes of the config. No value:
/// no entry is for such a config. Throws UserError for keys and values that the layers are not written for.
std::optional<Node> operator_document(const Node& config);

/// Returns the kinds of configs that entries of the catalog are for. `key`: "model_type" or "_class_name".
std::vector<std::string> operator_configs(std::string_view key);
/// Checks the form of the section `hugging_face` of a network. Throws UserError with the place.
void check_hugging_face(Fields&);

/// Returns the value of a formula. Throws UserError at `place` with `what` if it is no formula.
double any_value(const std::string& formula, const SizeValues&, const Place& place, const std::string& what);
/// Returns the value of a formula. Throws UserError at `place` with `what` if it is not above 0, or no formula.
double size_value(const std::string& formula, const SizeValues&, const Place& place, const std::string& what);

}  // namespace trainyard
