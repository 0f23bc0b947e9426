"""Whether teaching pays: taught students and controls over data sets, noise and checked labels.

Every cell is one run of ``tutelage train``, with its defaults but for data, noise and the
number of checked examples. Two questions are answered by the 90% interval of differences
paired by seed: cross-fitting against the best control that needs no part of this project, and
learned teachers against the best of all others.
"""
