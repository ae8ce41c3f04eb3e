// Reads the operators that layers of a network can list, with their keys. Readers and `trainyard help` use this list.
#include "models/networks/transformers/operator_keys.hpp"

#include <fmt/format.h>

#include "models/reading/asked_fields.hpp"
#include "models/reading/shipped_files.hpp"

namespace trainyard {

const Key kOperatorName{
    "name",
    "Name of the kernels and tensors of this or any other operator, for example q_norm. Default: the operator's word."};
const Key kOperatorRows{"rows",
                        "Rows of a sample on which this or any other operator works, for example sample (1). Context "
                        "ranks divide them, except those of sample. Default: tokens."};
const Key kOperatorEveryRank{"every_rank",
                             "Whether every context and tensor rank has all rows of this or any other operator, such "
                             "as a text that others attend to. Default: false."};
const Key kOperatorWhen{
    "when", "Formula of sizes: if it is 0, this or any other operator is left out, for example 1. Default: 1."};

namespace {

/// Returns a map's keys with their descriptions, which refer to the texts of the map.
std::vector<Key> described_keys(const Node& entry, const char* part) {
  std::vector<Key> keys;
  if (const Node* map = entry.find(part))
    for (const auto& [key, words] : map->fields) keys.emplace_back(key, words.scalar.c_str());
  return keys;
}

std::vector<OperatorWord> described_words(const Node& entry) {
  std::vector<OperatorWord> all;
  const Node* map = entry.find("words");
  if (!map) return all;
  for (const auto& [key, description] : map->fields) {
    Fields fields(description, key);
    all.push_back({{key, fields.required_child("meaning").scalar.c_str()},
                   fields.texts("words"),
                   fields.boolean("required", true)});
  }
  return all;
}

std::vector<OperatorKeys> all_keys(const Node& document) {
  const AskedFields apart;  // keys of this file are no keys of a scenario, which another collector may ask for
  std::vector<OperatorKeys> all;
  for (const auto& [word, entry] : document.fields)
    all.push_back({word.c_str(), entry.find("meaning")->scalar.c_str(), entry.find("example")->scalar.c_str(),
                   described_keys(entry, "sizes"), described_keys(entry, "further"), described_keys(entry, "flags"),
                   described_words(entry), described_keys(entry, "names"), entry.find("loss") != nullptr});
  return all;
}

}  // namespace

const std::vector<OperatorKeys>& operator_keys() {
  static const Node document = read_document(shipped_file("models/catalog/operators.yaml"));
  static const std::vector<OperatorKeys> all = all_keys(document);
  return all;
}

std::vector<std::string> loss_words() {
  std::vector<std::string> words;
  for (const OperatorKeys& keys : operator_keys())
    if (keys.is_loss) words.emplace_back(keys.name);
  return words;
}

const OperatorKeys& operator_keys(const std::string& word, const Place& place) {
  return row_named(operator_keys(), word, place, "model.layers: unknown operator");
}

std::string operator_example(const OperatorKeys& keys) {
  return fmt::format(
      "{{model_type: operators, tokens: 1024, sizes: {{hidden: 1024, heads: 16}}, layers: [{{layer: example, "
      "operators: [{}: {}]}}, {{layer: end, operators: [cross_entropy: {{classes: hidden}}]}}]}}",
      keys.name, keys.example);
}

}  // namespace trainyard
