#pragma once
#include <string>

namespace trainyard {

/// Returns true if a typed size counts in powers of 1000 ("160MB", "1 kB"), false if in powers of 1024 ("4 MiB").
bool asks_decimal(const std::string& size);
/// Writes a size in powers of 1000: "160 MB".
std::string decimal_size(double bytes);
/// Writes a size in powers of 1000 if `decimal`, else in powers of 1024.
std::string size_text(double bytes, bool decimal);

}  // namespace trainyard
