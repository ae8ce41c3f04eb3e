#pragma once

namespace trainyard {

/// Returns "yes" if the risk to run out of memory is below 5 %, "no" if it is above 95 %, else "at risk".
inline const char* fits_in_words(double risk) { return risk < 0.05 ? "yes" : risk > 0.95 ? "no" : "at risk"; }

}  // namespace trainyard
