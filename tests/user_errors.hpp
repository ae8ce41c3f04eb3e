#pragma once
#include <filesystem>
#include <string>

#include "sim/error.hpp"

namespace trainyard::test {

/// Returns the text of the UserError that `work` throws, or "" if it throws none.
template <class Work>
std::string user_error(const Work& work) {
  try {
    work();
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

/// Returns the text of the UserError that `work` throws, without the path of the file if the text begins with it.
template <class Work>
std::string user_error_in(const std::filesystem::path& file, const Work& work) {
  const std::string text = user_error(work);
  return text.starts_with(file.string()) ? text.substr(file.string().size()) : text;
}

}  // namespace trainyard::test
