#pragma once
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/reading/document.hpp"

namespace trainyard {

/// What a program asks of a verb.
struct VerbQuestion {
  std::vector<std::pair<std::string, std::string>> options;  ///< "--days" or "SCENARIO" and its text; "true" of a flag
  std::optional<Node> document;  ///< what the file of the scenario holds, where there is none
};

/// The flags of one verb. CLI11 underneath, in one file only (it is slow to compile). In names, '-' and '_' are one.
class Arguments {
 public:
  Arguments(const std::string& verb, const std::string& summary, const std::string& example);
  ~Arguments();

  void positional(const std::string& name, std::string& value, const std::string& help, bool required = true);
  /// All words that are left; none is fine.
  void positionals(const std::string& name, std::vector<std::string>& values, const std::string& help);
  void option(const std::string& flag, std::string& value, const std::string& placeholder, const std::string& help);
  /// A whole number, not below `least` and not above `most`; a UserError otherwise.
  void option(const std::string& flag, int& value, const std::string& placeholder, const std::string& help,
              int least = std::numeric_limits<int>::min(), int most = std::numeric_limits<int>::max());
  void option(const std::string& flag, double& value, const std::string& placeholder, const std::string& help,
              double least, double most);
  /// One of these names; a UserError that tells the nearest otherwise.
  void choice(const std::string& flag, std::string& value, const std::vector<std::string>& names,
              const std::string& placeholder, const std::string& help);
  void repeated(const std::string& flag, std::vector<std::string>& values, const std::string& placeholder,
                const std::string& help);
  void flag(const std::string& flag, bool& value, const std::string& help);
  /// A file to write, "-" being stdout; none may take what another does, or what is read while this lives. `or_folder`:
  /// a folder that exists is fine too.
  void output(const std::string& flag, std::string& file, const std::string& help, bool or_folder = false);

  /// Reads the words after the verb. False when help was asked for and printed. Throws UserError naming the nearest
  /// flag, and where an output cannot be written.
  bool parse(const std::vector<std::string>& words);
  /// Takes the place of `parse`. Throws UserError likewise.
  void take(const VerbQuestion&);
  /// What that had in place of a scenario's file.
  const std::optional<Node>& document() const;
  /// The verb and the words that were parsed, but for outputs and for these flags.
  std::vector<std::string> command_without(const std::vector<std::string>& flags) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// `--prices FILE`, as a scenario's field `prices`. Throws UserError for what is no such file.
std::pair<std::string, std::string> prices_override(const std::string& file);

/// What --fold says: auto, off or check; "" is auto. Throws UserError for anything else.
void require_fold(const std::string&);

/// What a flag says, as a bare number. Throws UserError that names the flag.
double number_between(const std::string& flag, const std::string& text, double least, double most);

/// What stands between commas ("1,2,4"); none of an empty text. A comma at the end is none too many.
std::vector<std::string> comma_list(const std::string& text);

}  // namespace trainyard
