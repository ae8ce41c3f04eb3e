#pragma once
#include <string>

#include "models/fitted/nccl_model.hpp"

namespace trainyard {

/// What a fitted entry says of its rows and error.
struct NcclProvenance {
  std::string head;    ///< the entry's first comment
  std::string fit;     ///< source of the fitted figures
  std::string errors;  ///< source of the errors
};

/// The model as an entry of the catalog, whole: figures of four digits, each with its source. Equal models give equal
/// text.
std::string nccl_entry_text(const NcclModel&, const NcclProvenance&);

}  // namespace trainyard
