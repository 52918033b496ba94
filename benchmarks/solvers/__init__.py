"""Algorithms of other papers, as published: for comparison, not for release. Each states its guarantee."""
