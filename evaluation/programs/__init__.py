"""Training scripts as users write them: what a plan of their memory has to be good for."""
