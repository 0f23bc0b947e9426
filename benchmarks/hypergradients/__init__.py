"""What hypergradients cost, ours and those of other libraries."""
