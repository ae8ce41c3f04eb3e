#pragma once
#include <string>

#include "models/reading/catalog.hpp"

namespace trainyard {

/// A node or a GPU as a file to edit. It has the keys of `reference` and of its bases, and all other possible keys as
/// comments with types, defaults and meanings. `kind`: "node" or "gpu". The file reads back as the same hardware.
std::string entry_yaml(const std::string& kind, const Node& reference, const Catalog&);

/// A key that a file of a kind may have, by its path ("node.pcie.latency").
struct EntryKey {
  std::string path, type, fallback;
  bool required = false, section = false;
  std::vector<std::string> choices;
  std::string words;  ///< description in a sentence; "" if its reader has none
};
/// All keys of a kind, in the order in which its readers look them up.
std::vector<EntryKey> entry_keys(const std::string& kind, const Catalog&);

}  // namespace trainyard
