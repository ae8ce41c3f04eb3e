#pragma once

namespace trainyard {

/// Returns true if the risk to run out of memory is below 5 %.
inline bool is_safe_risk(double risk) { return risk < 0.05; }

/// Returns "yes" for a safe risk to run out of memory, "no" if it is above 95 %, else "at risk".
inline const char* fits_in_words(double risk) { return is_safe_risk(risk) ? "yes" : risk > 0.95 ? "no" : "at risk"; }

}  // namespace trainyard
