"""How a table becomes numbers on a grid, and the way back for coefficients."""
