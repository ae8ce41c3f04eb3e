#pragma once
#include <string>

#include "models/reading/catalog.hpp"

namespace trainyard {

/// A node or a GPU as a file that can be edited: what `reference` says with its bases laid under it, and as comments what
/// else such a file may say, with types, defaults and meanings. `kind`: "node" or "gpu". It reads back as the same hardware.
std::string entry_yaml(const std::string& kind, const Node& reference, const Catalog&);

/// Every key that a file of that kind may have, by its path ("node.pcie.latency"), in the order in which readers ask.
struct EntryKey {
  std::string path, type, fallback;
  bool required = false, section = false;
  std::vector<std::string> choices;
};
std::vector<EntryKey> entry_keys(const std::string& kind, const Catalog&);

}  // namespace trainyard
