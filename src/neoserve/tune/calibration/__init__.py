"""Which loads tell most of a device, and what they say of the planner's coefficients."""
