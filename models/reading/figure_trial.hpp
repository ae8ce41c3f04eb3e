#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "models/reading/document.hpp"

namespace trainyard {

/// A figure of the catalog as it is tried, in place of what the entry's own file says.
struct FigureTrial {
  std::string kind, entry;  ///< "stack", "nemo": the entry whose file states it
  std::string key;          ///< dotted path: "slowdowns.elementwise"; where it is removed, a map too
  std::string value;        ///< as a file would write it; "": as if the file did not say it
};

/// From then on in this process entries of catalogs are read with these, and with no others. For who refits constants: in a
/// child of its own.
void try_figures(std::vector<FigureTrial>);

/// An entry as its file has it, with what is tried of it.
void apply_trials(Node& entry, std::string_view kind, std::string_view name);

}  // namespace trainyard
