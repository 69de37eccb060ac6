"""One run of a problem's schedule: who stamps and checks what, where, and what is delayed."""
