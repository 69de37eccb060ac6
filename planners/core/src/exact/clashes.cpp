#include "exact/clashes.h"

#include <algorithm>
#include <tuple>

namespace gapless {

Clashes clashes_of(const SearchProblem& problem, const Neighbours& neighbours, bool merges,
                   Stop& stop) {
    Clashes clashes(problem.modulus.size());
    for (std::int32_t m = 0; m < problem.member_count(); ++m) {
        const std::int32_t a = problem.block[m];
        for (const std::int32_t other : neighbours.of(m)) {
            const std::int32_t b = problem.block[other];
            if (a == b) continue;
            const std::int64_t step = std::min(problem.modulus[a], problem.modulus[b]) - 1;
            const std::int64_t residue = problem.residue_of(b) - problem.residue_of(a);
            const std::int64_t below =
                problem.before[m] - problem.before[other] - problem.size[other];
            const std::int64_t above = problem.before[m] + problem.size[m] - problem.before[other];
            clashes[a].push_back({b, below - ((below - residue) & step),
                                  above + ((residue - above) & step), m, other});
        }
        stop.poll();
    }
    if (!merges) return clashes;
    for (std::vector<Clash>& of_block : clashes) {
        std::sort(of_block.begin(), of_block.end(), [](const Clash& x, const Clash& y) {
            return std::tie(x.other, x.below) < std::tie(y.other, y.below);
        });
        std::size_t kept = 0;
        for (const Clash& clash : of_block) {
            Clash& last = of_block[kept == 0 ? 0 : kept - 1];
            if (kept > 0 && last.other == clash.other && clash.below < last.above) {
                last.above = std::max(last.above, clash.above);
            } else {
                of_block[kept++] = clash;
            }
        }
        of_block.resize(kept);
        stop.poll();
    }
    return clashes;
}

}  // namespace gapless
