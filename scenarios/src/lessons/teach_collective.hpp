#pragma once
#include <string>
#include <vector>

#include "models/software/stack.hpp"
#include "scenarios/src/lessons/lesson_view.hpp"
#include "strategies/collectives/collective_program.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// One message of a collective. Times are in s.
struct LessonTransfer {
  int from = 0, to = 0;  ///< sender and receiver, indices into CollectiveLesson::members
  std::string slots;     ///< "slot a", "slots a–d"; "" without data
  std::string content;   ///< contents of these slots when the message was sent: "a0+a3"
  int first_slot = -1;   ///< first slot at the receiver; −1: the message does not touch the data buffer
  int slot_count = 0;
  bool adds = false;  ///< the receiver combines the message with its own data
  double begin = 0, end = 0, bytes = 0;
  std::string link, link_kind;  ///< name and kind of the link that limited the message's rate; "": no link did
};

/// Messages that arrive at the same time, and the contents of all buffers after them. Times are in s.
struct LessonStep {
  double begin = 0, end = 0;  ///< start of the first message, end of the step
  std::vector<LessonTransfer> transfers;
  bool reduces_after = false;  ///< a rank combines received data after the messages
  /// What limited the slowest messages, each once: links ("A -> B (kind)"), or a latency that is most of their time.
  std::vector<std::string> limiting;
  std::vector<std::vector<SlotContent>> buffers;  ///< contents by member and slot
  std::vector<double> sent;                       ///< bytes that each member has sent since the beginning
};

/// A rank, or a switch that takes part in the collective.
struct LessonMember {
  std::string name;
  bool holds_data = true;  ///< it has data at some time
};

/// A simulated collective, step by step.
struct CollectiveLesson {
  std::string operation, algorithm, reduction;  ///< reduction "": the operation combines nothing
  int ranks = 0, root = -1;                     ///< root −1: the operation has no root
  int labels_from = 0;                          ///< number of the first rank in texts, tables and pictures
  double size = 0;                              ///< size of the collective, bytes
  bool decimal = false;                         ///< texts write sizes in powers of 1000, as the user typed this one
  std::string machine;
  std::vector<LessonMember> members;  ///< the ranks, then the switches
  std::vector<std::string> slots;     ///< names of the slots
  std::vector<std::vector<SlotContent>> initial;
  std::vector<LessonStep> steps;
  double time = 0;                     ///< time of the whole collective, s
  std::vector<double> sent, received;  ///< bytes that each rank sends and receives
  double total = 0;                    ///< sum of all messages, bytes
  /// Lower bound of the bytes that the busiest rank sends or receives, if only ranks move and add.
  double least_rank = 0;
  double least_total = 0;  ///< lower bound of `total`
  bool kept = false;       ///< all slots have the result that the operation promises
  std::vector<std::string> hazards;
};

struct TeachOptions {
  Operation operation = Operation::all_reduce;
  std::string algorithm;
  int ranks = 4;
  int labels_from = 0;
  CollectiveOptions options;
  SoftwareStack software;
  std::string machine;  ///< description of the machine in words
  Place place;          ///< place of the algorithm's name, for error messages
};

/// Largest number of slots that a lesson shows.
constexpr int kMostLessonSlots = 512;

/// Simulates a collective and records each step. Throws UserError if the algorithm or the machine cannot run it.
CollectiveLesson teach_collective(const ClusterSpec&, const TeachOptions&);

LessonView lesson_view(const CollectiveLesson&);

}  // namespace trainyard
