// A check of pickles of plain containers, made before any object is built from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/stop.h"

namespace gapless {

// The fault of a pickle. `rule` is the key under which Python words the message; it is empty if the
// pickle has no fault. `number` is the length, the opcode or the index that breaks the rule.
struct PickleFault {
    const char* rule = "";
    std::uint64_t number = 0;
    // Bytes behind the place of the fault, as far as they were read.
    std::uint64_t left = 0;
};

struct PickleLimits {
    // Bytes of memory that the values may take at once, below 4 GiB.
    std::uint64_t memory;
    std::uint64_t integer_bytes;
    std::uint64_t text_bytes;
};

// Runs the opcodes on the types of the values only. A pickle without a fault contains only the
// opcodes of plain containers, and all its lengths, marks, memo entries and keys are valid.
// The pickle comes in pieces, twice. See Note [A pickle is read twice].
class PlainPickle {
  public:
    // With `is_spooled`, a list in a list becomes a persistent object, whose entries count as gone
    // once they are in it.
    PlainPickle(const PickleLimits& limits, bool is_spooled)
        : limits_(limits), is_spooled_(is_spooled) {}

    // Checks a piece; an empty one is the end. The second time, returns a pickle of the same values
    // that keeps only what it refers to later, and no longer than that.
    std::string feed(std::span<const std::uint8_t> piece, Stop& stop);
    // Begins the second time.
    void again();
    const PickleFault& fault() const { return fault_; }

  private:
    enum class Kind : std::uint8_t { other, string, list, spool, dict };
    struct Value {
        Kind kind;
        // True if it is kept, so that it outlives the container that it is put into.
        bool kept;
        std::uint32_t memory;
    };

    bool start();
    bool step(std::uint8_t opcode);
    std::size_t left() const { return data_.size() - at_; }
    std::size_t depth() const;
    bool refuse(const char* rule);
    bool wait(const char* rule);
    bool need(std::size_t values) { return depth() >= values || refuse("ends"); }
    bool read(std::size_t bytes);
    bool skip(const char* rule);
    bool push(Kind kind, std::uint64_t memory, bool kept = false);
    bool scalar(Kind kind = Kind::other);
    bool container(Kind kind);
    bool list();
    bool text(std::size_t length_bytes, Kind kind);
    bool drop(std::size_t values);
    bool pop(std::size_t values) { return need(values) && drop(values); }
    bool close();
    bool truncate() { return drop(stack_.size() - from_); }
    bool entries();
    bool into(Kind kind);
    bool spool();
    bool keep(std::uint64_t index);
    bool get();
    void write(std::uint8_t opcode, std::uint32_t slot);

    PickleLimits limits_;
    bool is_spooled_;
    bool is_second_ = false, has_begun_ = false, has_ended_ = false, is_waiting_ = false;
    // True if an opcode wrote something else than itself.
    bool is_rewritten_ = false;
    PickleFault fault_;
    // Bytes that are not yet checked begin at `at_`.
    std::vector<std::uint8_t> data_;
    std::size_t at_ = 0, from_ = 0;
    std::vector<Value> stack_;
    std::vector<std::size_t> marks_;
    // Of each value that is kept: its kind, how often it is still used, and its place in the pickle
    // that is returned.
    std::vector<Kind> kinds_;
    std::vector<std::uint32_t> uses_, slots_;
    std::vector<std::uint32_t> free_slots_;
    std::uint32_t slot_count_ = 0;
    std::uint64_t memory_ = 0, dropped_ = 0, number_ = 0;
    std::string out_;
};

}  // namespace gapless
