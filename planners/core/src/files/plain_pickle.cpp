#include "files/plain_pickle.h"

#include <utility>

namespace gapless {

namespace {

// Bytes that values take in Python: a reference with its place on the stacks there and here, a
// number or short string, a dictionary of one entry, and an entry of the tables here.
constexpr std::uint64_t kReference = 40, kScalar = 48, kContainer = 232, kKept = 16;
// Entries after which a batch for a spooled list is cut. Python's pickler writes 1000.
constexpr std::size_t kBatch = 1024;

}  // namespace

// Note [A pickle is read twice]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. A pickler keeps every container for later reference, so an unpickler holds all of them
// until its end, although few are ever referred to again.
// Approach. The first time counts how often each kept value is used. The second time writes the
// same opcodes, but keeps a value only if it is used, and gives its place to another one after its
// last use. Frames are left out. If the file changes in between, a use without a place is a fault.
// Limits. A place keeps its last value until another one takes it. So such memory counts forever.
std::string PlainPickle::feed(std::span<const std::uint8_t> piece, Stop& stop) {
    if (has_ended_) return {};
    data_.erase(data_.begin(), data_.begin() + static_cast<std::ptrdiff_t>(at_));
    at_ = 0;
    data_.insert(data_.end(), piece.begin(), piece.end());
    out_.clear();
    for (std::uint32_t steps = 0; !has_ended_; ++steps) {
        if (steps % 65536 == 0) stop.check();
        const std::size_t begin = at_;
        is_rewritten_ = false;
        const bool is_done =
            has_begun_ ? read(1) && step(static_cast<std::uint8_t>(number_)) : start();
        if (!is_done) {
            if (!std::exchange(is_waiting_, false) || piece.empty()) return {};
            fault_ = {};
            at_ = begin;
            break;
        }
        if (is_second_ && !is_rewritten_) {
            out_.append(data_.begin() + static_cast<std::ptrdiff_t>(begin),
                        data_.begin() + static_cast<std::ptrdiff_t>(at_));
        }
    }
    return std::move(out_);
}

void PlainPickle::again() {
    is_second_ = true;
    has_begun_ = has_ended_ = false;
    data_.clear();
    stack_.clear();
    marks_.clear();
    kinds_.clear();
    at_ = memory_ = 0;
    slots_.resize(uses_.size());
}

bool PlainPickle::start() {
    if (left() == 0) return wait("protocol");
    if (left() < 2) return data_[0] == 0x80 ? wait("ends") : refuse("protocol");
    if (data_[0] != 0x80 || data_[1] < 2 || data_[1] > 5) return refuse("protocol");
    at_ = 2;
    return has_begun_ = true;
}

bool PlainPickle::step(std::uint8_t opcode) {
    switch (opcode) {
        case '.':
            has_ended_ = depth() > 0;
            return has_ended_ || refuse("ends");
        case 0x95:
            is_rewritten_ = true;
            return read(8);
        case 'N':
        case 0x88:
        case 0x89:
        case ')':
            return push(Kind::other, kReference);
        case 'K':
            return read(1) && push(Kind::other, kReference);
        case 'M':
            return read(2) && scalar();
        case 'J':
            return read(4) && scalar();
        case 'G':
            return read(8) && scalar();
        case 0x8a:
            if (!read(1)) return false;
            return number_ > limits_.integer_bytes ? refuse("integer")
                                                   : skip("integer") && scalar();
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
        case ']':
            return list();
        case '}':
            return spool() && container(Kind::dict);
        case 0x85:
        case 0x86:
        case 0x87:
            return pop(opcode - 0x84u) && container(Kind::other);
        case '(':
            marks_.push_back(stack_.size());
            memory_ += kReference;
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
            return need(1) && keep(kinds_.size());
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

// Number of values above the last mark. An opcode may not reach deeper.
std::size_t PlainPickle::depth() const {
    return stack_.size() - (marks_.empty() ? 0 : marks_.back());
}

bool PlainPickle::refuse(const char* rule) {
    fault_ = {rule, number_, left()};
    return false;
}

// Refuses an opcode whose bytes are not all there, unless more of them come.
bool PlainPickle::wait(const char* rule) {
    is_waiting_ = true;
    return refuse(rule);
}

bool PlainPickle::read(std::size_t bytes) {
    if (left() < bytes) return wait("ends");
    number_ = 0;
    for (std::size_t byte = 0; byte < bytes; ++byte) {
        number_ |= std::uint64_t{data_[at_++]} << (8 * byte);
    }
    return true;
}

bool PlainPickle::skip(const char* rule) {
    if (number_ > left()) return wait(rule);
    at_ += number_;
    return true;
}

bool PlainPickle::push(Kind kind, std::uint64_t memory, bool kept) {
    memory_ += memory;
    if (memory_ > limits_.memory) return refuse("memory");
    stack_.push_back({kind, kept, static_cast<std::uint32_t>(memory)});
    return true;
}

bool PlainPickle::scalar(Kind kind) { return push(kind, kScalar); }

// Makes a container of the values that were dropped, if any.
bool PlainPickle::container(Kind kind) {
    const std::uint64_t inside = std::exchange(dropped_, 0);
    memory_ -= inside;
    return push(kind, kContainer + inside);
}

bool PlainPickle::list() {
    const bool in_list =
        !stack_.empty() && (stack_.back().kind == Kind::list || stack_.back().kind == Kind::spool);
    if (!is_spooled_ || !in_list) return container(Kind::list);
    is_rewritten_ = true;
    if (is_second_) out_ += "NQ";
    return container(Kind::spool);
}

bool PlainPickle::text(std::size_t length_bytes, Kind kind) {
    if (!read(length_bytes)) return false;
    return number_ > limits_.text_bytes ? refuse("length") : skip("length") && scalar(kind);
}

bool PlainPickle::drop(std::size_t values) {
    for (; values; --values) {
        dropped_ += stack_.back().kept ? kReference : stack_.back().memory;
        stack_.pop_back();
    }
    return true;
}

// Removes the last mark. The values above it begin at `from_`.
bool PlainPickle::close() {
    if (marks_.empty()) return refuse("ends");
    from_ = marks_.back();
    marks_.pop_back();
    memory_ -= kReference;
    return true;
}

bool PlainPickle::entries() {
    if ((stack_.size() - from_) % 2) return refuse("container");
    for (std::size_t key = from_; key < stack_.size(); key += 2) {
        if (stack_[key].kind != Kind::string) return refuse("key");
    }
    return true;
}

bool PlainPickle::into(Kind kind) {
    if (!need(1)) return false;
    Value& value = stack_.back();
    const std::uint64_t inside = std::exchange(dropped_, 0);
    if (value.kind == Kind::spool && kind == Kind::list) {
        memory_ -= inside;
        return true;
    }
    value.memory += static_cast<std::uint32_t>(inside);
    return value.kind == kind || refuse("container");
}

// Cuts a long batch for a spooled list before the next dictionary in it. A dictionary below another
// one is complete.
bool PlainPickle::spool() {
    if (depth() < kBatch || marks_.empty() || stack_.back().kind != Kind::dict) return true;
    const std::size_t begin = marks_.back();
    if (begin == 0 || stack_[begin - 1].kind != Kind::spool) return true;
    if (is_second_) out_ += "e(";
    return step('e') && step('(');
}

// A loader may keep a table as long as the largest memo index. So a new index must be the next one.
bool PlainPickle::keep(std::uint64_t index) {
    number_ = index;
    if (index != kinds_.size() || (is_second_ && index >= uses_.size())) return refuse("kept");
    kinds_.push_back(stack_.back().kind);
    is_rewritten_ = true;
    if (!is_second_) {
        uses_.push_back(0);
    } else if (uses_[index] > 0) {
        stack_.back().kept = true;
        if (free_slots_.empty()) free_slots_.push_back(slot_count_++);
        slots_[index] = free_slots_.back();
        free_slots_.pop_back();
        write('r', slots_[index]);
    }
    memory_ += kKept;
    return memory_ <= limits_.memory || refuse("memory");
}

bool PlainPickle::get() {
    const std::uint64_t index = number_;
    if (index >= kinds_.size() || (is_second_ && uses_[index] == 0)) return refuse("memo");
    is_rewritten_ = true;
    if (is_second_) {
        write('j', slots_[index]);
        if (--uses_[index] == 0) free_slots_.push_back(slots_[index]);
    } else {
        ++uses_[index];
    }
    return push(kinds_[index], kReference, true);
}

void PlainPickle::write(std::uint8_t opcode, std::uint32_t slot) {
    out_ += static_cast<char>(opcode);
    for (int byte = 0; byte < 4; ++byte) out_ += static_cast<char>(slot >> (8 * byte) & 0xff);
}

}  // namespace gapless
