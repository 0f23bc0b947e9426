"""Tables of feature vectors with labels, as data."""
