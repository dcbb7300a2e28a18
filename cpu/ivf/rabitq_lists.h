// A RabitqLists looks at lists of RaBitQ codes (compute/rabitq.h): at the signs of all rows
// together, and at the other planes of those rows that the signs do not rule out. Not thread-safe:
// one per thread, as are the tables.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compute/ivf.h"
#include "core/bytes.h"
#include "cpu/ivf/candidates.h"
#include "cpu/ivf/rabitq_kernels.h"

namespace warplite::cpu {

// The bytes of a run.
struct IvfRunView {
  const std::uint32_t* begins;
  const std::uint32_t* ends;
  const std::uint32_t* ordinals;
  const float* bias;
  const std::uint8_t* codes;
  const std::uint8_t* records;

  static IvfRunView of(const compute::IvfShape& shape, const std::byte* bytes,
                       std::uint32_t positions);
};

class RabitqLists {
 public:
  // Consecutive positions of one list of a run, all of the list's in the groups that they are in.
  struct Span {
    const IvfRunView* run;
    std::uint32_t begin, end;
    const std::uint32_t* live;  // of these groups, a bit for each row that counts; null: all do
    std::uint32_t first;        // added to ordinals

    std::uint32_t first_group() const { return compute::RabitqGroup::first_of(begin); }
    std::uint32_t end_group() const { return compute::RabitqGroup::end_of(end); }
  };

  // Queries that may look at a list at once, which share what its bytes become.
  static constexpr std::size_t kQueries = 4;
  // Who looks at a list.
  struct Viewer {
    const float* y;
    Candidates* candidates;
  };

  // `codes_decide`: as IvfWork has it.
  RabitqLists(const compute::IvfShape& shape, bool product, bool codes_decide);

  // Goes on to a list, for at most kQueries queries.
  void enter(std::span<const Viewer> viewers, const float* centroid);
  // Adds rows of that list to the candidates of each.
  void scan(const Span& span);
  // All candidates are complete after this.
  void end();
  // Asks memory for what enter() reads, and scan() of each row; of rows that may not count, for
  // ordinals too.
  void ask_for(const Span& span, const float* centroid, bool filtered) const;

 private:
  // Positions between looking at their sums and at their scores.
  static constexpr std::size_t kRows = RabitqGroups::kMost * compute::RabitqGroup::kRows;
  // That the signs do not rule out, as a rule; the heap is quick at giving room for so few.
  static constexpr std::size_t kUsual = 40;
  // That are looked at closely together.
  static constexpr std::size_t kTogether = 16;

  // What a query makes of one list.
  struct Tables {
    RabitqTables kernel;
    float a = 0;  // D
    Bytes memory;
  };
  // A row that the signs do not rule out.
  struct Survivor {
    const IvfRunView* run;
    std::uint32_t position;
    float low;
    std::int32_t sum;     // of table entries
    std::uint32_t first;  // added to the ordinal
  };
  // A query that has entered a list.
  struct Entered {
    Tables tables;
    Candidates* candidates = nullptr;
    std::vector<Survivor> survivors;
  };
  // All of them. Their rows are looked at closely one list late, when memory has brought them.
  struct Visit {
    std::array<Entered, kQueries> entered;
    std::size_t queries = 0;
  };
  // What a query finds among kRows positions.
  struct Scores {
    std::array<std::int32_t, kRows> sums;
    std::array<float, kRows> lows;
    std::array<std::uint8_t, kRows> places;
  };
  // Up to kRows positions that a span has groups of.
  struct Chunk {
    const Span& span;
    std::uint32_t position;  // the first
  };

  void make_tables(const Viewer& viewer, const float* centroid, Tables& tables);
  void scan(const Chunk& chunk, const RabitqGroups& groups);
  void keep(const Chunk& chunk, const Scores& scores, std::uint32_t place,
            std::vector<Survivor>& out) const;
  std::size_t find_limit(const Chunk& chunk, Scores& scores, std::size_t found,
                         const Entered& entered);
  static float low_of_some(const Scores& scores, std::span<const std::uint8_t> places,
                           std::size_t some);
  void look_closer(std::span<const Survivor> survivors, const Tables& tables,
                   Candidates& candidates);
  void look_closer(Visit& visit);
  void score(std::span<const Survivor* const> rows, const Tables& tables, float* out);
  void multiply(std::span<const Survivor* const> rows, const RabitqTables& tables, float* out);
  void copy_signs(const Survivor& row, std::uint8_t* out) const;
  const std::uint8_t* record_of(const Survivor& row) const {
    return row.run->records + std::size_t{row.position} * record_;
  }

  const compute::IvfShape shape_;
  const compute::RabitqGroup group_;
  const bool product_;
  const bool with_signs_;
  const RabitqKernels& kernels_;
  const std::uint32_t record_;  // bytes
  const float signs_weight_;    // 2^(B−2)
  Bytes scratch_;  // of tables
  std::array<Scores, kQueries> scores_;
  std::array<RabitqLook, kQueries> looks_;  // of the list that was entered last
  Visit visits_[2];                         // of this one, and of the one before
  int turn_ = 0;                            // which of them is the last
  std::vector<Survivor> nearest_;
  std::vector<std::uint8_t> planes_;  // of rows that are looked at together, the signs among them
};

}  // namespace warplite::cpu
