#include <nanobind/stl/vector.h>

#include "arrays.h"
#include "canonical_search.h"
#include "disjunctive_search.h"

namespace gapless::bindings {

namespace {

SearchProblem make_problem(Array<std::int64_t> modulus, Array<std::int64_t> residue,
                           Array<std::int64_t> pinned, Array<std::int32_t> block,
                           Array<std::int64_t> before, Array<std::int64_t> size,
                           Array<double> lifetime, Table<std::int64_t> rows,
                           std::int32_t sections) {
    SearchProblem problem{copy(modulus), copy(residue),  copy(pinned), copy(block), copy(before),
                          copy(size),    copy(lifetime), {},           {},          sections};
    const std::int32_t members = problem.member_count();
    if (residue.size() != modulus.size() || pinned.size() != modulus.size() ||
        block.size() != size.size() || before.size() != size.size() ||
        lifetime.size() != size.size()) {
        throw std::invalid_argument("every column of blocks, and of members, needs one length");
    }
    for (const std::int32_t b : problem.block) {
        if (b < 0 || b >= problem.block_count()) {
            throw std::invalid_argument("the column of blocks names one that does not exist");
        }
    }
    if (rows.shape(1) != 3) throw std::invalid_argument("rows (member, first, last) are needed");
    problem.range_offsets.assign(static_cast<std::size_t>(members) + 1, 0);
    std::int64_t member_before = 0;
    for (std::size_t i = 0; i < rows.shape(0); ++i) {
        const std::int64_t member = rows(i, 0);
        if (member < member_before || member >= members || rows(i, 1) < 0 ||
            rows(i, 1) >= rows(i, 2) || rows(i, 2) > sections) {
            throw std::invalid_argument("rows (member, first, last) sorted by member are needed");
        }
        member_before = member;
        ++problem.range_offsets[member + 1];
        problem.ranges.push_back(
            {static_cast<std::int32_t>(rows(i, 1)), static_cast<std::int32_t>(rows(i, 2))});
    }
    for (std::int32_t m = 0; m < members; ++m) {
        if (problem.range_offsets[m + 1] == 0) {
            throw std::invalid_argument("every member needs a section");
        }
        problem.range_offsets[m + 1] += problem.range_offsets[m];
    }
    return problem;
}

}  // namespace

void bind_search(nb::module_& module) {
    nb::class_<SearchProblem>(module, "SearchProblem",
                              "Blocks of members that are unsafe where they share a section.")
        .def(
            "__init__",
            [](SearchProblem* self, Array<std::int64_t> modulus, Array<std::int64_t> residue,
               Array<std::int64_t> pinned, Array<std::int32_t> block, Array<std::int64_t> before,
               Array<std::int64_t> size, Array<double> lifetime, Table<std::int64_t> rows,
               std::int32_t sections) {
                new (self) SearchProblem(make_problem(modulus, residue, pinned, block, before, size,
                                                      lifetime, rows, sections));
            },
            nb::arg("modulus"), nb::arg("residue"), nb::arg("pinned"), nb::arg("block"),
            nb::arg("before"), nb::arg("size"), nb::arg("lifetime"), nb::arg("rows"),
            nb::arg("sections"));

    nb::enum_<Verdict>(module, "Verdict")
        .value("FITS", Verdict::kFits)
        .value("REFUTED", Verdict::kRefuted)
        .value("NODE_LIMIT", Verdict::kNodeLimit);

    nb::class_<SearchCounters>(module, "SearchCounters", "How often a search did what.")
        .def_ro("nodes", &SearchCounters::nodes)
        .def_ro("by_section", &SearchCounters::by_section)
        .def_ro("by_passed_over", &SearchCounters::by_passed_over)
        .def_ro("by_dominance", &SearchCounters::by_dominance)
        .def_ro("by_memory", &SearchCounters::by_memory)
        .def_ro("dominated", &SearchCounters::dominated)
        .def_ro("identical", &SearchCounters::identical)
        .def_ro("raised", &SearchCounters::raised)
        .def_ro("splits", &SearchCounters::splits);

    nb::class_<Decision>(module, "Decision", "Whether a plan stays within a capacity.")
        .def_ro("verdict", &Decision::verdict)
        .def_ro("offsets", &Decision::offsets)
        .def_ro("counters", &Decision::counters);

    nb::enum_<SearchKey>(module, "SearchKey")
        .value("SECTION_TOTAL", SearchKey::kSectionTotal)
        .value("SECTION_LEFT", SearchKey::kSectionLeft)
        .value("SECTION_COUNT", SearchKey::kSectionCount)
        .value("LIFETIME", SearchKey::kLifetime)
        .value("AREA", SearchKey::kArea)
        .value("SIZE", SearchKey::kSize)
        .value("EARLIEST_START", SearchKey::kEarliestStart)
        .value("LATEST_START", SearchKey::kLatestStart)
        .value("LATEST_END", SearchKey::kLatestEnd)
        .value("EARLIEST_END", SearchKey::kEarliestEnd);

    nb::class_<CanonicalRules>(module, "CanonicalRules", "Rules that may be left out.")
        .def(nb::init<>())
        .def_rw("dominance", &CanonicalRules::dominance)
        .def_rw("passed_over", &CanonicalRules::passed_over)
        .def_rw("lowest", &CanonicalRules::lowest)
        .def_rw("identical", &CanonicalRules::identical)
        .def_rw("split", &CanonicalRules::split)
        .def_rw("memory", &CanonicalRules::memory);

    nb::class_<CanonicalSearch>(module, "CanonicalSearch", "Exact search for single tensors.")
        .def(
            "__init__",
            [](CanonicalSearch* self, SearchProblem problem, double seconds) {
                Stop stop = stop_after(seconds);
                nb::gil_scoped_release without_python;
                new (self) CanonicalSearch(std::move(problem), stop);
            },
            nb::arg("problem"), nb::arg("seconds"))
        .def(
            "decide",
            [](CanonicalSearch& search, std::int64_t capacity, std::vector<SearchKey> order,
               std::int64_t node_limit, std::int32_t wander, std::uint32_t seed,
               CanonicalRules rules, double seconds) {
                Stop stop = stop_after(seconds);
                const CanonicalQuestion question{
                    capacity, std::move(order), node_limit, wander, seed, rules};
                nb::gil_scoped_release without_python;
                return search.decide(question, stop);
            },
            nb::arg("capacity"), nb::arg("order"), nb::arg("node_limit"), nb::arg("wander"),
            nb::arg("seed"), nb::arg("rules"), nb::arg("seconds"));

    nb::enum_<Branching>(module, "Branching")
        .value("LARGEST", Branching::kLargest)
        .value("LEAST_ROOM", Branching::kLeastRoom);

    nb::class_<DisjunctiveSearch>(module, "DisjunctiveSearch",
                                  "Exact search for blocks of any kind.")
        .def(
            "__init__",
            [](DisjunctiveSearch* self, SearchProblem problem, double seconds) {
                Stop stop = stop_after(seconds);
                nb::gil_scoped_release without_python;
                new (self) DisjunctiveSearch(std::move(problem), stop);
            },
            nb::arg("problem"), nb::arg("seconds"))
        .def(
            "decide",
            [](const DisjunctiveSearch& search, std::int64_t capacity, std::int64_t node_limit,
               Branching branching, bool lowest, bool forced, double seconds) {
                Stop stop = stop_after(seconds);
                nb::gil_scoped_release without_python;
                return search.decide(capacity, node_limit, branching, {lowest, forced}, stop);
            },
            nb::arg("capacity"), nb::arg("node_limit"), nb::arg("branching"), nb::arg("lowest"),
            nb::arg("forced"), nb::arg("seconds"));
}

}  // namespace gapless::bindings
