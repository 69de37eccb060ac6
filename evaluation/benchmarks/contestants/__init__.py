"""Who is measured: our planners and omnimalloc, each run in a fresh process and judged."""
