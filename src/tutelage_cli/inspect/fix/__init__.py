"""``tutelage inspect --fix``: the training data again, without the labels likely wrong."""
