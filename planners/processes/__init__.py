"""Child processes, planners in processes of their own, and checks of their answers."""
