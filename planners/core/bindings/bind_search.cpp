#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>

#include "arrays.h"
#include "exact/canonical_search.h"
#include "exact/disjunctive_search.h"
#include "one_at_a_time.h"

namespace gapless::bindings {

namespace {

template <class Search>
struct GuardedSearch {
    std::unique_ptr<Search> search;
    std::int64_t horizon;
    std::atomic_flag busy;
};

template <class Search>
void make_search(GuardedSearch<Search>* self, SearchProblem problem, double seconds) {
    const std::int64_t horizon = problem.horizon;
    std::unique_ptr<Search> search = without_python(
        seconds, [&](Stop& stop) { return std::make_unique<Search>(std::move(problem), stop); });
    new (self) GuardedSearch<Search>{std::move(search), horizon, {}};
}

// Clamps the capacity: above the horizon every plan fits, and below 0 none does.
std::int64_t within(std::int64_t capacity, std::int64_t horizon) {
    return std::clamp<std::int64_t>(capacity, -1, horizon);
}

}  // namespace

void bind_search(nb::module_& module) {
    module.attr("MOST_MEMBERS") = kMostMembers;
    nb::class_<SearchProblem>(module, "SearchProblem",
                              "Blocks of members that are unsafe where they share a section.")
        .def(
            "__init__",
            [](SearchProblem* self, Array<std::int64_t> modulus, Array<std::int64_t> residue,
               Array<std::int64_t> pinned, Array<std::int32_t> block, Array<std::int64_t> before,
               Array<std::int64_t> size, Array<double> lifetime, Table<std::int64_t> rows,
               std::int32_t sections) {
                new (self) SearchProblem(make_search_problem({.modulus = copy(modulus),
                                                              .residue = copy(residue),
                                                              .pinned = copy(pinned),
                                                              .block = copy(block),
                                                              .before = copy(before),
                                                              .size = copy(size),
                                                              .lifetime = copy(lifetime),
                                                              .range_offsets = {},
                                                              .ranges = {},
                                                              .sections = sections},
                                                             copy(rows, "rows", 3)));
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
        .def_ro("counters", &Decision::counters)
        .def_ro("tree", &Decision::tree);

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

    nb::class_<CanonicalRules>(module, "CanonicalRules",
                               "Rules that may be left out. A question takes a copy.")
        .def(nb::init<>())
        .def_rw("dominance", &CanonicalRules::dominance)
        .def_rw("passed_over", &CanonicalRules::passed_over)
        .def_rw("lowest", &CanonicalRules::lowest)
        .def_rw("identical", &CanonicalRules::identical)
        .def_rw("split", &CanonicalRules::split)
        .def_rw("memory", &CanonicalRules::memory);

    nb::class_<GuardedSearch<CanonicalSearch>>(
        module, "CanonicalSearch",
        "Exact search for single tensors.\n\n"
        "It keeps the state of its question: a second one from another thread, or from a\n"
        "handler of signals, is refused with a RuntimeError.")
        .def("__init__", make_search<CanonicalSearch>, nb::arg("problem"), nb::arg("seconds"))
        .def(
            "decide",
            [](GuardedSearch<CanonicalSearch>& asked, std::int64_t capacity,
               std::vector<SearchKey> order, std::int64_t node_limit, std::int32_t wander,
               std::uint32_t seed, CanonicalRules rules, double seconds) {
                const CanonicalQuestion question{within(capacity, asked.horizon),
                                                 std::move(order),
                                                 node_limit,
                                                 wander,
                                                 seed,
                                                 rules};
                const OneAtATime alone(asked.busy, "CanonicalSearch.decide");
                return without_python(
                    seconds, [&](Stop& stop) { return asked.search->decide(question, stop); });
            },
            nb::arg("capacity"), nb::arg("order"), nb::arg("node_limit"), nb::arg("wander"),
            nb::arg("seed"), nb::arg("rules"), nb::arg("seconds"));

    nb::class_<GuardedSearch<DisjunctiveSearch>>(
        module, "DisjunctiveSearch",
        "Exact search for blocks of any kind.\n\n"
        "It keeps the blame that its questions gave: a second one from another thread, or from a\n"
        "handler of signals, is refused with a RuntimeError.")
        .def("__init__", make_search<DisjunctiveSearch>, nb::arg("problem"), nb::arg("seconds"))
        .def(
            "decide",
            [](GuardedSearch<DisjunctiveSearch>& asked, std::int64_t capacity,
               std::int64_t node_limit, bool forced, bool logs, double seconds) {
                const OneAtATime alone(asked.busy, "DisjunctiveSearch.decide");
                return without_python(seconds, [&](Stop& stop) {
                    return asked.search->decide(within(capacity, asked.horizon), node_limit, forced,
                                                logs, stop);
                });
            },
            nb::arg("capacity"), nb::arg("node_limit"), nb::arg("forced"), nb::arg("logs"),
            nb::arg("seconds"));
}

}  // namespace gapless::bindings
