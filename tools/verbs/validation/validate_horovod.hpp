#pragma once
#include <string>

namespace trainyard {

/// `validate horovod`: three readings of the measured study, with their errors and limits; `fit` prints instead the
/// constant that the stack carries. Returns an exit code.
int validate_horovod(const std::string& json_file, bool points, bool fit);

}  // namespace trainyard
