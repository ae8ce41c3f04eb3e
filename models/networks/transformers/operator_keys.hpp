#pragma once
#include <string>
#include <vector>

#include "models/reading/document.hpp"

namespace trainyard {

/// A key of an operator with one of several words as its value.
struct OperatorWord {
  Key key;
  std::vector<std::string> words;
  bool is_required = true;
};

/// An operator that layers can list, with the keys that it has besides `name`, `rows`, `every_rank` and `when`. The
/// words are those of `trainyard help scenario`.
struct OperatorKeys {
  const char* name;
  const char* meaning;
  const char* example;            ///< an operator that is read as it stands, with the sizes of `operator_example`
  std::vector<Key> sizes = {};    ///< required
  std::vector<Key> further = {};  ///< sizes with a default
  std::vector<Key> flags = {};    ///< true or false; default: false
  std::vector<OperatorWord> words = {};
  std::vector<Key> names = {};  ///< keys with a name of another operator
  bool is_loss = false;         ///< true: it computes what training makes small
};

/// All operators, in the order of the reference.
const std::vector<OperatorKeys>& operator_keys();

/// Returns the words of the operators that compute a loss.
std::vector<std::string> loss_words();

/// Returns the keys of an operator. Throws UserError with the nearest word.
const OperatorKeys& operator_keys(const std::string& word, const Place&);

/// The keys of all operators: name, rows, every_rank, when.
extern const Key kOperatorName, kOperatorRows, kOperatorEveryRank, kOperatorWhen;

/// Returns a network with the operator's example and a layer with a loss, as a document's text.
std::string operator_example(const OperatorKeys&);

}  // namespace trainyard
