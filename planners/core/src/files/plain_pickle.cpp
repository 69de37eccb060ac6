#include "files/plain_pickle.h"

#include <cstddef>
#include <vector>

namespace gapless {

namespace {

enum class Kind : std::uint8_t { other, string, list, dict };

class Scan {
  public:
    Scan(std::span<const std::uint8_t> data, const PickleLimits& limits)
        : data_(data), limits_(limits) {}

    PickleFault run(Stop& stop) {
        if (data_.size() < 2) return {data_.empty() ? "protocol" : "ends"};
        if (data_[0] != 0x80 || data_[1] < 2 || data_[1] > 5) return {"protocol"};
        at_ = 2;
        for (std::uint32_t steps = 0; at_ < data_.size(); ++steps) {
            if (steps % 65536 == 0) stop.check();
            const std::uint8_t opcode = data_[at_++];
            if (opcode == '.') return {depth() ? "" : "ends"};
            const bool framed = at_ <= frame_end_;
            if (!step(opcode)) return {fault_, number_, left()};
            if (framed && at_ > frame_end_) return {"frame"};
        }
        return {"ends"};
    }

  private:
    bool step(std::uint8_t opcode) {
        switch (opcode) {
            case 0x95:
                return at_ > frame_end_ ? frame() : refuse("frame");
            case 'N':
            case 0x88:
            case 0x89:
                return scalar(Kind::other);
            case 'K':
                return read(1) && push(Kind::other);
            case 'M':
                return read(2) && scalar(Kind::other);
            case 'J':
                return read(4) && scalar(Kind::other);
            case 'G':
                return read(8) && scalar(Kind::other);
            case 0x8a:
                if (!read(1)) return false;
                if (number_ > limits_.integer_bytes || number_ > left()) return refuse("integer");
                at_ += number_;
                return scalar(Kind::other);
            case 0x8c:
                return text(1, Kind::string);
            case 'X':
                return text(4, Kind::string);
            case 0x8d:
                return text(8, Kind::string);
            case 'C':
                return text(1, Kind::other);
            case 'B':
                return text(4, Kind::other);
            case 0x8e:
                return text(8, Kind::other);
            case ')':
                return scalar(Kind::other);
            case ']':
                return container(Kind::list);
            case '}':
                return container(Kind::dict);
            case 0x85:
            case 0x86:
            case 0x87:
                return pop(opcode - 0x84u) && container(Kind::other);
            case '(':
                marks_.push_back(stack_.size());
                return true;
            case 't':
                return close() && truncate() && container(Kind::other);
            case 'l':
                return close() && truncate() && container(Kind::list);
            case 'd':
                return close() && entries() && truncate() && container(Kind::dict);
            case 'a':
                return need(2) && drop(1) && into(Kind::list);
            case 'e':
                return close() && truncate() && into(Kind::list);
            case 's':
                if (!need(3)) return false;
                from_ = stack_.size() - 2;
                return entries() && truncate() && into(Kind::dict);
            case 'u':
                return close() && entries() && truncate() && into(Kind::dict);
            case 0x94:
                return need(1) && keep(memo_.size());
            case 'q':
                return need(1) && read(1) && keep(number_);
            case 'r':
                return need(1) && read(4) && keep(number_);
            case 'h':
                return read(1) && get();
            case 'j':
                return read(4) && get();
            default:
                number_ = opcode;
                return refuse("opcode");
        }
    }

    std::size_t left() const { return data_.size() - at_; }
    // Number of values above the last mark. An opcode may not reach deeper.
    std::size_t depth() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }

    bool refuse(const char* rule) {
        fault_ = rule;
        return false;
    }
    bool need(std::size_t values) { return depth() >= values || refuse("ends"); }
    bool read(std::size_t bytes) {
        if (left() < bytes) return refuse("ends");
        number_ = 0;
        for (std::size_t byte = 0; byte < bytes; ++byte) {
            number_ |= std::uint64_t{data_[at_++]} << (8 * byte);
        }
        return true;
    }
    // A loader may read a whole frame at once. So a frame may neither cut an opcode nor contain
    // another frame.
    bool frame() {
        if (!read(8)) return false;
        if (number_ > left()) return refuse("length");
        frame_end_ = at_ + number_;
        return true;
    }
    bool push(Kind kind) {
        stack_.push_back(kind);
        return true;
    }
    bool scalar(Kind kind) { return ++scalars_ <= limits_.scalars ? push(kind) : refuse("room"); }
    bool container(Kind kind) {
        return ++containers_ <= limits_.containers ? push(kind) : refuse("room");
    }
    bool text(std::size_t length_bytes, Kind kind) {
        if (!read(length_bytes)) return false;
        if (number_ > left()) return refuse("length");
        at_ += number_;
        return scalar(kind);
    }
    bool drop(std::size_t values) {
        stack_.resize(stack_.size() - values);
        return true;
    }
    bool pop(std::size_t values) { return need(values) && drop(values); }
    // Removes the last mark. The values above it begin at `from_`.
    bool close() {
        if (marks_.empty()) return refuse("ends");
        from_ = marks_.back();
        marks_.pop_back();
        return true;
    }
    bool truncate() {
        stack_.resize(from_);
        return true;
    }
    bool entries() {
        if ((stack_.size() - from_) % 2) return refuse("container");
        for (std::size_t key = from_; key < stack_.size(); key += 2) {
            if (stack_[key] != Kind::string) return refuse("key");
        }
        return true;
    }
    bool into(Kind kind) {
        if (!need(1)) return false;
        return stack_.back() == kind || refuse("container");
    }
    // A loader may keep a table as long as the largest memo index. So a new index must be the next
    // one.
    bool keep(std::uint64_t index) {
        number_ = index;
        if (index > memo_.size()) return refuse("kept");
        if (index == memo_.size()) memo_.push_back(stack_.back());
        memo_[index] = stack_.back();
        return true;
    }
    bool get() { return number_ < memo_.size() ? push(memo_[number_]) : refuse("memo"); }

    std::span<const std::uint8_t> data_;
    PickleLimits limits_;
    std::size_t at_ = 0;
    std::vector<Kind> stack_, memo_;
    std::vector<std::size_t> marks_;
    std::size_t from_ = 0, frame_end_ = 0;
    std::uint64_t containers_ = 0, scalars_ = 0, number_ = 0;
    const char* fault_ = "";
};

}  // namespace

PickleFault find_pickle_fault(std::span<const std::uint8_t> data, const PickleLimits& limits,
                              Stop& stop) {
    return Scan(data, limits).run(stop);
}

}  // namespace gapless
