#pragma once
#include <string>

#include "models/fitted/nccl_model.hpp"

namespace trainyard {

/// Texts in a fitted entry about its rows and errors.
struct NcclProvenance {
  std::string head;    ///< first comment of the entry
  std::string fit;     ///< source of the fitted figures
  std::string errors;  ///< source of the errors
};

/// Returns the model as a complete catalog entry, with figures of four digits, each with its source. Equal models give
/// equal texts.
std::string nccl_entry_text(const NcclModel&, const NcclProvenance&);

}  // namespace trainyard
