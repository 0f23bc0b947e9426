"""What ``tutelage inspect`` and ``tutelage report`` do: look at runs that there are."""
