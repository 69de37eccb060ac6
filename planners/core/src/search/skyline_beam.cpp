#include "search/skyline_beam.h"

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>
#include <string>

#include "model/random.h"

namespace gapless {

namespace {

// Height of the walls at both ends of time and beside complete sections.
constexpr std::int64_t kWall = std::numeric_limits<std::int64_t>::max() / 2;
constexpr std::int64_t kNowhere = -1;
constexpr std::int32_t kNone = -1;
// Limits the plans of one level, including those with a place left empty: this many for each plan
// that the beam keeps. A guess.
constexpr std::int64_t kMostRaised = 2;
// A beam reaches its limit after this many rises of the capacity. A guess.
constexpr std::int64_t kRises = 64;

// A tensor in one range of its sections.
struct Rectangle {
    std::int32_t first, last;
    std::int64_t size;
    std::int64_t before;
    std::int32_t block;
};

// The rectangles of every block. A tensor of 0 bytes has none.
class Rectangles {
  public:
    explicit Rectangles(const Instance& instance) {
        offsets_.push_back(0);
        for (std::int32_t b = 0; b < instance.blocks.count(); ++b) {
            instance.each_member(
                b, [&](std::size_t, std::int32_t tensor, std::int64_t bytes, std::int64_t before) {
                    for (const SectionRange& range : instance.sections->of(tensor)) {
                        all_.push_back({range.first, range.last, bytes, before, b});
                    }
                });
            offsets_.push_back(count());
        }
    }
    std::int32_t count() const { return static_cast<std::int32_t>(all_.size()); }
    const Rectangle& operator[](std::int32_t r) const { return all_[r]; }
    std::int32_t begin_of(std::int32_t block) const { return offsets_[block]; }
    std::int32_t end_of(std::int32_t block) const { return offsets_[block + 1]; }

  private:
    std::vector<Rectangle> all_;
    std::vector<std::int32_t> offsets_;
};

// Adjacent sections [first, last) of equal height, between higher neighbours.
struct Place {
    std::int32_t first, last;
    std::int64_t height;
    // Heights of the two neighbours.
    std::int64_t left, right;
};

// One choice for a place: a rectangle, whose block gets the head `head`; the sections [first, last)
// beside it stay empty up to `raised`. Without a rectangle, the whole place stays empty.
struct Choice {
    std::int32_t rectangle;
    std::int64_t head;
    std::int32_t first, last;
    std::int64_t raised;
};

// A rectangle whose offset is fixed, because its block has a head already.
struct Bound {
    std::int32_t rectangle;
    std::int64_t offset;
};

// One plan of the beam, as pointers into the arrays that hold it.
struct Skyline {
    std::int64_t* height;
    std::int64_t* slack;
    // Heads of the linked blocks; kNowhere if a block has none yet.
    std::int64_t* head;
    std::uint64_t* placed;
};

// A hash of a block and its head, for blocks of which only a part is placed.
std::uint64_t mark_of(std::int32_t block, std::int64_t head) {
    return Random(static_cast<std::uint64_t>(head) * 0x9e3779b97f4a7c15 ^
                  static_cast<std::uint64_t>(block))
        .below(std::numeric_limits<std::uint64_t>::max());
}

class Beam {
  public:
    Beam(const Instance& instance, std::int64_t capacity, std::int32_t width, std::uint64_t seed)
        : instance_(instance),
          rectangles_(instance),
          capacity_(capacity),
          width_(width),
          sections_(instance.sections->count()),
          words_((rectangles_.count() + 63) / 64),
          random_(seed),
          starting_(sections_),
          needed_(sections_, 0),
          link_of_(instance.blocks.count(), kNone),
          ceiling_(sections_, kWall),
          covers_(static_cast<std::size_t>(sections_) + 1) {
        for (std::int32_t r = 0; r < rectangles_.count(); ++r) {
            const Rectangle& rectangle = rectangles_[r];
            starting_[rectangle.first].push_back(r);
            for (std::int32_t s = rectangle.first; s < rectangle.last; ++s) {
                needed_[s] += rectangle.size;
            }
            mark_.push_back(random_.below(std::numeric_limits<std::uint64_t>::max()));
        }
        for (std::int32_t b = 0; b < instance.blocks.count(); ++b) {
            const std::int32_t count = rectangles_.end_of(b) - rectangles_.begin_of(b);
            if (count > 1 || (count == 1 && instance.blocks.pinned[b] != kNotPinned)) {
                link_of_[b] = static_cast<std::int32_t>(linked_.size());
                linked_.push_back(b);
            }
        }
        row_ = 2 * static_cast<std::size_t>(sections_) + linked_.size();
    }

    SkylineAnswer run(std::int64_t limit, std::int64_t node_limit, Stop& stop) {
        SkylineAnswer answer;
        const std::int64_t first = capacity_;
        for (const std::int64_t needed : needed_) {
            if (needed > capacity_) return answer;
        }
        for (std::int32_t b = 0; b < instance_.blocks.count(); ++b) {
            const std::int64_t pin = instance_.blocks.pinned[b];
            if (pin != kNotPinned && pin > capacity_ - instance_.blocks.size[b]) return answer;
        }
        begin();
        for (std::int32_t level = 0; level < rectangles_.count(); ++level) {
            grown_.clear();
            const std::int32_t parents = count_;
            for (std::int32_t k = 0; k < count_; ++k) {
                if (answer.nodes >= node_limit) {
                    answer.whole = false;
                    return answer;
                }
                ++answer.nodes;
                stop.poll();
                make_room(numbers_, bits_, count_ + 1);
                expand(k);
            }
            if (!select()) answer.whole = false;
            if (grown_.empty()) {
                if (capacity_ >= limit) return answer;
                const std::int64_t rise = std::max<std::int64_t>(1, (limit - first) / kRises);
                raise_capacity(std::min(rise, limit - capacity_), parents);
                --level;
            } else {
                advance();
            }
        }
        answer.offsets = offsets();
        return answer;
    }

  private:
    // How a plan was made: the step before it, and the block that got a head.
    struct Step {
        std::int32_t before, block;
        std::int64_t head;
    };
    struct Node {
        std::int32_t step;
        // Number of sections whose height differs from that of the section before.
        std::int32_t steps;
        // Lost bytes, each as a share of the slack of the section that lost it.
        double lost;
        std::uint64_t key;
    };
    struct Grown {
        double score;
        std::int32_t parent;
        Choice choice;
        Node node;
    };

    void begin() {
        make_room(numbers_, bits_, 1);
        const Skyline flat = at(numbers_, bits_, 0);
        for (std::int32_t s = 0; s < sections_; ++s) flat.slack[s] = capacity_ - needed_[s];
        for (std::size_t i = 0; i < linked_.size(); ++i) {
            flat.head[i] = instance_.blocks.pinned[linked_[i]];
        }
        nodes_ = {{kNone, 0, 0, 0}};
        count_ = 1;
    }

    // Allows more to the first `plans` of this level, and forgets the others.
    void raise_capacity(std::int64_t more, std::int32_t plans) {
        capacity_ += more;
        count_ = plans;
        nodes_.resize(plans);
        for (std::int32_t k = 0; k < plans; ++k) {
            const Skyline sky = at(numbers_, bits_, k);
            for (std::int32_t s = 0; s < sections_; ++s) sky.slack[s] += more;
        }
    }

    void make_room(std::vector<std::int64_t>& numbers, std::vector<std::uint64_t>& bits,
                   std::size_t plans) const {
        if (numbers.size() < plans * row_) numbers.resize(plans * row_);
        if (bits.size() < plans * words_) bits.resize(plans * words_);
    }

    Skyline at(std::vector<std::int64_t>& numbers, std::vector<std::uint64_t>& bits,
               std::int32_t k) const {
        std::int64_t* row = numbers.data() + k * row_;
        return {row, row + sections_, row + 2 * sections_,
                bits.data() + static_cast<std::size_t>(k) * words_};
    }

    void copy(const Skyline& from, const Skyline& to) const {
        std::copy_n(from.height, row_, to.height);
        std::copy_n(from.placed, words_, to.placed);
    }

    static bool is_placed(const Skyline& sky, std::int32_t r) {
        return (sky.placed[r >> 6] >> (r & 63) & 1) != 0;
    }
    // Returns true if all bytes of a section are placed.
    bool is_full(const Skyline& sky, std::int32_t s) const {
        return sky.height[s] + sky.slack[s] == capacity_;
    }

    // Adds the successors of the plan. A place that can only stay empty is not a choice, so it is
    // raised in the plan itself.
    void expand(std::int32_t k) {
        const Skyline sky = at(numbers_, bits_, k);
        find_fewest(sky);
        while (fewest_.size() == 1 && fewest_[0].rectangle == kNone) {
            leave_empty(k, sky, fewest_[0], nodes_[k]);
            find_fewest(sky);
        }
        for (const Choice& choice : fewest_) {
            if (choice.rectangle != kNone) {
                grown_.push_back(grow(k, sky, choice));
            } else if (count_ < kMostRaised * width_) {
                const Skyline raised = at(numbers_, bits_, count_);
                copy(sky, raised);
                nodes_.push_back(nodes_[k]);
                leave_empty(k, raised, choice, nodes_.back());
                ++count_;
            }
        }
    }

    // Raises a skyline over a place that stays empty.
    void leave_empty(std::int32_t k, const Skyline& sky, const Choice& choice, Node& node) {
        node = grow(k, sky, choice).node;
        lift(sky, choice.first, choice.last, choice.raised, choice.raised);
    }

    // Finds the choices for the place that has the fewest; none if some place has none.
    void find_fewest(const Skyline& sky) {
        find_bound(sky);
        fewest_.clear();
        for (std::int32_t s = 0; s < sections_;) {
            if (is_full(sky, s)) {
                ++s;
                continue;
            }
            const Place place = place_at(sky, s);
            s = place.last;
            if (std::min(place.left, place.right) < place.height) continue;
            choices_.clear();
            consider(sky, place);
            if (fewest_.empty() || choices_.size() < fewest_.size()) fewest_.swap(choices_);
            if (fewest_.size() <= 1) return;
        }
    }

    // Finds the rectangles with a fixed offset, and the free height below them in each section.
    void find_bound(const Skyline& sky) {
        for (const Bound& bound : bound_) {
            const Rectangle& rectangle = rectangles_[bound.rectangle];
            std::fill(ceiling_.begin() + rectangle.first, ceiling_.begin() + rectangle.last, kWall);
        }
        bound_.clear();
        for (std::size_t i = 0; i < linked_.size(); ++i) {
            if (sky.head[i] == kNowhere) continue;
            const std::int32_t b = linked_[i];
            for (std::int32_t r = rectangles_.begin_of(b); r < rectangles_.end_of(b); ++r) {
                if (is_placed(sky, r)) continue;
                const Rectangle& rectangle = rectangles_[r];
                const std::int64_t offset = sky.head[i] + rectangle.before;
                bound_.push_back({r, offset});
                for (std::int32_t s = rectangle.first; s < rectangle.last; ++s) {
                    ceiling_[s] = std::min(ceiling_[s], offset);
                }
            }
        }
    }

    std::int64_t ceiling(std::int32_t first, std::int32_t last) const {
        if (bound_.empty() || first == last) return kWall;
        return *std::min_element(ceiling_.begin() + first, ceiling_.begin() + last);
    }

    Place place_at(const Skyline& sky, std::int32_t s) const {
        Place place{s, s + 1, sky.height[s], kWall, kWall};
        while (place.last < sections_ && !is_full(sky, place.last) &&
               sky.height[place.last] == place.height) {
            ++place.last;
        }
        if (s > 0 && !is_full(sky, s - 1)) place.left = sky.height[s - 1];
        if (place.last < sections_ && !is_full(sky, place.last)) {
            place.right = sky.height[place.last];
        }
        return place;
    }

    // Returns true if the slack of all sections allows them to stay empty up to a height.
    static bool affords(const Skyline& sky, std::int32_t first, std::int32_t last,
                        std::int64_t up) {
        for (std::int32_t s = first; s < last; ++s) {
            if (up - sky.height[s] > sky.slack[s]) return false;
        }
        return true;
    }

    // Collects the choices for a place; there are none if the place cannot be filled.
    void consider(const Skyline& sky, const Place& place) {
        const std::int64_t roof = ceiling(place.first, place.last);
        if (roof == place.height) {
            take_bound(sky, place);
            return;
        }
        inside_.clear();
        std::int64_t raised = std::min({place.left, place.right, roof});
        const std::int64_t all_raised = raised;
        for (std::int32_t s = place.first; s < place.last; ++s) {
            for (const std::int32_t r : starting_[s]) {
                if (rectangles_[r].last > place.last || is_placed(sky, r)) continue;
                if (!offer(sky, place, r)) continue;
                raised = std::min(raised, top(inside_.back()));
            }
        }
        if (can_cover(sky, place, raised)) {
            from_left(sky, place);
            from_right(sky, place);
            if (others_.size() < choices_.size()) choices_.swap(others_);
        }
        if (all_raised < kWall && affords(sky, place.first, place.last, all_raised)) {
            choices_.push_back({kNone, 0, place.first, place.last, all_raised});
        }
    }

    // A rectangle whose fixed offset is exactly here is the only choice.
    void take_bound(const Skyline& sky, const Place& place) {
        for (const Bound& bound : bound_) {
            const Rectangle& rectangle = rectangles_[bound.rectangle];
            if (bound.offset != place.height || rectangle.first < place.first ||
                rectangle.last > place.last) {
                continue;
            }
            for (const Bound& other : bound_) {
                const Rectangle& above = rectangles_[other.rectangle];
                if (other.rectangle != bound.rectangle && above.first < rectangle.last &&
                    rectangle.first < above.last && other.offset < bound.offset + rectangle.size) {
                    return;
                }
            }
            const std::int64_t head = sky.head[link_of_[rectangle.block]];
            choices_.push_back({bound.rectangle, head, place.first, place.first, 0});
            return;
        }
    }

    // Adds a rectangle to `inside_` if it can lie at the height of the place.
    bool offer(const Skyline& sky, const Place& place, std::int32_t r) {
        const Rectangle& rectangle = rectangles_[r];
        const std::int32_t link = link_of_[rectangle.block];
        if (link != kNone && sky.head[link] != kNowhere) return false;
        const std::int64_t head = instance_.blocks.align(
            rectangle.block, std::max<std::int64_t>(place.height - rectangle.before, 0));
        const std::int64_t offset = head + rectangle.before;
        if (offset != place.height && !affords(sky, rectangle.first, rectangle.last, offset)) {
            return false;
        }
        if (offset + rectangle.size > ceiling(rectangle.first, rectangle.last)) return false;
        if (link != kNone && !others_have_room(sky, r, head)) return false;
        inside_.push_back({r, head, rectangle.first, rectangle.last, 0});
        return true;
    }

    // Returns true if the other rectangles of the block would lie above the skyline and above this
    // one.
    bool others_have_room(const Skyline& sky, std::int32_t r, std::int64_t head) const {
        const Rectangle& put = rectangles_[r];
        for (std::int32_t o = rectangles_.begin_of(put.block); o < rectangles_.end_of(put.block);
             ++o) {
            const Rectangle& other = rectangles_[o];
            if (o == r) continue;
            if (other.first < put.last && put.first < other.last && other.before < put.before) {
                return false;
            }
            for (std::int32_t s = other.first; s < other.last; ++s) {
                if (sky.height[s] > head + other.before) return false;
            }
        }
        return true;
    }

    // Returns how high the sections beside a rectangle may stay empty: up to its top, the neighbour
    // behind these sections, and every offset there that is fixed, or becomes fixed with this
    // choice.
    std::int64_t raised_beside(const Choice& put, std::int64_t neighbour, std::int32_t first,
                               std::int32_t last) const {
        std::int64_t up = std::min({neighbour, top(put), ceiling(first, last)});
        const std::int32_t b = rectangles_[put.rectangle].block;
        for (std::int32_t o = rectangles_.begin_of(b); o < rectangles_.end_of(b); ++o) {
            const Rectangle& other = rectangles_[o];
            if (o != put.rectangle && other.first < last && first < other.last) {
                up = std::min(up, put.head + other.before);
            }
        }
        return up;
    }

    std::int64_t top(const Choice& choice) const {
        const Rectangle& rectangle = rectangles_[choice.rectangle];
        return choice.head + rectangle.before + rectangle.size;
    }

    // Finds, for each section of a place, whether the place can be covered from there to its right
    // end, by the rectangles left and by sections that stay empty up to `raised` at least. Returns
    // true if the whole place can be covered.
    bool can_cover(const Skyline& sky, const Place& place, std::int64_t raised) {
        std::size_t next = inside_.size();
        covers_[place.last] = true;
        for (std::int32_t s = place.last - 1; s >= place.first; --s) {
            bool covered = covers_[s + 1] && raised - place.height <= sky.slack[s];
            for (; next > 0 && inside_[next - 1].first == s; --next) {
                covered = covered || covers_[inside_[next - 1].last];
            }
            covers_[s] = covered;
        }
        raised_ = raised;
        return covers_[place.first];
    }

    void from_left(const Skyline& sky, const Place& place) {
        for (const Choice& block : inside_) {
            if (!covers_[block.last]) continue;
            const std::int64_t up = raised_beside(block, place.left, place.first, block.first);
            if (!affords(sky, place.first, block.first, up)) continue;
            choices_.push_back({block.rectangle, block.head, place.first, block.first, up});
        }
    }

    // The mirror image of from_left(): choices at the right end of the place.
    void from_right(const Skyline& sky, const Place& place) {
        others_.clear();
        std::fill(covers_.begin() + place.first, covers_.begin() + place.last + 1, false);
        covers_[place.first] = true;
        std::size_t next = 0;
        for (std::int32_t s = place.first; s < place.last; ++s) {
            for (; next < inside_.size() && inside_[next].first == s; ++next) {
                if (covers_[s]) covers_[inside_[next].last] = true;
            }
            if (covers_[s] && raised_ - place.height <= sky.slack[s]) covers_[s + 1] = true;
        }
        for (const Choice& block : inside_) {
            if (!covers_[block.first]) continue;
            const std::int64_t up = raised_beside(block, place.right, block.last, place.last);
            if (!affords(sky, block.last, place.last, up)) continue;
            others_.push_back({block.rectangle, block.head, block.last, place.last, up});
        }
    }

    // Evaluates the plan that a choice leads to.
    Grown grow(std::int32_t k, const Skyline& sky, const Choice& choice) {
        Grown grown{0, k, choice, nodes_[k]};
        std::int32_t first = choice.first;
        std::int32_t last = choice.last;
        add_loss(sky, choice.first, choice.last, choice.raised, grown.node);
        Rectangle put{first, first, 0, 0, 0};
        if (choice.rectangle != kNone) {
            put = rectangles_[choice.rectangle];
            add_loss(sky, put.first, put.last, choice.head + put.before, grown.node);
            first = first == last ? put.first : std::min(first, put.first);
            last = first == last ? put.last : std::max(last, put.last);
            grown.node.key ^= mark_[choice.rectangle];
            const std::int32_t link = link_of_[put.block];
            if (link != kNone && sky.head[link] == kNowhere) {
                grown.node.key ^= mark_of(put.block, choice.head);
            }
        }
        const std::int64_t up = choice.head + put.before + put.size;
        const auto after = [&](std::int32_t s) {
            if (s >= put.first && s < put.last) return up;
            return s >= choice.first && s < choice.last ? choice.raised : sky.height[s];
        };
        // The heights change at the ends of two runs of sections, which may touch.
        std::array<std::int32_t, 4> edges{choice.first, choice.last, put.first, put.last};
        std::sort(edges.begin(), edges.end());
        for (std::size_t e = 0; e < edges.size(); ++e) {
            const std::int32_t s = edges[e];
            if (s == 0 || s == sections_ || (e > 0 && s == edges[e - 1])) continue;
            grown.node.steps += (after(s - 1) != after(s)) - (sky.height[s - 1] != sky.height[s]);
        }
        grown.score = grown.node.steps + grown.node.lost +
                      static_cast<double>(random_.below(1 << 20)) * 0x1p-21;
        return grown;
    }

    static void add_loss(const Skyline& sky, std::int32_t first, std::int32_t last,
                         std::int64_t base, Node& node) {
        for (std::int32_t s = first; s < last; ++s) {
            const std::int64_t lost = base - sky.height[s];
            // A section without slack loses nothing.
            if (lost == 0) continue;
            node.lost += static_cast<double>(lost) / static_cast<double>(sky.slack[s]);
        }
    }

    // Keeps the best of the plans with equal blocks, and of these at most as many as the beam is
    // wide. Returns true if no plan was dropped for lack of room.
    bool select() {
        const auto by_score = [](const Grown& a, const Grown& b) { return a.score < b.score; };
        std::sort(grown_.begin(), grown_.end(), [](const Grown& a, const Grown& b) {
            return a.node.key != b.node.key ? a.node.key < b.node.key : a.score < b.score;
        });
        const auto rest =
            std::unique(grown_.begin(), grown_.end(),
                        [](const Grown& a, const Grown& b) { return a.node.key == b.node.key; });
        grown_.erase(rest, grown_.end());
        const bool all = count_ < kMostRaised * width_;
        if (grown_.size() <= static_cast<std::size_t>(width_)) return all;
        std::nth_element(grown_.begin(), grown_.begin() + width_, grown_.end(), by_score);
        grown_.erase(grown_.begin() + width_, grown_.end());
        return false;
    }

    void advance() {
        next_nodes_.clear();
        make_room(next_numbers_, next_bits_, grown_.size());
        for (const Grown& grown : grown_) {
            const Choice& choice = grown.choice;
            const Rectangle& rectangle = rectangles_[choice.rectangle];
            const Skyline sky =
                at(next_numbers_, next_bits_, static_cast<std::int32_t>(next_nodes_.size()));
            copy(at(numbers_, bits_, grown.parent), sky);
            lift(sky, choice.first, choice.last, choice.raised, choice.raised);
            const std::int64_t offset = choice.head + rectangle.before;
            lift(sky, rectangle.first, rectangle.last, offset, offset + rectangle.size);
            sky.placed[choice.rectangle >> 6] |= std::uint64_t{1} << (choice.rectangle & 63);
            const std::int32_t link = link_of_[rectangle.block];
            if (link != kNone) sky.head[link] = choice.head;
            next_nodes_.push_back(grown.node);
            next_nodes_.back().step = static_cast<std::int32_t>(steps_.size());
            steps_.push_back({grown.node.step, rectangle.block, choice.head});
        }
        numbers_.swap(next_numbers_);
        bits_.swap(next_bits_);
        nodes_.swap(next_nodes_);
        count_ = static_cast<std::int32_t>(nodes_.size());
    }

    // Raises sections to the height `up`. The bytes between their height and `base` are lost.
    static void lift(const Skyline& sky, std::int32_t first, std::int32_t last, std::int64_t base,
                     std::int64_t up) {
        for (std::int32_t s = first; s < last; ++s) {
            sky.slack[s] -= base - sky.height[s];
            sky.height[s] = up;
        }
    }

    std::vector<std::int64_t> offsets() const {
        const Blocks& blocks = instance_.blocks;
        std::vector<std::int64_t> head(blocks.count());
        for (std::int32_t b = 0; b < blocks.count(); ++b) {
            head[b] = blocks.pinned[b] == kNotPinned ? blocks.align(b, 0) : blocks.pinned[b];
        }
        for (std::int32_t s = nodes_[0].step; s != kNone; s = steps_[s].before) {
            head[steps_[s].block] = steps_[s].head;
        }
        std::vector<std::int64_t> offsets(instance_.size.size());
        for (std::int32_t b = 0; b < blocks.count(); ++b) blocks.set_offsets(b, head[b], offsets);
        return offsets;
    }

    const Instance& instance_;
    Rectangles rectangles_;
    std::int64_t capacity_;
    std::int32_t width_, sections_, words_;
    Random random_;
    std::vector<std::vector<std::int32_t>> starting_;
    std::vector<std::int64_t> needed_;
    std::vector<std::uint64_t> mark_;
    // Blocks that have several rectangles or a pin.
    std::vector<std::int32_t> linked_, link_of_;

    // The plans of this level and of the next level, row by row.
    std::size_t row_ = 0;
    std::int32_t count_ = 0;
    std::vector<std::int64_t> numbers_, next_numbers_;
    std::vector<std::uint64_t> bits_, next_bits_;
    std::vector<Node> nodes_, next_nodes_;
    std::vector<Grown> grown_;
    std::vector<Step> steps_;

    // State of the plan that is being expanded.
    std::vector<Bound> bound_;
    std::vector<std::int64_t> ceiling_;
    std::vector<Choice> inside_, choices_, others_, fewest_;
    std::vector<char> covers_;
    std::int64_t raised_ = 0;
};

}  // namespace

SkylineAnswer beam_over_skylines(const Instance& instance, std::int64_t capacity,
                                 std::int64_t limit, std::int32_t width, std::int64_t node_limit,
                                 std::uint64_t seed, Stop& stop) {
    if (!instance.sections) throw std::invalid_argument("sections of lifetimes are needed");
    if (width < 1) {
        throw std::invalid_argument("width: at least 1 is needed, found " + std::to_string(width));
    }
    return Beam(instance, capacity, width, seed).run(limit, node_limit, stop);
}

}  // namespace gapless
