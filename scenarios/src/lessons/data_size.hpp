#pragma once
#include <string>

namespace trainyard {

/// Whether a size as somebody typed it counts in powers of 1000 ("160MB", "1 kB") and not of 1024 ("4 MiB").
bool asks_decimal(const std::string& size);
/// In powers of 1000: 160 MB.
std::string decimal_size(double bytes);
/// In the powers that are asked for.
std::string size_text(double bytes, bool decimal);

}  // namespace trainyard
