#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/reading/document.hpp"

namespace trainyard {

/// A question that a program, not a command line, asks of a verb.
struct VerbQuestion {
  /// Pairs of a name ("--days" or "SCENARIO") and its text. The text of a flag without a value is "true".
  std::vector<std::pair<std::string, std::string>> options;
  std::optional<Node> document;  ///< the scenario itself. No value: the options name its file.
  std::string keyed_name = {};   ///< name of a document that a program wrote without lines; "": it has lines
};

/// A flag or a positional argument of a verb, as --help explains it.
struct ArgumentDescription {
  enum class Kind : std::uint8_t { text, texts, whole_number, number, flag };
  std::string name;  ///< "--days", or "SCENARIO"
  Kind kind = Kind::text;
  std::string help;
  std::vector<std::string> choices = {};  ///< the only possible values; empty: any value
  bool required = false, is_output = false;
};
struct VerbDescription {
  std::string summary;
  std::vector<ArgumentDescription> arguments;
};
/// Describes the verb that `run_verb` runs without words. The verb ends when it would read its words.
VerbDescription describe_verb(const std::function<void()>& run_verb);

/// The flags of one verb. Only arguments.cpp includes CLI11, which is slow to compile. In names, '-' and '_' are equal.
class Arguments {
 public:
  Arguments(const std::string& verb, const std::string& summary, const std::string& example);
  ~Arguments();

  void positional(const std::string& name, std::string& value, const std::string& help, bool required = true);
  /// Takes all remaining words; there may be none.
  void positionals(const std::string& name, std::vector<std::string>& values, const std::string& help);
  void option(const std::string& flag, std::string& value, const std::string& placeholder, const std::string& help);
  /// A whole number from `least` to `most`. Other values are a UserError.
  void option(const std::string& flag, int& value, const std::string& placeholder, const std::string& help,
              int least = std::numeric_limits<int>::min(), int most = std::numeric_limits<int>::max());
  /// No value: the flag is not there.
  void option(const std::string& flag, std::optional<int>& value, const std::string& placeholder,
              const std::string& help, int least = std::numeric_limits<int>::min(),
              int most = std::numeric_limits<int>::max());
  void option(const std::string& flag, double& value, const std::string& placeholder, const std::string& help,
              double least, double most);
  /// One of these names. Any other is a UserError that gives the nearest one.
  void choice(const std::string& flag, std::string& value, const std::vector<std::string>& names,
              const std::string& placeholder, const std::string& help);
  void repeated_flag(const std::string& flag, std::vector<std::string>& values, const std::string& placeholder,
                     const std::string& help);
  void flag(const std::string& flag, bool& value, const std::string& help);
  /// A file to write; "-" is stdout. Two outputs must not write the same file, nor one that is read while this object
  /// lives. `or_folder`: an existing folder is accepted too.
  void output(const std::string& flag, std::string& file, const std::string& help, bool or_folder = false);

  /// Reads the words after the verb. Returns false if it printed the help instead. Throws UserError for an unknown flag
  /// (with the nearest one), and if an output cannot be written.
  bool parse(const std::vector<std::string>& words);
  /// Reads a program's question, in place of `parse`. Throws UserError in the same cases.
  void take(const VerbQuestion&);
  /// The scenario that the program's question holds. No value: the question names a file, or there was none.
  const std::optional<Node>& document() const;
  /// Returns true if no output goes to stdout, so that the verb prints its screen there.
  bool leaves_stdout_free() const;
  /// The verb and its parsed words, without the outputs and without these flags.
  std::vector<std::string> command_without(const std::vector<std::string>& flags) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Turns `--prices FILE` into an override of the scenario's field `prices`. Throws UserError if it is no such file.
std::pair<std::string, std::string> prices_override(const std::string& file);

/// Reads the values of `--set`, and of `--prices` unless it is empty. Throws UserError.
std::vector<std::pair<std::string, std::string>> parse_overrides(const std::vector<std::string>& sets,
                                                                 const std::string& prices);

/// Sets the document's field `prices` to that file. An empty name sets nothing.
void set_prices(Node& document, const std::string& file);
/// Sets the `site` of a document: the name of one, a file, a power such as "2 MW", or a map such as "{racks: 40}". Empty: it
/// stays.
void set_site(Node& document, const std::string& site);

/// Writes the answer to the file that --json names; "-" is stdout, and an empty name writes nothing.
void write_json(const std::string& file, const nlohmann::json&);
void write_json(const std::string& file, const nlohmann::ordered_json&);

/// Returns `read(text)`. A UserError of `read` then begins with the flag: "--size: …".
template <class Read>
auto read_flag(const std::string& flag, const std::string& text, Read read) {
  try {
    return read(text);
  } catch (const UserError& e) {
    throw UserError(flag + ": " + e.what());
  }
}

/// Sets a field of a map to a flag's value, which is read as YAML. Errors name the flag and the value. An empty text
/// sets nothing.
void set_from_flag(Node& map, const char* key, const std::string& flag, const std::string& text);

/// Reads a flag's value as a number without a unit, from `least` to `most`. Throws UserError that names the flag.
double number_between(const std::string& flag, const std::string& text, double least, double most);

/// Splits a list at its commas ("1,2,4"). An empty text gives no parts; a comma at the end adds no part.
std::vector<std::string> comma_list(const std::string& text);

}  // namespace trainyard
