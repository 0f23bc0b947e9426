"""``tutelage inspect``: labels of a run or a table that are likely wrong."""
