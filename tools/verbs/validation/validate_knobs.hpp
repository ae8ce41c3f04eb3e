#pragma once
#include <string>

namespace trainyard {

/// `validate training --knobs`: every constant of the catalog's GPUs, attentions and stacks that is fitted, what it
/// belongs to, and to what it was fitted. Returns an exit code.
int show_knobs(const std::string& json_file);

}  // namespace trainyard
